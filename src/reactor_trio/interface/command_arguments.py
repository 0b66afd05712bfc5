"""Typed values that a client may set: `InputField`, and the validation of a command's arguments.

Each command gets one msgspec Struct. Its decoder refuses every value that the command's JSON Schema refuses. It also refuses
text or a boolean in place of a number, and names an unknown argument in its error. JSON has no NaN and no infinity, so these
never arrive.
"""

from __future__ import annotations

import copy
import re
import types
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Final, Literal, Union

import msgspec
import msgspec.inspect

from reactor_trio.errors import CommandError, DeclarationError
from reactor_trio.interface.files import Resolve, UnknownUpload, UploadedFile, accepts, decode_file, file_schema, resolving

MISSING: Final[Any] = msgspec.UNSET


@dataclass(frozen=True, eq=False)
class FieldInfo:
    """The facts that an author gave about one field or argument with `InputField`."""

    default: Any = MISSING
    description: str | None = None
    ge: float | None = None
    le: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    choices: tuple[Any, ...] | None = None
    moderate: bool = False
    accept: tuple[str, ...] | None = None
    #: makes a new default for each session or call; `default` is then one of its results, for the schema
    factory: Callable[[], Any] | None = None

    def fresh_default(self) -> Any:
        """Return a new default: the factory's result, or a deep copy, so that sessions and calls never share one object."""
        return copy.deepcopy(self.default) if self.factory is None else self.factory()


def InputField(
    default: Any = MISSING,
    *,
    description: str | None = None,
    ge: float | None = None,
    le: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    choices: Sequence[Any] | None = None,
    moderate: bool = False,
    accept: Sequence[str] | None = None,
) -> Any:
    """Declare the default and the limits of an `InputState` field or of an `@event` argument.

    Args:
        default: the value at the start of each session; required for a state field.
        description: text for the schema and the viewer page.
        ge, le: inclusive bounds of a number.
        min_length, max_length: inclusive bounds for the characters of a string or the items of a list.
        choices: the only values allowed.
        moderate: whether the server's moderation hook (`runtime.moderate`), if there is one, checks the text.
        accept: MIME types of an `UploadedFile`, such as `image/*`; the server refuses a file of any other type.
    """
    return FieldInfo(
        default, description, ge, le, min_length, max_length, tuple(choices) if choices is not None else None, moderate,
        tuple(accept) if accept is not None else None,
    )  # fmt: skip


class Parameter(msgspec.Struct, frozen=True):
    """One argument of a command: its name, annotated type and limits, and whether a client must give it."""

    name: str
    type: Any
    info: FieldInfo = field(default_factory=FieldInfo)
    required: bool = True


class Arguments:
    """The typed arguments of one command: they decode and validate a client's values, and describe themselves as a schema.

    Raises DeclarationError, whose message begins with `where`, if a type, limit or default cannot work.
    """

    def __init__(self, where: str, title: str, parameters: Sequence[Parameter]) -> None:
        self.parameters = tuple(parameters)
        self._loose_choices: list[tuple[str, tuple[Any, ...]]] = []
        self._accepted: list[tuple[str, tuple[str, ...]]] = []
        fields: list[Any] = []
        for parameter in parameters:
            constrained = self._constrained(where, parameter)
            if parameter.required:
                fields.append((parameter.name, constrained))
            else:
                default = msgspec.field(default_factory=_fresh(parameter.info))
                fields.append((parameter.name, constrained, default))
        try:
            self._struct = msgspec.defstruct(title, fields, forbid_unknown_fields=True, kw_only=True)
            self._decoder = msgspec.json.Decoder(self._struct, dec_hook=decode_file)
        except TypeError as error:
            raise DeclarationError(f"{where}: {error}") from None

    def decode(self, data: bytes | msgspec.Raw, resolve: Resolve | None = None) -> dict[str, Any]:
        """Decode and validate the JSON object `data`. `resolve` finds uploaded files by their id.

        Raises CommandError, whose message names the path of the wrong value. Its code is `unresolved_upload` for an unknown
        file, else `invalid_command`.
        """
        with resolving(resolve):
            value = self._decode(data)
        result = {parameter.name: getattr(value, parameter.name) for parameter in self.parameters}
        for name, choices in self._loose_choices:
            if result[name] is not None and result[name] not in choices:
                allowed = ", ".join(map(repr, choices))
                raise CommandError("invalid_command", f"Expected one of {allowed} - at $.{name}")
        for name, accept in self._accepted:
            file = result[name]
            if isinstance(file, UploadedFile) and not accepts(accept, file.mime_type):
                wanted = ", ".join(accept)
                raise CommandError("invalid_command", f"Expected a file of {wanted}, got {file.mime_type} - at $.{name}")
        return result

    def _decode(self, data: bytes | msgspec.Raw) -> Any:
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            # JSON does not distinguish 1.0 from 1, but msgspec refuses 1.0 for an integer: retry with integers.
            try:
                return msgspec.convert(narrowed(msgspec.json.decode(data)), self._struct, dec_hook=decode_file)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                code = "unresolved_upload" if isinstance(error.__cause__, UnknownUpload) else "invalid_command"
                raise CommandError(code, _with_path(str(error))) from None

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema 2020-12 of the arguments."""
        return inline_schema(self._struct)

    def _constrained(self, where: str, parameter: Parameter) -> Any:
        info, annotation = parameter.info, parameter.type
        where = f"{where}.{parameter.name}"
        _refuse_empty_ranges(where, info)
        extra: dict[str, Any] = {}
        if info.default is not MISSING:
            try:
                extra["default"] = msgspec.to_builtins(info.default)
            except TypeError:
                raise DeclarationError(f"{where}: the default {info.default!r} cannot be JSON") from None
        if info.choices is not None:
            if all(isinstance(choice, str) or type(choice) is int for choice in info.choices):
                optional = _is_optional(annotation)
                annotation = Literal[info.choices]
                if optional:
                    annotation = annotation | None
            else:
                extra["enum"] = list(info.choices)
                self._loose_choices.append((parameter.name, info.choices))
        if info.accept is not None:
            if annotation is not UploadedFile and UploadedFile not in typing.get_args(annotation):
                raise DeclarationError(f"{where}: accept is for an UploadedFile, not for {annotation!r}")
            extra["accept"] = list(info.accept)
            self._accepted.append((parameter.name, info.accept))
        limits = {
            name: value
            for name, value in (
                ("ge", info.ge), ("le", info.le), ("min_length", info.min_length), ("max_length", info.max_length)
            )
            if value is not None
        }  # fmt: skip
        try:
            constrained = _with_limits(annotation, limits) if limits else annotation
            described: Any = Annotated[
                constrained, msgspec.Meta(description=info.description, extra_json_schema=extra or None)
            ]
            _refuse_unknown(msgspec.inspect.type_info(described))
        except (TypeError, ValueError) as error:
            raise DeclarationError(f"{where}: {error}") from None
        if info.default is not MISSING and info.default is not None:
            try:
                msgspec.convert(extra["default"], described)
            except msgspec.ValidationError as error:
                text = str(error).replace("`", "")
                raise DeclarationError(f"{where}: the default breaks the field's own rule: {text}") from None
            if "enum" in extra and info.default not in extra["enum"]:
                raise DeclarationError(f"{where}: the default {info.default!r} is not one of its choices")
        return described


def inline_schema(kind: Any) -> dict[str, Any]:
    """Return the JSON Schema of a type as one object, with the types that it refers to under `$defs`."""
    (top,), components = msgspec.json.schema_components((kind,), ref_template="#/$defs/{name}", schema_hook=file_schema)
    name = str(top.get("$ref", "")).rpartition("/")[2]
    schema = components.pop(name) if name in components else top
    if components:
        schema["$defs"] = components
    return schema


def _refuse_empty_ranges(where: str, info: FieldInfo) -> None:
    for least, most, low, high in (
        ("ge", "le", info.ge, info.le), ("min_length", "max_length", info.min_length, info.max_length)
    ):  # fmt: skip
        if low is not None and high is not None and low > high:
            raise DeclarationError(f"{where}: no value fits: {least} {low:g} is above {most} {high:g}")
    if info.choices is not None and not info.choices:
        raise DeclarationError(f"{where}: no value fits: choices is empty")


def _fresh(info: FieldInfo) -> Callable[[], Any]:
    return info.fresh_default


def _is_optional(annotation: Any) -> bool:
    return _is_union(annotation) and type(None) in typing.get_args(annotation)


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (Union, types.UnionType)


def _with_limits(annotation: Any, limits: dict[str, Any]) -> Any:
    """Attach the limits to `annotation`; in a union, to each member except None."""
    if _is_union(annotation):
        members = [arg if arg is type(None) else _with_limits(arg, limits) for arg in typing.get_args(annotation)]
        return Union[tuple(members)]  # noqa: UP007 - made from a tuple
    return Annotated[annotation, msgspec.Meta(**limits)]


def _refuse_unknown(info: Any) -> None:
    """Raise TypeError for a type that msgspec cannot validate: msgspec would pass the client's value through unchecked."""
    if isinstance(info, msgspec.inspect.CustomType) and info.cls is not UploadedFile:
        raise TypeError(f"{info.cls.__name__} is not a type that a client can set")
    if isinstance(info, msgspec.inspect.Metadata):
        _refuse_unknown(info.type)
    for name in ("item_type", "key_type", "value_type"):
        if (inner := getattr(info, name, None)) is not None:
            _refuse_unknown(inner)
    for inner in getattr(info, "types", ()):
        _refuse_unknown(inner)


def narrowed(value: Any) -> Any:
    """Return JSON data with each whole number as an integer, because JSON does not distinguish 1 from 1.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [narrowed(item) for item in value]
    if isinstance(value, dict):
        return {key: narrowed(item) for key, item in value.items()}
    return value


def _with_path(text: str) -> str:
    """Remove the backticks from msgspec's error text, and add the path where the text names only the field."""
    found = re.fullmatch(r"Object (contains unknown|missing required) field `(.*?)`(?: - at `(.*)`)?", text)
    if found:
        what, name, path = found.groups()
        return f"Object {what} field {name} - at {path or '$'}.{name}"
    return text.replace("`", "")
