"""Fills this package's templates, which are YAML and HAProxy files: `$name` and `${name}` are values, `$$` is a dollar."""

from __future__ import annotations

import json
from importlib import resources
from string import Template
from textwrap import indent

import msgspec

from reactor_trio.deployment.choices import Choices


def fill(template: str, choices: Choices, **values: object) -> str:
    """Return the template with `values`, and for other names the fields of `choices`.

    Every line of a value gets the indentation of the template's line. Raises KeyError for an unknown name.
    """
    text = resources.files("reactor_trio").joinpath("deployment", "templates", template).read_text(encoding="utf-8")
    known = msgspec.structs.asdict(choices) | values
    filled = []
    for line in text.splitlines():
        content = line.lstrip(" ")
        filled.append(indent(Template(content).substitute(known).rstrip("\n"), " " * (len(line) - len(content))))
    return "\n".join(filled) + "\n"


def quoted(text: str) -> str:
    """Return any text as a YAML scalar; every JSON string is one."""
    return json.dumps(text, ensure_ascii=False)
