"""`ModelContract`: what a model class declares, as tests of Reactor 3.x models look it up.

The runtime does not use it: it reads the `Declaration`, of which this is a view. Only tests import this module.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from reactor_trio.interface.command_arguments import Arguments
from reactor_trio.interface.dataclass_base import resolved_hints
from reactor_trio.interface.declaration import CommandSpec, declaration_of, docstring_of
from reactor_trio.interface.events import HOOKS, Handler
from reactor_trio.interface.files import UploadedFile, file_schema
from reactor_trio.interface.messages import ModelMessage, message_schema, snake_case
from reactor_trio.interface.registries import Event, events_of

#: Reactor's name for the schema of an uploaded file
_UPLOAD: Final = "ReactorUploadReference"


class TrackKind(enum.StrEnum):
    """The kind of a track."""

    VIDEO = "video"
    AUDIO = "audio"


class TrackWay(enum.StrEnum):
    """The direction of a track, seen from the model."""

    IN = "in"
    OUT = "out"


class ContractTrack(NamedTuple):
    """A track of a model."""

    name: str
    kind: TrackKind
    direction: TrackWay


class ContractCommand(NamedTuple):
    """A command of a model.

    Attributes:
        command: a class whose `__command_fields__` has the arguments, each with its `FieldInfo` as `info`.
        handler: the method of the model class; None for a command that sets a state field.
        response: the message class that the handler returns, by its annotation; None without one.
    """

    name: str
    description: str
    command: type[Event]
    handler: Callable[..., Any] | None
    response: type[ModelMessage] | None


class ContractHooks(NamedTuple):
    """The hooks of a model, each None if the model has none."""

    connected: Callable[..., Any] | None
    disconnected: Callable[..., Any] | None
    file_uploaded: Callable[..., Any] | None
    session_started: Callable[..., Any] | None
    session_ended: Callable[..., Any] | None


class ModelContract:
    """What a model class declares. Made by `ModelContract.of(Model)`, which raises DeclarationError if it is no model.

    Attributes:
        model: the class's name in snake_case.
        description: the class's docstring.
        commands: by name.
        lifecycle: the hooks.
        tracks: by name, the input tracks first.
        messages: the message classes by their type on the wire.
    """

    @classmethod
    def of(cls, model_cls: type) -> ModelContract:
        """Read what the class declares."""
        return cls(model_cls)

    def __init__(self, model_cls: type) -> None:
        declaration = self._declaration = declaration_of(model_cls)
        events = events_of(model_cls)
        self.model = snake_case(model_cls.__name__)
        self.description = self._declaration.docstring
        self.commands = {name: _command(model_cls, events[name], spec) for name, spec in declaration.commands.items()}
        self.lifecycle = ContractHooks(**{kind: _method(model_cls, getattr(declaration, kind)) for kind in HOOKS})
        tracks = sorted(declaration.tracks, key=lambda track: track.direction)  # "in" before "out"
        self.tracks = {t.name: ContractTrack(t.name, TrackKind(t.kind), TrackWay(t.direction)) for t in tracks}
        self.messages = {message.__reactor_type__: message for message in declaration.messages}

    def render_schema(self, version: str = "v0.0.0", name: str | None = None) -> ModelContract:
        """Return this object: it has the members of Reactor's schema that tests look at, and `to_openapi`."""
        del version, name
        return self

    def to_openapi(self) -> dict[str, Any]:
        """Return the parts of Reactor's OpenAPI document that tests look at.

        They are its commands under `paths`, its messages under `webhooks` and `components`, and its tracks under
        `x-reactor`. The schemas are those of `reactor schema`, which prints this model's whole description; each argument
        also has `x-reactor-moderate`, the `moderate` of its `InputField`.
        """
        paths: dict[str, Any] = {}
        for name, spec in self._declaration.commands.items():
            summary = spec.description or f"Trigger {name}"
            paths[f"/events/{name}"] = {"post": {"summary": summary} | _request(_arguments(spec.arguments))}
        webhooks = {
            name: {"post": {"summary": docstring_of(cls)} | _request(_ref(cls.__name__))}
            for name, cls in self.messages.items()
        }
        schemas = {_UPLOAD: file_schema(UploadedFile)} | {c.__name__: message_schema(c) for c in self.messages.values()}
        tracks = [track._asdict() for track in self.tracks.values()]
        return {
            "openapi": "3.1.0", "info": {"title": self.model, "version": "v0.0.0", "description": self.description},
            "paths": paths, "webhooks": webhooks, "components": {"schemas": schemas}, "x-reactor": {"tracks": tracks},
        }  # fmt: skip


def _request(schema: dict[str, Any]) -> dict[str, Any]:
    return {"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}}


def _arguments(arguments: Arguments) -> dict[str, Any]:
    schema = arguments.schema()
    for parameter in arguments.parameters:
        each: dict[str, Any] = schema["properties"][parameter.name]
        if each.get("x-reactor") == "upload":
            schema["properties"][parameter.name] = each = _ref(_UPLOAD) | {
                key: value for key, value in each.items() if key in ("description", "default")
            }
        each["x-reactor-moderate"] = parameter.info.moderate
    return schema


def _ref(component: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{component}"}


def _command(model: type, event: type[Event], spec: CommandSpec) -> ContractCommand:
    method = _method(model, spec.handler)
    returned = None if method is None else resolved_hints(method, None).get("return")
    response = returned if isinstance(returned, type) and issubclass(returned, ModelMessage) else None
    return ContractCommand(spec.name, spec.description, event, method, response)


def _method(model: type, handler: Handler | None) -> Any:
    return None if handler is None else getattr(model, handler.attribute)
