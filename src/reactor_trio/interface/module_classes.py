"""The classes of a base that belong to a model: its outputs, its messages."""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable
from typing import TypeVar

T = TypeVar("T")


def classes_of_module(model: type, base: type[T]) -> tuple[type[T], ...]:
    """Return the subclasses of `base` that belong to the model: those of its module, or of its nearest base that has any.

    For a model class created inside a function they are the subclasses created in the same function, if any. If several
    have one qualified name because the function ran more than once, the newest counts.
    """
    serial = operator.attrgetter("__reactor_serial__")  # counts the classes in the order of their creation
    for cls in model.__mro__:
        module = sys.modules.get(cls.__module__)
        if module is None or cls.__module__.startswith("reactor_trio.interface"):
            continue
        newest: dict[tuple[str, str], type[T]] = {}
        for candidate in sorted(all_subclasses(base), key=serial):
            if candidate.__module__ == cls.__module__ or vars(module).get(candidate.__name__) is candidate:
                newest[candidate.__module__, candidate.__qualname__] = candidate
        scope = cls.__qualname__.rpartition(".")[0]
        beside = [c for c in newest.values() if c.__qualname__.rpartition(".")[0] == scope]
        at_top = [c for c in newest.values() if "<locals>" not in c.__qualname__]
        if found := (beside if "<locals>" in scope and beside else at_top):
            return tuple(sorted(found, key=serial))
    return ()


def all_subclasses(base: type[T]) -> Iterable[type[T]]:
    """Yield all subclasses of `base` that exist now, at every depth."""
    for cls in base.__subclasses__():
        yield cls
        yield from all_subclasses(cls)
