"""Limits of an argument as other libraries write them: `Annotated` with `InputField`, annotated-types or pydantic's `Field`.

None of these libraries is imported here: an object of theirs is recognised by what it has.
"""

from __future__ import annotations

import dataclasses
import sys
import typing
from typing import Annotated, Any

import msgspec

from reactor_trio.interface.arguments import MISSING, FieldInfo

_LIMITS = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length", "pattern")


def described(hint: Any, default: Any) -> tuple[Any, FieldInfo]:
    """The plain type and what is said of it, of a parameter annotated `hint` whose default is `default`."""
    notes: list[Any] = []
    if typing.get_origin(hint) is Annotated:
        hint, *notes = typing.get_args(hint)
    info = default if isinstance(default, FieldInfo) else FieldInfo()
    limits: dict[str, Any] = {}
    kept: list[Any] = []
    for note in [*notes, default]:
        if note is not default and isinstance(note, FieldInfo):
            info = dataclasses.replace(note, default=info.default if note.default is MISSING else note.default)
        elif _is_pydantic(note):
            info = dataclasses.replace(info, description=note.description or info.description)
            limits |= _limits_of(*note.metadata)
            if not note.is_required():
                info = dataclasses.replace(info, default=note.get_default(call_default_factory=True))
        elif note is not default and (found := _limits_of(note)):
            limits |= found
        elif note is not default and isinstance(note, msgspec.Meta):
            kept.append(note)
    if not isinstance(default, FieldInfo) and not _is_pydantic(default) and default is not MISSING:
        info = dataclasses.replace(info, default=default)
    if limits:
        kept.append(msgspec.Meta(**limits))
    for note in kept:
        hint = Annotated[hint, note]
    return hint, info


def _is_pydantic(note: object) -> bool:
    fields = sys.modules.get("pydantic.fields")
    return fields is not None and isinstance(note, fields.FieldInfo)


def _limits_of(*notes: object) -> dict[str, Any]:
    """What annotated-types' `Ge(0)`, `Interval(...)`, `Len(...)` and pydantic's pattern say; empty for anything else."""
    found: dict[str, Any] = {}
    for note in notes:
        if isinstance(note, (type, msgspec.Meta)):
            continue
        for name in _LIMITS:
            value = getattr(note, name, None)
            if value is not None and not callable(value):
                found[name] = value
    return found
