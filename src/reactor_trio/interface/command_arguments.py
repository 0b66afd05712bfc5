"""Typed values that a client may set: the validation of a command's arguments.

Each command gets one msgspec Struct. Its decoder refuses every value that the command's JSON Schema refuses. It also refuses
text or a boolean in place of a number, and names an unknown argument in its error. JSON has no NaN and no infinity, so these
never arrive.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, Literal, Union

import msgspec
import msgspec.inspect

from reactor_trio.errors import CommandError, DeclarationError
from reactor_trio.interface.context import set_during
from reactor_trio.interface.files import (
    CLIENT_TYPES,
    RESOLVE,
    Resolve,
    UnknownUpload,
    UploadedFile,
    accepts,
    decode_file,
    file_schema,
    not_of_a_client,
)
from reactor_trio.interface.input_field import MISSING, FieldInfo, refuse_wrong_widget
from reactor_trio.plain_text import sendable, similar

_LIMITS: Final = ("ge", "le", "min_length", "max_length")
#: characters of a value that a message shows
_LONGEST: Final = 60


class Parameter(msgspec.Struct, frozen=True):
    """One argument of a command: its name, annotated type and limits, and whether a client must give it."""

    name: str
    type: Any
    info: FieldInfo
    required: bool = True


class Arguments:
    """The typed arguments of one command: they decode and validate a client's values, and describe themselves as a schema.

    Raises DeclarationError, whose message begins with `where`, if a type, limit or default cannot work.
    """

    def __init__(self, where: str, title: str, parameters: Sequence[Parameter]) -> None:
        self.parameters = tuple(parameters)
        fields: list[Any] = []
        for parameter in parameters:
            try:
                constrained = _constrained(parameter.type, parameter.info)
            except (TypeError, ValueError) as error:
                raise DeclarationError(f"{where}.{parameter.name}: {error}{parameter.info.at}") from None
            default: Any = msgspec.NODEFAULT if parameter.required else parameter.info.fresh_default
            fields.append((parameter.name, constrained, msgspec.field(default_factory=default)))
        try:
            self._struct = msgspec.defstruct(title, fields, forbid_unknown_fields=True, kw_only=True)
            self._decoder = msgspec.json.Decoder(self._struct, dec_hook=decode_file)
        except TypeError as error:
            raise DeclarationError(f"{where}: {error}") from None
        #: whether decoding makes instances of classes of the author, which calls their `__post_init__`
        self.makes_instances = len(list(_classes_in(msgspec.inspect.type_info(self._struct), set()))) > 1

    def decode(self, data: bytes | msgspec.Raw, resolve: Resolve | None = None) -> dict[str, Any]:
        """Decode and validate the JSON object `data`. `resolve` finds uploaded files by their id.

        Raises CommandError, whose message names the path of the wrong value. Its code is `unresolved_upload` for an unknown
        file, else `invalid_command`. Raises an Exception that a class of the author raises; RuntimeError for one that is
        none, since a value that a client sends ends no program.
        """
        with set_during(RESOLVE, resolve):
            try:
                value = self._decode(data)
            except (Exception, KeyboardInterrupt):
                raise
            except BaseException as error:
                what = f"{type(error).__name__}: {sendable(error)}"
                raise RuntimeError(f"{what}; to refuse a value, raise ValueError") from error
        result = {parameter.name: getattr(value, parameter.name) for parameter in self.parameters}
        for parameter in self.parameters:
            name, info, given = parameter.name, parameter.info, result[parameter.name]
            if info.choices is not None and given is not None and given not in info.choices:
                allowed = ", ".join(map(repr, info.choices))
                raise CommandError("invalid_command", f"Expected one of {allowed} - at $.{name}")
            if info.accept is not None and isinstance(given, UploadedFile) and not accepts(info.accept, given.mime_type):
                allowed = ", ".join(info.accept)
                raise CommandError("invalid_command", f"Expected a file of {allowed}, got {given.mime_type} - at $.{name}")
        return result

    def _decode(self, data: bytes | msgspec.Raw) -> Any:
        try:
            return self._decoder.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            # JSON does not distinguish 1.0 from 1, but msgspec refuses 1.0 for an integer: retry with integers.
            try:
                return msgspec.convert(with_integers(msgspec.json.decode(data)), self._struct, dec_hook=decode_file)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                code = "unresolved_upload" if isinstance(error.__cause__, UnknownUpload) else "invalid_command"
                raise CommandError(code, _with_path(str(error), [each.name for each in self.parameters])) from None

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema 2020-12 of the arguments."""
        return inline_schema(self._struct)


def _constrained(annotation: Any, info: FieldInfo) -> Any:
    """Return the type with the limits of `info`. Raises TypeError or ValueError if a part of them is wrong."""
    _refuse_empty_ranges(info)
    if info.widget is not None:
        refuse_wrong_widget(annotation, info)
    extra: dict[str, Any] = {}
    if info.default is not MISSING:
        try:
            extra["default"] = msgspec.to_builtins(info.default)
        except TypeError:
            raise TypeError(f"the default {short_repr(info.default)} cannot be JSON; {CLIENT_TYPES}") from None
    if info.choices is not None:
        if all(isinstance(choice, str) or type(choice) is int for choice in info.choices):
            annotation = Literal[info.choices] | None if type(None) in typing.get_args(annotation) else Literal[info.choices]
        else:
            extra["enum"] = _json_choices(info.choices, optional=type(None) in typing.get_args(annotation))
    if info.accept is not None:
        if annotation is not UploadedFile and UploadedFile not in typing.get_args(annotation):
            raise TypeError(f"accept is for an UploadedFile, not for {annotation!r}")
        extra["accept"] = list(info.accept)
    if limits := {name: value for name in _LIMITS if (value := getattr(info, name)) is not None}:
        annotation = _with_limits(annotation, limits)
    described: Any = Annotated[annotation, msgspec.Meta(description=info.description, extra_json_schema=extra or None)]
    _refuse_unknown(msgspec.inspect.type_info(described))
    if info.default is not MISSING and info.default is not None:
        try:
            msgspec.convert(extra["default"], described)
        except msgspec.ValidationError as error:
            text = str(error).replace("`", "")
            raise TypeError(f"the default breaks the field's own rule: {text}") from None
        if "enum" in extra and info.default not in (info.choices or ()):
            raise TypeError(f"the default {short_repr(info.default)} is not one of its choices")
    return described


def short_repr(value: object) -> str:
    """The value as a message shows it: on one line, and only its beginning if it is long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _json_choices(choices: tuple[Any, ...], *, optional: bool) -> list[Any]:
    """Return the choices as JSON values, with null if the value is optional. Raises TypeError."""
    try:
        found: list[Any] = msgspec.json.decode(msgspec.json.encode(choices))
    except TypeError:
        raise TypeError(f"choices {short_repr(choices)} cannot be JSON") from None
    return [*found, None] if optional else found


def _refuse_empty_ranges(info: FieldInfo) -> None:
    for least, most in (_LIMITS[:2], _LIMITS[2:]):
        low, high = getattr(info, least), getattr(info, most)
        if low is not None and high is not None and low > high:
            raise ValueError(f"no value fits: {least} {low:g} is above {most} {high:g}")
    if info.choices is not None and not info.choices:
        raise ValueError("no value fits: choices is empty")


def inline_schema(kind: Any, *, sent: bool = False) -> dict[str, Any]:
    """Return the JSON Schema of a type as one object, with the types that it refers to under `$defs`.

    Args:
        sent: describe what msgspec encodes, not what it decodes: an object has also the fields that have a default.
    """
    classes = list(_classes_in(msgspec.inspect.type_info(kind), set())) if sent else []
    (top, *others), components = msgspec.json.schema_components(
        (kind, *classes), ref_template="#/$defs/{name}", schema_hook=file_schema
    )
    for cls, reference in zip(classes, others, strict=True):
        _require_all_fields(cls, components[_referred(reference)])
    name = _referred(top)
    if name not in components:
        schema = top
    elif f'"#/$defs/{name}"'.encode() in msgspec.json.encode(components):  # it contains itself
        schema = dict(components[name])
    else:
        schema = components.pop(name)
    if components:
        schema["$defs"] = components
    return schema


def _referred(schema: dict[str, Any]) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _classes_in(info: Any, seen: set[type]) -> Iterator[type]:
    """Yield each class with fields that a type contains, at any depth, once."""
    cls = getattr(info, "cls", None)
    fields = getattr(info, "fields", ())
    if cls is not None and fields:
        if cls in seen:
            return
        seen.add(cls)
        yield cls
    for part in (*_parts_of(info), *(field.type for field in fields)):
        yield from _classes_in(part, seen)


def _require_all_fields(cls: type, schema: dict[str, Any]) -> None:
    """Change the schema of a class with fields to that of an encoded instance. A TypedDict may still lack keys."""
    plain: Any = typing.get_origin(cls) or cls
    if typing.is_typeddict(plain) or (issubclass(plain, msgspec.Struct) and plain.__struct_config__.omit_defaults):
        return
    if "prefixItems" in schema:
        schema["minItems"] = len(schema["prefixItems"])
    else:
        schema["required"] = list(schema["properties"])


def _with_limits(annotation: Any, limits: dict[str, Any]) -> Any:
    """Attach the limits to `annotation`; in a union, to each member except None."""
    if typing.get_origin(annotation) in (Union, types.UnionType):
        members = [arg if arg is type(None) else _with_limits(arg, limits) for arg in typing.get_args(annotation)]
        return Union[tuple(members)]  # noqa: UP007 - made from a tuple
    return Annotated[annotation, msgspec.Meta(**limits)]


def _refuse_unknown(info: Any) -> None:
    """Raise TypeError for a type that msgspec cannot validate: msgspec would pass the client's value through unchecked."""
    if isinstance(info, msgspec.inspect.CustomType) and info.cls is not UploadedFile:
        raise TypeError(not_of_a_client(info.cls))
    for part in _parts_of(info):
        _refuse_unknown(part)


def _parts_of(info: Any) -> list[Any]:
    """Return the types of which msgspec says that another one is made, without the fields of classes."""
    parts = [getattr(info, name, None) for name in ("type", "item_type", "key_type", "value_type")]
    return [part for part in (*parts, *getattr(info, "types", ()), *getattr(info, "item_types", ())) if part is not None]


def with_integers(value: Any) -> Any:
    """Return JSON data with each whole number as an integer, because JSON does not distinguish 1 from 1.0."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return int(value)
    if isinstance(value, list):
        return [with_integers(item) for item in value]
    if isinstance(value, dict):
        return {key: with_integers(item) for key, item in value.items()}
    return value


def _with_path(text: str, known: Sequence[str]) -> str:
    """Remove the backticks from msgspec's error text, and add the path where the text names only the field.

    If the client has sent an argument that is not in `known`, the text also names the one that it probably meant.

    The client chose the field's name, so the text is as long as a message may be: no search here may start again within it.
    """
    for what in ("contains unknown", "missing required"):
        beginning = f"Object {what} field `"
        if text.startswith(beginning):
            text = text.removeprefix(beginning).removesuffix("`")
            name, has_path, path = text.rpartition("` - at `$")
            if not has_path:
                name, path = text, ""
            text = f"Object {what} field {name} - at ${path}.{name}"
            if not path and what == "contains unknown" and len(name) <= _LONGEST:
                near = similar(name, known)
                text += f"; did you mean {near}?" if near else ""
    return text.replace("`", "")
