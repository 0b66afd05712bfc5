"""A command's arguments as values that JSON can carry."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from reactor_trio.errors import CommandError


def json_arguments(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return `arguments` as built-in values; numpy scalars and arrays become Python numbers and lists.

    Raises CommandError for NaN and infinities, which JSON does not have, and TypeError for other values without a JSON form.
    """
    data: dict[str, Any] = msgspec.to_builtins(dict(arguments), str_keys=True, enc_hook=_plain)
    _refuse_non_finite(data, "$")
    return data


def _plain(value: Any) -> Any:
    """Convert a numpy scalar or array, which msgspec does not know."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    raise TypeError(f"an argument of type {type(value).__name__} has no JSON form")


def _refuse_non_finite(value: Any, path: str) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise CommandError("invalid_command", f"Expected a finite number, got {value} - at {path}")
    if isinstance(value, dict):
        for key, item in value.items():
            _refuse_non_finite(item, f"{path}.{key}")
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            _refuse_non_finite(item, f"{path}[{index}]")
