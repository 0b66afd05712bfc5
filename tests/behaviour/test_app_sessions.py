"""The session of a `ReactorApp`: its hooks, its state, what one leaves for the next, and an app with a loop of its own."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import trio

from reactor_trio.errors import CommandError, ModelFailed, SessionEnded
from reactor_trio.interface import (
    ApplicationError,
    ClientInfo,
    DistributedPipeline,
    InputState,
    ModelMessage,
    ReactorApp,
    ReactorModel,
    ReactorPipeline,
    StepOutcome,
    connected,
    disconnected,
    event,
    session_ended,
    session_started,
)
from reactor_trio.testing import open_server, open_session
from tests.behaviour.test_app_steps import App, Camera, Levels, Picture, picture, value_of


class Recording:
    """Hooks of all four kinds that write down what holds when they run."""

    def load(self, config_path: Any) -> None:
        self.told: list[tuple[str, bool, Any]] = []

    def _note(self, what: str) -> None:
        state = getattr(self, "state", None)
        self.told.append((what, self.connected.is_set(), None if state is None else state.level))

    @session_started
    def begin(self) -> None:
        self._note("started")

    @connected
    async def join(self, client) -> None:
        assert isinstance(client, ClientInfo)
        assert client.system is False
        self._note("connected")

    @disconnected
    def leave(self) -> None:
        self._note("disconnected")

    @session_ended
    def end(self) -> None:
        self._note("ended")
        if getattr(self, "state", None) is not None:
            self.state.level = 99


async def test_hooks_run_in_order_and_see_the_session(autojump_clock: object) -> None:
    class Hooked(Recording, App):
        pass

    async with open_server(Hooked) as server:
        for _ in range(2):
            server.model.told.clear()
            async with server.connect() as client:
                await client.take()
                await client.command("set_level", level=4)
            await server.wait_left(client)
            assert server.model.told == [
                ("started", False, 0), ("connected", True, 0), ("disconnected", False, 4), ("ended", False, 4)
            ]
            assert server.model.state is None


async def test_the_hooks_of_a_session_are_for_every_kind_of_model(autojump_clock: object) -> None:
    class Pipeline(Recording, ReactorPipeline):
        output: Picture

        def inference(self) -> Any:
            try:
                while True:
                    yield picture()
            finally:
                self._note("closed")

    class Loop(Recording, ReactorModel):
        output: Picture

        async def run(self) -> None:
            while True:
                await self.connected.wait()
                await self.emit(picture())

    for model in (Pipeline, Loop):
        async with open_server(model) as server:
            async with server.connect() as client:
                await client.take()
            await server.wait_left(client)
            told = [what for what, _, _ in server.model.told]
        assert [what for what in told if what != "closed"] == ["started", "connected", "disconnected", "ended"]
        assert told[-1] == "ended"


async def test_a_step_that_has_begun_ends_before_the_hooks(autojump_clock: object) -> None:
    class Long(Recording, App):
        async def process_output(self, outcome: StepOutcome) -> Any:
            await trio.sleep(0.5)
            self._note("output")
            return picture(self.state.level)

    async with open_server(Long, step_cost=2) as server:
        async with server.connect() as client:
            await client.command("set_level", level=5)
            await trio.sleep(1)
            server.model.told.clear()
        await server.wait_left(client)
        told = [what for what, _, _ in server.model.told]
        assert told == ["output", "disconnected", "ended"]
        async with server.connect() as client:
            assert value_of((await client.take())[0]) == 0


PLACES: dict[str, dict[str, Any]] = {"inline": {}, "thread": {"thread": True}, "process": {"isolation": "process"}}


@pytest.mark.parametrize(("where", "ranks"), [*((where, 1) for where in PLACES.values()), ({}, 2)], ids=[*PLACES, "ranks"])
@pytest.mark.parametrize("waits_in", ["step", "handler"])
async def test_what_waits_for_an_input_frame_ends_before_the_hooks(
    autojump_clock: object, caplog: Any, waits_in: str, where: dict[str, Any], ranks: int
) -> None:
    """No client sends that frame any more: it ends at once, by BufferClosed."""

    class Waits(Recording, App, *([DistributedPipeline] if ranks > 1 else [])):  # type: ignore[misc]
        media: Camera

        async def _read(self) -> None:
            self._note("waits")
            try:
                await self.media.camera.read()
            finally:
                self._note("waited")

        @event
        async def look(self) -> None:
            await self._read()

        async def process_input(self) -> Any:
            if waits_in == "step":
                await self._read()
            return self.state

    Waits.ranks = ranks
    async with open_server(Waits, **where) as server:
        models = [rank.loaded for rank in server.runtime.placement.process.ranks] if ranks > 1 else [server.model]
        assert len(models) == ranks
        for _ in range(2):
            for model in models:
                model.told.clear()
            async with trio.open_nursery() as nursery, server.connect() as client:
                if waits_in == "handler":
                    nursery.start_soon(hears_no_answer, client, "look")
                await trio.sleep(1)
                left = trio.current_time()
                await client.close()
            await server.wait_left(client)
            assert trio.current_time() - left < 0.5
            for model in models:
                told = [what for what, _, _ in model.told]
                assert told == ["started", "connected", "waits", "waited", "disconnected", "ended"]
    assert "took over" not in caplog.text


@pytest.mark.parametrize("in_a_step", [False, True])
async def test_the_hooks_of_the_end_find_the_input_closed_wherever_the_step_was(
    autojump_clock: object, in_a_step: bool
) -> None:
    found: list[bool] = []

    class Looks(App):
        media: Camera

        async def process_input(self) -> Any:
            await trio.sleep(1)
            raise ApplicationError

        @disconnected
        def gone(self) -> None:
            found.append(self.media.camera.closed)

    async with open_server(Looks) as server:
        async with server.connect() as client:
            await trio.sleep(1.5 if in_a_step else 1.01)
        await server.wait_left(client)
    assert found == [True]


async def hears_no_answer(client: Any, command: str) -> None:
    with pytest.raises(SessionEnded):
        await client.command(command)


@pytest.mark.parametrize("where", PLACES.values(), ids=PLACES)
async def test_a_step_that_outlasts_the_end_is_cancelled_after_the_hook(
    autojump_clock: object, caplog: Any, where: dict[str, Any]
) -> None:
    class Endless(Recording, App):
        async def process_input(self) -> Any:
            try:
                await trio.sleep_forever()
            finally:
                self._note("cancelled")

    late = (
        "the step, handler or hook that ran when the client left took over 5 s; the end of the session goes on, and "
        "cancels it after @disconnected"
    )
    async with open_server(Endless, **where) as server:
        with pytest.raises(trio.TooSlowError, match=f"^{late}$"):
            async with server.connect():
                await trio.sleep(1)
            await server.sessions[0].ended.wait()
            server.check_failures()
        assert [what for what, _, _ in server.model.told] == ["started", "connected", "disconnected", "cancelled", "ended"]
        assert f"session {server.sessions[0].id}: {late}" in caplog.messages


@pytest.mark.parametrize("hook", ["session_started", "connected"])
async def test_a_hook_that_raises_ends_the_session(autojump_clock: object, hook: str, caplog: Any) -> None:
    class Broken(App):
        def load(self, config_path: Any) -> None:
            self.broken = True

        @session_started
        def begin(self) -> None:
            if self.broken and hook == "session_started":
                raise ValueError("no engine")

        @connected
        def join(self) -> None:
            if self.broken and hook == "connected":
                raise ValueError("no engine")

        @session_ended
        def end(self) -> None:
            self.broken = False

    caplog.set_level(logging.INFO, "reactor_trio.model")
    async with open_server(Broken) as server:
        async with server.connect() as client:
            with pytest.raises((ValueError, SessionEnded)):
                await client.take()
            assert client.ended == "model_error"
        async with server.connect() as client:
            await client.take()
    assert f"@{hook} raised" in caplog.text


async def test_the_state_is_new_in_each_session_and_the_models_own_attributes_stay(autojump_clock: object) -> None:
    class Own(App):
        def load(self, config_path: Any) -> None:
            self.engine = 0

        @session_started
        def begin(self) -> None:
            self.levels_seen = self.state.level
            self.state.level = 50
            self.engine += 1

        def generate(self, input: Any) -> Any:  # noqa: A002
            return picture(input.level + self.levels_seen + self.engine)

    async with open_server(Own) as server:
        for expected in (51, 52):
            async with server.connect() as client:
                assert value_of((await client.take())[0]) == expected


async def test_a_handler_may_assign_the_state(autojump_clock: object) -> None:
    class Assigning(App):
        @event(name="again")
        def again(self) -> None:
            self.state = Levels(level=30)

    async with open_session(Assigning) as client:
        await client.command("again")
        assert value_of(await client.take_after()) == 30
        await client.command("set_level", level=31)
        assert value_of(await client.take_after()) == 31
        await trio.sleep(0.1)
        assert client.state["level"] == 31


async def test_a_handwritten_handler_wins_over_the_generated_one(autojump_clock: object) -> None:
    class Prompted(InputState):
        prompt: str = "a"

    class Own(ReactorApp):
        output: Picture
        state: Prompted

        @event(name="set_prompt")
        def set_prompt(self, prompt: str) -> None:
            if prompt != "refused":
                self.state.prompt = prompt.upper()

        def generate(self, input: Any) -> Any:  # noqa: A002
            return picture(ord(input.prompt[0]))

    async with open_session(Own) as client:
        await client.command("set_prompt", prompt="b")
        assert value_of(await client.take_after()) == ord("B")
        await client.command("set_prompt", prompt="refused")
        assert value_of(await client.take_after()) == ord("B")


@pytest.mark.parametrize("debug", [False, True])
async def test_replies_and_errors_of_handlers(autojump_clock: object, debug: bool) -> None:
    class Accepted(ModelMessage):
        width: int

    class Replying(App):
        @event(name="image")
        def image(self, width: int) -> Accepted:
            return Accepted(width=width)

        @event(name="refuse")
        def refuse(self) -> None:
            raise CommandError("c", "m")

        @event(name="crash")
        def crash(self) -> None:
            raise RuntimeError("secret")

    async with open_session(Replying, debug=debug) as client:
        assert await client.command("image", width=3) == {"width": 3}
        with pytest.raises(CommandError) as refused:
            await client.command("refuse")
        assert (refused.value.code, refused.value.message) == ("c", "m")
        with pytest.raises(CommandError) as crashed:
            await client.command("crash")
        assert crashed.value.code == "internal_error"
        assert ("secret" in str(crashed.value)) is debug
        replies = {command["name"]: command["reply"] for command in client.schema["commands"]}
    assert replies["image"]["properties"] == {"width": {"type": "integer"}}
    assert replies["refuse"] == replies["set_level"] == {"type": "null"}


async def test_an_app_with_its_own_run_keeps_state_commands_and_hooks(autojump_clock: object) -> None:
    class Looping(Recording, App):
        async def run(self) -> None:
            while True:
                await self.connected.wait()
                await self.emit(picture(self.state.level))

        async def process_input(self) -> Any:
            raise AssertionError("the three methods are not called")

    async with open_server(Looping) as server:
        async with server.connect() as client:
            await client.command("set_level", level=8)
            assert value_of(await client.take_after()) == 8
        await server.wait_left(client)
        assert [what for what, _, _ in server.model.told] == ["started", "connected", "disconnected", "ended"]
        assert server.model.told[-1][2] == 8


async def test_a_run_that_returns_ends_the_model(autojump_clock: object) -> None:
    class Ending(App):
        async def run(self) -> None:
            await trio.sleep(1)

    with pytest.raises(ModelFailed, match=r"run\(\) returned"):
        async with open_server(Ending):
            await trio.sleep(2)


def test_the_methods_work_on_an_instance_that_is_not_served() -> None:
    import asyncio

    class Sent(ModelMessage):
        text: str

    class ByHand(App):
        @session_started
        async def begin(self) -> None:
            await self.send(Sent(text="begun"))

        @event(name="cut")
        def cut(self) -> None:
            self.output.flush()

        async def process_output(self, outcome: StepOutcome) -> Any:
            self.output.flush(hold=True)
            await self.send(Sent(text="made"))
            return outcome.to_output()

    async def test() -> None:
        app = ByHand()
        app.output.fps = 12
        assert app.output.fps == 12
        assert not app.connected.is_set()
        await app.begin()  # nothing is there to hear it
        app.state = Levels(level=6)
        sent: list[Any] = []

        async def keep(message: Any) -> None:
            sent.append(message)

        app.send = keep  # type: ignore[method-assign]
        flushed: list[bool] = []

        class Keeping:
            def flush(self, *, hold: bool = False) -> None:
                flushed.append(hold)

        app.output = Keeping()  # type: ignore[assignment]
        await app.begin()
        app.cut()
        given = await app.process_input()
        result = app.generate(given)
        out = await app.process_output(StepOutcome(result=result, elapsed=0.1))
        assert isinstance(out, Picture)
        assert np.all(out.picture == 6)
        assert [message.text for message in sent] == ["begun", "made"]
        assert flushed == [False, True]

    asyncio.run(test())
    trio.run(test)
