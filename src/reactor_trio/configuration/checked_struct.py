"""Values of a file or of a program as a struct whose types hold the bounds: an error names the key and what to write."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final, Literal, TypeVar, get_args, get_origin

import msgspec

from reactor_trio.errors import ERRORS_PAGE, ManifestError
from reactor_trio.plain_text import similar

T = TypeVar("T", bound=msgspec.Struct)
E = TypeVar("E", bound=Exception)

#: The one number that may be infinite.
ENDLESS: Final = "resume_window"


class CheckedStruct(type(msgspec.Struct)):  # type: ignore[misc]
    """Makes the constructor check names and values as `parse_struct` does; msgspec's own takes any value."""

    def __call__(cls, *args: Any, **values: Any) -> Any:
        """Make an instance. Raises TypeError for an unknown name, ManifestError for a value out of bounds."""
        fields = cls.__struct_fields__
        for name in values:
            if name not in fields:
                raise noted(TypeError(f"{cls.__name__}: unknown setting {name}; {nearest(name, fields)}"), "manifest-keys")
        given = {**dict(zip(fields, args, strict=False)), **values}
        if not given or len(given) != len(args) + len(values):  # too many, or one twice: Python's own error says so
            return super().__call__(*args, **values)
        return parse_struct(given, cls, cls.__name__)


def parse_struct(values: object, kind: type[T], path: str = "") -> T:
    """Convert plain values to a `kind`. Raises ManifestError, which names the key by its dotted path from `path` on."""
    checked = _check(values, kind, path)
    try:
        return msgspec.convert(checked, kind)
    except msgspec.ValidationError as error:
        text, _, where = str(error).replace("`", "").partition(" - at $")
        if text.startswith("Invalid enum value "):
            text = _among(kind, where, text.removeprefix("Invalid enum value "))
        elif text.startswith("Expected "):
            text += _given(checked, where, text)
        raise ManifestError(f"{path}{where}".lstrip(".") + f": {text}") from None


#: what to write for the types of msgspec's texts
_WORDS = {"int": "a whole number, as in 30", "float": "a number, as in 30 or 0.5", "bool": "true or false"}
#: characters of a value that a text shows
_LONGEST = 60


def _given(values: object, where: str, text: str) -> str:
    """The value at msgspec's path `.key[2].key`, if it is short, and what to write instead."""
    for key, index in re.findall(r"\.([^.\[]+)|\[(\d+)\]", where):
        try:
            values = values[int(index) if index else key]  # type: ignore[index]
        except (TypeError, LookupError):
            return ""
    if not isinstance(values, str | int | float) or values == "" or len(repr(values)) > _LONGEST:
        return ""
    if ", got " not in text:
        return f", got {values!r}"
    words = _WORDS.get(text.removeprefix("Expected ").partition(",")[0].partition(" ")[0])
    return f" {values!r}" + (f"; write {words}" if words else "")


def _among(kind: Any, where: str, given: str) -> str:
    """What is wrong with the value of a key that takes one of some, all of which it names."""
    for name in filter(None, where.split(".")):
        section = next((k for k in (kind, *get_args(kind)) if isinstance(k, type) and issubclass(k, msgspec.Struct)), None)
        kind = {} if section is None else _types(section).get(name)
    known = [value for each in (kind, *get_args(kind)) if get_origin(each) is Literal for value in get_args(each)]
    if not known:
        return f"Invalid enum value {given}"
    near = similar(given.strip("'"), known)
    return f"expected {' or '.join(map(str, known))}, got {given}" + (f"; did you mean {near}?" if near else "")


@cache
def _types(kind: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the type of each field. The cache saves time: msgspec evaluates the annotations at each call."""
    return {field.name: field.type for field in msgspec.structs.fields(kind)}


def nearest(name: str, known: Iterable[str], path: str = "") -> str:
    """What to write instead of a name that is not known: the most like one below `path`, or else one of all."""
    near = similar(name, known)
    return f"did you mean {f'{path}.{near}'.lstrip('.')}?" if near else f"known keys: {', '.join(known)}"


def noted(error: E, anchor: str) -> E:
    """Note where the remedy of an exception that is no `ReactorError` is."""
    error.add_note(f"{ERRORS_PAGE}#{anchor}")
    return error


def _check(values: object, kind: type[msgspec.Struct], path: str) -> dict[str, object]:
    """Refuse unknown keys with a hint, which msgspec does not give, and non-finite numbers, which msgspec accepts."""
    if isinstance(values, kind):  # a section that a program has made
        values = msgspec.structs.asdict(values)
    if not isinstance(values, Mapping):
        raise ManifestError(f"{path or 'the file'}: expected a mapping, got {type(values).__name__}")
    fields = _types(kind)
    checked: dict[str, object] = {}
    for key, value in values.items():
        here = f"{path}.{key}".lstrip(".")
        if key not in fields:
            raise ManifestError(f"{here}: unknown key; {nearest(str(key), fields, path)}")
        if isinstance(value, float) and not math.isfinite(value) and not (key == ENDLESS and value > 0):
            raise ManifestError(f"{here}: expected a finite number, got {value}")
        kinds = get_args(fields[key]) or (fields[key],)
        section = next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, msgspec.Struct)), None)
        if section is None or (value is None and type(None) in kinds):
            checked[key] = value
        else:
            # `limits:` without any line below it is null in YAML, and means "all defaults".
            checked[key] = _check({} if value is None else value, section, here)
    return checked
