"""Author code that does not end is reported once, with its stack, while its client is there; `/health` stays ok."""

from __future__ import annotations

import itertools
import json
import logging
import time
from contextlib import suppress
from typing import Any

import pytest
import trio

from reactor_trio.errors import BufferClosed
from reactor_trio.interface import (
    DistributedPipeline,
    ReactorModel,
    ReactorPipeline,
    VideoModel,
    command,
    connected,
    event,
    get_ctx,
)
from reactor_trio.protocol import Late
from reactor_trio.testing import open_server
from tests.support.behaviour_models import PLACEMENTS, picture, shown
from tests.support.models import Camera, Picture

AFTER = 5.0
#: what each report says
REMEDY = (
    " The picture stands still until it ends: make its steps shorter, or bound the wait, in an async method "
    "with trio.move_on_after (docs/reference/errors.md#step-too-long). It is here:\n"
)


class SyncSteps(ReactorPipeline):
    output: Picture

    def inference(self):
        while True:
            yield picture(1)


class AsyncSteps(ReactorPipeline):
    output: Picture

    async def inference(self):
        while True:
            await trio.lowlevel.checkpoint()
            yield picture(1)


class DynamicBatcher(ReactorPipeline):
    output: Picture

    def batch_inference(self, sessions):
        return [picture(1) for _ in sessions]


class Ranks(DistributedPipeline):
    output: Picture
    ranks = 2

    def inference(self):
        while True:
            yield picture(1)


class Loop(ReactorModel):
    output: Picture

    async def run(self):
        while True:
            await self.connected.wait()
            await self.emit(picture(1))


def reports(caplog: pytest.LogCaptureFixture) -> list[str]:
    """What is told of long steps, without their stacks."""
    lines = [record for record in caplog.records if "client is still there" in record.getMessage()]
    assert all(record.levelno == logging.WARNING for record in lines)
    assert all(REMEDY in record.getMessage() for record in lines)
    return [record.getMessage().partition(REMEDY)[0] for record in lines]


def health(server: Any) -> tuple[int, str, str | None]:
    answer = server.http("/health")
    body = json.loads(answer.body)
    return answer.status, body["status"], body.get("reason")


def cost(step: int) -> float:
    """The third step takes 12 seconds, the fifth 6."""
    return {2: 12.0, 4: 6.0}.get(step, 0.5)


CASES: list[tuple[type, dict[str, Any]]] = [
    *((kind, placement) for kind in (SyncSteps, AsyncSteps) for placement in PLACEMENTS),
    (DynamicBatcher, {}), (Ranks, {}), (Loop, {}), (Loop, {"websocket": True}),
    *((kind, {"max_sessions": 2}) for kind in (SyncSteps, DynamicBatcher, Loop)),
    *((kind, {"isolation": "process"}) for kind in (SyncSteps, AsyncSteps, DynamicBatcher, Loop)),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "how"), CASES, ids=[f"{kind.__name__}-{''.join(how) or 'inline'}" for kind, how in CASES])
async def test_a_long_step_is_logged_once_and_health_stays_ok(
    kind: Any, how: dict[str, Any], autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(kind, step_cost=cost, stuck_after=AFTER, buffer_size=1, **how) as server:
        async with server.connect() as client:
            sid = client.session_id
            await client.take(2)
            began = trio.current_time() if kind is not Loop else 1.0
            await trio.sleep_until(began + AFTER - 0.1)
            assert (reports(caplog), health(server)) == ([], (200, "ok", None))
            await trio.sleep_until(began + AFTER + 2)
            said = f"session {sid}: step 2 has run for 5 s in {kind.__name__}, whose client is still there."
            assert reports(caplog) == [said]
            reason = f"step 2 has run for 7 s in session {sid} of {kind.__name__}; the log has its stack"
            assert health(server) == (200, "ok", reason)
            assert client.late == Late("step 2 has run", pytest.approx(7.0))
            assert shown(await client.take(2)) == [1, 1]
            assert reports(caplog) == [said]
            assert client.late is None
            await client.take(1)
            assert health(server) == (200, "ok", None)
            assert reports(caplog) == [said, said.replace("step 2", "step 4")]
            await client.take(20)
            assert len(reports(caplog)) == 2


@pytest.mark.parametrize("how", [{}, {"isolation": "process"}], ids=["inline", "process"])
async def test_the_end_of_the_session_ends_the_report(
    autojump_clock: object, how: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(SyncSteps, step_cost=[0.5, 12, 0.5], stuck_after=AFTER, **how) as server:
        async with server.connect() as client:
            await client.take()
            await trio.sleep(6)
            assert health(server)[2] is not None
            await client.vanish()
        assert health(server) == (200, "ok", None)
        await trio.sleep(4)
        assert health(server)[:2] == (200, "ok")
        await trio.sleep(1.5)  # 5 s after its session
        assert health(server)[:2] == (503, "stuck")
        await trio.sleep(5)
        assert health(server) == (200, "ok", None)
        async with server.connect() as client:
            assert shown(await client.take(1)) == [1]
        assert len(reports(caplog)) == 1


class Waits(ReactorPipeline):
    """A step that waits for what never comes, handlers and hooks that take long."""

    output: Picture
    never = 0

    @connected
    async def come(self):
        self.ready = trio.Event()
        await trio.sleep(self.comes_in)

    def load(self, config):
        self.comes_in = config.get("comes_in", 0)

    @event
    async def sleep(self, seconds: float):
        await trio.sleep(seconds)

    @event
    def wait(self):
        self.never = True

    async def deeper(self):
        await self.ready.wait()  # where it waits

    async def inference(self):
        while True:
            if self.never:
                await self.deeper()
            yield picture(1)


@pytest.mark.parametrize("how", [{}, {"thread": True}, {"isolation": "process"}], ids=["inline", "thread", "process"])
async def test_a_step_that_waits_is_shown_where_it_waits(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, how: dict[str, Any]
) -> None:
    async with open_server(Waits, stuck_after=AFTER, **how) as server, server.connect() as client:
        await client.take()
        await client.command("wait")
        await trio.sleep(AFTER + 0.1)
        assert len(reports(caplog)) == 1
        (line,) = [record.getMessage() for record in caplog.records if "still there" in record.getMessage()]
        _, _, stack = line.partition("It is here:\n")
        assert "await self.deeper()" in stack
        assert "await self.ready.wait()  # where it waits" in stack
        assert "reactor_trio/session" not in stack


@pytest.mark.parametrize(("what", "says"), [("handler", "the handler of sleep"), ("hook", "@connected")])
async def test_a_handler_and_a_hook_that_take_long(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, what: str, says: str
) -> None:
    config = {"comes_in": 7 if what == "hook" else 0}
    async with open_server(Waits, stuck_after=AFTER, config=config) as server, server.connect() as client:
        if what == "handler":
            await client.command("sleep", seconds=7)
        else:
            await client.take()
        assert reports(caplog) == [
            f"session {client.session_id}: {says} has run for 5 s in Waits, whose client is still there."
        ]
        assert health(server) == (200, "ok", None)
        (line,) = [record.getMessage() for record in caplog.records if "still there" in record.getMessage()]
        assert "await trio.sleep(" in line


class Blocking(VideoModel):
    """Pauses for ever longer."""

    def start_session(self):
        for seconds in 1, 4, 7, 30:
            time.sleep(seconds)
            get_ctx().emit_block(picture(1))
        get_ctx().disable_monitoring()
        time.sleep(100)
        get_ctx().enable_monitoring()
        get_ctx().emit_block(picture(2))
        while not get_ctx().should_stop():
            time.sleep(0.5)


@pytest.mark.parametrize("how", [{}, {"isolation": "process"}], ids=["inline", "process"])
async def test_a_blocking_model_that_emits_nothing_for_long(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, how: dict[str, Any]
) -> None:
    async with open_server(Blocking, stuck_after=AFTER, **how) as server, server.connect() as client:
        what = "start_session() has emitted nothing for 5 s in Blocking"
        said = f"session {client.session_id}: {what}, whose client is still there."
        await client.take(2)
        assert reports(caplog) == []
        await client.take(2)
        assert reports(caplog) == [said] * 2
        assert health(server) == (200, "ok", None)
        await client.take(1, within=200)
        assert reports(caplog) == [said] * 2
        await trio.sleep(60)
        assert reports(caplog) == [said] * 3
        (line, *_) = [record.getMessage() for record in caplog.records if "still there" in record.getMessage()]
        assert "time.sleep(seconds)" in line


class BlockingHandler(VideoModel):
    """Its handler hangs, on a thread of its own, while its session goes on."""

    @command
    def hang(self):
        time.sleep(8)  # in the handler

    def start_session(self):
        while not get_ctx().should_stop():
            time.sleep(0.5)  # in the session
            get_ctx().emit_block(picture(1))


async def test_a_hung_handler_of_a_blocking_model_is_shown_where_it_is(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(BlockingHandler, stuck_after=AFTER) as server, server.connect() as client:
        await client.command("hang")
        (line,) = [record.getMessage() for record in caplog.records if "still there" in record.getMessage()]
        assert "the handler of hang has run for 5 s" in line
        assert "time.sleep(8)  # in the handler" in line
        assert "# in the session" not in line


class Sees(ReactorPipeline):
    output: Picture
    eye: Camera

    async def inference(self):
        while True:
            (frame,) = await self.eye.camera.read()
            yield frame.data


class Computes(Sees):
    """Computes elsewhere for as long as the picture says."""

    async def inference(self):
        while True:
            (frame,) = await self.eye.camera.read()
            await trio.sleep(int(frame.data[0, 0, 0]))
            yield frame.data


@pytest.mark.parametrize("how", [{}, {"isolation": "process"}], ids=["inline", "process"])
async def test_a_step_that_waits_for_its_client_s_camera_is_not_long(
    autojump_clock: object, caplog: pytest.LogCaptureFixture, how: dict[str, Any]
) -> None:
    async with open_server(Sees, stuck_after=AFTER, **how) as server, server.connect() as client:
        for _ in range(3):
            await trio.sleep(100)
            assert health(server) == (200, "ok", None)
            await client.push("camera", picture(7))
            assert shown(await client.take()) == [7]
        assert reports(caplog) == []


class ReadsAndHangs(ReactorModel):
    """Its `run()` waits for a camera while another task of it hangs."""

    output: Picture
    eye: Camera

    @event
    async def hang(self):
        await trio.sleep(1000)

    async def run(self):
        while True:
            await self.connected.wait()
            with suppress(BufferClosed):
                await self.eye.camera.read()


async def test_a_task_that_waits_for_the_camera_hides_no_other_that_hangs(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(ReadsAndHangs, stuck_after=AFTER) as server, server.connect() as client:
        with trio.move_on_after(AFTER + 0.5):
            await client.command("hang")
        assert reports(caplog) == [
            f"session {client.session_id}: the handler of hang has run for 5 s in ReadsAndHangs,"
            " whose client is still there."
        ]


async def test_the_time_of_a_step_counts_from_the_picture_that_it_read_last(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(Computes, stuck_after=AFTER) as server, server.connect() as client:
        await trio.sleep(8)
        await client.push("camera", picture(4))
        await client.take()
        assert reports(caplog) == []
        await trio.sleep(8)
        await client.push("camera", picture(6))
        await trio.sleep(AFTER - 0.1)
        assert reports(caplog) == []
        await trio.sleep(0.2)
        assert reports(caplog) == [
            f"session {client.session_id}: step 1 has run for 5 s in Computes, whose client is still there."
        ]


async def test_a_session_that_does_nothing_is_not_long(autojump_clock: object, caplog: pytest.LogCaptureFixture) -> None:
    class Rests(ReactorPipeline):
        output: Picture

        def inference(self):
            yield picture(1)
            while True:
                yield None

    async with open_server(Rests, stuck_after=AFTER) as server, server.connect() as client:
        await client.take()
        await trio.sleep(60)
        assert reports(caplog) == []
        assert health(server) == (200, "ok", None)


class Slow(VideoModel):
    """Clears the screen, then computes its first block for 100 s."""

    output: Picture

    def start_session(self):
        get_ctx().emit_block(None)
        time.sleep(100)
        get_ctx().emit_block(picture(1))
        while not get_ctx().should_stop():
            time.sleep(0.5)
            get_ctx().emit_block(picture(1))


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        *((kind, {}) for kind in (SyncSteps, AsyncSteps, DynamicBatcher, Ranks, Slow)),
        (SyncSteps, {"thread": True}), (SyncSteps, {"isolation": "process"}), (SyncSteps, {"max_sessions": 2}),
    ],
    ids=lambda value: value.__name__ if isinstance(value, type) else "".join(value) or "inline",
)  # fmt: skip
@pytest.mark.parametrize(("limit", "hangs"), [(1800.0, False), (50.0, True), (0.0, False)])
async def test_a_client_that_leaves_during_the_first_step_does_not_make_the_server_one_to_restart(
    autojump_clock: object, kind: Any, how: dict[str, Any], limit: float, hangs: bool
) -> None:
    """The step may compile; a restart would forget what it has compiled. A later step has no such time."""
    costs = itertools.cycle([100, 0.5])
    cost = 0.1 if kind is Slow else lambda _step: next(costs)
    how = {**how, "first_step_timeout": limit}
    async with open_server(kind, step_cost=cost, stuck_after=AFTER, buffer_size=1, **how) as server:
        async with server.connect() as client:
            await trio.sleep(10)
            await client.vanish()
        await trio.sleep_until(10 + AFTER + 1)
        status, state, reason = health(server)
        assert (status, state) == (200, "ok")
        assert reason is not None
        assert "still computes for session" in reason
        assert "it may compile, since the model has made no frame since its load" in reason
        assert json.loads(server.http("/ready").body)["status"] == "stuck"  # a client would have to wait
        await trio.sleep_until(10 + AFTER + 51)
        assert health(server)[:2] == ((503, "stuck") if hangs else (200, "ok"))
        await trio.sleep_until(120)
        assert health(server) == (200, "ok", None)
        if kind is Slow:
            return
        async with server.connect() as client:
            await client.take()
            await trio.sleep(2)
            await client.vanish()
        await trio.sleep(AFTER + 1)
        assert health(server)[:2] == (503, "stuck")


async def test_after_another_load_the_next_step_is_a_first_one_again(autojump_clock: object) -> None:
    cost = [0.5]
    async with open_server(SyncSteps, isolation="process", step_cost=lambda _step: cost[0], stuck_after=AFTER) as server:
        async with server.connect() as client:
            await client.take()
        server.runtime.placement.process.kill()
        await trio.sleep(1)
        cost[0] = 100
        async with server.connect() as client:
            await trio.sleep(1)
            await client.vanish()
        await trio.sleep(AFTER + 1)
        status, state, reason = health(server)
        assert (status, state) == (200, "ok")
        assert reason is not None
        assert "it may compile" in reason
