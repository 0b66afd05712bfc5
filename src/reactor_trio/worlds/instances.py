"""Instances of the author's classes: their attributes out and in. No code of the author runs: no `__init__`, no property."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import msgspec

from reactor_trio.interface.saving import is_named_tuple


@functools.cache
def slots_of(cls: type) -> tuple[str, ...]:
    """Return the names of a class's slots, as attributes have them."""
    found: list[str] = []
    for base in reversed(cls.__mro__):
        given = vars(base).get("__slots__", ())
        for name in (given,) if isinstance(given, str) else tuple(given):
            if name in ("__dict__", "__weakref__"):
                continue
            hidden = name.startswith("__") and not name.endswith("__")
            found.append(f"_{base.__name__.lstrip('_')}{name}" if hidden else name)
    return tuple(found)


def attributes_of(value: Any) -> tuple[list[str], list[Any]]:
    """Return the names and values of an instance's attributes, in their order."""
    cls = type(value)
    if is_named_tuple(cls):
        return list(cls._fields), list(value)
    names = list(getattr(cls, "__struct_fields__", None) or slots_of(cls))  # type: ignore[arg-type]
    found = [(name, getattr(value, name)) for name in names if _is_set(value, name)]
    found += getattr(value, "__dict__", {}).items()
    return [name for name, _ in found], [each for _, each in found]


def _is_set(value: Any, name: str) -> bool:
    try:
        object.__getattribute__(value, name)
    except AttributeError:  # a slot that holds nothing yet
        return False
    return True


def empty(cls: type, names: Sequence[str]) -> Any:
    """Make an instance whose attributes are to be filled. Not for a `NamedTuple`."""
    if issubclass(cls, msgspec.Struct):
        return cls(**dict.fromkeys(names))
    return object.__new__(cls)


def fill(instance: Any, names: Sequence[str], values: Sequence[Any]) -> None:
    """Give an instance its attributes. Raises AttributeError if its class has no place for one."""
    cls = type(instance)
    if isinstance(instance, msgspec.Struct):
        for name, value in zip(names, values, strict=True):
            msgspec.structs.force_setattr(instance, name, value)
        return
    slots = slots_of(cls)  # type: ignore[arg-type]
    for name, value in zip(names, values, strict=True):
        if name in slots:
            object.__setattr__(instance, name, value)
        elif hasattr(instance, "__dict__"):
            instance.__dict__[name] = value
        else:
            raise AttributeError(f"{cls.__qualname__} has no attribute {name}")
