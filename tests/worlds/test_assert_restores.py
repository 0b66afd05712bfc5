"""`assert_restores` passes models whose world is whole, and names what the others lack."""

from __future__ import annotations

import inspect
import random
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import trio

from reactor_trio.interface import InputState, Output, ReactorApp, ReactorPipeline, Video, event, session_started
from reactor_trio.interface.saving import Saves, restored, saving
from reactor_trio.testing import assert_restores


class Picture(Output):
    main_video: Video


class Settings(InputState):
    speed: int = 1
    _place: int = 0
    _began: float = 0.0
    _dice: Any = None
    _past: list[int] = field(default_factory=list)


def shade(number: float) -> Picture:
    return Picture(main_video=np.full((4, 4, 3), int(number) % 256, np.uint8))


def line_of(model: type, text: str) -> str:
    """`FILE:LINE` of the line with this text in the class."""
    lines, first = inspect.getsourcelines(model)
    return f"{__name__.rpartition('.')[2]}.py:{first + next(n for n, line in enumerate(lines) if text in line)}"


class Model(ReactorPipeline):
    state: Settings
    output: Picture
    fps = 10
    saves = Saves()


def refused(model: type, **options: Any) -> str:
    with pytest.raises(AssertionError) as error:
        assert_restores(model, **options)
    return str(error.value)


COMMANDS = [(3, "set_speed", {"speed": 4}), (12, "set_speed", {"speed": 3})]


# ---- whole worlds ------------------------------------------------------------------------------------------------------


class Walk(Model):
    def inference(self):
        state = self.state
        name = "a local that is made again"
        while True:
            state._place += state.speed + random.randrange(5) + int(np.random.randint(3))
            frame = shade(state._place)
            yield frame
            assert name


class AsyncWalk(Model):
    async def inference(self):
        while True:
            self.state._place += self.state.speed
            await trio.sleep(0.01)
            yield shade(self.state._place)


class Batched(Model):
    max_sessions = 2

    @session_started
    def begin(self):
        self.state._dice = np.random.default_rng()

    def batch_inference(self, sessions):
        for each in sessions:
            each.state._place += each.state.speed + int(each.state._dice.integers(5))
        return [shade(each.state._place) for each in sessions]


class App(ReactorApp):
    state: Settings
    output: Picture
    fps = 10
    saves = Saves("place")

    def load(self, config_path):
        self.place = 0

    def generate(self, state):
        self.place += state.speed
        return shade(self.place) if self.place % 3 else None


class Hooked(Model):
    @session_started
    def begin(self):
        self.cache = {"sum": 0}

    @saving
    def pack(self):
        return self.cache

    @restored
    def unpack(self, saved, moment):
        assert (moment.why, moment.version) == ("restore", 1)
        self.cache = saved

    def inference(self):
        while True:
            self.cache["sum"] += self.state.speed
            yield shade(self.cache["sum"])


class Chunks(Model):
    def inference(self):
        while True:
            self.state._place += 4
            yield np.stack([np.full((2, 2, 3), self.state._place + n, np.uint8) for n in range(4)])


@pytest.mark.parametrize("model", [Walk, AsyncWalk, Batched, App, Hooked, Chunks])
def test_a_whole_world_goes_on(model):
    state = random.getstate()
    assert_restores(model, commands=COMMANDS, at=(1, 2, 8, 20))
    assert random.getstate() == state, "the test's own random numbers go on"


# ---- what is lost ------------------------------------------------------------------------------------------------------


class Local(Model):
    def inference(self):
        frame_idx, size = 0, 3
        while True:
            frame_idx += size
            yield shade(frame_idx)


class AsyncLocal(Model):
    async def inference(self):
        frame_idx = 0
        while True:
            frame_idx += 1
            yield shade(frame_idx // 3)


def test_a_local_variable_that_is_lost_is_named_with_its_line():
    at = line_of(Local, "frame_idx, size")
    assert refused(Local) == (
        "Local, restored after 1 step in the same session: frame 1 after the restore differs; "
        f"alive at the yield and in no world: frame_idx ({at}); keep it in the state"
    )
    at = line_of(AsyncLocal, "frame_idx = 0")
    assert refused(AsyncLocal, at=[7]) == (
        "AsyncLocal, restored after 7 steps in the same session: frame 1 after the restore differs; "
        f"alive at the yield and in no world: frame_idx ({at}); keep it in the state"
    )


def test_the_first_frame_that_differs_is_counted_over_the_steps():
    assert "frame 2 after the restore differs" in refused(AsyncLocal, at=[1])


class After(Model):
    def inference(self):
        state = self.state
        while True:
            yield shade(state._place)
            state._place += state.speed


class AfterByCall(Model):
    def move(self):
        self.state._past.append(1)

    def inference(self):
        while True:
            for _ in range(2):
                yield shade(len(self.state._past))
            if self.state.speed:
                self.move()


def test_a_change_after_the_yield_is_named_with_its_line():
    assert refused(After) == (
        "After, restored after 1 step in the same session: frame 1 after the restore differs; "
        f"{line_of(After, '+=')} changes the world after the yield: `state._place += state.speed`; change it before the "
        "yield"
    )
    at = line_of(AfterByCall, "    self.move()")
    assert f"{at} changes the world after the yield: `self.move()`; change it" in refused(AfterByCall, at=[2])


class Clock(Model):
    @session_started
    def begin(self):
        self.state._began = trio.current_time()

    async def inference(self):
        while True:
            yield shade((trio.current_time() - self.state._began) * 10)


class MendedClock(Clock):
    @restored
    def move(self, saved, moment):
        self.state._began = trio.current_time() - moment.age


class WallClock(Model):
    @session_started
    def begin(self):
        self.state._began = time.time()

    def inference(self):
        while True:
            yield shade((time.time() - self.state._began) * 1e7)


def test_a_clock_is_named_with_its_attribute():
    assert refused(Clock) == (
        "Clock, restored after 1 step in the same session: frame 1 after the restore differs; "
        "self.state._began is a time of trio.current_time(), which means nothing later; set it in @restored, or count steps"
    )
    assert_restores(MendedClock)
    assert "self.state._began is a time of time.time()" in refused(WallClock)


@dataclass
class Brush:
    dice: Any = None


class Shared(Model):
    def load(self, config):
        self.brush = Brush()

    def inference(self):
        state = self.state
        if state._dice is None:
            self.brush.dice = state._dice = np.random.default_rng(5)
        while True:
            if self.brush.dice is None:
                self.brush.dice = np.random.default_rng(5)
            yield shade(self.brush.dice.integers(256) + state._dice.integers(256))


class BothNamed(Shared):
    saves = Saves("brush.dice")


def test_a_generator_of_random_numbers_that_two_places_share_is_named_with_both():
    assert refused(Shared) == (
        "Shared, restored after 1 step in a fresh session: frame 1 after the restore differs; self.state._dice and "
        "self.brush.dice are one generator of random numbers, and two after the restore; name the second too: "
        "Saves('brush.dice')"
    )
    assert_restores(BothNamed)


class Attribute(Model):
    def load(self, config):
        self.step = config["first"]
        self.constant = np.ones(3)

    @event
    def back(self) -> None:
        self.step = 0

    def inference(self):
        while True:
            self.step += 1
            yield shade(self.step)


class Named(Attribute):
    saves = Saves("step")


def test_an_attribute_that_is_in_no_world_is_named():
    options: dict[str, Any] = {"config": {"first": 3}, "commands": [(5, "back", {})]}
    assert refused(Attribute, **options) == (
        "Attribute, restored after 1 step in the same session: frame 1 after the restore differs; "
        "assigned since load and in no world: self.step; name it: Saves('step')"
    )
    assert_restores(Named, **options)


class Opaque(Model):
    def inference(self):
        self.state._dice = Brush()
        yield shade(1)


def test_a_value_that_cannot_be_saved_is_named():
    assert refused(Opaque) == (
        "Opaque: its world cannot be saved: state._dice: Brush is no value that can be saved: name its parts in "
        "Saves(...), list its class in types=, or write @saving and @restored"
    )


class Bare(ReactorPipeline):
    def inference(self):
        yield shade(1)


def test_a_model_without_saves_is_refused():
    assert refused(Bare) == "Bare cannot save its worlds: its class needs `saves = Saves()`"


def test_a_moment_that_is_no_step_is_refused():
    with pytest.raises(ValueError, match="at=40: the session makes 40 steps; give numbers from 1 to 39"):
        assert_restores(Walk, at=[40])


HIDDEN = [0]


class Global(Model):
    def inference(self):
        while True:
            HIDDEN[0] += 1
            yield shade(HIDDEN[0])


def test_where_nothing_is_found_the_message_says_where_to_look():
    assert refused(Global).endswith("nothing was found that is lost; look for global variables, files and threads")
