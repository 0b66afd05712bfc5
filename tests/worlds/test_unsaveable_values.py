"""A value that cannot be saved costs the worlds and nothing else (row 7 of worlds.md), in each kind of model."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio

from reactor_trio.configuration.settings import Settings as ServerSettings
from reactor_trio.errors import CommandError
from reactor_trio.interface import InputState, ReactorApp, ReactorModel, ReactorPipeline, Saves, VideoModel, event, get_ctx
from reactor_trio.interface import command as blocking_command
from reactor_trio.testing import open_server
from tests.support.behaviour_models import picture
from tests.support.models import Picture


class Thing:
    """Shows a number that a command moves; it has a value that is not in the list."""

    number = 0
    fps = 10
    thing: Any = None

    def further(self) -> Any:
        self.thing = [1, {"deep": lambda: None}]
        self.number += 1
        return picture(self.number % 256)


class Pipeline(Thing, ReactorPipeline):
    output: Picture
    state: InputState

    @event
    def jump(self, to: int) -> None:
        self.number = to

    def inference(self):
        while True:
            yield self.further()


class App(Thing, ReactorApp):
    output: Picture

    @event
    def jump(self, to: int) -> None:
        self.number = to

    def generate(self, input):  # noqa: A002
        return Picture(main_video=self.further())


class Loop(Thing, ReactorModel):
    output: Picture

    @event
    def jump(self, to: int) -> None:
        self.number = to

    async def run(self):
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                await self.emit(Picture(main_video=self.further()))


class Blocks(Thing, VideoModel):
    @blocking_command("jump")
    def jump(self, to: int) -> None:
        self.number = to

    def start_session(self):
        while not get_ctx().should_stop():
            get_ctx().emit_block(self.further())


async def seen(model: Any, way: str, saves: bool) -> list[tuple[int, int, float]]:
    """What a client is shown: number, step and time of each frame, with a command in the middle of them."""
    async with open_server(model, step_cost=0.03, settings=ServerSettings(isolation=way)) as server:
        began = trio.current_time()
        async with server.connect() as client:
            frames = await client.take(10)
            if saves:
                for ask in (lambda: client.worlds.rewind(steps=1), client.worlds.save, client.worlds.fork):
                    with pytest.raises(CommandError, match=r"thing\[1\]") as raised:
                        await ask()
                    assert raised.value.code == "cannot_save"
                assert (await client.worlds.list()).moments == ()
            await trio.sleep_until(began + 20)
            await client.command("jump", to=100)
            frames += await client.take(30)
    return [(int(frame.data[0, 0, 0]), frame.step, round(frame.pts - frames[0].pts, 6)) for frame in frames]


@pytest.mark.parametrize("kind", [Pipeline, App, Loop, Blocks])
async def test_frames_their_rate_and_other_commands_are_as_without_it(autojump_clock, caplog, way, kind):
    plain = await seen(kind, way, saves=False)
    saving = type(f"Saving{kind.__name__}", (kind,), {"saves": Saves("thing"), "__module__": __name__})
    with caplog.at_level(logging.WARNING):
        assert await seen(saving, way, saves=True) == plain
    said = [record.getMessage() for record in caplog.records if "thing" in record.getMessage()]
    assert len(said) == 1
