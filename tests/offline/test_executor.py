"""`PipelineExecutor`: the table of the 2.x harness, row by row, for sync and async generators."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import trio
from tests.support.models import Picture

import reactor_trio
import reactor_trio.interface
from reactor_trio.concurrency import AsyncioUsedError
from reactor_trio.errors import CommandError, DeclarationError, OutputError
from reactor_trio.interface import (
    Audio,
    ClientInfo,
    Idle,
    Input,
    InputField,
    InputState,
    ModelMessage,
    ReactorModel,
    ReactorPipeline,
    Video,
    connected,
    disconnected,
    event,
    session_ended,
    session_started,
)
from reactor_trio.testing import PipelineExecutor, StepResult


class Said(ModelMessage):
    what: str


class Settings(InputState):
    level: int = InputField(default=1, ge=0, le=9)
    rate: float = 0.5


class Base(ReactorPipeline):
    state: Settings
    output: Picture

    def load(self, config):
        self.config = config
        self.thread = threading.current_thread()
        self.calls = []

    @connected
    async def request(self, client: ClientInfo):
        self.calls.append(("connected", self.connected.is_set(), self.state.level))
        await client.send(Said("hello"))

    @disconnected
    async def goodbye(self):
        self.calls.append(("disconnected", self.connected.is_set(), self.state.level))
        await self.send(Said("goodbye"))

    @event
    async def shout(self, text: str, times: int = 1):
        if text == "no":
            raise CommandError("rude", "not that")
        await self.send(Said(text * times))
        return {"length": len(text) * times}


class Sync(Base):
    def inference(self):
        try:
            for _ in range(2):
                self.calls.append(threading.current_thread() is self.thread)
                yield np.full((2, 2, 3), self.state.level, np.uint8)
        finally:
            self.calls.append("closed")


class Async(Base):
    async def inference(self):
        try:
            for _ in range(2):
                self.calls.append(threading.current_thread() is self.thread)
                await self.send(Said("step"))
                yield Picture(main_video=np.full((2, 2, 3), self.state.level, np.uint8))
        finally:
            self.calls.append("closed")


def level(result):
    return result.output if result.output is Idle else int(result.output.main_video[0, 0, 0])


@pytest.mark.parametrize("model", [Sync, Async])
def test_a_session_from_load_to_close(model):
    with PipelineExecutor(model, {"size": 3}) as executor:
        assert executor.model.config == {"size": 3}
        assert executor.state is None
        assert executor.connect() == [Said("hello")]
        assert level(next(executor)) == 1
        assert executor.send_event("set_level", level=7) == []
        result = next(executor)
        assert isinstance(result, StepResult)
        assert isinstance(result.output, Picture)
        assert (level(result), executor.state.level) == (7, 7)
        assert result.compute_time > 0
        assert result.messages == ([Said("step")] if model is Async else [])
        assert executor.disconnect() == [Said("goodbye")]
        assert executor.state is None
        assert executor.model.calls == [("connected", True, 1), True, True, ("disconnected", False, 7), "closed"]


@pytest.mark.parametrize("model", [Sync, Async])
def test_a_generator_that_ends_gives_one_idle_step_and_is_made_anew(model):
    with PipelineExecutor(model) as executor:
        executor.connect()
        executor.send_event("set_level", level=4)
        assert [level(next(executor)) for _ in range(6)] == [4, 4, Idle, 4, 4, Idle]


def test_no_client_no_steps_and_calls_out_of_turn():
    with PipelineExecutor(Sync) as executor:
        assert list(executor) == []
        with pytest.raises(RuntimeError, match="nobody is connected"):
            executor.disconnect()
        with pytest.raises(RuntimeError, match="nobody is connected"):
            executor.send_event("set_level", level=1)
        executor.connect()
        with pytest.raises(RuntimeError, match="connected already"):
            executor.connect()
        for result in executor:
            if result.output is Idle:
                executor.disconnect()
        assert executor.model.calls[-1] != "closed", "it had ended by itself"
        assert executor.model.calls.count("closed") == 1


def test_each_session_has_fresh_state():
    with PipelineExecutor(Sync) as executor:
        for _ in range(2):
            executor.connect()
            assert executor.state == Settings()
            executor.send_event("set_level", level=9)
            executor.disconnect()


@pytest.mark.parametrize(
    ("name", "arguments", "kind", "words"),
    [
        ("jump", {}, ValueError, "unknown event 'jump'; this model takes: set_level, set_rate, shout"),
        ("set_level", {"level": 10}, ValueError, r"set_level: Expected int <= 9 - at \$.level"),
        ("set_level", {"level": "3"}, ValueError, r"Expected int, got str - at \$.level"),
        ("set_level", {"depth": 1}, TypeError, "unknown argument 'depth'; it takes: level"),
        ("set_level", {}, TypeError, "missing argument 'level'"),
        ("set_rate", {"rate": float("nan")}, ValueError, r"NaN and infinities are not JSON - at \$.rate"),
        ("set_rate", {"rate": float("inf")}, ValueError, r"NaN and infinities are not JSON - at \$.rate"),
    ],
)
def test_events_are_strict(name, arguments, kind, words):
    with PipelineExecutor(Sync) as executor:
        executor.connect()
        with pytest.raises(kind, match=words):
            executor.send_event(name, **arguments)
        assert executor.state == Settings()


def test_handlers_their_replies_and_what_they_raise():
    with PipelineExecutor(Sync) as executor:
        executor.connect()
        assert executor.send_event("shout", text="ha", times=3) == [Said("hahaha")]
        assert executor.reply == {"length": 6}
        with pytest.raises(CommandError, match="not that"):
            executor.send_event("shout", text="no")


def test_an_error_of_the_model_is_raised():
    class Broken(Base):
        def load(self, config):
            super().load(config)
            if config:
                raise OSError("no weights")

        async def inference(self):
            try:
                yield None
                yield np.zeros((2, 2), np.uint8)
            finally:
                if self.state.level:
                    raise ValueError("cleanup")

    with pytest.raises(OSError, match="no weights"):
        PipelineExecutor(Broken, {"x": 1})
    with PipelineExecutor(Broken) as executor:
        executor.connect()
        assert next(executor) == StepResult(Idle, 0.0, [])
        with pytest.raises(OutputError, match="main_video"):
            next(executor)
        with pytest.raises(ValueError, match="cleanup"):
            executor.disconnect()
        assert executor.state is None
        assert "disconnected" in [call[0] for call in executor.model.calls]


class Hooked(Base):
    """Notes each hook, and raises in those that it was told."""

    def load(self, config):
        super().load(config)
        self.raising = config.get("raising", [])

    def did(self, hook):
        self.calls.append(hook)
        if hook in self.raising:
            raise ValueError(hook)

    @session_started
    def start(self):
        self.did("session_started")

    @connected
    def request(self):
        self.did("connected")

    @disconnected
    def goodbye(self):
        self.did("disconnected")

    @session_ended
    def end(self):
        self.did("session_ended")

    def inference(self):
        try:
            yield None
        finally:
            self.did("closed")


@pytest.mark.parametrize(
    ("raising", "at", "calls"),
    [
        ([], None, "session_started connected disconnected closed session_ended"),
        (["session_started"], "connect", "session_started session_ended"),
        (["connected"], "connect", "session_started connected disconnected session_ended"),
        (["disconnected"], "disconnect", "session_started connected disconnected closed session_ended"),
        (["disconnected", "closed", "session_ended"], "disconnect",
         "session_started connected disconnected closed session_ended"),
    ],
)  # fmt: skip
def test_hooks_come_in_pairs_as_under_the_server_whichever_raises(raising, at, calls):
    with PipelineExecutor(Hooked, {"raising": raising}) as executor:
        if at == "connect":
            with pytest.raises(ValueError, match=raising[0]):
                executor.connect()
        else:
            executor.connect()
            next(executor)
        if at == "disconnect":
            with pytest.raises(ValueError, match=raising[-1]):
                executor.disconnect()
        else:
            executor.disconnect()
        assert " ".join(executor.model.calls) == calls
        assert executor.state is None
        executor.model.raising = []
        executor.connect()
        executor.disconnect()


class Asks(Hooked):
    """Notes in each hook also what the runtime says of the session."""

    def did(self, hook):
        super().did((hook, self.cancelled(), self.connected.is_set()))


def test_a_session_is_over_and_connected_when_it_is_under_the_server():
    with PipelineExecutor(Asks) as executor:
        for _ in range(2):
            executor.connect()
            next(executor)
            executor.disconnect()
        assert executor.model.calls == 2 * [
            ("session_started", False, False), ("connected", False, True),
            ("disconnected", True, False), ("closed", True, False), ("session_ended", True, False),
        ]  # fmt: skip
        assert executor.model.cancelled()


def test_asyncio_in_a_model_is_an_error_that_names_the_trio_function():
    import asyncio

    class Confused(Base):
        async def inference(self):
            await asyncio.gather(asyncio.sleep(1))
            yield None

    with PipelineExecutor(Confused) as executor:
        executor.connect()
        with pytest.raises(AsyncioUsedError, match=r"trio\.open_nursery"):
            next(executor)


def test_a_nursery_may_be_held_open_across_yields():
    class Nursing(Base):
        async def inference(self):
            async with trio.open_nursery() as nursery:
                send, receive = trio.open_memory_channel(0)
                nursery.start_soon(self._count, send)
                while True:
                    yield np.full((2, 2, 3), await receive.receive(), np.uint8)

        async def _count(self, send):
            for number in range(3):
                await send.send(number)
            raise ValueError("counted out")

    with PipelineExecutor(Nursing) as executor:
        executor.connect()
        assert [level(next(executor)) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ExceptionGroup) as group:
            next(executor)
        assert group.group_contains(ValueError, match="counted out")
        executor.disconnect()
        executor.connect()
        assert level(next(executor)) == 0
        executor.disconnect()


async def test_inside_a_running_loop_and_two_at_once(autojump_clock):
    with PipelineExecutor(Async) as first, PipelineExecutor(Sync) as second:
        first.connect()
        second.connect()
        assert (level(next(first)), level(next(second))) == (1, 1)


def test_it_leaves_no_thread_behind():
    before = set(threading.enumerate())  # of which some may end meanwhile: Trio keeps a thread for 10 s after its last work
    executor = PipelineExecutor(Sync)
    executor.connect()
    executor.close()
    executor.close()
    forgotten = PipelineExecutor(Sync)
    assert len(set(threading.enumerate()) - before) == 1
    del forgotten
    assert set(threading.enumerate()) <= before
    with pytest.raises(RuntimeError, match="closed"):
        executor.connect()


def test_only_pipelines():
    class Loop(ReactorModel): ...

    with pytest.raises(DeclarationError, match="open_session"):
        PipelineExecutor(Loop)


def test_it_is_also_where_reactor_2_has_it():
    assert reactor_trio.interface.PipelineExecutor is PipelineExecutor
    assert reactor_trio.PipelineExecutor is PipelineExecutor
    assert reactor_trio.interface.StepResult is StepResult
    with pytest.raises(AttributeError):
        reactor_trio.interface.PipelineExecuter  # noqa: B018


class Camera(Input):
    webcam: Video
    microphone: Audio


class Watcher(ReactorPipeline):
    input: Camera
    output: Picture

    def load(self, config):
        self.ended = False

    async def inference(self):
        try:
            while True:
                (frame,) = await self.input.webcam.read()
                sound = self.input.microphone.try_read()
                yield Picture(main_video=frame.data + len(sound or ()))
        finally:
            self.ended = True


def test_media_is_pushed():
    with PipelineExecutor(Watcher) as executor:
        with pytest.raises(RuntimeError, match="nobody is connected"):
            executor.push_media("webcam", np.zeros((2, 2, 3), np.uint8))
        executor.connect()
        mine = np.full((2, 2, 3), 5, np.uint8)
        executor.push_media("webcam", mine)
        mine[:] = 9
        assert level(next(executor)) == 5
        for value in (6, 7):
            executor.push_media("webcam", np.full((2, 2, 3), value, np.uint8))
        executor.push_media("microphone", np.zeros((1, 480), np.int16))
        assert level(next(executor)) == 8, "the newest, and sound was there"
        for track, frame, kind, words in [
            ("webcam", np.zeros((2, 2), np.uint8), TypeError, r"webcam: expected uint8 \(H, W, 3\), got uint8 \(2, 2\)"),
            ("webcam", np.zeros((2, 2, 3), np.float32), TypeError, "got float32"),
            ("webcam", [1], TypeError, "got list"),
            ("microphone", np.zeros((480,), np.int16), TypeError, r"expected int16 \(1, M\)"),
            ("screen", np.zeros((2, 2, 3), np.uint8), ValueError, "unknown input track 'screen'; .* webcam, microphone"),
        ]:
            with pytest.raises(kind, match=words):
                executor.push_media(track, frame)
        executor.push_media("webcam", np.full((2, 2, 3), 1, np.uint8), pts=2, metadata=b"pose", capture_time_us=3)
        (stated,) = executor.model.input.webcam.try_read()
        assert (stated.pts, stated.metadata, stated.capture_time_us) == (2, b"pose", 3)
        executor.push_media("webcam", np.full((2, 2, 3), 1, np.uint8))
        executor.disconnect()
        assert executor.model.ended
        executor.connect()
        executor.push_media("webcam", np.full((2, 2, 3), 2, np.uint8))
        assert level(next(executor)) == 2, "the last client's frame is gone"
