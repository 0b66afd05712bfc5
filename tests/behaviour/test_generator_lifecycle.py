"""When a generator is made, resumed and closed, and what its end leaves to the clients."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

from reactor_trio.client.session_view import internals
from reactor_trio.errors import OutputError, SessionEnded
from reactor_trio.interface import (
    Idle,
    InputField,
    InputState,
    ReactorPipeline,
    connected,
    disconnected,
    event,
)
from reactor_trio.protocol import encode_client_text
from reactor_trio.testing import open_server, open_session
from tests.support.behaviour_models import in_all_placements, picture, raw_session, shown
from tests.support.models import Picture


class State(InputState):
    value: int = 1
    words: list = InputField(default=[])


class Logged(ReactorPipeline):
    """Notes what happens to it, with the time."""

    output: Picture

    def load(self, config):
        self.log: list[tuple[str, float]] = []

    def note(self, what: str) -> None:
        self.log.append((what, trio.current_time()))


class Plain(Logged):
    state: State

    def inference(self):
        self.note("made")
        try:
            while True:
                yield picture(self.state.value)
        finally:
            self.note("closed")


@in_all_placements
async def test_without_a_client_nothing_is_generated(placement: dict[str, Any], autojump_clock: object) -> None:
    async with open_server(Plain, step_cost=0.25, **placement) as server:
        await trio.sleep(10)
        assert server.model.log == []
        async with server.connect() as client:
            await client.take()
        assert server.model.log[0] == ("made", 10)


@in_all_placements
async def test_the_generator_begins_after_connected_has_ended(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    class Model(Plain):
        state: State

        @connected
        async def greet(self):
            self.note("greet")
            await trio.sleep(1)
            self.note("greeted")

    async with open_server(Model, step_cost=0.25, **placement) as server, server.connect() as client:
        (frame,) = await client.take()
        assert server.model.log == [("greet", 0), ("greeted", 1), ("made", 1)]
    assert frame.pts == 1.25


@in_all_placements
@pytest.mark.parametrize("leave", ["close", "vanish"])
async def test_finally_runs_once_and_before_the_next_generator(
    leave: str, placement: dict[str, Any], autojump_clock: object
) -> None:
    async with open_server(Plain, step_cost=0.25, **placement) as server:
        async with server.connect() as first, trio.open_nursery() as nursery:

            async def second() -> None:
                async with server.connect() as client:  # waits in the queue
                    await client.take(2)
                    await client.close()

            nursery.start_soon(second)
            await first.take(2)
            await trio.sleep_until(0.6)
            await getattr(first, leave)()
        assert server.model.log == [("made", 0), ("closed", 0.75), ("made", 0.75), ("closed", 1.25)]
    # 0.75 and 1.25: the step that ran when the client left ends first, as a forward pass cannot be interrupted


async def test_a_generator_at_its_yield_is_closed_at_the_moment_the_client_leaves(autojump_clock: object) -> None:
    class Model(Plain):
        state: State
        fps = 1

    async with open_server(Model, step_cost=0.25) as server:
        async with server.connect() as client:
            await client.take(1)
            await trio.sleep_until(0.8125)  # two frames are made, the next step is due at 1.0
            await client.vanish()
            assert server.model.log == [("made", 0), ("closed", 0.8125)]


@in_all_placements
async def test_an_async_finally_may_await(placement: dict[str, Any], autojump_clock: object) -> None:
    class Model(Logged):
        state: State

        async def inference(self):
            self.note("made")
            try:
                while True:
                    yield Idle
            finally:
                self.note("closing")
                await trio.sleep(1)
                self.note("closed")

    async with open_server(Model, **placement) as server:
        async with server.connect() as client:
            await trio.sleep_until(0.25)
            await client.vanish()
        async with server.connect():  # lets nobody in before the cleanup has ended
            assert trio.current_time() == 1.25
            assert server.model.log == [("made", 0), ("closing", 0.25), ("closed", 1.25)]


@in_all_placements
async def test_an_async_finally_that_takes_too_long_is_cut_and_reported(
    placement: dict[str, Any], autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    class Model(Logged):
        state: State
        fps = 1

        async def inference(self):
            try:
                while True:
                    yield picture(1)
            finally:
                self.note("closing")
                try:
                    await trio.sleep(60)
                finally:
                    self.note("cut")

    async with open_server(Model, step_cost=0.25, **placement) as server:
        async with server.connect() as client:
            await client.take(1)
            await trio.sleep_until(0.8125)
            await client.vanish()
            with pytest.raises(trio.TooSlowError, match=r"^closing inference\(\) took over 5 s and was cancelled$"):
                await client.close()
        async with server.connect() as client:
            assert trio.current_time() == 5.8125
            assert server.model.log == [("closing", 0.8125), ("cut", 5.8125)]
            assert shown(await client.take(1)) == [1]
            with pytest.raises(trio.TooSlowError):
                await client.close()
        sid = server.sessions[0].id
        assert f"session {sid}: closing inference() took over 5 s and was cancelled" in caplog.messages


@in_all_placements
async def test_a_generator_that_returns_is_restarted_and_attributes_survive(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    class Model(Logged):
        state: State

        def load(self, config):
            super().load(config)
            self.rounds = 0

        def inference(self):
            self.note("made")
            self.rounds += 1
            for step in range(3):
                yield picture(10 * self.rounds + step)

    async with open_server(Model, step_cost=0.25, **placement) as server, server.connect() as client:
        frames = await client.take(8)
        await trio.sleep_until(2.1)  # the eighth frame is shown at 2.0
        assert server.model.log == [("made", 0), ("made", 0.75), ("made", 1.5)]
    assert shown(frames) == [10, 11, 12, 20, 21, 22, 30, 31]
    assert [frame.pts for frame in frames] == [0.25 * (i + 1) for i in range(8)]  # the restart costs no time
    assert [frame.seq for frame in frames] == list(range(8))
    assert [frame.step for frame in frames] == list(range(8))


@in_all_placements
async def test_a_restarted_generator_finds_the_values_that_the_client_set(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    class Model(Logged):
        state: State

        def inference(self):
            for _ in range(2):
                yield picture(self.state.value)

    async with open_session(Model, step_cost=0.25, **placement) as client:
        assert shown(await client.take(1)) == [1]
        await client.command("set_value", value=7)
        frames = await client.take(6)
    assert shown(frames[-4:]) == [7, 7, 7, 7]


@in_all_placements
async def test_a_generator_without_a_yield_starves_nothing_else(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    class Model(Logged):
        state: State

        def inference(self):
            self.note("made")
            return
            yield

        @disconnected
        def gone(self):
            self.note(f"gone with {self.state.value}")

    async with open_server(Model, **placement) as server:
        async with server.connect() as client:
            await trio.sleep_until(1.01)
            assert [at for _, at in server.model.log] == pytest.approx([i * 0.02 for i in range(51)])
            await client.command("set_value", value=7)
            assert trio.current_time() == 1.01
            await trio.sleep_until(1.5)
            await client.vanish()
            await trio.sleep_until(1.5625)
            assert server.model.log[-1] == ("gone with 7", 1.5)


@in_all_placements
@pytest.mark.parametrize("checkpoints", [0, 1, 5])
async def test_no_generator_is_made_if_the_client_leaves_as_one_returns(
    checkpoints: int, placement: dict[str, Any], autojump_clock: object
) -> None:
    class Model(Logged):
        state: State

        async def inference(self):
            self.note("made")
            yield picture(1)
            await trio.sleep_until(1)
            self.note("returns")

    async with open_server(Model, **placement) as server:
        async with server.connect() as client:
            await trio.sleep_until(1)
            for _ in range(checkpoints):  # sooner or later within the same instant
                await trio.lowlevel.checkpoint()
            await client.vanish()
        assert [what for what, _ in server.model.log if what == "made"] == ["made"]
        await trio.sleep(1)
        assert [what for what, _ in server.model.log if what == "made"] == ["made"]


@in_all_placements
async def test_the_next_session_begins_with_all_defaults(placement: dict[str, Any], autojump_clock: object) -> None:
    class Model(Plain):
        state: State

        @connected
        def look(self):
            self.note(f"{self.state.value} {self.state.words}")
            self.state.words.append("changed in place")

    async with open_server(Model, step_cost=0.25, **placement) as server:
        async with server.connect() as client:
            await client.command("set_value", value=7)
            await client.command("set_words", words=["a"])
            assert shown(await client.take(3))[-1] == 7
        async with server.connect() as client:
            assert shown(await client.take(2)) == [1, 1]
        looks = [what for what, _ in server.model.log if what not in ("made", "closed")]
        assert looks == ["1 []", "1 []"]


@in_all_placements
async def test_a_command_still_queued_when_the_client_leaves_is_discarded(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    class Model(Plain):
        state: State

        @event
        def mark(self):
            self.note("marked")

        @disconnected
        def gone(self):
            self.note(f"gone with {self.state.value}")

    async with open_server(Model, step_cost=1, **placement) as server:
        async with server.connect() as client:
            await trio.sleep_until(0.25)
            for number, (name, data) in enumerate([("set_value", {"value": 7}), ("mark", {})], 1):
                await internals(client).connection.transport.send(encode_client_text(name, data, number))
            await trio.sleep_until(0.5)  # both have arrived, and wait for the step to end
            await client.vanish()
        async with server.connect() as client:
            assert trio.current_time() == 1
            assert shown(await client.take(2)) == [1, 1]
        # also nothing of the session that is over was changed by them
        assert server.model.log[:3] == [("made", 0), ("gone with 1", 0.5), ("closed", 1)]
        assert "marked" not in [what for what, _ in server.model.log]


@in_all_placements
async def test_a_command_that_waits_is_answered_by_the_end_of_the_session(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    async with open_server(Plain, step_cost=1, **placement) as server, server.connect() as client:
        await trio.sleep_until(0.5)
        async with trio.open_nursery() as nursery:

            async def wait_for_the_answer() -> None:
                with pytest.raises(SessionEnded):
                    await client.command("set_value", value=7)

            nursery.start_soon(wait_for_the_answer)
            await trio.testing.wait_all_tasks_blocked()
            await client.vanish()


@in_all_placements
async def test_no_queued_frame_reaches_the_next_client(placement: dict[str, Any], autojump_clock: object) -> None:
    class Model(Logged):
        state: State
        fps = 4
        buffer_size = 8

        def load(self, config):
            self.sessions = 0

        @connected
        def count(self):
            self.sessions += 1

        def inference(self):
            while True:
                yield np.stack([picture(10 * self.sessions + i) for i in range(8)])

    async with open_server(Model, step_cost=1, **placement) as server:
        async with server.connect() as client:
            assert shown(await client.take(2)) == [10, 11]
            assert trio.current_time() == 1.25
            await client.vanish()  # six frames are queued
        async with server.connect() as client:
            frames = await client.take(3)
            assert shown(frames) == [20, 21, 22]
            assert [frame.seq for frame in frames] == [0, 1, 2]
            assert server.runtime.metrics.drops()["buffer", "session_over"] == 6


@in_all_placements
@pytest.mark.parametrize("form", ["sync", "async"])
async def test_a_frame_computed_while_the_client_left_reaches_no_client(
    form: str, placement: dict[str, Any], autojump_clock: object
) -> None:
    class Sync(Logged):
        state: State
        sessions = 0

        def inference(self):
            self.sessions += 1
            try:
                while True:
                    yield picture(self.sessions)
            finally:
                self.note("closed")

    class Async(Logged):
        state: State
        sessions = 0

        async def inference(self):
            self.sessions += 1
            try:
                while True:
                    yield picture(self.sessions)
            finally:
                self.note("closed")

    async with open_server(Sync if form == "sync" else Async, step_cost=1, **placement) as server:
        async with server.connect() as first, trio.open_nursery() as nursery:

            async def next_client() -> None:
                async with server.connect() as second:
                    frames = await second.take(2)
                assert shown(frames) == [2, 2]
                assert [frame.seq for frame in frames] == [0, 1]
                assert frames[0].pts == 1

            nursery.start_soon(next_client)
            await trio.sleep_until(0.5)
            await first.vanish()
            with pytest.raises(SessionEnded):
                await first.take()
        assert server.model.log[0] == ("closed", 1)


@in_all_placements
async def test_a_step_at_an_await_is_cancelled_at_once(placement: dict[str, Any], autojump_clock: object) -> None:
    class Model(Logged):
        state: State

        @disconnected
        def gone(self):
            self.note("gone")

        async def inference(self):
            try:
                while True:
                    await trio.sleep(60)
                    yield picture(1)
            finally:
                self.note("closed")

    async with open_server(Model, **placement) as server:
        async with server.connect() as client:
            await trio.sleep_until(0.5)
            await client.vanish()
            await trio.sleep_until(0.5625)
            assert server.model.log == [("gone", 0.5), ("closed", 0.5)]


@in_all_placements
async def test_a_step_at_an_await_may_shield_its_cleanup(placement: dict[str, Any], autojump_clock: object) -> None:
    class Model(Logged):
        state: State

        async def inference(self):
            try:
                while True:
                    await trio.sleep(60)
                    yield picture(1)
            finally:
                with trio.CancelScope(shield=True):
                    await trio.sleep(1)
                self.note("closed")

    async with open_server(Model, **placement) as server:
        async with server.connect() as client:
            await trio.sleep_until(0.5)
            await client.vanish()
        async with server.connect():
            assert trio.current_time() == 1.5
            assert server.model.log == [("closed", 1.5)]


@in_all_placements
@pytest.mark.parametrize("rate", [1, 2])
async def test_a_generator_held_back_by_a_full_queue_is_closed_at_once(
    rate: int, placement: dict[str, Any], autojump_clock: object
) -> None:
    class Model(Logged):
        state: State
        fps = rate
        buffer_size = 1

        def inference(self):
            try:
                for value in range(100):
                    self.note("step")
                    yield picture(value)
            finally:
                self.note("closed")

    async with open_server(Model, step_cost=0.0, **placement) as server:
        async with server.connect() as client:
            await trio.sleep_until(0.3125)
            steps = server.model.log[:]
            assert 0 < len(steps) <= 3
            await client.vanish()
            await trio.sleep_until(0.375)
            assert server.model.log == [*steps, ("closed", 0.3125)]


@in_all_placements
async def test_a_batch_that_waits_for_room_is_released_at_once(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    class Model(Logged):
        state: State
        fps = 4

        def inference(self):
            try:
                while True:
                    self.note("step")
                    yield np.stack([picture(1)] * 8)
            finally:
                self.note("closed")

    # The first step tells nothing of the second, which so begins early: its batch finds six of eight places taken.
    async with open_server(Model, step_cost=[2.0, 0.25], **placement) as server:
        async with server.connect() as client:
            await trio.sleep_until(2.5625)
            await client.vanish()
            await trio.sleep_until(2.625)
            assert server.model.log == [("step", 0), ("step", 2), ("closed", 2.5625)]


class Boom(Exception):
    pass


class Raises(Logged):
    """Raises after one frame, in its first session only."""

    state: State
    sessions = 0

    @disconnected
    def gone(self):
        self.note("gone")

    def inference(self):
        self.sessions += 1
        try:
            yield picture(self.sessions)
            if self.sessions == 1:
                raise Boom("the secret text")
            while True:
                yield picture(self.sessions)
        finally:
            self.note("closed")


@in_all_placements
async def test_an_exception_ends_its_session_and_not_the_server(
    placement: dict[str, Any], autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(Raises, step_cost=0.25, **placement) as server:
        async with server.connect() as client:
            with pytest.raises(Boom, match=r"^the secret text$") as raised:
                await client.take(5)
            assert client.ended == "model_error"
            assert isinstance(raised.value, Boom)
        assert server.model.log == [("closed", 0.25), ("gone", 0.25)]
        assert server.sessions[0].error is raised.value
        assert server.http("/health").status == 200
        async with server.connect() as client:
            assert shown(await client.take(3)) == [2, 2, 2]
        reports = [record for record in caplog.records if record.exc_info and record.exc_info[1] is raised.value]
        assert [record.getMessage() for record in reports] == [f"session {server.sessions[0].id}: the model raised"]


@pytest.mark.parametrize("debug", [False, True])
async def test_the_client_gets_the_text_of_the_exception_only_with_debug(debug: bool, autojump_clock: object) -> None:
    async with open_server(Raises, step_cost=0.25, debug=debug) as server, raw_session(server) as peer:
        bye = await peer.hear()
    message = {"message": "Boom: the secret text"} if debug else {}
    assert bye == {"type": "reactor.bye", "data": {"reason": "model_error"} | message}


@in_all_placements
async def test_an_exception_between_two_awaits_of_a_step_ends_its_session(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    class Model(Logged):
        state: State

        async def inference(self):
            yield picture(1)
            await trio.sleep(0.25)
            raise Boom("later")

    async with open_session(Model, **placement) as client:
        with pytest.raises(Boom, match=r"^later$"):
            await client.take(2)


class FinallyRaises(Logged):
    state: State

    def inference(self):
        try:
            while True:
                yield picture(1) if self.state.value == 1 else "not a frame"
        finally:
            raise Boom("in finally")


@in_all_placements
async def test_a_finally_that_raises_is_reported(
    placement: dict[str, Any], autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(FinallyRaises, step_cost=0.25, **placement) as server:
        for _ in range(2):
            async with server.connect() as client:
                assert shown(await client.take(2)) == [1, 1]
                with pytest.raises(Boom, match="in finally"):
                    await client.close()
        assert [session.reason for session in server.sessions] == ["client_left", "client_left"]
        reports = [record for record in caplog.records if record.levelno == logging.ERROR]
        again = " Boom: in finally (2 times by now; the traceback is logged with the first)"
        assert [record.getMessage() for record in reports] == [
            f"session {session.id}: closing inference() raised{text}"
            for session, text in zip(server.sessions, ["", again], strict=True)
        ]
        assert [repr(record.exc_info[1]) for record in reports if record.exc_info] == ["Boom('in finally')"]


@in_all_placements
async def test_a_finally_that_raises_does_not_mask_the_earlier_error(
    placement: dict[str, Any], autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_server(FinallyRaises, step_cost=0.25, **placement) as server:
        async with server.connect() as client:
            await client.command("set_value", value=2)
            with pytest.raises(OutputError, match="not str"):
                await client.take(3)
            with pytest.raises(Boom, match="in finally"):
                await client.close()
        sid = server.sessions[0].id
        assert [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR] == [
            f"session {sid}: closing inference() raised", f"session {sid}: the model raised",
        ]  # fmt: skip


async def test_a_disconnected_that_raises_does_not_keep_the_generator_from_closing(
    autojump_clock: object, caplog: pytest.LogCaptureFixture
) -> None:
    class Model(Plain):
        state: State

        @disconnected
        def gone(self):
            raise Boom("in disconnected")

    async with open_server(Model, step_cost=0.25) as server:
        async with server.connect() as client:
            await client.take(2)
            with pytest.raises(Boom, match="in disconnected"):
                await client.close()
        assert [what for what, _ in server.model.log] == ["made", "closed"]
        with pytest.raises(Boom, match="in disconnected"):
            async with server.connect() as client:
                assert shown(await client.take(1)) == [1]
        assert f"session {server.sessions[0].id}: @disconnected raised" in caplog.messages


@in_all_placements
@pytest.mark.parametrize("form", ["sync", "async"])
async def test_a_generator_assigned_in_load_wins(
    form: str, placement: dict[str, Any], autojump_clock: object
) -> None:
    class Model(Plain):
        state: State

        def load(self, config):
            super().load(config)
            self.inference = self._other if form == "sync" else self._other_async

        def _other(self):
            while True:
                yield picture(99)

        async def _other_async(self):
            while True:
                yield picture(99)

    async with open_server(Model, step_cost=0.25, **placement) as server, server.connect() as client:
        assert shown(await client.take(2)) == [99, 99]
        assert server.model.log == []


# ---- an author's own nursery, held open across yields -------------------------------------------------------------


@in_all_placements
async def test_a_nursery_held_open_across_yields_works(placement: dict[str, Any], autojump_clock: object) -> None:
    class Model(Logged):
        state: State

        async def inference(self):
            self.level = 0
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.rise)
                while True:
                    await trio.sleep(0.25)
                    yield picture(self.level)

        async def rise(self):
            try:
                while True:
                    self.level += 1
                    await trio.sleep(0.875)
            finally:
                self.note("risen")

    async with open_server(Model, **placement) as server:
        for began in (0, 2):
            async with server.connect() as client:
                assert shown(await client.take(6)) == [1, 1, 1, 2, 2, 2]
                await trio.sleep_until(began + 1.875)
                await client.vanish()
                await trio.sleep_until(began + 2)
            assert server.model.log[-1] == ("risen", began + 1.875)
            assert server.sessions[-1].error is None


@in_all_placements
async def test_a_child_of_the_author_s_nursery_that_fails_ends_the_session_with_its_error(
    placement: dict[str, Any], autojump_clock: object
) -> None:
    class Model(Logged):
        state: State

        async def inference(self):
            try:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.fail)
                    while True:
                        yield picture(1)
            finally:
                self.note("closed")

        async def fail(self):
            await trio.sleep(0.625)
            raise Boom("a child")

    async with open_server(Model, step_cost=0.25, **placement) as server:
        async with server.connect() as client:
            with pytest.raises(ExceptionGroup) as raised:
                await client.take(60)
            assert [repr(error) for error in raised.value.exceptions] == ["Boom('a child')"]
            assert client.ended == "model_error"
            assert server.model.log == [("closed", 0.75)]  # when the step that runs has ended
        async with server.connect() as client:
            assert shown(await client.take(1)) == [1]


@pytest.mark.parametrize("options", [{}, {"thread": True}])
async def test_awaits_in_the_cleanup_of_a_step_that_was_cancelled_at_an_await_can_end(autojump_clock, options):
    ended = []

    class Model(ReactorPipeline):
        output: Picture

        async def inference(self):
            try:
                yield picture(1)
                await trio.sleep_forever()
            finally:
                await trio.sleep(2)
                ended.append(trio.current_time())

    async with open_server(Model, **options) as server:
        async with server.connect() as client:
            await client.take(1)
            await trio.sleep(1)
            await client.vanish()
            assert ended == []
        async with server.connect() as client:
            await client.take(1)
            assert ended == [3.0]
