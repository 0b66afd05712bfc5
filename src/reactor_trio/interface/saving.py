"""`Saves`, `@saving`, `@restored`, `Moment`: how a model class says what its world is, so that a session can go back to it.

A *world* is what a model needs to go on with a session exactly as it was; a *moment* is the world after one step. The
declaration is read when Python creates the class. `reactor_trio.worlds` captures worlds and puts them back; nothing here
imports it, so a model without `Saves` pays nothing for it.
"""

from __future__ import annotations

import dataclasses
import enum
import inspect
import keyword
import typing
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from types import FunctionType
from typing import Any, Final, Literal, TypeVar

import msgspec

from reactor_trio.errors import DeclarationError
from reactor_trio.interface.dataclass_base import resolved_hints
from reactor_trio.interface.events import yields
from reactor_trio.interface.files import UploadedFile
from reactor_trio.interface.state import InputState
from reactor_trio.plain_text import similar

F = TypeVar("F", bound=Callable[..., Any])

#: what clients may do with a model's worlds, at most
MAY: Final = ("rewind", "save", "fork")
#: at the end of a path: written into the array that is there, not replaced
IN_PLACE: Final = "[...]"

_HOOK = "__reactor_world_hook__"
#: attributes of every model that are the runtime's
_RUNTIMES = ("connected", "output", "output_buffer")


class Moment(msgspec.Struct, frozen=True):
    """The moment that `@restored` gets: which world the model goes on from.

    Attributes:
        step: the number that the session's step had.
        age: seconds of the world's own time; it goes back with a rewind.
        why: what the world was put for.
        version: `Saves.version` of the model that saved it; another than today's only if `reads` lists it.
        same_process: whether this process saved it; if not, times and addresses in it mean nothing here.
    """

    step: int
    age: float
    why: Literal["rewind", "restore", "fork", "continued"]
    version: int
    same_process: bool


class SavedPath(msgspec.Struct, frozen=True):
    """A path of `Saves`: the attribute `names` of the model, and whether it is written in place."""

    text: str
    names: tuple[str, ...]
    in_place: bool = False


class Saves:
    """Say in a model's class that its world can be saved: `saves = Saves()`.

    Without paths the state is the whole world: all its fields, public and private. A path adds an attribute of the model.

    Args:
        paths: attributes of `self`, each as names joined by dots: `"water"`, `"world.place"`. A part of a state's field,
            `"state._dreams.past"`, replaces the capture of the whole field. `"net.cache[...]"` is written in place: for
            buffers whose address something else holds, such as a CUDA graph.
        types: classes of the author whose instances and members are values: by their attributes, made again without
            calling `__init__`.
        version: raise it when what the world means has changed.
        reads: older versions that `@restored` understands; it finds the version in `Moment.version`.
        may: what clients may do.

    Raises DeclarationError.
    """

    def __init__(
        self,
        *paths: str,
        types: Sequence[type] = (),
        version: int = 1,
        reads: Sequence[int] = (),
        may: Sequence[str] = MAY,
    ) -> None:
        self.paths = tuple(_path(given) for given in paths)
        _refuse_overlaps(self.paths)
        self.types = _classes(types)
        for number in (version, *reads):
            if type(number) is not int or number < 1:
                raise DeclarationError(f"Saves: versions are whole numbers from 1, not {number!r}")
        if version in reads:
            raise DeclarationError(f"Saves: reads lists older versions, and {version} is today's")
        self.version, self.reads = version, tuple(reads)
        self.may = _allowed(may)


class WorldDeclaration(msgspec.Struct, frozen=True):
    """What a model class says about its worlds: `Saves`, its two hooks by their names, and the classes that values may have.

    `classes` are those of `types=` and those of the state's settings, by their qualified names.
    """

    saves: Saves
    classes: Mapping[str, type]
    saving: str | None = None
    restored: str | None = None

    def allowed(self, allow: Collection[str]) -> tuple[str, ...]:
        """What the controlling client may do with the worlds of its session, on a server that allows these."""
        return tuple(name for name in self.saves.may if name in allow)


def saving(function: F) -> F:
    """Call this method when the world is captured; it returns a dict of more values. It may be async."""
    return _marked(function, "saving")


def restored(function: F) -> F:
    """Call this method with `(saved, moment)` when a world was put: what `@saving` returned, {} without it, and a `Moment`.

    It rebuilds what is not saved, sets clocks, and may send messages. If it raises, the world of before is put back. It may
    be async.
    """
    return _marked(function, "restored")


def world_of(cls: type, state: type[InputState] | None, inputs: Collection[str]) -> WorldDeclaration | None:
    """Return what the class declares about its worlds, None without `Saves`. Raises DeclarationError.

    `inputs` are the attributes that hold its input tracks.
    """
    found = _saves_of(cls)
    hooks = {kind: _hook_of(cls, kind, given) for kind, given in (("saving", ""), ("restored", "saved, moment"))}
    if found is None:
        for kind, name in hooks.items():
            if name is not None:
                raise DeclarationError(
                    f"{cls.__qualname__}.{name}: @{kind} is only called for a model that saves its worlds; add "
                    "`saves = Saves()` to the class"
                )
        return None
    attribute, saves = found
    for path in saves.paths:
        where = f"{cls.__qualname__}.{attribute}: {path.text!r}"
        if path.names[0] in (*_RUNTIMES, *inputs):
            raise DeclarationError(f"{where}: {path.names[0]} is the runtime's own and no part of a world")
        _check_path(cls, state, where, path.names)
    named: dict[str, type] = {}
    for each in (*saves.types, *(() if state is None else _setting_classes(state))):
        other = named.setdefault(each.__qualname__, each)
        if other is not each:
            raise DeclarationError(
                f"{cls.__qualname__}.{attribute}: {other.__module__}.{other.__qualname__} and {each.__module__}."
                f"{each.__qualname__} have one name, and a file of a world could not tell them apart; rename one"
            )
    return WorldDeclaration(saves, named, hooks["saving"], hooks["restored"])


def _path(given: str) -> SavedPath:
    if not isinstance(given, str):
        raise DeclarationError(f"Saves: a path is text, such as 'world.place', not {given!r}; classes go into types=")
    in_place = given.endswith(IN_PLACE)
    names = tuple(given.removesuffix(IN_PLACE).split("."))
    if names[0] == "self" and len(names) > 1:
        raise DeclarationError(f"Saves({given!r}): paths begin at self; did you mean {given.removeprefix('self.')!r}?")
    if wrong := [name for name in names if not name.isidentifier() or keyword.iskeyword(name)]:
        index = f"; {IN_PLACE} stands at the end, and an index cannot be named" if "[" in wrong[0] else ""
        raise DeclarationError(f"Saves({given!r}): a path is names joined by dots, and {wrong[0]!r} is no name{index}")
    if names[0].startswith("_reactor"):
        raise DeclarationError(f"Saves({given!r}): {names[0]} is the runtime's own")
    return SavedPath(given, names, in_place)


def _refuse_overlaps(paths: Sequence[SavedPath]) -> None:
    for index, path in enumerate(paths):
        for other in paths[:index]:
            short, long = sorted((path, other), key=lambda each: len(each.names))
            if long.names[: len(short.names)] == short.names:
                raise DeclarationError(f"Saves: {long.text!r} lies in {short.text!r}; name one of the two")


def _classes(given: Sequence[type]) -> tuple[type, ...]:
    if not isinstance(given, (tuple, list)):
        raise DeclarationError(f"Saves: types= is a tuple of classes, such as types=(Maze,), not {given!r}")
    for cls in given:
        if not isinstance(cls, type):
            raise DeclarationError(f"Saves: types= has classes; {cls!r} is none")
        if (reason := why_not_made(cls)) is not None:
            raise DeclarationError(f"Saves: {cls.__qualname__} in types= {reason}; write @saving and @restored")
    return tuple(given)


def why_not_made(cls: type) -> str | None:
    """Why instances of a class cannot be made from their attributes alone; None if they can."""
    if issubclass(cls, enum.Enum) or is_named_tuple(cls):
        return None
    if issubclass(cls, msgspec.Struct):
        return "has a __post_init__, which a restored instance must not run" if hasattr(cls, "__post_init__") else None
    try:
        object.__new__(cls)
    except TypeError:
        bases = [base.__name__ for base in cls.__mro__ if base.__flags__ & _HEAP_TYPE == 0 and base is not object]
        if not bases:
            return "cannot be made without its __init__"
        return f"holds more than attributes, since it is a {bases[0]}"
    return None


#: `Py_TPFLAGS_HEAPTYPE` of CPython: made by a class statement
_HEAP_TYPE = 1 << 9


def is_named_tuple(cls: type) -> bool:
    """Whether a class is a `NamedTuple`."""
    return issubclass(cls, tuple) and isinstance(getattr(cls, "_fields", None), tuple)


def _allowed(given: Sequence[str]) -> tuple[str, ...]:
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise DeclarationError(f"Saves: may= is names, such as {MAY}, or () for none, not {given!r}")
    for name in given:
        if name not in MAY:
            hint = nearest(str(name), MAY) or f"; it may have {', '.join(MAY)}"
            raise DeclarationError(f"Saves: may= has {name!r}{hint}")
    return tuple(name for name in MAY if name in given)


def nearest(given: str, known: Sequence[str]) -> str:
    """Return the question whether a known name was meant, "" if none is near."""
    near = similar(given, known)
    return f"; did you mean {near!r}?" if near else ""


def _saves_of(cls: type) -> tuple[str, Saves] | None:
    """Find the nearest `Saves` of the class, by its type: a model may have an attribute `saves` of its own."""
    hidden: set[str] = set()
    for base in cls.__mro__:
        found = [(name, value) for name, value in vars(base).items() if isinstance(value, Saves) and name not in hidden]
        if len(found) > 1:
            raise DeclarationError(f"{base.__qualname__}: two Saves, {found[0][0]} and {found[1][0]}; join them in one")
        if found:
            return found[0]
        hidden |= vars(base).keys()
    return None


def _check_path(cls: type, state: type[InputState] | None, where: str, names: tuple[str, ...]) -> None:
    """Raise DeclarationError for a path of which the class says already that it can name no value."""
    if names[0] == "state" and state is not None:
        fields = [field.name for field in dataclasses.fields(state)]  # type: ignore[arg-type]
        if len(names) == 1:
            raise DeclarationError(f"{where} is captured by itself; name parts of its fields, or nothing")
        if names[1] not in fields:
            hint = nearest(names[1], fields) or f"; its fields are {', '.join(fields) or 'none'}"
            raise DeclarationError(f"{where}: {state.__qualname__} has no field {names[1]!r}{hint}")
    elif isinstance(inspect.getattr_static(cls, names[0], None), (FunctionType, classmethod, staticmethod)):
        raise DeclarationError(f"{where}: {names[0]} is a method; name the attribute that it fills")


def _setting_classes(state: type[InputState]) -> Iterator[type]:
    """Yield the classes of the state's settings that are the author's: a client may make their instances anyway."""
    waiting: list[Any] = [parameter.type for each in state.__reactor_arguments__.values() for parameter in each.parameters]
    seen: set[type] = set()
    while waiting:
        hint = waiting.pop()
        waiting += typing.get_args(hint)
        if not isinstance(hint, type) or hint in seen or hint is UploadedFile:
            continue
        seen.add(hint)
        has_fields = dataclasses.is_dataclass(hint) or issubclass(hint, msgspec.Struct) or is_named_tuple(hint)
        if (has_fields or issubclass(hint, enum.Enum)) and why_not_made(hint) is None:
            yield hint
        if has_fields:
            waiting += resolved_hints(hint, None).values()


def _marked(function: F, kind: str) -> F:
    setattr(function, _HOOK, kind)
    return function


def _hook_of(cls: type, kind: str, given: str) -> str | None:
    """Return the name of the nearest method marked with `@saving` or `@restored`. Raises DeclarationError."""
    for base in cls.__mro__:
        found = {
            name: value
            for name, value in vars(base).items()
            if getattr(getattr(value, "__func__", value), _HOOK, None) == kind
        }
        if len(found) > 1:
            raise DeclarationError(f"{base.__qualname__}: two methods marked @{kind}: {' and '.join(found)}")
        for name, function in found.items():
            if getattr(cls, name, None) is not None:
                _check_hook(f"{base.__qualname__}.{name}", kind, function, given)
                return name
    return None


def _check_hook(where: str, kind: str, function: Any, given: str) -> None:
    if isinstance(function, (staticmethod, classmethod)):
        raise DeclarationError(f"{where}: @{kind} marks a plain method, not a static or class method")
    if yields(function):
        raise DeclarationError(f"{where}: a hook that yields never runs; return the values")
    try:
        inspect.signature(function).bind(None, *given.split())
    except TypeError as error:
        raise DeclarationError(f"{where}: @{kind} is called as {where.rpartition('.')[2]}({given}): {error}") from None
