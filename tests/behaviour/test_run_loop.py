"""Models with a `run()` loop of their own. Times are virtual seconds."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import trio
import trio.testing

from reactor_trio.errors import ModelFailed, SessionEnded
from reactor_trio.interface import ReactorModel, ReactorPipeline, connected, disconnected, event
from reactor_trio.testing import hold_clock, open_server, open_session
from tests.support.behaviour_models import picture, shown
from tests.support.models import Note, Picture


class Loop(ReactorModel):
    """Emits what the test asks for: `script(model)` runs once for each session."""

    output: Picture
    fps = 10
    buffer_size = 4

    def load(self, config):
        self.notes = []
        self.script = config.get("script")

    @disconnected
    def leave(self):
        self.left.set()

    async def run(self):
        while True:
            await self.connected.wait()
            self.left = trio.Event()
            await self.script(self)
            await self.left.wait()


def batch(*values):
    return np.stack([picture(value) for value in values])


async def test_the_default_run_waits_for_ever_and_handlers_work(autojump_clock):
    class Handlers(ReactorModel):
        @event
        def add(self, a: int, b: int) -> int:
            return a + b

    async with open_server(Handlers) as server:
        async with server.connect() as client:
            assert await client.command("add", a=2, b=3) == 5
            await trio.sleep(3600)
            assert await client.command("add", a=4, b=4) == 8
        assert server.runtime.placement.running
        assert server.http("/health").status == 200


async def test_load_and_run_are_called_once_for_all_clients(autojump_clock):
    class Counts(ReactorModel):
        loads = runs = 0

        def load(self, config):
            self.loads += 1

        async def run(self):
            self.runs += 1
            await trio.sleep_forever()

    async with open_server(Counts) as server:
        for _ in range(2):
            async with server.connect():
                await trio.sleep(1)
        assert (server.model.loads, server.model.runs) == (1, 1)


async def test_what_run_raises_while_the_server_ends_is_logged(autojump_clock, caplog):
    class Breaks(ReactorModel):
        async def run(self):
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("the last word")

    async with open_server(Breaks):
        await trio.sleep(1)
    assert "run() raised ValueError: the last word while the server ended" in caplog.text


@pytest.mark.parametrize("kind", [ReactorModel, ReactorPipeline])
async def test_connected_is_set_in_its_hook_and_cleared_in_the_other(autojump_clock, kind):
    class Hooks(kind):
        def load(self, config):
            self.seen = []

        @connected
        def request(self):
            self.seen.append(("connected", self.connected.is_set()))

        @disconnected
        def goodbye(self):
            self.seen.append(("disconnected", self.connected.is_set()))

        if kind is ReactorPipeline:

            def inference(self):
                while True:
                    yield None

    async with open_server(Hooks) as server:
        async with server.connect() as client:
            await trio.sleep(1)
            assert server.model.seen == [("connected", True)]
            await client.vanish()
        assert server.model.seen == [("connected", True), ("disconnected", False)]


async def test_run_wakes_for_each_client(autojump_clock):
    woke = []

    async def script(model):
        woke.append(trio.current_time())
        await model.emit(picture(len(woke)))

    async with open_server(Loop, config={"script": script}) as server:
        for begin in (0.0, 5.0, 10.0):
            await trio.sleep_until(begin)
            async with server.connect() as client:
                assert shown(await client.take(1)) == [len(woke)]
    assert woke == [0.0, 5.0, 10.0]


async def test_run_may_wake_before_an_async_connected_hook_ends(autojump_clock):
    class Slow(ReactorModel):
        def load(self, config):
            self.notes = []

        @connected
        async def request(self):
            await trio.sleep(2)
            self.notes.append(("hook ends", trio.current_time()))

        async def run(self):
            await self.connected.wait()
            self.notes.append(("run wakes", trio.current_time()))
            await trio.sleep_forever()

    async with open_server(Slow) as server, server.connect():
        await trio.sleep(3)
        assert server.model.notes == [("run wakes", 0.0), ("hook ends", 2.0)]


async def test_a_batch_of_ten_is_shown_in_order_at_the_target_rate(autojump_clock):
    async def script(model):
        await model.emit(batch(*range(10)))

    async with open_session(Loop, config={"script": script}) as client:
        frames = await client.take(10)
    assert shown(frames) == list(range(10))
    assert [frame.pts for frame in frames] == [n / 10 for n in range(10)]
    assert [frame.seq for frame in frames] == list(range(10))
    assert {frame.step for frame in frames} == {0}


async def test_four_emits_return_at_once_and_the_fifth_after_an_interval(autojump_clock):
    returned = []

    async def script(model):
        for value in range(7):
            await model.emit(picture(value))
            returned.append(trio.current_time())

    async with open_session(Loop, config={"script": script}) as client:
        frames = await client.take(7)
    assert returned == pytest.approx([0, 0, 0, 0, 0.1, 0.2, 0.3])
    assert shown(frames) == list(range(7))


async def test_a_full_queue_discards_a_droppable_frame_at_once(autojump_clock):
    returned = []

    async def script(model):
        for value in range(4):
            await model.emit(picture(value))
        await model.emit(picture(99), drop=True)
        returned.append(trio.current_time())
        await model.emit(picture(5))

    async with open_server(Loop, config={"script": script}) as server, server.connect() as client:
        frames = await client.take(5)
        assert returned == [0.0]
        assert shown(frames) == [0, 1, 2, 3, 5]
        assert [frame.seq for frame in frames] == [0, 1, 2, 3, 5], "the gap tells of the dropped frame"
        assert [frame.pts for frame in frames] == [0, 0.1, 0.2, 0.3, 0.4], "the queued frames stay"
        assert server.runtime.metrics.drops() == {("buffer", "full"): 1}


async def test_a_droppable_batch_larger_than_an_empty_buffer_is_kept_whole(autojump_clock):
    async def script(model):
        await model.emit(batch(*range(10)), drop=True)

    async with open_server(Loop, config={"script": script}) as server, server.connect() as client:
        assert shown(await client.take(10)) == list(range(10))
        assert server.runtime.metrics.drops() == {}


async def test_a_droppable_batch_keeps_what_fits_beside_queued_frames(autojump_clock):
    returned = []

    async def script(model):
        for value in (100, 101, 102):
            await model.emit(picture(value))
        await model.emit(batch(*range(10)), drop=True)
        returned.append(trio.current_time())
        await trio.sleep(5)
        await model.emit(picture(200))

    async with open_server(Loop, config={"script": script}) as server, server.connect() as client:
        frames = await client.take(11)
        assert returned == [0.0]
        assert shown(frames) == [100, 101, 102, *range(7), 200], "the batch's places are ten, three are taken"
        assert frames[-1].seq == 13
        assert server.runtime.metrics.drops() == {("buffer", "full"): 3}


async def test_a_handlers_change_is_seen_by_the_next_read_and_not_by_a_snapshot(autojump_clock):
    class Reads(ReactorModel):
        prompt = "cat"

        @event
        def set_prompt(self, prompt: str):
            self.prompt = prompt

        async def run(self):
            await self.connected.wait()
            self.snapshot = self.prompt
            await trio.sleep(1)
            self.second = self.prompt
            await trio.sleep_forever()

    async with open_server(Reads) as server, server.connect() as client:
        await trio.sleep(0.5)
        await client.command("set_prompt", prompt="dog")
        await trio.sleep(1)
        assert (server.model.snapshot, server.model.second) == ("cat", "dog")


async def test_a_handler_runs_while_run_waits_for_room(autojump_clock):
    class Full(Loop):
        fps = 1

        @event
        def ask(self) -> list[str]:
            return self.notes

    async def script(model):
        for value in range(5):
            model.notes = [f"waits with {value}"]
            await model.emit(picture(value))
        model.notes = ["done"]

    async with open_session(Full, config={"script": script}) as client:
        await trio.sleep(0.25)
        assert await client.command("ask") == ["waits with 4"]
        assert trio.current_time() == 0.25


@pytest.mark.parametrize("raises", [True, False])
async def test_a_run_that_ends_ends_the_server(autojump_clock, raises):
    class Ends(ReactorModel):
        output: Picture

        async def run(self):
            await self.connected.wait()
            await self.emit(picture(1))
            await trio.sleep(1)
            if raises:
                raise ValueError("out of memory")

    with pytest.raises(ModelFailed, match="out of memory" if raises else "returned") as failure:
        async with open_server(Ends) as server:
            async with server.connect() as client, server.connect(role="viewer") as viewer:
                await trio.sleep(0.5)
                assert server.http("/health").status == 200
                await trio.sleep(1)
                assert (client.ended, viewer.ended) == ("model_error", "model_error")
            health = server.http("/health")
            assert health.status == 503
            assert b"ok" not in health.body
            await trio.sleep(100)
            assert server.http("/health").status == 503
    assert isinstance(failure.value.__cause__, ValueError) == raises


async def test_the_pending_take_raises_the_error_of_run(autojump_clock):
    async def script(model):
        raise ValueError("out of memory")

    async with open_session(Loop, config={"script": script}) as client:
        with pytest.raises(ValueError, match="out of memory"):
            await client.take(1)


async def test_a_run_that_ends_before_a_client_came_is_no_healthy_server(autojump_clock):
    class Ends(ReactorModel):
        async def run(self):
            pass

    with pytest.raises(ModelFailed, match="returned"):
        async with open_server(Ends) as server:
            await trio.sleep(1)
            assert server.http("/health").status == 503


async def test_a_message_without_a_client_goes_nowhere(autojump_clock):
    class Talks(ReactorModel):
        async def run(self):
            await self.send(Note("nobody"))
            await self.connected.wait()
            await self.send(Note("somebody"))
            await trio.sleep_forever()

    async with open_server(Talks) as server:
        await trio.sleep(1)
        async with server.connect() as client:
            assert (await client.next_message()).data == {"text": "somebody"}


# ---- without a session, and the end of one ---------------------------------------------------------------------------


class Spins(ReactorModel):
    """Emits without ever asking whether a client is there."""

    output: Picture
    fps = 10

    def load(self, config):
        self.emitted = []

    async def run(self):
        for value in range(10**6):
            self.emitted.append(trio.current_time())
            await self.emit(picture(value % 256))


async def test_emit_without_a_session_waits_an_interval_and_is_counted(autojump_clock):
    async with open_server(Spins) as server:
        await trio.sleep(0.95)
        assert server.model.emitted == pytest.approx([n / 10 for n in range(10)])
        assert server.runtime.metrics.drops() == {("model", "no_client"): 10}
        async with server.connect() as client:
            frames = await client.take(3)
        assert shown(frames) == [10, 11, 12], "the loop goes on for the client that came"
        assert frames[0].pts == pytest.approx(0.05)


async def test_emit_does_not_spin_while_the_session_is_said_goodbye(autojump_clock):
    class Farewell(Spins):
        @disconnected
        async def goodbye(self):
            await trio.sleep(1)

    async with open_server(Farewell) as server:
        async with server.connect() as client:
            await client.take(3)
            before = len(server.model.emitted)
            await client.vanish()
            await trio.sleep(1)
        assert len(server.model.emitted) - before <= 12


@pytest.mark.parametrize("between", ["await", "thread", "nothing"])
async def test_values_that_run_computed_for_one_session_reach_no_other(autojump_clock, between):
    gate = threading.Event()
    swapped = trio.Event()

    async def compute():
        if between == "thread":
            async with hold_clock():
                await trio.to_thread.run_sync(gate.wait)
        elif between == "await":
            await trio.sleep(3)
        await swapped.wait()

    class Forward(ReactorModel):
        output: Picture

        def load(self, config):
            self.sessions = 0

        @connected
        def count(self):
            self.sessions += 1

        async def run(self):
            while True:
                await self.connected.wait()
                made_for = self.sessions
                if made_for == 1:
                    await compute()
                await self.emit(picture(made_for))
                await self.send(Note(f"made for {made_for}"))

    async with open_server(Forward) as server:
        async with server.connect() as first:
            await trio.testing.wait_all_tasks_blocked()
            await first.vanish()
        async with server.connect() as second:
            gate.set()
            swapped.set()
            frames = await second.take(3)
            assert shown(frames) == [2, 2, 2]
            assert frames[0].seq == 0
            assert server.runtime.metrics.drops()["model", "no_client"] == 1


@pytest.mark.parametrize("way", ["cancelled", "check_cancelled"])
@pytest.mark.parametrize("placement", [{}, {"websocket": True}], ids=["inline", "websocket"])
async def test_a_long_step_can_leave_when_its_client_has_left(autojump_clock, way, placement):
    class Long(ReactorPipeline):
        output: Picture

        def load(self, config):
            self.log = []

        @disconnected
        def goodbye(self):
            self.log.append(("disconnected", trio.current_time()))

        async def inference(self):
            try:
                yield picture(1)
                for _ in range(100):
                    with trio.CancelScope(shield=True):  # as a forward pass cannot be interrupted
                        await trio.sleep(0.5)
                    try:
                        if way == "check_cancelled":
                            self.check_cancelled()
                    except Exception as error:
                        self.log.append(("swallowed", error))
                    if self.cancelled():
                        return
                yield picture(2)
            finally:
                self.log.append(("closed", trio.current_time()))

    async with open_server(Long, **placement) as server:
        async with server.connect() as client:
            await client.take(1)
            await trio.sleep_until(1.75)
            assert not server.model.cancelled()
            await client.vanish()
        await server.sessions[0].ended.wait()
        assert server.model.log == [("disconnected", 1.75), ("closed", 2.0)]
        assert server.runtime.metrics.drops() == {}
        async with server.connect() as client:
            assert shown(await client.take(1)) == [1], "the next client gets a generator of its own"


async def test_check_cancelled_in_a_run_loop_that_does_not_catch_it_ends_the_server_with_advice(autojump_clock):
    async def script(model):
        while True:
            await trio.sleep(1)
            model.check_cancelled()

    with pytest.raises(ModelFailed, match="SessionOver"):
        async with open_server(Loop, config={"script": script}) as server:
            async with server.connect() as client:
                await trio.sleep(2.5)
                await client.vanish()
            await trio.sleep(2)
            assert server.http("/health").status == 503


async def test_a_vanished_client_s_take_ends(autojump_clock):
    async def script(model):
        await model.emit(picture(1))

    async with open_session(Loop, config={"script": script}) as client:
        await client.take(1)
        await client.vanish()
        with pytest.raises(SessionEnded):
            await client.take(1)
