"""`ModelMessage`: structured data from the model to its clients, in one order with the frames."""

from __future__ import annotations

import dataclasses
import itertools
import re
import types
import typing
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, dataclass_transform

import msgspec
import numpy as np

from reactor_trio.errors import DeclarationError
from reactor_trio.interface.author_code import awaited_call
from reactor_trio.interface.command_arguments import inline_schema
from reactor_trio.interface.dataclass_base import class_statement_frame, make_dataclass, resolved_hints
from reactor_trio.interface.input_field import MISSING


def MessageField(default: Any = MISSING, *, description: str | None = None) -> Any:
    """Declare the default of a `ModelMessage` field, and a description for the schema."""
    if isinstance(default, (list, dict, set)):
        raise DeclarationError("MessageField: all messages would share a mutable default")
    metadata = {"description": description} if description else {}
    return dataclasses.field(default=dataclasses.MISSING if default is MISSING else default, metadata=metadata)


_serial = itertools.count()


@dataclass_transform(field_specifiers=(MessageField, dataclasses.field))
class ModelMessage:
    """Base class of a message. Its fields are the data; its class name in snake_case is the type on the wire.

    `@dataclass` on the subclass is optional.
    """

    __reactor_type__: ClassVar[str] = ""
    __reactor_serial__: ClassVar[int] = -1
    __reactor_hints__: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.__reactor_hints__ = resolved_hints(cls, class_statement_frame())
        make_dataclass(cls)
        cls.__reactor_type__ = snake_case(cls.__name__)
        cls.__reactor_serial__ = next(_serial)


def snake_case(name: str) -> str:
    """`HTTPStatusUpdate` -> `http_status_update`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def message_data(message: ModelMessage) -> dict[str, Any]:
    """Return a copy of the message's fields as plain JSON values. Raises TypeError, which names the message."""
    if not isinstance(message, ModelMessage):
        raise TypeError(f"send() takes a ModelMessage, not {type(message).__name__}: declare a class for the message")
    fields = dataclasses.fields(message)  # type: ignore[arg-type]
    return {field.name: plain(getattr(message, field.name), message.__reactor_type__) for field in fields}


def plain(value: Any, where: str) -> Any:
    """Return a copy of `value` as plain JSON values; numpy scalars become numbers. Raises TypeError, which names `where`."""
    try:
        found = msgspec.to_builtins(value, enc_hook=json_default, str_keys=True)
        msgspec.json.encode(found)  # finds lone surrogates here, where the error still reaches the author
        return found
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"{where}: cannot be sent as JSON: {error}") from None


def json_default(value: object) -> Any:
    """Encode numpy scalars and messages (msgspec's `enc_hook`). Raises TypeError for any other type."""
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, ModelMessage):
        return message_data(value)
    raise TypeError(f"{type(value).__name__} is not JSON")


def message_schema(cls: type[ModelMessage]) -> dict[str, Any]:
    """Return the JSON Schema of the message's data as it is sent, with all its fields."""
    fields: list[Any] = []
    for field in dataclasses.fields(cls):  # type: ignore[arg-type]
        kind: Any = Annotated[cls.__reactor_hints__[field.name], msgspec.Meta(description=field.metadata.get("description"))]
        given: dict[str, Any] = {"default": field.default, "default_factory": field.default_factory}
        known: Any = {name: value for name, value in given.items() if value is not dataclasses.MISSING}
        fields.append((field.name, kind, msgspec.field(**known)))
    try:
        return inline_schema(msgspec.defstruct(cls.__name__, fields, kw_only=True), sent=True)
    except TypeError as error:
        raise DeclarationError(f"{cls.__qualname__}: {error}") from None


def reply_schema(annotation: Any) -> dict[str, Any]:
    """Return the JSON Schema of what a handler returns, `{}` if its annotation says nothing about JSON."""
    members = typing.get_args(annotation) if typing.get_origin(annotation) in (typing.Union, types.UnionType) else ()
    if any(isinstance(member, type) and issubclass(member, ModelMessage) for member in members):
        return {"anyOf": [reply_schema(member) for member in members]}
    if isinstance(annotation, type) and issubclass(annotation, ModelMessage):
        return message_schema(annotation)
    try:
        return inline_schema(annotation, sent=True)
    except (TypeError, RuntimeError, NotImplementedError):
        return {}


@dataclass(frozen=True)
class ClientInfo:
    """The client for which the runtime calls a hook or handler.

    Attributes:
        id: number of the client's connection, unique in the server's life.
        joined_at: the `trio.current_time()` of its connection, in seconds.
        system: always False; Reactor 3.x has a client of its own, and apps ask for it.
    """

    id: int
    joined_at: float
    _send: Callable[[int, ModelMessage], Awaitable[None]] = dataclasses.field(compare=False)
    system: bool = False

    def send(self, message: ModelMessage) -> Awaitable[None]:
        """Send `message` to this client alone; await the result. Does nothing if it has left. Raises like `model.send`."""
        return awaited_call("client.send(message)", "nothing is sent", self._send, self.id, message)
