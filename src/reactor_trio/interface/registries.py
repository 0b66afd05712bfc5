"""Reactor 2.x's registries: the events, messages and tracks of all classes that a program has declared.

The runtime does not use them: it reads the `Declaration` of the model that it serves. They are for programs that look names
up, mostly tests. Each lookup reads the classes that exist at that moment.
"""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from reactor_trio.errors import DeclarationError
from reactor_trio.interface.declaration import CommandSpec, declaration_of
from reactor_trio.interface.files import UploadedFile
from reactor_trio.interface.input_field import MISSING, FieldInfo
from reactor_trio.interface.messages import ModelMessage
from reactor_trio.interface.model import Model
from reactor_trio.interface.module_classes import all_subclasses
from reactor_trio.interface.tracks import Input, Output

T = TypeVar("T")


class CommandField(NamedTuple):
    """An argument of a command: the facts of its `InputField`, with its choices as a list, as in Reactor 3.x."""

    info: FieldInfo


class Event:
    """Base class of the classes in `EVENT_REGISTRY`: a command with its arguments as fields.

    A model's commands come from `@event` methods and state fields. A subclass in author code raises DeclarationError.
    """

    #: the command's name on the wire
    name: ClassVar[str] = ""
    #: as in Reactor 3.x: the command's arguments by name
    __command_fields__: ClassVar[dict[str, CommandField]] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__ != __name__:
            raise DeclarationError(f"{cls.__qualname__}: the runtime never calls it; write a model's method with @event")


@dataclasses.dataclass
class Connected(Event):
    """A client has connected. Only Reactor 2.x creates this event; here the runtime calls `@connected` instead."""

    connected_users: int = 1


@dataclasses.dataclass
class Disconnected(Event):
    """A client has left. Only Reactor 2.x creates this event; here the runtime calls `@disconnected` instead."""

    connected_users: int = 0


@dataclasses.dataclass
class FileUploaded(Event):
    """A file is complete. Only Reactor 2.x creates this event; here the runtime calls `@file_uploaded` instead."""

    file: UploadedFile


class Registry(Mapping[str, T], Generic[T]):
    """Classes by name, read again at each lookup."""

    def __init__(self, read: Callable[[], dict[str, T]]) -> None:
        self._read = read

    def __getitem__(self, name: str) -> T:
        return self._read()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return repr(self._read())


_events_of: weakref.WeakKeyDictionary[type[Any], dict[str, type[Event]]] = weakref.WeakKeyDictionary()


def events_of(model: type[Any]) -> dict[str, type[Event]]:
    """Return the classes of a model's commands by name."""
    if model not in _events_of:
        _events_of[model] = {name: _event(spec) for name, spec in declaration_of(model).commands.items()}
    return _events_of[model]


def _events() -> dict[str, type[Event]]:
    found: dict[str, type[Event]] = {}
    for model in all_subclasses(Model):
        if "__reactor_declaration__" in vars(model):
            found |= events_of(model)
    return found


def _event(command: CommandSpec) -> type[Event]:
    """Create a dataclass with the command's arguments as fields."""
    class_name = "".join(word.capitalize() for word in command.name.split("_"))
    fields: list[Any] = []
    for parameter in command.arguments.parameters:
        default: Any = dataclasses.MISSING if parameter.info.default is MISSING else parameter.info.fresh_default
        fields.append((parameter.name, parameter.type, dataclasses.field(default_factory=default)))
    made: type[Event] = dataclasses.make_dataclass(
        class_name, fields, bases=(Event,), namespace={"__module__": __name__}, kw_only=True
    )
    made.name = command.name  # after the fields, because an argument may have this name
    made.__command_fields__ = {each.name: CommandField(_listed(each.info)) for each in command.arguments.parameters}
    return made


def _listed(info: FieldInfo) -> FieldInfo:
    return info if info.choices is None else dataclasses.replace(info, choices=list(info.choices))  # type: ignore[arg-type]


#: by the command's name
EVENT_REGISTRY: Mapping[str, type[Event]] = Registry(_events)
#: by the message's type on the wire
MESSAGE_REGISTRY: Mapping[str, type[ModelMessage]] = Registry(
    lambda: {cls.__reactor_type__: cls for cls in all_subclasses(ModelMessage)}
)
#: by the class's name
OUTPUT_REGISTRY: Mapping[str, type[Output]] = Registry(lambda: {cls.__name__: cls for cls in all_subclasses(Output)})
#: by the class's name
INPUT_REGISTRY: Mapping[str, type[Input]] = Registry(lambda: {cls.__name__: cls for cls in all_subclasses(Input)})


def all_output_tracks() -> dict[str, Any]:
    """Return the markers, `Video` or `Audio`, of the tracks of all `Output` classes, by the track's name."""
    return {name: marker for cls in OUTPUT_REGISTRY.values() for name, marker in cls.__reactor_markers__.items()}


def all_input_tracks() -> dict[str, Any]:
    """Return the markers of the tracks of all `Input` classes, by the track's name."""
    return {name: marker for cls in INPUT_REGISTRY.values() for name, marker in cls.__reactor_markers__.items()}
