"""Templates of this package: YAML and HAProxy's language, `$name` or `${name}` for what varies, `$$` for a dollar."""

from __future__ import annotations

import json
import re
from importlib import resources

__all__ = ["fill", "quoted"]

#: a name that has a line to itself, whose value may have many, or one within a line
_NAME = re.compile(r"^(?P<indent> +)\$(?P<block>\w+)$|\$(?:\{(?P<braced>\w+)\}|(?P<plain>\w+)|(?P<dollar>\$))", re.MULTILINE)


def fill(template: str, **values: object) -> str:
    """The template with its values in place; one of several lines is indented as the place where it stands.

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
    """A text as a YAML scalar, whatever stands in it: every JSON string is one."""
    return json.dumps(text, ensure_ascii=False)
