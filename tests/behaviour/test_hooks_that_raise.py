"""`@connected` that raises ends the session as a step that raises does; `@disconnected` that raises ends nothing."""

from __future__ import annotations

import logging
from contextlib import ExitStack, nullcontext
from typing import Any

import pytest
import trio

from reactor_trio.errors import ModelFailed, SessionEnded
from reactor_trio.interface import (
    DistributedPipeline,
    InputState,
    ReactorModel,
    ReactorPipeline,
    VideoModel,
    connected,
    disconnected,
    event,
    get_ctx,
)
from reactor_trio.offline import rendered
from reactor_trio.testing import open_server
from tests.support.behaviour_models import PLACEMENTS, picture, shown
from tests.support.models import Picture

COST = 0.25


class Half(InputState):
    level: int = 0


class Hooked:
    """A client says what the next `@connected`, or its own `@disconnected`, does."""

    def __init__(self):
        self.plan = {"gone": 0}  # one for all copies of the model, which serve several sessions

    @connected
    def come(self):
        if self.plan.pop("comes", False):
            raise ValueError("half a state")

    @disconnected
    def go(self):
        self.plan["gone"] += 1
        if self.plan.pop("goes", False):
            raise ValueError("not gone")

    @event
    def next_comes_badly(self):
        self.plan["comes"] = True

    @event
    def goes_badly(self):
        self.plan["goes"] = True


class Sync(Hooked, ReactorPipeline):
    output: Picture
    state: Half

    def inference(self):
        while True:
            yield picture(1)


class Async(Hooked, ReactorPipeline):
    output: Picture
    state: Half

    @connected
    async def come(self):
        await trio.sleep(COST)
        Hooked.come(self)

    @disconnected
    async def go(self):
        await trio.sleep(COST)
        Hooked.go(self)

    async def inference(self):
        while True:
            yield picture(1)


class Together(Hooked, ReactorPipeline):
    output: Picture

    def batch_inference(self, sessions):
        return [picture(1) for _ in sessions]


class Loop(Hooked, ReactorModel):
    output: Picture

    async def run(self):
        while True:
            await self.connected.wait()
            await self.emit(picture(1))


class Blocking(Hooked, VideoModel):
    def start_session(self):
        while not get_ctx().should_stop():
            get_ctx().emit_block(picture(1))


class Ranked(Hooked, DistributedPipeline):
    output: Picture
    ranks = 2

    def inference(self):
        while True:
            yield picture(1)


CASES: list[tuple[type, dict[str, Any]]] = [
    *((kind, placement) for kind in (Sync, Async) for placement in PLACEMENTS),
    (Together, {}), (Loop, {}), (Loop, {"websocket": True}), (Blocking, {}), (Ranked, {}),
    *((kind, {"max_sessions": 2}) for kind in (Sync, Together, Loop)),
    *((kind, {"isolation": "process"}) for kind in (Sync, Async, Loop, Blocking)),
]  # fmt: skip
every_kind = pytest.mark.parametrize(
    ("kind", "how"), CASES, ids=[f"{kind.__name__}-{''.join(how) or 'inline'}" for kind, how in CASES]
)


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("debug", [False, True])
@every_kind
async def test_clients_read_which_hook_raised_and_the_exception_under_debug_alone(
    kind: Any, how: dict[str, Any], debug: bool, autojump_clock: object
) -> None:
    async with open_server(kind, step_cost=COST, debug=debug, **how) as server:
        async with server.connect() as client:
            await client.command("next_comes_badly")
        async with server.connect() as client:
            with pytest.raises(SessionEnded) as ended:
                async for _ in client.frames():
                    pass
    exception = "@connected raised ValueError: half a state"
    hidden = "the model failed in its hook @connected; the server's log shows the line"
    assert str(ended.value) == f"model_error: {exception if debug else hidden}"


@every_kind
async def test_connected_that_raises_ends_its_session_and_the_next_client_is_served(
    kind: Any, how: dict[str, Any], autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(kind, step_cost=COST, **how) as server:
        async with server.connect() as client:
            await client.command("next_comes_badly")
        async with server.connect() as client:
            with pytest.raises(Exception, match=r"^half a state$") as raised:
                await client.take()
            assert client.ended == "model_error"
        sid = server.sessions[1].id
        assert told(caplog) == [f"session {sid}: @connected raised"]
        assert [type(r.exc_info[1]).__name__ for r in caplog.records if r.exc_info] == ["ValueError"]
        assert server.sessions[1].error is raised.value
        await server.wait_left(client)
        assert server.model.plan["gone"] == 2
        assert server.http("/health").status == 200
        async with server.connect() as client:
            assert shown(await client.take(2)) == [1, 1]


@every_kind
async def test_disconnected_that_raises_is_logged_and_the_next_client_is_served(
    kind: Any, how: dict[str, Any], autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    raises = pytest.raises(Exception, match=r"^not gone$")
    with ExitStack() as at_the_end:
        in_a_thread = kind is Blocking or "thread" in how  # the kit raises it when the server's block ends
        if in_a_thread:
            at_the_end.enter_context(raises)
        async with open_server(kind, step_cost=COST, **how) as server:
            async with server.connect() as client:
                await client.command("goes_badly")
                with nullcontext() if in_a_thread else raises:
                    await client.close()
            await server.wait_left(client)
            assert told(caplog) == [f"session {server.sessions[0].id}: @disconnected raised"]
            assert server.sessions[0].reason == "client_left"
            async with server.connect() as client:
                assert shown(await client.take(2)) == [1, 1]


class Lingers(ReactorPipeline):
    """What raises is named by the model's config, and `@disconnected` takes its time."""

    output: Picture

    def load(self, config):
        self.what = config["what"]

    @connected
    def come(self):
        if self.what == "hook":
            raise ValueError("half a state")

    @disconnected
    async def go(self):
        await trio.sleep(2)

    def inference(self):
        yield picture(1)
        raise ValueError("half a state")


@pytest.mark.parametrize("how", [*PLACEMENTS, {"isolation": "process"}], ids=["inline", "thread", "websocket", "process"])
@pytest.mark.parametrize("what", ["hook", "step"])
async def test_a_client_that_leaves_while_disconnected_runs_does_not_hide_what_ended_its_session(
    what: str, how: dict[str, Any], autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(Exception, match=r"^half a state$"):  # of the kit: no client of the test has heard of it
        async with open_server(Lingers, step_cost=COST, config={"what": what}, **how) as server:
            async with server.connect() as client:
                await trio.sleep(1.5)
                assert client.ended is None
                await client.close()
            assert told(caplog) == [f"session {server.sessions[0].id}: the model raised"]
            assert server.sessions[0].reason == "model_error"


class Seats(ReactorPipeline):
    """Its `@disconnected` has a fault, which in every second session comes from another one."""

    output: Picture

    def load(self, config):
        self.seats = [1]

    @disconnected
    def go(self):
        try:
            self.seats.pop()
        except IndexError:
            raise ValueError("no seat is left")  # noqa: B904 - as authors write it
        raise ValueError("this seat is broken")

    def inference(self):
        while True:
            yield picture(1)


async def test_the_log_shows_what_a_fault_came_from_but_not_the_end_of_the_session(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(Seats, step_cost=COST) as server:
        for _ in range(2):
            async with server.connect() as client:
                await client.take()
                with pytest.raises(ValueError, match="seat"):
                    await client.close()
    causes = [
        (str(fault), type(fault.__context__))
        for record in caplog.records if record.exc_info and (fault := record.exc_info[1]) is not None
    ]  # fmt: skip
    assert causes == [("this seat is broken", type(None)), ("no seat is left", IndexError)]


async def test_another_session_goes_on(autojump_clock: object) -> None:
    async with open_server(Sync, step_cost=COST, max_sessions=2) as server, server.connect() as first:
        await first.command("next_comes_badly")
        async with server.connect() as second:
            with pytest.raises(ValueError, match=r"^half a state$"):
                await second.take()
        assert shown(await first.take(20)) == [1] * 20


async def test_no_picture_is_shown_of_a_session_that_did_not_begin(autojump_clock: object) -> None:
    """`run()` wakes when `connected` is set, which is before `@connected` ends."""

    class Slow(Loop):
        @connected
        async def come(self):
            await trio.sleep(1)
            Hooked.come(self)

    async with open_server(Slow, step_cost=COST) as server:
        server.model.plan["comes"] = True
        async with server.connect() as client:
            with pytest.raises(ValueError, match=r"^half a state$"):
                await client.take(100)
            assert client.ended == "model_error"
        async with server.connect() as client:
            frames = await client.take(3)
            assert [frame.seq for frame in frames] == [0, 1, 2]


async def test_a_client_that_leaves_while_connected_runs_is_no_error(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(Async, step_cost=COST) as server:
        async with server.connect() as client:
            await client.close()
        assert server.sessions[0].reason == "client_left"
        assert told(caplog) == []


@pytest.mark.parametrize("debug", [False, True])
async def test_viewers_also_get_the_error_of_a_hook(debug: bool, autojump_clock: object) -> None:
    class Slow(Sync):
        @connected
        async def come(self):
            await trio.sleep(1)
            raise ValueError("half a state")

    async with open_server(Slow, debug=debug) as server, server.connect() as client:
        async with server.connect(role="viewer") as viewer:
            for each in client, viewer:
                with pytest.raises(SessionEnded if not debug else Exception) as raised:
                    async for _ in each.frames():
                        pass
                assert each.ended == "model_error"
                assert ("ValueError: half a state" in str(raised.value)) is debug


async def test_ranks_that_raise_differently_in_connected_are_apart(autojump_clock: object) -> None:
    class Differ(Ranked):
        @connected
        def come(self):
            raise ValueError("zero") if self.rank == 0 else TypeError("one")

    async with open_server(Differ) as server, server.connect() as client:
        with pytest.raises(SessionEnded, match="model_restarting"):
            await client.take()


def test_a_rendering_ends_with_what_connected_raised() -> None:
    class Fails(Sync):
        @connected
        def come(self):
            raise ValueError("half a state")

    with pytest.raises(ModelFailed, match="@connected raised ValueError: half a state"):
        rendered(Fails, frames=3)
