"""Everything that a model class declares: tracks, commands, hooks, messages, state. Each is read once.

Commands and hooks are read when Python creates the class, so that a mistake raises there. Tracks and messages belong to the
class's module. They are read on first use, because an author may write them below the model.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any, Final, Literal

import msgspec

from reactor_trio.errors import CommandError, DeclarationError
from reactor_trio.interface.author_code import declaring
from reactor_trio.interface.blocking_tracks import declared_input, declared_output
from reactor_trio.interface.command_arguments import Arguments, Parameter
from reactor_trio.interface.dataclass_base import class_statement_frame, resolved_hints
from reactor_trio.interface.events import EventMark, Handler, arguments_of, check_app, hook_of, marked_methods, yields
from reactor_trio.interface.input_buffer import InputBuffer
from reactor_trio.interface.input_field import MISSING
from reactor_trio.interface.json_values import json_of
from reactor_trio.interface.kinds import authors_classes, is_subclass, no_model_class, refuse_members_of_other_kinds
from reactor_trio.interface.messages import ModelMessage, message_schema, reply_schema
from reactor_trio.interface.module_classes import classes_of_module
from reactor_trio.interface.saving import WorldDeclaration, world_of
from reactor_trio.interface.schema_hash import schema_hash
from reactor_trio.interface.state import InputState
from reactor_trio.interface.tracks import Input, Output, TrackSpec, with_buffers, without_none

#: the author API that a model is written for; `kinds/` drives them
ModelKind = Literal["generator", "batch", "app", "run_loop", "blocking"]
#: How pending commands of one name from one client merge into one: not at all, only consecutive ones, or all of them.
Sharing = Literal["none", "consecutive", "anywhere"]

#: Attribute that holds a blocking model's input buffers; model code does not use it.
BLOCKING_INPUT: Final = "_reactor_input"


#: What a model's controlling client may do, at most (for authors `transport`): `pause`, `step` while paused, `restart`.
PLAYBACK: Final = ("pause", "step", "restart")


class CommandSpec(msgspec.Struct, frozen=True):
    """A command that clients may send. It sets the state field `field`, or calls `handler`."""

    name: str
    description: str
    arguments: Arguments
    field: str | None = None
    handler: Handler | None = None
    sharing: Sharing = "none"
    #: JSON Schema of the reply; `{}` if the handler does not annotate what it returns
    reply: dict[str, Any] = msgspec.field(default_factory=lambda: {"type": "null"})


class Declaration(msgspec.Struct, frozen=True, dict=True):
    """The declaration of a model class. Each subclass of `Model` has one; it never changes."""

    model: type
    kind: ModelKind
    state: type[InputState] | None
    commands: dict[str, CommandSpec]
    connected: Handler | None
    disconnected: Handler | None
    narrowed_output: type[Output] | None = None
    file_uploaded: Handler | None = None
    #: attribute -> the `Input` class with which the author annotated it
    inputs: dict[str, type[Input]] = msgspec.field(default_factory=dict)
    session_started: Handler | None = None
    session_ended: Handler | None = None
    #: whether the state is a plain attribute of the model, as in an app
    keeps_state: bool = False
    #: which of `PLAYBACK` the controlling client may do
    playback: tuple[str, ...] = ()
    #: None: its worlds cannot be saved
    world: WorldDeclaration | None = None

    @functools.cached_property
    def outputs(self) -> tuple[type[Output], ...]:
        """The model's `Output` classes."""
        if self.narrowed_output is not None:
            return (self.narrowed_output,)
        return classes_of_module(self.model, Output)

    @functools.cached_property
    def tracks(self) -> tuple[TrackSpec, ...]:
        """The model's tracks in the order of their indices: outputs, then inputs.

        Raises DeclarationError if two outputs of one name differ, or if an input has the name of another track.
        """
        tracks: dict[str, TrackSpec] = {}
        for output in self.outputs:
            for track in output.__reactor_tracks__:
                known = tracks.setdefault(track.name, track)
                if (known.kind, known.sample_rate) != (track.kind, track.sample_rate):
                    raise DeclarationError(f"{output.__qualname__}.{track.name}: also declared with another kind or rate")
        for attribute, cls in self.inputs.items():
            for track in cls.__reactor_tracks__:
                if tracks.setdefault(track.name, track) is not track:
                    raise DeclarationError(
                        f"{self.model.__qualname__}.{attribute}: the track {track.name!r} of {cls.__qualname__} "
                        "has the name of another track of this model; rename one of them"
                    )
        return tuple(tracks.values())

    @functools.cached_property
    def messages(self) -> tuple[type[ModelMessage], ...]:
        """The model's message classes. Raises DeclarationError if two have the same type on the wire."""
        found = classes_of_module(self.model, ModelMessage)
        names: dict[str, type[ModelMessage]] = {}
        for message in found:
            other = names.setdefault(message.__reactor_type__, message)
            if other is not message:
                raise DeclarationError(
                    f"{message.__qualname__} and {other.__qualname__} are both the message {message.__reactor_type__!r}"
                )
        return found

    @functools.cached_property
    def settings(self) -> dict[str, bytes]:
        """The state's public fields, each with its default as JSON (see `interface/json_values.py`)."""
        fields = {} if self.state is None else self.state.__reactor_arguments__
        return {name: json_of(arguments.parameters[0].info.default) for name, arguments in fields.items()}

    @functools.cached_property
    def setting_parameters(self) -> dict[str, Parameter]:
        """The only argument of each command `set_<name>`, by the name: that of a state field, or of such an event."""
        given = {name.removeprefix("set_"): spec.arguments.parameters for name, spec in self.commands.items()
                 if name.startswith("set_")}  # fmt: skip
        return {name: parameters[0] for name, parameters in given.items() if len(parameters) == 1}

    @functools.cached_property
    def docstring(self) -> str:
        """The text that the author wrote under the model's `class` line, "" without one."""
        return docstring_of(self.model)

    @functools.cached_property
    def takes_files(self) -> bool:
        """Whether the model takes uploaded files, in `@file_uploaded` or in a command's argument."""
        return self.file_uploaded is not None or any(
            b'"x-reactor":"upload"' in msgspec.json.encode(command.arguments.schema()) for command in self.commands.values()
        )

    def command(self, name: str) -> CommandSpec:
        """The command `name`. Raises CommandError if the model has none."""
        command = self.commands.get(name)
        if command is None:
            known = ", ".join(sorted(self.commands)) or "none"
            raise CommandError("invalid_command", f"unknown command {name!r}; this model takes: {known}")
        return command

    def schema(self) -> dict[str, Any]:
        """Return tracks, commands, messages and their hash in the form of `GET /schema`, with JSON Schema 2020-12 inside."""
        declared: dict[str, Any] = {
            "tracks": [
                {"name": t.name, "kind": t.kind, "direction": t.direction}
                | ({"sample_rate": t.sample_rate} if t.sample_rate else {})
                for t in self.tracks
            ],
            "commands": [
                {"name": c.name, "description": c.description, "schema": c.arguments.schema(), "reply": c.reply}
                for c in self.commands.values()
            ],
            "messages": [{"name": m.__reactor_type__, "schema": message_schema(m)} for m in self.messages],
        }
        return {"schema_hash": schema_hash(declared), **declared}


def docstring_of(cls: type) -> str:
    """Return the docstring that the author wrote, not the signature that `@dataclass` writes in its place."""
    doc = cls.__dict__.get("__doc__") or ""
    return "" if doc.startswith(f"{cls.__name__}(") else inspect.cleandoc(doc)


def declare(cls: type) -> None:
    """Read the commands and hooks of a new model class and store its `Declaration` on it. Raises DeclarationError."""
    frame = class_statement_frame()
    hints = resolved_hints(cls, frame)
    kind: ModelKind = cls.__reactor_kind__  # type: ignore[attr-defined]
    app: bool = cls.__reactor_app__  # type: ignore[attr-defined]
    refuse_members_of_other_kinds(cls, kind, app, hints)
    state = hints.get("state") if kind == "generator" or app else None
    if app:
        check_app(cls)
        state = without_none(state)
    if state is not None and not is_subclass(state, InputState):
        raise DeclarationError(f"{cls.__qualname__}.state: annotate it with an InputState class, not {state!r}")
    output = hints.get("output")
    inputs = {name: hint for name, hint in hints.items() if is_subclass(hint, Input)}
    if kind == "blocking":
        if inputs:
            raise DeclarationError(f"{cls.__qualname__}.{next(iter(inputs))}: a VideoModel declares tracks by VideoIn()")
        takes_frames = any("on_frame" in vars(base) for base in authors_classes(cls))
        output, made = declared_output(cls), declared_input(cls, takes_frames)
        inputs = {} if made is None else {BLOCKING_INPUT: made}
    kind = "batch" if _is_batched(cls, kind) else kind
    cls.__reactor_declaration__ = Declaration(  # type: ignore[attr-defined]
        cls, kind, state, _commands(cls, state, frame),
        hook_of(cls, "connected"), hook_of(cls, "disconnected"),
        output if is_subclass(output, Output) else None,
        hook_of(cls, "file_uploaded"),
        inputs,
        hook_of(cls, "session_started"), hook_of(cls, "session_ended"),
        app and state is not None,
        _playback(cls, kind),
        world_of(cls, state, inputs),
    )  # fmt: skip
    for attribute in inputs:
        setattr(cls, attribute, _InputAttribute(attribute))


def _commands(cls: type, state: type[InputState] | None, frame: FrameType | None) -> dict[str, CommandSpec]:
    """Return the commands that set a state field, and those of `@event` methods."""
    commands: dict[str, CommandSpec] = {}
    for field, arguments in ({} if state is None else state.__reactor_arguments__).items():
        description = arguments.parameters[0].info.description or ""
        commands[f"set_{field}"] = CommandSpec(f"set_{field}", description, arguments, field, sharing="consecutive")
    for attribute, function in marked_methods(cls).items():
        mark: EventMark | None = getattr(function, "__reactor_event__", None)
        if mark is None:
            continue
        where, known = f"{cls.__qualname__}.{attribute}", commands.get(mark.name)
        if known is not None and known.handler is not None:
            raise DeclarationError(
                f"{cls.__qualname__}: {known.handler.attribute} and {attribute} are both the event {mark.name!r}"
            )
        if attribute in _RESERVED_ATTRIBUTES:
            raise DeclarationError(
                f"{where}: it would hide the runtime's own {attribute}; rename the method and write @event({mark.name!r})"
            )
        with declaring(function):
            parameters, client, returned = arguments_of(cls, attribute, function, frame)
            arguments, handler = Arguments(where, mark.name, parameters), Handler(attribute, client)
        grouped = [parameter for parameter in parameters if parameter.info.group is not None or parameter.info.advanced]
        if grouped and not (mark.name.startswith("set_") and len(parameters) == 1):
            raise DeclarationError(
                f"{where}.{grouped[0].name}: group and advanced are for settings: fields of an InputState, and "
                f"the only argument of an event set_<name>{grouped[0].info.at}"
            )
        sharing: Sharing = "anywhere" if mark.dedupe else "none"
        reply = {} if returned is MISSING else reply_schema(returned)
        commands[mark.name] = CommandSpec(mark.name, mark.description, arguments, None, handler, sharing, reply)
    return commands


def _is_batched(cls: type, kind: ModelKind) -> bool:
    """Whether the class defines `batch_inference()`. Raises DeclarationError if the runtime could not call it."""
    function = getattr(cls, "batch_inference", None)
    if function is None:
        return False
    if kind != "generator":
        raise DeclarationError(f"{cls.__qualname__}.batch_inference: only a ReactorPipeline is stepped in batches")
    if is_generator_function(function):
        raise DeclarationError(
            f"{cls.__qualname__}.batch_inference: it is called for each batch and returns a list; it cannot be a generator"
        )
    return True


def _playback(cls: type, kind: ModelKind) -> tuple[str, ...]:
    """What the controlling client may do: what the class says, by default all that its kind can. Raises DeclarationError."""
    possible = _POSSIBLE.get(kind, ())
    given = cls.transport  # type: ignore[attr-defined]
    if given is None:
        return possible
    where = f"{cls.__qualname__}.transport"
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise DeclarationError(f"{where}: expected names, such as {PLAYBACK}, or () for none, not {given!r}")
    for name in given:
        if name not in PLAYBACK:
            raise DeclarationError(f"{where}: {name!r} is not one of {', '.join(PLAYBACK)}")
        if name not in possible:
            raise DeclarationError(f"{where}: {name!r} is not possible here; {_WHY_NOT[kind]}")
    if "step" in given and "pause" not in given:
        raise DeclarationError(f"{where}: 'step' needs 'pause', since only a paused model is stepped")
    return tuple(name for name in PLAYBACK if name in given)


_POSSIBLE: Final[dict[ModelKind, tuple[str, ...]]] = {
    "generator": PLAYBACK, "batch": PLAYBACK[:2], "app": PLAYBACK[:2]
}  # fmt: skip

_WHY_NOT: Final[dict[ModelKind, str]] = {
    "batch": "batch_inference() has no generator to restart",
    "app": "an app has no generator to restart",
    "run_loop": "the runtime does not make the steps of a model with a run() of its own",
    "blocking": "the runtime does not make the steps of a VideoModel",
}


class _InputAttribute:
    """The attribute of a model that is annotated with an `Input` class. A test may assign another object to the instance."""

    def __init__(self, attribute: str) -> None:
        self._attribute = attribute

    def __get__(self, model: Any, _owner: type) -> Any:
        if model is None:
            return self
        if model._reactor_binding is None:
            return vars(model).setdefault(_OWN_INPUTS, _own_inputs(type(model)))[self._attribute]
        return model._port().inputs[self._attribute]


#: attribute for the input buffers of an instance that is not served
_OWN_INPUTS: Final = "_reactor_inputs"


def _own_inputs(cls: type) -> dict[str, Input]:
    inputs = declaration_of(cls).inputs
    names = [track.name for given in inputs.values() for track in given.__reactor_tracks__]
    return with_buffers(inputs, {name: InputBuffer() for name in names})


#: attributes of the runtime that a method with `@event` must not hide
_RESERVED_ATTRIBUTES = frozenset(
    ("state", "load", "run", "inference", "batch_inference", "connected", "output_buffer", "emit", "send", "cancelled",
     "check_cancelled", "process_input", "generate", "process_output", "complete_step")
)


def declaration_of(cls: type) -> Declaration:
    """Return the declaration of a model class. Raises DeclarationError if `cls` is not a model."""
    declaration = getattr(cls, "__reactor_declaration__", None)
    if not isinstance(declaration, Declaration) or not isinstance(cls, type):
        raise no_model_class(cls, is_instance=isinstance(declaration, Declaration))
    return declaration


def is_generator_function(function: Callable[..., Any]) -> bool:
    """Whether a call of `function` makes a sync or async generator, also through decorators that set `__wrapped__`."""
    return yields(function) or yields(inspect.unwrap(function))
