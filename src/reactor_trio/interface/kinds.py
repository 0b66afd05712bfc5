"""Checks that a class declares only what models of its kind use. What another kind uses would silently do nothing."""

from __future__ import annotations

import inspect
import os
import re
from typing import Any

from reactor_trio.errors import DeclarationError
from reactor_trio.interface.state import InputState
from reactor_trio.interface.tracks import without_none


def refuse_members_of_other_kinds(cls: type, kind: str, app: bool, hints: dict[str, Any]) -> None:
    """Raise DeclarationError for members that only another kind of model uses: they would silently do nothing here."""
    own = vars(cls)
    if app and "inference" in own:
        raise DeclarationError(f"{cls.__qualname__} has inference(), which a ReactorApp never calls: subclass "
                               "ReactorPipeline, or define generate()")  # fmt: skip
    stated = is_subclass(without_none(hints.get("state")), InputState)  # as a ReactorApp may write it
    waits = kind == "run_loop" and not any("run" in vars(base) for base in authors_classes(cls))
    if not app and "generate" in own and ("process_output" in own or (waits and ("process_input" in own or stated))):
        raise DeclarationError(f"{cls.__qualname__} has generate(), which only a ReactorApp has: write "
                               f"`class {cls.__name__}(ReactorApp)`")  # fmt: skip
    if app:
        _refuse_assigned_state(cls)
        return
    if kind == "run_loop":
        if is_subclass(hints.get("state"), InputState):
            raise DeclarationError(
                f"{cls.__qualname__}.state: only a ReactorPipeline and a ReactorApp have a state; write "
                f"`class {cls.__name__}(ReactorApp)`, which may have this run(), or keep attributes of your own"
            )
        if "inference" in own and "run" not in own:
            raise DeclarationError(f"{cls.__qualname__} has inference(), which a ReactorModel never calls: subclass "
                                   "ReactorPipeline")  # fmt: skip
        return
    if inspect.iscoroutinefunction(own.get("run")) and "inference" not in own:
        raise DeclarationError(f"{cls.__qualname__} has run(), which a ReactorPipeline never calls: subclass ReactorModel")
    _refuse_assigned_state(cls)


def _refuse_assigned_state(cls: type) -> None:
    given = vars(cls).get("state")
    if isinstance(given, InputState) or is_subclass(given, InputState):
        name = (given if isinstance(given, type) else type(given)).__name__
        raise DeclarationError(f"{cls.__qualname__}.state: annotate it, `state: {name}`; the runtime makes one a session")


def no_model_class(given: object, *, is_instance: bool) -> DeclarationError:
    """Make the error for what is given in place of a model class; `is_instance`: of one."""
    if isinstance(given, type) or inspect.isroutine(given):
        return DeclarationError(f"{given.__qualname__} is not a model: subclass ReactorPipeline, ReactorModel or VideoModel")
    kind, remedy = type(given).__name__, "give the class itself"
    what = repr(given) if isinstance(given, str | os.PathLike) else kind
    if is_instance:
        what, remedy = f"an instance of {kind}", f"give the class itself, {kind}"
    elif isinstance(given, str) and (path := re.fullmatch(r"([\w.]+):(\w+)", given)):
        remedy = f"give the class itself: `from {path[1]} import {path[2]}`"
    elif kind == "Manifest":
        remedy = "give its class, manifest.model, and config=manifest.config with it"
    return DeclarationError(f"expected a model class, got {what}: {remedy}")


def authors_classes(cls: type) -> list[type]:
    """Return the classes in the order of method lookup that are not this package's own."""
    return [base for base in cls.__mro__ if not base.__module__.startswith("reactor_trio.")]


def is_subclass(value: Any, base: type) -> bool:
    """Whether `value` is a class that derives from `base`."""
    return isinstance(value, type) and issubclass(value, base)
