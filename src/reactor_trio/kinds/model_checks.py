"""Checks a model's class: `reactor doctor` reports what is wrong with it, and no model is made of it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import msgspec

from reactor_trio.configuration.settings import Settings
from reactor_trio.configuration.unread_keys import unread_keys
from reactor_trio.errors import ERRORS_PAGE, DeclarationError, ManifestError
from reactor_trio.interface.author_code import defining_line
from reactor_trio.interface.declaration import Declaration, declaration_of
from reactor_trio.interface.distributed import DistributedPipeline
from reactor_trio.interface.model import Model
from reactor_trio.interface.state import InputState
from reactor_trio.kinds.blocking_sleeps import blocking_sleeps
from reactor_trio.kinds.hand_commands import unreachable
from reactor_trio.kinds.table import kind_of
from reactor_trio.pacing.cadence import DEFAULT_FPS, checked_fps

#: ranks of one model; more than a machine has GPUs
MOST_RANKS = 64


class Doubt(msgspec.Struct, frozen=True):
    """Something in a model that can be served but is hardly meant: what was seen, and the remedy."""

    text: str
    remedy: str


class CheckedModel(msgspec.Struct, frozen=True):
    """A class that can be loaded.

    Attributes:
        processes: how many the model takes; several are its ranks.
        schema: its tracks, commands and messages; see `Declaration.schema`.
    """

    declaration: Declaration
    processes: int
    schema: dict[str, Any]
    doubts: tuple[Doubt, ...]


def check_model(model_class: type[Model], settings: Settings) -> CheckedModel:
    """Check the class without an instance. Raises DeclarationError for the class, ManifestError for the settings."""
    declaration = declaration_of(model_class)
    ranks = _ranks_of(declaration, settings)
    _check_numbers(model_class, settings)
    kind_of(declaration).loading.check(model_class.__qualname__, declaration.model)
    schema = declaration.schema()
    return CheckedModel(declaration, ranks, schema, tuple(_doubts(model_class, schema)))


def config_doubts(model_class: type[Model], config: Mapping[str, Any]) -> list[Doubt]:
    """What is doubtful about the argument of the model's `load`."""
    return [
        Doubt(f"config: {key} is not in the model's file", f"did you mean {near}, which it reads (at {at})?")
        for key, near, at in unread_keys(model_class, config)
    ]


def sessions_of(model: Model | type[Model], settings: Settings) -> int:
    """How many sessions the model is to serve at the same time. Raises DeclarationError."""
    number, cls = _number(model, "max_sessions", settings.max_sessions)
    if number > 1 and (reason := kind_of(declaration_of(cls)).one_session):
        raise DeclarationError(
            f"{cls.__qualname__}: {reason}; {number} were asked for by max_sessions. Make it a ReactorPipeline, or start a "
            "server for each"
        )
    return number


def buffer_size_of(model: Model | type[Model], settings: Settings) -> int:
    """How many frames its buffer holds. Raises DeclarationError."""
    return _number(model, "buffer_size", settings.buffer_size)[0]


def has_value(model_class: type[Model], name: str) -> bool:
    """Whether an attribute has its value before the load; a property has it only when the model is loaded."""
    return not isinstance(getattr(model_class, name), property)


def fps_before_load(model: Model) -> float:
    """The rate of a model that is not loaded yet: the default if it is known only after the load."""
    return checked_fps(model.fps) if has_value(type(model), "fps") else DEFAULT_FPS


def _ranks_of(declaration: Declaration, settings: Settings) -> int:
    """Return the number of ranks that the manifest or the class gives. Raises DeclarationError or ManifestError."""
    model_class, name = declaration.model, declaration.model.__qualname__
    if not issubclass(model_class, DistributedPipeline):
        if (settings.ranks or 1) > 1:
            raise ManifestError(
                f"runtime.ranks: {name} runs in one process; make it a DistributedPipeline, or leave the key out"
            )
        return 1
    number: Any = settings.ranks or model_class.ranks
    if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MOST_RANKS:
        raise DeclarationError(f"{name}.ranks must be a whole number from 1 to {MOST_RANKS}, not {number!r}")
    if number > 1:
        if kind_of(declaration).driving.turns is not None:
            raise DeclarationError(f"{name}: ranks step one session at a time; leave batch_inference() out, or ranks at 1")
        refuse_several_sessions(name, settings.max_sessions or model_class.max_sessions)
        if find_spec("torch") is None:
            raise ManifestError(f"{name} has {number} ranks, which need torch: pip install torch")
    return number


def refuse_several_sessions(name: str, sessions: int) -> None:
    """Raise DeclarationError if `sessions` is above 1: ranks make the calls of one session, one after the other."""
    if sessions > 1:
        raise DeclarationError(
            f"{name}: a model on several ranks serves one session at a time, max_sessions asks for {sessions}; "
            "start a server for each"
        )


def _number(model: Model | type[Model], name: str, given: int | None) -> tuple[int, type[Model]]:
    """The number `given`, or that of the model, and the model's class. Raises DeclarationError."""
    number, cls = given or getattr(model, name), model if isinstance(model, type) else type(model)
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise DeclarationError(f"{cls.__qualname__}.{name} must be a whole number above 0")
    return number, cls


def _check_numbers(model_class: type[Model], settings: Settings) -> None:
    """Check the numbers that the class declares."""
    if has_value(model_class, "max_sessions"):
        sessions_of(model_class, settings)
    if has_value(model_class, "buffer_size"):
        buffer_size_of(model_class, settings)
    for name, given in (("fps", settings.fps), ("max_fps", settings.max_fps)):
        if given is None and has_value(model_class, name):
            rate = getattr(model_class, name)
            try:
                checked_fps(rate)
            except (TypeError, ValueError):
                raise DeclarationError(
                    f"{model_class.__qualname__}.{name} must be a finite number above 0, not {rate!r}"
                ) from None


def _doubts(model_class: type[Model], schema: dict[str, Any]) -> Iterator[Doubt]:
    name = model_class.__qualname__
    if not schema["tracks"]:
        yield Doubt(
            f"{name} has no tracks, so its viewers see and hear nothing",
            "define an Output class in its module, with a field for each track: `main_video: Video`",
        )
    commands = declaration_of(model_class).commands
    for command in schema["commands"]:
        handler = commands[command["name"]].handler
        at = "" if handler is None else f" (at {defining_line(getattr(model_class, handler.attribute))})"
        for text, remedy in unreachable([command]):
            yield Doubt(f"{text}{at}", f"{remedy} ({ERRORS_PAGE}#keys)")
    for method, at in blocking_sleeps(model_class):
        yield Doubt(
            f"{method} calls time.sleep (at {at}), which stops the model and all of its sessions",
            f"write `await trio.sleep(seconds)` ({ERRORS_PAGE}#blocking-sleep)",
        )
    for state in _unused_states(model_class):
        yield Doubt(
            f"no model uses the InputState {state.__qualname__}, so no client can set it",
            f"annotate it in the class of a ReactorPipeline, `state: {state.__qualname__}`, or delete it",
        )


def _unused_states(model_class: type[Model]) -> list[type[InputState]]:
    """The classes of the model's module that no model there uses, and no other class there inherits from."""
    module = sys.modules.get(model_class.__module__)
    if module is None or vars(module).get(model_class.__qualname__) is not model_class:
        return []  # a class made in a function, or of a module that another has replaced
    classes = [value for value in vars(module).values() if isinstance(value, type)]
    declared = [getattr(cls, "__reactor_declaration__", None) for cls in classes]
    used = {base for one in declared if isinstance(one, Declaration) and one.state for base in one.state.__mro__}
    inherited = {base for cls in classes for base in cls.__mro__[1:]}
    states = [cls for cls in classes if issubclass(cls, InputState) and cls.__module__ == module.__name__]
    return [cls for cls in states if cls not in used | inherited]
