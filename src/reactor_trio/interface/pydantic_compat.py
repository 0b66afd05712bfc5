"""Limits in the notation of other libraries: `Annotated` with `InputField`, annotated-types or pydantic's `Field`.

This module imports none of these libraries. It recognises their objects by their attributes.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import typing
from typing import Annotated, Any

import msgspec

from reactor_trio.interface.input_field import MISSING, FieldInfo

_LIMITS = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")


def read_annotation(hint: Any, default: Any) -> tuple[Any, FieldInfo]:
    """Return the plain type and the `FieldInfo` of a parameter annotated `hint` with the default `default`."""
    notes: list[Any] = []
    if typing.get_origin(hint) is Annotated:
        hint, *notes = typing.get_args(hint)
    if default is not MISSING:
        notes.insert(0 if isinstance(default, FieldInfo) else len(notes), default)
    info = FieldInfo()
    limits: dict[str, Any] = {}
    kept: list[Any] = []
    for note in notes:
        if isinstance(note, FieldInfo):
            kept_default = {"default": info.default, "factory": info.factory} if note.default is MISSING else {}
            info = dataclasses.replace(note, **kept_default)
        elif _is_pydantic(note):
            info = dataclasses.replace(info, description=note.description or info.description)
            limits |= _limits_of(*note.metadata)
            if not note.is_required():
                make = functools.partial(note.get_default, call_default_factory=True)
                info = dataclasses.replace(info, default=make(), factory=make if note.default_factory else None)
        elif note is default:
            info = dataclasses.replace(info, default=default, factory=None)
        elif isinstance(note, msgspec.Meta):
            kept.append(note)
        else:
            limits |= _limits_of(note)
    if limits:
        kept.append(msgspec.Meta(**limits))
    for note in kept:
        hint = Annotated[hint, note]
    return hint, info


def is_field(default: object) -> bool:
    """Whether a parameter's default is a description, an `InputField` or pydantic's `Field`, rather than a value."""
    return isinstance(default, FieldInfo) or _is_pydantic(default)


def _is_pydantic(note: object) -> bool:
    fields = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(note, fields.FieldInfo)


def _limits_of(*notes: object) -> dict[str, Any]:
    """Return the limits of annotated-types' `Ge(0)`, `Interval(...)`, `Len(...)` and of pydantic's pattern, else none."""
    return {
        name: value
        for note in notes if not isinstance(note, (type, msgspec.Meta))
        for name in _LIMITS if (value := getattr(note, name, None)) is not None and not callable(value)
    }  # fmt: skip
