"""`assert_restores` of models that emit by themselves: `run()` and `start_session()`."""

from __future__ import annotations

import re
import time
from typing import Any

import pytest
import trio

from reactor_trio.interface import Moment, ReactorModel, Saves, VideoModel, command, event, get_ctx, restored, saving
from reactor_trio.testing import assert_restores
from tests.support.behaviour_models import picture
from tests.support.models import Note, Picture

FOLLOW = [(0, "follow", {"plan": [3, 1, 4, 1, 5]}), (12, "follow", {"plan": [9, 2, 6]})]


class Loop(ReactorModel):
    output: Picture
    saves = Saves("number", "plan")
    fps = 10

    def load(self, config: dict[str, Any]) -> None:
        self.number, self.plan = 0, [0]

    @event
    async def follow(self, plan: list[int]) -> None:
        self.plan = plan
        await self.send(Note(text="as you wish"))

    def advance(self) -> Any:
        self.number = (self.number * 7 + self.plan[0] + 1) % 251
        self.plan = [*self.plan[1:], self.plan[0]]
        return picture(self.number)

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                await trio.sleep(0.01)
                await self.emit(Picture(main_video=self.advance()))


class Late(Loop):
    """Changes its world after the emit, which a loop may."""

    async def run(self) -> None:
        await self.connected.wait()
        while True:
            await self.emit(Picture(main_video=picture(self.number)))
            self.advance()


class Hooked(Loop):
    def load(self, config: dict[str, Any]) -> None:
        super().load(config)
        self.cache = 0

    @saving
    async def pack(self) -> dict[str, Any]:
        await trio.lowlevel.checkpoint()
        return {"cache": self.cache}

    @restored
    async def unpack(self, saved: dict[str, Any], moment: Moment) -> None:
        self.cache = saved["cache"]
        await self.send(Note(text=f"back at {moment.step}"))

    def advance(self) -> Any:
        self.cache += 1
        super().advance()
        return picture((self.number + self.cache) % 251)


class Blocks(VideoModel):
    saves = Saves("number", "plan")

    def __init__(self, config: dict[str, Any]) -> None:
        self.number, self.plan = 0, [0]

    @command("follow")
    def follow(self, plan: list[int]) -> None:
        self.plan = plan
        get_ctx().send({"text": "as you wish"})

    def start_session(self) -> None:
        ctx = get_ctx()
        while not ctx.should_stop():
            time.sleep(0.001)
            ctx.emit_block(Loop.advance(self))  # type: ignore[arg-type]


class LateBlocks(Blocks):
    def start_session(self) -> None:
        while not get_ctx().should_stop():
            get_ctx().emit_block(picture(self.number))
            Loop.advance(self)  # type: ignore[arg-type]


@pytest.mark.parametrize("model", [Loop, Late, Hooked, Blocks, LateBlocks])
def test_a_model_that_names_its_world_passes(model):
    assert_restores(model, commands=FOLLOW, at=(1, 8, 20))


class Forgets(Loop):
    saves = Saves("number")


class ForgetsBlocks(Blocks):
    saves = Saves("number")


@pytest.mark.parametrize("model", [Forgets, ForgetsBlocks])
def test_an_attribute_that_no_path_names_is_found(model):
    with pytest.raises(AssertionError, match=re.escape("assigned since load and in no world: self.plan; name it")):
        assert_restores(model, commands=FOLLOW)


class Counts(Loop):
    async def run(self) -> None:
        number = 0
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                number += 1
                await self.emit(Picture(main_video=picture(number)))


class CountsBlocks(Blocks):
    def start_session(self) -> None:
        ctx, number = get_ctx(), 0
        while not ctx.should_stop():
            number += 1
            ctx.emit_block(picture(number))


@pytest.mark.parametrize("model", [Counts, CountsBlocks])
def test_a_local_variable_is_found(model):
    named = r"alive at the emit and in no world: number \(test_assert_restores_emitting.py:\d+\); keep it in an attribute"
    with pytest.raises(AssertionError, match=named):
        assert_restores(model)


class Shy(Loop):
    async def run(self) -> None:
        await self.connected.wait()
        await trio.sleep(1000)


class Raises(Blocks):
    def start_session(self) -> None:
        get_ctx().emit_block(picture(1))
        raise ValueError("the author's mistake")


def test_a_loop_that_emits_nothing_and_one_that_raises_say_so():
    with pytest.raises(AssertionError, match="Shy has emitted nothing for 60 s"):
        assert_restores(Shy)
    with pytest.raises(ValueError, match="the author's mistake"):
        assert_restores(Raises)
