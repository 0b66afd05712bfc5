"""A model that is nothing but its world, and what tests do with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from reactor_trio.interface import InputState, ReactorPipeline
from reactor_trio.interface.saving import Saves
from reactor_trio.worlds.buffers import Copies
from reactor_trio.worlds.capture import capture
from reactor_trio.worlds.nodes import World
from reactor_trio.worlds.put import prepare


class Kept(InputState):
    speed: float = 1.0
    _value: Any = None
    _more: dict[str, Any] = field(default_factory=dict)


@dataclass
class Thing:
    """What `load` made, of which a world has a part."""

    part: Any = None


def model_of(*paths: str, **options: Any) -> ReactorPipeline:
    """Make a model whose `Saves` has these arguments; `thing` is what `load` has made."""

    class Keeper(ReactorPipeline):
        state: Kept
        saves = Saves(*paths, **options)

    model = Keeper()
    model.thing = Thing()
    return model


def captured(model: ReactorPipeline, copies: Copies | None = None, *, alone: bool = False, **more: Any) -> World:
    return capture(model, copies or Copies(), **{"step": 3, "steps": 2, "age": 0.1} | more, alone=alone)


def put(model: ReactorPipeline, world: World, *, alone: bool = False) -> None:
    prepare(model, world, alone=alone).assign()


def back(value: Any, **options: Any) -> Any:
    """What a value is after a capture and a put into another session."""
    first = model_of(**options)
    first.state._value = value
    second = type(first)()
    put(second, captured(first))
    return second.state._value
