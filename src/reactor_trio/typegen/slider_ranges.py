"""The ranges of a model's settings, as a slider (`<input type="range">`) takes them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

_PREFIX = "set_"


class SliderRange(NamedTuple):
    """What a slider of a setting needs; `step` is None where any number between the two fits."""

    minimum: float
    maximum: float
    step: float | None


def slider_ranges(commands: Iterable[Mapping[str, Any]]) -> dict[str, SliderRange]:
    """Return the range of each setting, by its field, that is a number with a least and a greatest value."""
    found: dict[str, SliderRange] = {}
    for command in commands:
        name, schema = command["name"], command["schema"]
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        if not name.startswith(_PREFIX) or not isinstance(properties, Mapping) or len(properties) != 1:
            continue
        ((field, value),) = properties.items()
        if (span := _range(value)) is not None:
            found[field] = span
    return found


def _range(schema: object) -> SliderRange | None:
    if not isinstance(schema, Mapping):
        return None
    members = schema.get("anyOf")
    if isinstance(members, list):  # a number or null
        others = [member for member in members if isinstance(member, Mapping) and member.get("type") != "null"]
        return _range(others[0]) if len(others) == 1 and "anyOf" not in others[0] else None
    kind = schema.get("type")
    if kind not in ("integer", "number") or "enum" in schema:
        return None
    low, high, step = (_number(schema.get(key)) for key in ("minimum", "maximum", "multipleOf"))
    if kind == "integer":  # the next whole number is inside an end that is excluded
        low = _beside(low, schema.get("exclusiveMinimum"), 1)
        high = _beside(high, schema.get("exclusiveMaximum"), -1)
        step = 1 if step is None else step
    return None if low is None or high is None or not low < high else SliderRange(low, high, step)


def _beside(end: float | None, excluded: object, step: int) -> float | None:
    number = _number(excluded)
    return end if end is not None or number is None else number + step


def _number(value: object) -> float | None:
    """Return a finite number, whole ones as integers; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return int(value) if float(value).is_integer() and abs(value) < 2**53 else value
