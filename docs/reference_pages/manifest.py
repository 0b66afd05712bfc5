"""`manifest`: every key of `reactor.yaml`.

Names, types, bounds and defaults are those of the structs that check the file. What a key means is its comment in
`reactor.yaml.example`, or for the keys of a section that this file sets to null, the attribute in the struct's docstring.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, get_args, get_type_hints

import msgspec
from msgspec import inspect as types

from reactor_trio.configuration.reactor_config import _Flat  # the whole file, as it is checked
from reference_pages.markdown import table

ROOT = Path(__file__).parents[2]
_KEY = re.compile(r"( *)([a-z_0-9]+):")
_ATTRIBUTE = re.compile(r"^ {4}([a-z_, ]+): (.+(?:\n {8}.+)*)", re.MULTILINE)
_PAGE = re.compile(r"docs/([\w/-]+/([\w-]+)\.md)(#[\w-]+)?")


def manifest() -> str:
    """Return a section for the top level and for each section of the file, with a row for each key."""
    said = comments((ROOT / "reactor.yaml.example").read_text(encoding="utf-8"))
    return "\n".join(_sections(_Flat, "", said))


def comments(example: str) -> dict[str, str]:
    """Return the comment above each key of the example file, by the key's dotted path."""
    said: dict[str, str] = {}
    above: list[str] = []
    path: list[str] = []
    for line in example.splitlines():
        if line.strip().startswith("#"):
            above.append(line.strip(" #"))
        elif found := _KEY.match(line):
            path[len(found[1]) // 2 :] = [found[2]]
            said[".".join(path)] = " ".join(above)
            above.clear()
        else:
            above.clear()
    return said


def _sections(kind: type[msgspec.Struct], path: str, said: Mapping[str, str]) -> Iterator[str]:
    attributes, hints = _attributes(kind), get_type_hints(kind)
    rows: list[tuple[str, ...]] = []
    below: list[tuple[type[msgspec.Struct], str]] = []
    for field in _in_order(kind, path, said):
        key = f"{path}.{field.name}".lstrip(".")
        section = _struct_in(field.type)
        default = "" if field.required else _default(field)
        meaning = said.get(key) or attributes.get(field.name, "")
        if section is not None:
            meaning = f"{meaning} Its keys are [below](#{_anchor(key)}).".strip()
            below.append((section.cls, key))
        kinds = _in_words(_as_written(field.type, hints[field.name]))
        rows.append((f"`{field.name}`", kinds, default, _PAGE.sub(_link, meaning)))
    yield f"## `{path}`\n" if path else "## The top level\n"
    yield table(("key", "type", "default", "meaning"), rows)
    for inner, key in below:
        yield from _sections(inner, key, said)


def _in_order(kind: type[msgspec.Struct], path: str, said: Mapping[str, str]) -> list[types.Field]:
    """The fields in the order of the example file."""
    places = {key: place for place, key in enumerate(said)}
    info = types.type_info(kind)
    assert isinstance(info, types.StructType)
    return sorted(info.fields, key=lambda field: places.get(f"{path}.{field.name}".lstrip("."), len(places)))


def _link(found: re.Match[str]) -> str:
    return f"[{found[2].replace('-', ' ')}](../{found[1]}{found[3] or ''})"


def _attributes(kind: type[msgspec.Struct]) -> dict[str, str]:
    _, _, text = (inspect.getdoc(kind) or "").partition("Attributes:\n")
    rows = [(name.strip(), meaning) for names, meaning in _ATTRIBUTE.findall(text) for name in names.split(",")]
    return {name: meaning[0].upper() + meaning[1:] for name, meaning in rows}


def _anchor(key: str) -> str:
    return re.sub(r"[^\w-]", "", key)


def _struct_in(kind: types.Type) -> types.StructType | None:
    parts = kind.types if isinstance(kind, types.UnionType) else (kind,)
    return next((part for part in parts if isinstance(part, types.StructType)), None)


def _as_written(kind: types.Type, hint: object) -> types.Type:
    """A choice with its values in the order of the source; msgspec sorts them."""
    return types.LiteralType(get_args(hint)) if isinstance(kind, types.LiteralType) else kind


def _default(field: types.Field) -> str:
    value = field.default if field.default is not msgspec.NODEFAULT else field.default_factory()
    if isinstance(value, msgspec.Struct):
        return "as below"
    return f"`{msgspec.json.encode(value).decode()}`"


def _in_words(kind: types.Type) -> str:
    match kind:
        case types.UnionType():
            return "; or ".join(_in_words(part) for part in kind.types)
        case types.LiteralType():
            return ", ".join(f"`{value}`" for value in kind.values)
        case types.IntType() | types.FloatType():
            return ("integer" if isinstance(kind, types.IntType) else "number") + _bounds(kind)
        case types.StrType():
            return "text" if kind.max_length is None else f"text, {kind.max_length} characters at most"
        case types.ListType() | types.VarTupleType():
            most = "" if kind.max_length is None else f", {kind.max_length} at most"
            return f"list of {_plain(kind.item_type)}{most}"
        case types.DictType():
            return f"mapping to {_plain(kind.value_type)}"
    return {types.BoolType: "true or false", types.NoneType: "null", types.AnyType: "any value"}.get(type(kind), "mapping")


def _plain(kind: types.Type) -> str:
    return {types.StrType: "texts", types.AnyType: "mappings"}.get(type(kind)) or _in_words(kind)


def _bounds(kind: Any) -> str:
    least, most = kind.ge if kind.ge is not None else kind.gt, kind.le if kind.le is not None else kind.lt
    words = []
    if least is not None:
        words.append(f"{least:g} or more" if kind.ge is not None else f"more than {least:g}")
    if most is not None:
        words.append(f"{most:,.0f} at most".replace(",", " ") if kind.le is not None else f"less than {most:g}")
    return f", {', '.join(words)}" if words else ""
