"""Of several sessions on one model: what is each one's own, and what is shared, which the guide says too."""

from __future__ import annotations

import gc
import itertools
import weakref
from contextlib import AsyncExitStack

import pytest
import trio

from reactor_trio.errors import ModelFailed, SessionEnded
from reactor_trio.execution.current_session import current_session
from reactor_trio.interface import (
    Input,
    InputState,
    ReactorModel,
    ReactorPipeline,
    Video,
    connected,
    disconnected,
    event,
)
from reactor_trio.testing import open_server
from tests.support.behaviour_models import picture, raw_session, shown
from tests.support.models import Picture, Said

INLINE_AND_THREAD = pytest.mark.parametrize("placement", [{}, {"thread": True}], ids=["inline", "thread"])


class Camera(Input):
    webcam: Video


class Level(InputState):
    level: int = 0
    marks: list[int] = []


class Helper:
    """Made by `load`, with the model in its hands; all sessions share it."""

    def __init__(self, model):
        self.model = model

    async def say(self, text):
        await self.model.send(Said(text))

    def level(self):
        return self.model.state.level


class World(ReactorPipeline):
    state: Level
    input: Camera
    output: Picture
    fps = 10
    max_sessions = 3
    of_the_class = 0

    def load(self, config):
        self.helper = Helper(self)
        self.rebound = 0
        self.shared_list = []
        self.log = []

    @connected
    def begin(self):
        self.own_list = []

    @disconnected
    def end(self):
        self.log.append(("disconnected", self.state.level, self.rebound))

    @event
    async def write(self, value: int) -> list[int]:
        self.rebound = value
        self.own_list.append(value)
        self.shared_list.append(value)
        type(self).of_the_class = value
        return [self.rebound, len(self.own_list), len(self.shared_list), self.of_the_class]

    @event
    async def read(self) -> list[object]:
        return [self.rebound, self.own_list, self.shared_list, self.of_the_class, self.state.level, self.state.marks]

    @event
    async def say(self, text: str):
        await self.send(Said(text))

    @event
    async def say_by_helper(self, text: str) -> int:
        await self.helper.say(text)
        return self.helper.level()

    @event
    def rate(self, fps: float):
        self.output_buffer.set_fps(fps)

    @event
    def mark(self, value: int):
        self.state.marks.append(value)

    @event
    def fail(self):
        raise ValueError("no")

    def inference(self):
        while True:
            if self.state.level == 99:
                raise RuntimeError("this session only")
            frames = self.input.webcam.try_read()
            self.log.append((current_session(), self.state.level))
            yield picture(self.state.level) if frames is None else frames[0].data


async def connect_all(server, stack, count):
    return [await stack.enter_async_context(server.connect()) for _ in range(count)]


@INLINE_AND_THREAD
async def test_state_attributes_commands_and_messages_are_each_ones_own(autojump_clock, placement):
    async with open_server(World, step_cost=0.01, **placement) as server, AsyncExitStack() as stack:
        first, second = await connect_all(server, stack, 2)
        await first.command("set_level", level=1)
        await second.command("set_level", level=2)
        await first.command("mark", value=5)
        assert await first.command("write", value=7) == [7, 1, 1, 7]
        assert await second.command("read") == [0, [], [7], 7, 2, []]      # the leaks: a shared list, a class attribute
        assert await first.command("read") == [7, [7], [7], 7, 1, [5]]
        await second.command("say", text="second")
        await first.command("say", text="first")
        assert (await first.next_message()).data == {"text": "first"}
        assert (await second.next_message()).data == {"text": "second"}
        await trio.sleep(1)
        assert set(shown(await first.take(10))[3:]) == {1}
        assert set(shown(await second.take(10))[3:]) == {2}
        seen = {first.session_id: 1, second.session_id: 2}
        assert {(session, level) for session, level in server.model.log[-6:]} == set(seen.items())
        await first.close()
        await second.close()
        assert server.model.log[-2:] == [("disconnected", 1, 7), ("disconnected", 2, 0)]
        assert server.model.rebound == 0
        assert not hasattr(server.model, "own_list")
        async with server.connect() as third:
            assert await third.command("read") == [0, [], [7], 7, 0, []]   # what leaked stays for the next
    World.of_the_class = 0


async def test_code_that_load_gave_the_model_to_reaches_the_right_session(autojump_clock):
    async with open_server(World, step_cost=0.01) as server, AsyncExitStack() as stack:
        first, second = await connect_all(server, stack, 2)
        await first.command("set_level", level=1)
        await second.command("set_level", level=2)
        assert await second.command("say_by_helper", text="to the second") == 2
        assert await first.command("say_by_helper", text="to the first") == 1
        assert (await first.next_message()).data == {"text": "to the first"}
        assert (await second.next_message()).data == {"text": "to the second"}


@INLINE_AND_THREAD
async def test_a_session_can_speak_to_another_by_its_model(autojump_clock, placement):
    """As a game would that several play; who is meant is whose model it is, not who calls."""

    class Lobby(World):
        def load(self, config):
            super().load(config)
            self.players = []

        @connected
        def begin(self):
            self.players.append(self)

        @event
        async def tell_all(self, text: str):
            assert self.connected.is_set()
            for number, player in enumerate(self.players):
                await player.send(Said(f"{text} {number}"))

    async with open_server(Lobby, step_cost=0.01, **placement) as server, AsyncExitStack() as stack:
        (first,) = await connect_all(server, stack, 1)
        await first.command("set_level", level=1)  # its hook has run, so it is the first player
        (second,) = await connect_all(server, stack, 1)
        await second.command("set_level", level=2)
        await first.command("tell_all", text="hello")
        assert (await first.next_message()).data == {"text": "hello 0"}
        assert (await second.next_message()).data == {"text": "hello 1"}


@INLINE_AND_THREAD
async def test_input_frames_and_rates_are_each_ones_own(autojump_clock, placement):
    async with open_server(World, step_cost=0.01, **placement) as server, AsyncExitStack() as stack:
        first, second = await connect_all(server, stack, 2)
        await trio.sleep(1)
        await first.push("webcam", picture(111), pts=1.0)
        await second.push("webcam", picture(222), pts=2.0)
        await trio.sleep(1)
        for client, own, other in ((first, 111, 222), (second, 222, 111)):
            values = shown(await client.take(15))
            assert own in values
            assert other not in values
        await first.command("rate", fps=5)
        await trio.sleep(10)
        counts = [client.statistics().tracks["main_video"].frames for client in (first, second)]
        await trio.sleep(10)
        assert [client.statistics().tracks["main_video"].frames - count
                for client, count in zip((first, second), counts, strict=True)] == [50, 100]  # fmt: skip


async def test_answers_come_in_the_order_of_each_session(autojump_clock):
    async with open_server(World, step_cost=0.1) as server, raw_session(server) as one, raw_session(server) as other:
        for number in range(1, 6):
            await one.command("set_level", number, level=number)
            await one.command("mark", 10 + number, value=number)
            await other.command("mark", number, value=number)
        answers = [await one.answer() for _ in range(10)]
        assert [answer["id"] for answer in answers] == [1, 11, 2, 12, 3, 13, 4, 14, 5, 15]
        others = [await other.answer() for _ in range(5)]
        assert [answer["id"] for answer in others] == [1, 2, 3, 4, 5]
        assert len({answer["data"]["step"] for answer in answers}) == len({answer["data"]["step"] for answer in others}) == 1


@INLINE_AND_THREAD
async def test_an_error_ends_the_session_that_it_is_of(autojump_clock, placement):
    async with open_server(World, step_cost=0.05, **placement) as server, AsyncExitStack() as stack:
        first, second = await connect_all(server, stack, 2)
        await first.command("set_level", level=1)
        with pytest.raises(Exception, match="this session only"):
            await second.command("set_level", level=99)
            await second.take(1000)
        await trio.sleep(5)
        assert set(shown(await first.take(40))[5:]) == {1}
        assert server.http("/health").status == 200


async def test_the_copy_is_gone_with_its_session(autojump_clock):
    async with open_server(World, step_cost=0.05) as server:
        async with server.connect() as client:
            await client.take(1)
            copied = weakref.ref(server.sessions[0]._run._tasks.session.model)
            assert copied() is not server.model
            assert copied().helper is server.model.helper
        await trio.sleep(1)
        gc.collect()
        assert copied() is None


async def test_an_author_says_what_a_copy_is(autojump_clock):
    class Careful(World):
        def __copy__(self):
            new = type(self).__new__(type(self))
            new.__dict__.update(self.__dict__)
            new.shared_list = list(self.shared_list)
            return new

    async with open_server(Careful, step_cost=0.05) as server, AsyncExitStack() as stack:
        first, second = await connect_all(server, stack, 2)
        await first.command("write", value=7)
        assert (await first.command("read"))[2] == [7]
        assert (await second.command("read"))[2] == []
    Careful.of_the_class = 0


@pytest.mark.parametrize(("result", "says"), [("self", "must return a new"), ("raise", "no copies")])
async def test_a_copy_that_fails_ends_that_session(autojump_clock, result, says):
    class Wrong(World):
        broken = False

        def __copy__(self):
            if not Wrong.broken:
                return _plain_copy(self)
            if result == "raise":
                raise OSError("no copies")
            return self

    async with open_server(Wrong, step_cost=0.05) as server, server.connect() as first:
        await first.take(1)
        Wrong.broken = True
        with pytest.raises(Exception, match=says):
            async with server.connect() as second:
                await second.take(1)
        Wrong.broken = False
        await first.take(5)
        async with server.connect() as third:
            await third.take(1)


def _plain_copy(model):
    new = type(model).__new__(type(model))
    new.__dict__.update(model.__dict__)
    return new


async def test_a_module_of_torch_keeps_its_parts_in_dicts_that_are_shared(autojump_clock):
    """The leak that looks like rebinding and is none."""
    import torch


    class Net(ReactorPipeline, torch.nn.Module):
        output: Picture
        fps = 10
        max_sessions = 2

        def __init__(self):
            torch.nn.Module.__init__(self)

        def load(self, config):
            self.register_buffer("cache", torch.zeros(1))
            self.plain = torch.zeros(1)

        @event
        def write(self):
            self.cache = torch.ones(1)
            self.plain = torch.ones(1)

        @event
        def read(self) -> list[float]:
            return [float(self.cache), float(self.plain)]

        def inference(self):
            while True:
                yield picture(0)

    async with open_server(Net, step_cost=0.05) as server, AsyncExitStack() as stack:
        first, second = await connect_all(server, stack, 2)
        await first.command("write")
        assert await second.command("read") == [1.0, 0.0]


# ---- run loops --------------------------------------------------------------------------------------------------------


class Loop(ReactorModel):
    output: Picture
    fps = 60
    buffer_size = 2
    max_sessions = 3
    level = 0

    def load(self, config):
        self.log = []
        self.config = config

    @event
    def set_level(self, level: int):
        self.level = level

    @event
    def rate(self) -> float:
        return self.output_buffer.fps

    @disconnected
    def reset(self):
        vars(self).pop("level", None)

    async def run(self):
        self.log.append("run")
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                if self.level == 9:
                    await trio.sleep(30)
                self.log.append((current_session(), trio.current_time()))
                await self.emit(picture(self.level), compute_time=0.1)


async def test_each_seat_of_a_run_loop_has_its_own_run_and_they_take_turns(autojump_clock):
    async with open_server(Loop, step_cost=0.1) as server:
        async with AsyncExitStack() as stack:
            clients = await connect_all(server, stack, 3)
            assert server.model.log[:3] == ["run"] * 3
            for number, client in enumerate(clients, 1):
                await client.command("set_level", level=number)
            await trio.sleep(30)
            for number, client in enumerate(clients, 1):
                assert await client.command("rate") == pytest.approx(10 / 3, rel=0.05)
                begins = [time for session, time in server.model.log[3:] if session == client.session_id]
                assert len(begins) == pytest.approx(100, abs=3)
                frames = await client.take(90)
                assert set(shown(frames)[5:]) == {number}
                assert all(abs(b.pts - a.pts - 0.3) < 0.02 for a, b in itertools.pairwise(frames[40:]))
            await clients[0].command("set_level", level=9)         # one that sleeps stops nobody
            before = len(server.model.log)
            await trio.sleep(10)
            assert len(server.model.log) - before == pytest.approx(100, abs=3)
            await clients[1].close()
            async with server.connect() as newcomer:
                assert shown(await newcomer.take(1)) == [0]
        assert server.model.log.count("run") == 3


async def test_a_run_that_ends_ends_the_server(autojump_clock):
    class Mortal(Loop):
        async def run(self):
            await self.connected.wait()
            if self.log:
                raise RuntimeError("the second one dies")
            self.log.append(1)
            await trio.sleep_forever()

    with pytest.raises(ModelFailed, match="the second one dies"):
        async with open_server(Mortal) as server, AsyncExitStack() as stack:
            first, _ = await connect_all(server, stack, 2)
            with pytest.raises(SessionEnded, match="model_error"):
                async for _ in first.messages():
                    pass


async def test_frames_that_a_task_of_run_emits_take_no_turns_and_block_no_session(autojump_clock):
    class Nursery(Loop):
        async def run(self):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self.frames, 1)
                nursery.start_soon(self.frames, 2)

        async def frames(self, value):
            while True:
                await self.connected.wait()
                await self.emit(picture(value))

    async with open_server(Nursery, step_cost=0.05) as server, AsyncExitStack() as stack:
        clients = await connect_all(server, stack, 2)
        await trio.sleep(20)
        for client in clients:
            assert set(shown((await client.take(100, within=1))[50:])) == {1, 2}
