"""The steps of a `ReactorApp`: refusal, result, recovery, commands in between, and their time."""

from __future__ import annotations

import asyncio
import itertools
import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import trio

from reactor_trio.errors import CommandError, SessionEnded
from reactor_trio.interface import (
    ApplicationError,
    InputState,
    MediaInput,
    Output,
    ReactorApp,
    StepCompleted,
    StepOutcome,
    Video,
    connected,
    disconnected,
    event,
    session_ended,
)
from reactor_trio.testing import open_server, open_session
from tests.behaviour.test_messages import wire_order
from tests.support.models import Note

SIZE = (2, 2, 3)


class Picture(Output):
    picture: Video


class Camera(MediaInput):
    camera: Video


class Levels(InputState):
    level: int = 0
    paused: bool = False


class Full(Exception):
    """A model's own error."""


def picture(value: int = 0) -> Picture:
    return Picture(picture=np.full(SIZE, value, np.uint8))


def value_of(frame: Any) -> int:
    return int(frame.data[0, 0, 0])


class App(ReactorApp):
    output: Picture
    state: Levels

    def generate(self, input: Any) -> Any:  # noqa: A002 - Reactor's name
        return picture(input.level)


async def test_generate_gets_the_state_and_its_return_value_is_shown(autojump_clock: object) -> None:
    async with open_session(App) as client:
        (first,) = await client.take()
        await client.command("set_level", level=7)
        later = await client.take_after()
        names = [command["name"] for command in client.schema["commands"]]
    assert (value_of(first), value_of(later), later.command_id) == (0, 7, 1)
    assert names == ["set_level", "set_paused"]


async def test_without_a_state_generate_gets_none_and_the_name_is_the_authors(autojump_clock: object) -> None:
    class Stateless(ReactorApp):
        output: Picture

        def load(self, config_path: Any) -> None:
            self.state = {"mine": 1}

        async def process_input(self) -> Any:
            assert self.state == {"mine": 1}
            return None

        def generate(self, input: Any) -> Any:  # noqa: A002
            return picture(1 if input is None else 2)

    async with open_server(Stateless) as server:
        for _ in range(2):
            async with server.connect() as client:
                assert value_of((await client.take())[0]) == 1
                assert client.schema["commands"] == []


class Pausing(App):
    def load(self, config_path: Any) -> None:
        self.asked: list[float] = []
        self.made = 0
        self.reason: type[Exception] | Exception = ApplicationError("paused")

    async def process_input(self) -> Any:
        self.asked.append(trio.current_time())
        if self.state.paused:
            raise self.reason
        return self.state

    def generate(self, input: Any) -> Any:  # noqa: A002
        self.made += 1
        return super().generate(input)


async def test_a_refused_step_calls_no_generate_and_rests(autojump_clock: object, caplog: Any) -> None:
    caplog.set_level(logging.DEBUG, "reactor_trio.model")
    async with open_session(Pausing) as client:
        await client.take()
        await client.command("set_paused", paused=True)
        await trio.sleep(0.1)
        model = client.server.model
        model.asked.clear()
        made = model.made
        await trio.sleep(1)
        assert model.made == made
        assert 40 <= len(model.asked) <= 51
        assert not client.ended
    assert len([r for r in caplog.records if "refuses a step: paused" in r.getMessage()]) == 1


async def test_a_command_lifts_a_refusal_at_once(autojump_clock: object) -> None:
    async with open_session(Pausing) as client:
        await client.take()
        await client.command("set_paused", paused=True)
        await trio.sleep(0.107)
        model = client.server.model
        model.asked.clear()
        now = trio.current_time()
        await client.command("set_paused", paused=False)
        assert trio.current_time() == now
        await trio.sleep(0.001)
        assert model.asked[0] == now


async def test_an_input_frame_lifts_a_refusal_at_once(autojump_clock: object) -> None:
    class Seeing(ReactorApp):
        output: Picture
        media: Camera

        def load(self, config_path: Any) -> None:
            self.seen: list[tuple[float, int]] = []

        async def process_input(self) -> Any:
            frames = self.media.camera.try_read()
            if frames is None:
                raise ApplicationError("no frame")
            return frames[0].data

        def generate(self, input: Any) -> Any:  # noqa: A002
            self.seen.append((trio.current_time(), int(input[0, 0, 0])))
            return picture(int(input[0, 0, 0]))

    async with open_session(Seeing) as client:
        await trio.sleep(0.105)
        now = trio.current_time()
        await client.push("camera", np.full(SIZE, 9, np.uint8))
        await client.take()
        assert client.server.model.seen == [(now, 9)]


async def test_each_change_of_reason_is_logged_once(autojump_clock: object, caplog: Any) -> None:
    class NotReady(ApplicationError):
        pass

    caplog.set_level(logging.DEBUG, "reactor_trio.model")
    async with open_session(Pausing) as client:
        await client.take()
        client.server.model.reason = NotReady("one")
        await client.command("set_paused", paused=True)
        await trio.sleep(0.5)
        client.server.model.reason = ApplicationError("two")
        await trio.sleep(0.5)
    lines = [r.getMessage() for r in caplog.records if "refuses a step" in r.getMessage()]
    assert [line.rpartition(": ")[2] for line in lines] == ["one", "two"]
    assert {r.levelno for r in caplog.records if "refuses a step" in r.getMessage()} == {logging.DEBUG}


@pytest.mark.parametrize("raises", [False, True])
async def test_elapsed_is_the_time_of_generate(autojump_clock: object, raises: bool) -> None:
    elapsed: list[float] = []

    class Timed(App):
        def generate(self, input: Any) -> Any:  # noqa: A002
            if raises:
                raise Full
            return picture()

        async def process_output(self, outcome: StepOutcome) -> Any:
            await trio.sleep(0.1)
            elapsed.append(outcome.elapsed)
            return picture()

    async with open_session(Timed, step_cost=0.25) as client:
        await client.take(3)
    assert set(elapsed) == {0.25}


async def test_a_result_that_is_no_output_ends_the_session(autojump_clock: object, caplog: Any) -> None:
    @dataclass
    class Latents:
        values: list[float]

    class Raw(App):
        def generate(self, input: Any) -> Any:  # noqa: A002
            return Latents([1.0])

    async with open_server(Raw) as server, server.connect() as client:
        with pytest.raises(NotImplementedError, match=r"Latents.*return an Output, or define process_output"):
            await client.take()
    assert "Latents" in caplog.text


async def test_process_output_recovers_from_an_error(autojump_clock: object) -> None:
    class Recovering(App):
        def load(self, config_path: Any) -> None:
            self.steps = 0

        def generate(self, input: Any) -> Any:  # noqa: A002
            self.steps += 1
            if self.steps == 2:
                raise Full("memory")
            return picture(self.steps)

        async def process_output(self, outcome: StepOutcome) -> Any:
            if isinstance(outcome.error, Full):
                await self.send(Note(text=str(outcome.error)))
                return None
            return outcome.to_output()

    async with open_session(Recovering) as client:
        frames = await client.take(3)
        message = await client.next_message()
    assert [value_of(frame) for frame in frames] == [1, 3, 4]
    assert (message.type, message.data) == ("note", {"text": "memory"})


class Failing(ReactorApp):
    output: Picture

    def load(self, config_path: Any) -> None:
        self.where = ""
        self.calls: list[str] = []

    @connected
    def join(self) -> None:
        self.calls.append("connected")

    @event(name="fail")
    def fail(self, where: str) -> None:
        self.where = where

    async def process_input(self) -> Any:
        if self.where == "process_input":
            raise ValueError("bad input")
        return None

    def generate(self, input: Any) -> Any:  # noqa: A002
        if self.where == "refusal":
            raise ApplicationError("misplaced")
        if self.where == "generate":
            raise Full("no memory")
        self.calls.append("generate")
        return picture()

    @disconnected
    def leave(self) -> None:
        self.calls.append("disconnected")
        self.where = ""

    @session_ended
    def end(self) -> None:
        self.calls.append("ended")


@pytest.mark.parametrize(
    ("where", "error"), [("generate", Full), ("process_input", ValueError), ("refusal", ApplicationError)]
)
async def test_an_error_ends_this_session_and_the_next_client_is_served(
    autojump_clock: object, where: str, error: type[Exception], caplog: Any
) -> None:
    async with open_server(Failing) as server:
        async with server.connect() as client:
            await client.take()
            server.model.calls.clear()
            with pytest.raises((CommandError, SessionEnded, error)):
                await client.command("fail", where=where)
                await client.take(30)
            await server.wait_left(client)
            assert client.ended == "model_error"
        assert server.model.calls[-2:] == ["disconnected", "ended"]
        async with server.connect() as client:
            await client.take(2)
    assert error.__name__ in caplog.text
    if where == "refusal":
        assert "refuses a step only where process_input() raises it" in caplog.text


async def test_messages_of_process_output_come_before_its_frame(autojump_clock: object) -> None:
    class Telling(App):
        def load(self, config_path: Any) -> None:
            self.step = 0

        async def process_output(self, outcome: StepOutcome) -> Any:
            self.step += 1
            await self.send(Note(text=f"{self.step}a"))
            await self.send(Note(text=f"{self.step}b"))
            return picture(self.step)

    async with open_session(Telling) as client:
        order = wire_order(client, lambda message: message.data["text"])
        await client.take(12)
    for step in range(4, 8):
        places = [order.index(one) for one in (("message", f"{step}a"), ("message", f"{step}b"), ("frame", step - 1))]
        assert places == sorted(places)


async def test_no_handler_runs_inside_a_step(autojump_clock: object) -> None:
    class Ordered(App):
        def load(self, config_path: Any) -> None:
            self.order: list[str] = []

        async def process_input(self) -> Any:
            self.order.append("input")
            await trio.sleep(0.05)
            return self.state

        async def process_output(self, outcome: StepOutcome) -> Any:
            await self.send(Note(text="first"))
            await trio.sleep(0.2)
            await self.send(Note(text="second"))
            self.order.append("output")
            return outcome.to_output()

        @event(name="poke")
        def poke(self) -> None:
            self.order.append("handler")

    async with open_session(Ordered) as client:
        for _ in range(4):
            await client.next_message()  # in the middle of a step
            await client.command("poke")
        order = client.server.model.order
    steps = "".join({"input": "(", "output": ")", "handler": "h"}[one] for one in order)
    assert "(h" not in steps
    assert steps.count("h") == 4


async def test_a_handler_that_awaits_holds_up_steps_and_commands(autojump_clock: object) -> None:
    class Slow(App):
        def load(self, config_path: Any) -> None:
            self.steps: list[float] = []
            self.handled: list[tuple[str, float]] = []

        def generate(self, input: Any) -> Any:  # noqa: A002
            self.steps.append(trio.current_time())
            return picture()

        @event(name="think")
        async def think(self) -> None:
            self.handled.append(("begins", trio.current_time()))
            await asyncio.sleep(1)
            self.handled.append(("ends", trio.current_time()))

        @event(name="quick")
        def quick(self) -> None:
            self.handled.append(("quick", trio.current_time()))

    async with open_session(Slow) as client, trio.open_nursery() as nursery:
        await client.take(2)
        nursery.start_soon(client.command, "think")
        await trio.sleep(0.2)
        await client.command("quick")
        model = client.server.model
        (_, begins), (_, ends), (last, at) = model.handled
    assert ends - begins == pytest.approx(1)
    assert (last, at) == ("quick", ends)
    assert not [at for at in model.steps if begins <= at < ends]


@pytest.mark.parametrize(("cost", "fewest", "most"), [(0, 190, 201), (0.1, 10, 10)])
async def test_steps_without_media_do_not_spin(autojump_clock: object, cost: float, fewest: int, most: int) -> None:
    class Silent(App):
        def load(self, config_path: Any) -> None:
            self.steps: list[float] = []

        async def process_input(self) -> Any:
            self.steps.append(trio.current_time())
            return self.state

        async def process_output(self, outcome: StepOutcome) -> Any:
            return None

    async with open_session(Silent, step_cost=cost) as client:
        await trio.sleep(1)
        steps = client.server.model.steps
        first = steps[0]
        await trio.sleep(1)
        assert fewest <= len([at for at in steps if first + 0.5 <= at < first + 1.5]) <= most


async def test_step_completed_shows_its_output(autojump_clock: object) -> None:
    class Completing(App):
        async def process_output(self, outcome: StepOutcome) -> Any:
            return StepCompleted(output=picture(5), error="late", files={"a.bin": b"1"})

    async with open_session(Completing) as client:
        assert [value_of(frame) for frame in await client.take(3)] == [5, 5, 5]


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
async def test_asyncio_to_thread_works_and_gather_is_refused(autojump_clock: object) -> None:
    class Threaded(App):
        @event(name="work")
        async def work(self) -> int:
            return await asyncio.to_thread(sum, (1, 2))

        @event(name="gather")
        async def gather(self) -> None:
            await asyncio.gather(asyncio.sleep(0))

        async def process_output(self, outcome: StepOutcome) -> Any:
            return await asyncio.to_thread(picture, 3)

    async with open_session(Threaded, debug=True) as client:
        assert value_of((await client.take())[0]) == 3
        assert await client.command("work") == 3
        with pytest.raises(CommandError, match=r"trio\.open_nursery"):
            await client.command("gather")


async def test_several_sessions_alternate_and_share_the_objects_of_load(autojump_clock: object) -> None:
    class Shared(App):
        max_sessions = 2

        def load(self, config_path: Any) -> None:
            self.order: list[int] = []

        def generate(self, input: Any) -> Any:  # noqa: A002
            self.order.append(input.level)
            return picture(input.level)

    async with open_server(Shared, step_cost=1 / 60) as server, server.connect() as one, server.connect() as two:
        await one.command("set_level", level=1)
        await two.command("set_level", level=2)
        await one.take_after()
        await two.take_after()
        server.model.order.clear()
        frames = await one.take(10)
        others = await two.take(10)
        assert {value_of(frame) for frame in frames} == {1}
        assert {value_of(frame) for frame in others} == {2}
        order = server.model.order
    assert abs(order.count(1) - order.count(2)) <= 1
    assert all(a != b for a, b in itertools.pairwise(order))
