"""Events and hooks that the model's own code calls: an omitted argument gets the default of its `InputField`."""

from __future__ import annotations

import functools
import inspect

import numpy as np
import pydantic
import pytest
import trio

from reactor_trio.errors import DeclarationError
from reactor_trio.interface import (
    InputField,
    InputState,
    Output,
    ReactorPipeline,
    Video,
    VideoModel,
    command,
    connected,
    disconnected,
    event,
)
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.testing import open_session


def noted(function):
    """A decorator that the author wrote."""

    @functools.wraps(function)
    def call(*args, **kwargs):
        return function(*args, **kwargs)

    return call


class Base(ReactorPipeline):
    @event
    def drop(self, x: float = InputField(ge=0), y: float = InputField(default=0.5), size: float = InputField(default=0.03)):
        return x, y, size

    @event(name="later")
    async def drop_later(self, x: float, radius: float = InputField(default=0.03)):
        await trio.lowlevel.checkpoint()
        return x, radius

    @event
    def collect(self, item: int, items: list[int] = InputField(default=[])):  # noqa: B008 - authors write it
        items.append(item)
        return items

    @event
    @noted
    def inner_decorator(self, x: int = InputField(default=3)):
        return x

    @noted
    @event
    def outer_decorator(self, x: int = InputField(default=4)):
        return x

    @event
    def keywords(self, *, x: int = InputField(default=5), y: int = 6):
        return x, y

    @connected
    def come(self, size: int = InputField(default=7)):
        self.size = size

    @disconnected
    async def leave(self, size: int = InputField(default=8)):
        await trio.lowlevel.checkpoint()
        self.left = size

    def inference(self):
        yield None


class Derived(Base):
    @event
    def drop(self, x: float = InputField(default=0.25), y: float = 0.75):
        return super().drop(x, y)

    @event(name="later")
    async def drop_later(self, radius: float = InputField(default=0.5)):
        return await super().drop_later(1.0, radius)


class Blocking(VideoModel):
    @command
    def turn(self, angle: float = InputField(default=90.0), times: int = pydantic.Field(default=2, ge=1)):
        return angle, times


def test_an_omitted_argument_gets_its_default():
    assert Base().drop(0.1) == (0.1, 0.5, 0.03)
    assert Base().drop(0.1, size=0.2) == (0.1, 0.5, 0.2)
    assert Base().drop(0.1, 0.2, 0.3) == (0.1, 0.2, 0.3)
    assert Base().keywords() == (5, 6)


def test_a_decorator_above_or_below_makes_no_difference():
    assert Base().inner_decorator() == 3
    assert Base().outer_decorator() == 4


def test_a_subclass_and_the_base_method_that_it_calls_have_their_own_defaults():
    assert Derived().drop() == (0.25, 0.75, 0.03)
    assert Derived().drop_later.__name__ == "drop_later"


async def test_an_async_event_stays_a_coroutine_function():
    assert inspect.iscoroutinefunction(Base.drop_later)
    assert await Base().drop_later(0.1) == (0.1, 0.03)
    assert await Derived().drop_later() == (1.0, 0.5)


def test_each_call_gets_a_new_copy_of_a_mutable_default():
    model = Base()
    assert (model.collect(1), model.collect(2)) == ([1], [2])


def test_a_command_of_a_video_model_takes_input_field_and_pydantic_field():
    assert Blocking().turn() == (90.0, 2)
    assert Blocking().turn(times=3) == (90.0, 3)


async def test_author_code_calls_hooks_directly():
    model = Base()
    model.come()
    await model.leave()
    assert (model.size, model.left) == (7, 8)


def test_a_missing_required_argument_raises_type_error():
    with pytest.raises(TypeError, match=r"Base.drop\(\) missing required argument: 'x'"):
        Base().drop()
    with pytest.raises(TypeError, match=r"drop\(\) got an unexpected keyword argument 'z'"):
        Base().drop(0.1, z=1)
    with pytest.raises(TypeError, match=r"drop\(\) takes from 1 to 4 positional arguments but 5 were given"):
        Base().drop(0.1, 0.2, 0.3, 0.4)


def test_the_schema_still_has_limits_and_defaults():
    schema = declaration_of(Base).commands["drop"].arguments.schema()
    assert schema["required"] == ["x"]
    assert schema["properties"]["x"]["minimum"] == 0
    assert schema["properties"]["size"]["default"] == 0.03


def test_a_handler_that_yields_is_still_refused():
    with pytest.raises(DeclarationError, match="a handler that yields never runs"):

        class _Yields(ReactorPipeline):
            @event
            def drop(self, x: int = InputField(default=1)):
                yield x


async def test_the_runtime_calls_a_hook_with_its_default(autojump_clock):
    class Picture(Output):
        main: Video

    class Look(InputState):
        level: int = 0

    class Model(ReactorPipeline):
        state: Look

        @connected
        def come(self, level: int = InputField(default=7)):
            self.state.level = level

        def inference(self):
            while True:
                yield np.full((2, 2, 3), self.state.level, np.uint8)

    async with open_session(Model) as client:
        (frame,) = await client.take(1)
    assert frame.data[0, 0, 0] == 7
