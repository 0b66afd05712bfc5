"""Fills this package's templates, which are YAML and HAProxy files: `$name` and `${name}` are values, `$$` is a dollar."""

from __future__ import annotations

import json
import re
from importlib import resources

__all__ = ["fill", "quoted"]

#: Either a name alone on its line, whose value may have several lines, or a name within a line.
_NAME = re.compile(r"^(?P<indent> +)\$(?P<block>\w+)$|\$(?:\{(?P<braced>\w+)\}|(?P<plain>\w+)|(?P<dollar>\$))", re.MULTILINE)


def fill(template: str, **values: object) -> str:
    """Return the template with its values. Every line of a value gets the indentation of its name.

    Raises KeyError for a name without a value.
    """

    def value(place: re.Match[str]) -> str:
        if place["dollar"]:
            return "$"
        if (block := place["block"]) is None:
            return str(values[place["braced"] or place["plain"]])
        lines = str(values[block]).rstrip("\n").split("\n")
        return "\n".join(place["indent"] + line if line else "" for line in lines)

    text = resources.files("reactor_trio").joinpath("deployment", "templates", template).read_text(encoding="utf-8")
    return _NAME.sub(value, text)


def quoted(text: str) -> str:
    """Return any text as a YAML scalar; every JSON string is one."""
    return json.dumps(text, ensure_ascii=False)
