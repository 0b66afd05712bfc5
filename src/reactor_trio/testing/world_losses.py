"""What a world lacks: found by comparing a session that went on with one that was restored."""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
import trio

from reactor_trio.interface.tensors import is_tensor
from reactor_trio.worlds import generators
from reactor_trio.worlds.after_yield import changes_after_yield
from reactor_trio.worlds.capture import NoValue, attribute_of, declared_world, parent_of, saved_paths
from reactor_trio.worlds.live_locals import live_locals
from reactor_trio.worlds.nodes import Instance, Items, Pairs, World

_PLAIN: Final = (type(None), bool, int, float, str, bytes)
_DEEPEST: Final = 12
#: how far a time may lie from the newest reading of its clock: a deadline
_NEAR: Final = 60.0


class Look:
    """What a model has at one moment beside and in its world. Looked at on its thread.

    Attributes:
        beside: path -> print of each attribute that is in no world.
        objects: path -> the object, of these and of the world's values.
    """

    def __init__(self, model: Any) -> None:
        self.beside: dict[str, Any] = {}
        self.objects: dict[str, Any] = {}
        declared = declared_world(model)
        paths = saved_paths(model, declared)
        self._covered = {path.text for path in paths}
        for path in paths:
            try:
                self._hold(path.text, attribute_of(parent_of(model, path), path), 0)
            except NoValue:
                continue
        self._in_world = list(self.objects)
        self._walk("", {**vars(model), "state": getattr(model, "state", None)}, {id(model)})

    def torn(self, restored: Look) -> Iterator[tuple[str, str]]:
        """Yield the attributes beside the world that were one of its objects, and are another in the restored session."""
        owners = {id(self.objects[path]): path for path in reversed(self._in_world)}
        for path in self.beside:
            value = self.objects.get(path)
            inside = None if isinstance(value, _PLAIN) else owners.get(id(value))
            if inside is not None and restored.objects.get(path) is not restored.objects.get(inside):
                yield path, inside

    def holds(self, value: Any) -> bool:
        """Whether this is an object of the world."""
        return any(self.objects[path] is value for path in self._in_world)

    def _hold(self, text: str, value: Any, depth: int) -> None:
        self.objects[text] = value
        if depth > _DEEPEST:
            return
        if isinstance(value, dict):
            for key, item in value.items():
                self._hold(f"{text}[{key!r}]", item, depth + 1)
        elif isinstance(value, (list, tuple)) and len(value) < 100:
            for index, item in enumerate(value):
                self._hold(f"{text}[{index}]", item, depth + 1)
        elif is_author_object(value):
            for name, item in vars(value).items():
                self._hold(f"{text}.{name}", item, depth + 1)

    def _walk(self, prefix: str, attributes: dict[str, Any], above: set[int]) -> None:
        for name, value in attributes.items():
            text = prefix + name
            if text in self._covered or name.startswith("_reactor") or id(value) in above:
                continue
            has_parts = any(path.startswith(f"{text}.") for path in self._covered)
            if has_parts or (is_author_object(value) and len(above) < _DEEPEST):
                self._walk(f"{text}.", getattr(value, "__dict__", {}), above | {id(value)})
            elif value is not None or text != "state":
                self.objects[text], self.beside[text] = value, print_of(value)


def is_author_object(value: Any) -> bool:
    """Whether a value is an instance of a class that some module of Python defines, with attributes to look at."""
    module = type(value).__module__.partition(".")[0]
    return hasattr(value, "__dict__") and not callable(value) and module not in ("builtins", "numpy", "torch", "trio")


def print_of(value: Any, depth: int = 0, above: frozenset[int] = frozenset()) -> Any:
    """Return a key that equal values share. Objects that cannot be looked into share the key of their type."""
    if isinstance(value, _PLAIN):
        return type(value), value
    if depth > _DEEPEST or id(value) in above:
        return type(value).__qualname__
    inner = depth + 1, above | {id(value)}
    if isinstance(value, (list, tuple)):
        return type(value), [print_of(each, *inner) for each in value]
    if isinstance(value, (set, frozenset)):
        return type(value), sorted(repr(print_of(each, *inner)) for each in value)
    if isinstance(value, dict):
        return type(value), [(print_of(key, *inner), print_of(each, *inner)) for key, each in value.items()]
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.ascontiguousarray(value)
        return array.shape, array.dtype.str, None if array.dtype.hasobject else _digest(array.reshape(-1).view(np.uint8))
    if is_tensor(value):
        bits = value.detach().cpu().contiguous().reshape(-1).view(sys.modules["torch"].uint8).numpy()
        return tuple(value.shape), str(value.dtype), _digest(bits)
    if (kind := generators.kind_of(value)) is not None:
        return kind, generators.state_of(kind, value)
    if is_author_object(value):
        return type(value).__qualname__, [(name, print_of(each, *inner)) for name, each in vars(value).items()]
    return type(value).__qualname__


def _digest(data: np.ndarray[Any, Any]) -> bytes:
    return hashlib.blake2b(data.data, digest_size=16).digest()


class Locals:
    """The local variables that suspended code reads again: name -> its line and its print. It stands at a yield or emit."""

    def __init__(self, frame: Any, look: Look | None, at: str = "yield") -> None:
        self.at = at
        self.file = "" if frame is None else Path(frame.f_code.co_filename).name
        self.lines: dict[str, int] = {}
        self.prints: dict[str, Any] = {}
        if frame is None:
            return
        for name, line in live_locals(frame).items():
            value = frame.f_locals.get(name)
            if name == "self" or (look is not None and look.holds(value)) or _is_runtimes(value):
                continue
            self.lines[name], self.prints[name] = line, print_of(value)


def _is_runtimes(value: Any) -> bool:
    """Whether it is the state, or what `get_ctx()` gives."""
    return hasattr(type(value), "__reactor_arguments__") or type(value).__module__.startswith("reactor_trio.")


class Clocks:
    """The readings of this process's clocks since a session began, to tell which numbers of a world are times."""

    def __init__(self) -> None:
        self._began = self._read()

    @staticmethod
    def _read() -> dict[str, float]:
        return {
            "trio.current_time()": trio.current_time(),
            # those of the author, who may know no better:
            "time.time()": time.time(),  # noqa: TID251
            "time.monotonic()": time.monotonic(),  # noqa: TID251
            "time.perf_counter()": time.perf_counter(),  # noqa: TID251
        }

    def times(self, world: World) -> Iterator[tuple[str, str]]:
        """Yield the paths of the world's times, each with its clock."""
        now = self._read()
        for path, value in _floats(world):
            for clock, began in self._began.items():
                if began <= value <= now[clock] + _NEAR:
                    yield path, clock
                    break


def _floats(world: World) -> Iterator[tuple[str, float]]:
    waiting: list[tuple[str, Any]] = list(world.values.items())
    seen: set[int] = set()
    while waiting:
        path, node = waiting.pop(0)
        if type(node) is float or isinstance(node, np.floating):
            yield path, float(node)
        elif id(node) not in seen and isinstance(node, (Items, Pairs, Instance)):
            seen.add(id(node))
            if isinstance(node, Items):
                waiting += [(f"{path}[{index}]", item) for index, item in enumerate(node.items[:1000])]
            elif isinstance(node, Pairs):
                waiting += [(f"{path}[{key!r}]", item) for key, item in zip(node.keys, node.values, strict=True)]
            else:
                waiting += [(f"{path}.{name}", item) for name, item in zip(node.names, node.values, strict=True)]


def losses(cls: type, kept: tuple[Look, Locals], restored: tuple[Look, Locals], times: list[tuple[str, str]]) -> list[str]:
    """Say what a restored session lacks, each with its remedy.

    Args:
        cls: the model's class.
        kept: the session that went on: at the moment, and at the yield after it.
        restored: the restored one: before its first step, and at the yield of that.
        times: the numbers of the world that are times.
    """
    found: list[str] = []
    (look, locals_), (new_look, new_locals) = kept, restored
    lost = [name for name, known in locals_.prints.items() if new_locals.prints.get(name) != known]
    if lost:
        named = ", ".join(f"{name} ({locals_.file}:{locals_.lines[name]})" for name in lost)
        remedy = "keep it in the state" if locals_.at == "yield" else "keep it in an attribute that Saves(...) names"
        found.append(f"alive at the {locals_.at} and in no world: {named}; {remedy}")
    for change in changes_after_yield(cls):
        found.append(f"{change.at} changes the world after the yield: `{change.text}`; change it before the yield")
    torn = dict(look.torn(new_look))
    for path, inside in torn.items():
        what = "generator of random numbers" if generators.kind_of(look.objects[path]) else type(look.objects[path]).__name__
        found.append(
            f"self.{inside} and self.{path} are one {what}, and two after the restore; name the second too: Saves({path!r})"
        )
    beside = [path for path, known in look.beside.items() if path not in torn and new_look.beside.get(path) != known]
    if beside:
        names = ", ".join(f"self.{path}" for path in beside)
        found.append(f"assigned since load and in no world: {names}; name it: Saves({', '.join(map(repr, beside))})")
    for path, clock in times:
        found.append(f"self.{path} is a time of {clock}, which means nothing later; set it in @restored, or count steps")
    return found or ["nothing was found that is lost; look for global variables, files and threads"]
