"""Random commands for a server: values that the JSON Schema of their arguments allows.

Some schemas ask for values that cannot be made up, such as a file, or text that matches a pattern. If such a schema names a
default or examples, one of these is used; an optional argument is left out; otherwise the command is not sent, and
`Repertoire.left_out` has the reason.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from random import Random
from typing import Any

from reactor_trio.loadtest.plan import seeded_random

#: greatest distance of a number from its only bound, or from 0
REACH = 100
#: most items of a list, and of a mapping with free keys, without a bound in the schema
MOST_ITEMS = 3
#: share of the optional arguments that are given
GIVEN = 0.5

_WORDS = ("a", "cat", "in", "the", "rain", "walks", "over", "blue", "hills", "towards", "an", "old", "red", "boat")


class NoValue(Exception):
    """No value can be made up; the message says why."""


class Repertoire:
    """The commands of one server that can be made up.

    Args:
        schema: the answer of `GET /schema`, or `Client.schema`.
        only: names of commands; by default all. Unknown names are left out.
    """

    def __init__(self, schema: Mapping[str, Any], only: Collection[str] = ()) -> None:
        found = {command["name"]: command["schema"] for command in schema.get("commands", ())}
        #: commands that are not sent, and why
        self.left_out: dict[str, str] = {name: "the server has no such command" for name in only if name not in found}
        self._commands: list[tuple[str, Mapping[str, Any]]] = []
        for name, arguments in found.items():
            if only and name not in only:
                continue
            try:
                _arguments(arguments, seeded_random(name))
            except NoValue as error:
                self.left_out[name] = str(error)
            else:
                self._commands.append((name, arguments))

    def choose(self, chance: Random) -> tuple[str, dict[str, Any]] | None:
        """Return a command and its arguments; None if there is no command to send."""
        if not self._commands:
            return None
        name, arguments = chance.choice(self._commands)
        return name, _arguments(arguments, chance)


def _arguments(schema: Mapping[str, Any], chance: Random) -> dict[str, Any]:
    value = _Maker(schema.get("$defs", {}), chance).make(schema, "$")
    assert isinstance(value, dict), "arguments are an object"
    return value


class _Maker:
    def __init__(self, definitions: Mapping[str, Any], chance: Random) -> None:
        self._definitions = definitions
        self._chance = chance
        self._depth = 0

    def make(self, schema: Mapping[str, Any], path: str) -> Any:
        """Return a value that `schema` allows. Raises NoValue."""
        if "$ref" in schema:
            return self._referred(schema, path)
        if "const" in schema:
            return schema["const"]
        if "enum" in schema:
            return self._chance.choice(schema["enum"])
        if (members := schema.get("anyOf") or schema.get("oneOf")) is not None:
            return self._any(members, path)
        kind = schema.get("type", "object" if "properties" in schema else None)
        if isinstance(kind, list):
            return self._any([{**schema, "type": one} for one in kind], path)
        make = self._KINDS.get(kind)
        if schema.get("x-reactor") == "upload" or make is None or "pattern" in schema or "format" in schema:
            return self._named(schema, path)
        return make(self, schema, path)

    def _named(self, schema: Mapping[str, Any], path: str) -> Any:
        """Return a value that the schema names."""
        named = [*schema.get("examples", ()), *([schema["default"]] if "default" in schema else [])]
        if named:
            return self._chance.choice(named)
        if schema.get("x-reactor") == "upload":
            raise NoValue(f"{path} is a file")
        raise NoValue(f"{path} names no value")

    def _referred(self, schema: Mapping[str, Any], path: str) -> Any:
        name = str(schema["$ref"]).rpartition("/")[2]
        if name not in self._definitions or self._depth >= MOST_ITEMS:
            raise NoValue(f"{path} is of a type without an end")
        self._depth += 1
        try:
            return self.make(self._definitions[name], path)
        finally:
            self._depth -= 1

    def _any(self, members: Sequence[Mapping[str, Any]], path: str) -> Any:
        members = list(members)
        self._chance.shuffle(members)
        why: NoValue | None = None
        for member in members:
            try:
                return self.make(member, path)
            except NoValue as error:
                why = error
        raise why or NoValue(f"{path} allows nothing")

    # ---- each type ----------------------------------------------------------------------------------------------------

    def _boolean(self, _schema: Mapping[str, Any], _path: str) -> bool:
        return self._chance.random() < 0.5

    def _null(self, _schema: Mapping[str, Any], _path: str) -> None:
        return None

    def _integer(self, schema: Mapping[str, Any], path: str) -> int:
        step = schema.get("multipleOf", 1)
        low, high = _bounds(schema)
        low_open, high_open = "exclusiveMinimum" in schema, "exclusiveMaximum" in schema
        first, last = math.ceil(low / step), math.floor(high / step)
        first += low_open and first * step == low
        last -= high_open and last * step == high
        if first > last or step != int(step):
            raise NoValue(f"{path} allows no whole number")
        return int(self._chance.randint(first, last) * step)

    def _number(self, schema: Mapping[str, Any], path: str) -> Any:
        if "multipleOf" in schema:
            return self._named(schema, path)
        low, high = _bounds(schema)
        # Stay away from the ends, which may be excluded.
        share = self._chance.uniform(0.01, 0.99)
        return low + (high - low) * share

    def _string(self, schema: Mapping[str, Any], _path: str) -> str:
        least, most = schema.get("minLength", 0), schema.get("maxLength", 64)
        text = " ".join(self._chance.choice(_WORDS) for _ in range(self._chance.randint(1, 8)))
        return text[: max(least, most)].ljust(least, "a") if most else ""

    def _array(self, schema: Mapping[str, Any], path: str) -> list[Any]:
        first = schema.get("prefixItems", [])
        items = schema.get("items", False if first else {})
        least = schema.get("minItems", 0)
        most = schema.get("maxItems", max(least, MOST_ITEMS))
        count = len(first) if items is False else self._chance.randint(max(least, len(first)), max(most, len(first)))
        rest = [{} if items is True else items] * (count - len(first))
        return [self.make(item, f"{path}[{index}]") for index, item in enumerate([*first, *rest])]

    def _object(self, schema: Mapping[str, Any], path: str) -> dict[str, Any]:
        required, made = schema.get("required", ()), {}
        for name, value in schema.get("properties", {}).items():
            if name not in required and self._chance.random() >= GIVEN:
                continue
            try:
                made[name] = self.make(value, f"{path}.{name}")
            except NoValue:
                if name in required:
                    raise
        free = schema.get("additionalProperties")
        if isinstance(free, Mapping) and free and "propertyNames" not in schema:
            for index in range(self._chance.randint(0, MOST_ITEMS)):
                made[f"key{index}"] = self.make(free, f"{path}.key{index}")
        return made

    _KINDS: Mapping[Any, Callable[[_Maker, Mapping[str, Any], str], Any]] = {
        "boolean": _boolean, "null": _null, "integer": _integer, "number": _number, "string": _string, "array": _array,
        "object": _object,
    }  # fmt: skip


def _bounds(schema: Mapping[str, Any]) -> tuple[float, float]:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        low = -REACH if high is None else high - REACH
    return low, low + REACH if high is None else high
