"""Helpers for base classes whose subclasses become dataclasses, with or without the author's `@dataclass`."""

from __future__ import annotations

import dataclasses
import sys
import typing
from types import FrameType
from typing import Any

from reactor_trio.errors import DeclarationError


def make_dataclass(cls: type) -> None:
    """Turn `cls` into a dataclass in place, so that a later `@dataclass` by the author changes nothing.

    `@dataclass` removes a class attribute that holds a `field(default_factory=...)`. This function puts it back, because a
    second `@dataclass` would otherwise see a field without a default.
    """
    own = cls.__dict__.get("__annotations__", {})
    given = {name: cls.__dict__[name] for name in own if isinstance(cls.__dict__.get(name), dataclasses.Field)}
    try:
        dataclasses.dataclass(cls)
    except TypeError as error:
        if "follows default argument" not in str(error):
            raise DeclarationError(f"{cls.__qualname__}: {error}") from None
        dataclasses.dataclass(kw_only=True)(cls)
    except ValueError as error:
        raise DeclarationError(f"{cls.__qualname__}: {error}") from None
    for name, field in given.items():
        setattr(cls, name, field)


def resolved_hints(cls: type, frame: FrameType | None) -> dict[str, Any]:
    """Return the annotations of `cls` and its bases as types, also under `from __future__ import annotations`.

    `frame` is the stack frame of the class statement. It knows names that are local to a function.
    """
    scopes: dict[str, Any] = {}
    while frame is not None:
        scopes = {**frame.f_locals, **scopes}
        frame = frame.f_back if "__qualname__" in frame.f_locals else None  # a class body sees the names of its function
    try:
        return typing.get_type_hints(cls, localns=scopes or None, include_extras=True)
    except (NameError, TypeError, SyntaxError) as error:
        anchor = None if isinstance(cls, type) else "events"
        raise DeclarationError(f"{cls.__qualname__}: an annotation cannot be understood: {error}", anchor=anchor) from None


def class_statement_frame() -> FrameType | None:
    """Return the nearest calling stack frame outside this package: the frame of the author's class statement."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("reactor_trio.interface"):
        frame = frame.f_back
    return frame
