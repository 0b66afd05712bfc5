"""Put: a captured world becomes the world of a live model.

First everything is found, checked and copied (`prepare`), then it is assigned: a world is put as a whole or not at all. The
model gets copies, never what was captured. A generator of random numbers takes the saved state in place, because objects
that no path names may hold it. Arrays are replaced, because a live one may be shared with what `load` made, unless the path
says `[...]`.
"""

from __future__ import annotations

import dataclasses
import math
import sys
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final

import numpy as np

from reactor_trio.errors import CommandError
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.interface.saving import SavedPath, is_named_tuple
from reactor_trio.interface.tensors import is_tensor
from reactor_trio.plain_text import sendable
from reactor_trio.worlds import generators
from reactor_trio.worlds.buffers import FreshArrays
from reactor_trio.worlds.capture import NoValue, attribute_of, declared_world, parent_of
from reactor_trio.worlds.instances import attributes_of, empty, fill
from reactor_trio.worlds.nodes import Array, Dice, Instance, Items, Node, Pairs, Tensor, World

_CLOSED: Final[dict[str, Callable[[Any], Any]]] = {"tuple": tuple, "set": set, "frozenset": frozenset}
_MISSING: Final = object()


class _Unfit(Exception):
    """A world does not fit the live model. `at` is where below the path, for a person to read."""

    def __init__(self, reason: str, at: str = "") -> None:
        super().__init__(reason)
        self.at = at


class ReadyWorld:
    """A world that is checked and copied, to be assigned once.

    Attributes:
        settings: the public fields of the state, by name, as they will be.
        saved: what `@saving` had returned, for `@restored`; {} without it.
    """

    def __init__(self) -> None:
        self.settings: dict[str, Any] = {}
        self.saved: dict[str, Any] = {}
        self._fresh: list[tuple[Any, str, Any]] = []
        self._surplus: list[tuple[Any, str]] = []
        self._writes: list[Callable[[], None]] = []

    def assign(self) -> None:
        """Give the model the world. If an attribute cannot be set, all have their values of before.

        Raises CommandError `restore_failed`.
        """
        before: list[tuple[Any, str, Any]] = []
        try:
            for owner, name, value in self._fresh:
                before.append((owner, name, getattr(owner, name, _MISSING)))
                setattr(owner, name, value)
            for owner, name in self._surplus:
                before.append((owner, name, getattr(owner, name)))
                delattr(owner, name)
        except Exception as error:
            where = f"{type(owner).__qualname__}.{name}"
            for owner, name, value in reversed(before):
                if getattr(owner, name, _MISSING) is not value:
                    delattr(owner, name) if value is _MISSING else setattr(owner, name, value)
            raise CommandError(
                "restore_failed", f"{where} cannot be set: {type(error).__name__}: {sendable(error)}"
            ) from error
        for write in self._writes:
            write()


def prepare(model: Any, world: World, *, alone: bool, older: bool = False) -> ReadyWorld:
    """Copy a world and check that it fits the model.

    Args:
        model: the session's model, between two steps.
        world: what was captured, of a model of this class.
        alone: whether the process's generators of random numbers belong to this session.
        older: whether an older version of the class saved it, one that `Saves.reads` lists: what has no place today is left
            out, and what it lacks stays as it is.

    Raises CommandError `restore_failed`; nothing has changed then.
    """
    ready, build, where = ReadyWorld(), _Build(), "the world"
    try:
        live = [(path, parent_of(model, path)) for path in _paths(model, world, older)]
        for path, parent in live:
            build.match(world.values[path.text], _live(parent, path))
        for path, parent in sorted(live, key=lambda each: not each[0].in_place):  # what is written in place lives on
            where, node = path.text, world.values[path.text]
            if path.in_place:
                build.write(node, attribute_of(parent, path), "")
                continue
            value = build.value(node)
            ready._fresh.append((parent, path.names[-1], value))
            if path.names[0] == "state" and not path.names[1].startswith("_") and len(path.names) == 2:
                ready.settings[path.names[1]] = value
        where = "@saving"
        ready.saved = build.value(world.saved) or {}
        where = "the process's random numbers"
        ready._writes = build.writes + (_process_draws(world) if alone else [])
        if model._reactor_binding is not None:
            where = "the rate"
            if world.fps is not None and not 0 < world.fps < math.inf:
                raise _Unfit(f"{world.fps} frames a second are none")
            ready._writes.append(lambda: model._reactor_binding.choose_fps(world.fps))
    except (NoValue, _Unfit, ValueError, AttributeError, TypeError) as unfit:
        raise CommandError("restore_failed", f"{where}{getattr(unfit, 'at', '')}: {unfit}") from None
    ready._surplus = _surplus(model, [path for path, _ in live])
    return ready


def _live(parent: Any, path: SavedPath) -> Any:
    try:
        return attribute_of(parent, path)
    except NoValue:  # it is made later, in a step
        return None


def _paths(model: Any, world: World, older: bool) -> list[SavedPath]:
    """Return the paths of the world as today's declaration has them. Raises _Unfit if the two differ."""
    state = declaration_of(type(model)).state
    fields = set() if state is None or model.state is None else {field.name for field in dataclasses.fields(state)}  # type: ignore[arg-type]
    today = {path.text: path for path in declared_world(model).saves.paths}
    fields -= {path.names[1] for path in today.values() if path.names[0] == "state" and len(path.names) > 1}
    found: list[SavedPath] = []
    for text in world.values:
        owner, _, name = text.partition(".")
        if text in today:
            found.append(today[text])
        elif owner == "state" and fields and (name in fields or name.startswith("_")) and "." not in name:
            found.append(SavedPath(text, ("state", name)))
        elif not older:
            raise _Unfit(f"it has {text}, which today's class has not; raise Saves.version after such a change")
    missing = today.keys() | {f"state.{name}" for name in fields}
    if not older and (missing := missing - world.values.keys()):
        raise _Unfit(f"it lacks {min(missing)}, which today's class has; raise Saves.version after such a change")
    return found


def _surplus(model: Any, paths: list[SavedPath]) -> list[tuple[Any, str]]:
    """Return the attributes of the state that were made after the moment: a field of its class has a value at any time."""
    declared = declaration_of(type(model)).state
    if declared is None or model.state is None:
        return []
    kept = {path.names[1] for path in paths if path.names[0] == "state"} | declared.__dataclass_fields__.keys()  # type: ignore[attr-defined]
    return [(model.state, name) for name in attributes_of(model.state)[0] if name not in kept]


def _process_draws(world: World) -> list[Callable[[], None]]:
    """Return what sets the process's own generators, of those modules that are imported here."""
    here = generators.of_process()
    return [_draw(kind, each, world.generators[name]) for name, (kind, each) in here.items() if name in world.generators]


def _draw(kind: str, generator: Any, state: bytes) -> Callable[[], None]:
    """Return what sets a live generator. Raises ValueError if it could not be set."""
    generators.make(kind, state)
    return lambda: generators.set_state(kind, generator, state)


class _Build:
    """New values of nodes: each node becomes one object, so what was shared is shared again.

    Attributes:
        writes: what sets the generators that live on, and what writes in place.
    """

    def __init__(self) -> None:
        self.writes: list[Callable[[], None]] = []
        self._made: dict[int, Any] = {}
        self._arrays = FreshArrays()
        self._taken: set[int] = set()

    def match(self, node: Node, live: Any) -> None:
        """Find the live generators that take the states of the world's: those of their kind at their places."""
        waiting, seen = _nodes([(node, live)]), set()
        while waiting:
            node, live = waiting.pop()
            if (id(node), id(live)) in seen:
                continue
            seen.add((id(node), id(live)))
            if isinstance(node, Dice):
                if id(node) not in self._made and id(live) not in self._taken and generators.kind_of(live) == node.kind:
                    self._made[id(node)] = live
                    self._taken.add(id(live))
                    self.writes.append(_draw(node.kind, live, node.state))
            elif isinstance(node, Items) and isinstance(live, (list, deque, tuple)):
                waiting += _nodes(zip(node.items, live))  # noqa: B905 - one may have become longer
            elif isinstance(node, Pairs) and isinstance(live, dict):
                pairs = zip(node.keys, node.values, strict=True)
                waiting += _nodes((value, live[key]) for key, value in pairs if _is_in(key, live))
            elif isinstance(node, Instance) and type(live) is node.cls:
                found = dict(zip(*attributes_of(live), strict=True))
                waiting += _nodes((value, found.get(name)) for name, value in zip(node.names, node.values, strict=True))

    def value(self, node: Node) -> Any:
        """Return the new value of a node."""
        maker = _MAKERS.get(type(node))
        if maker is None:
            return node
        if id(node) in self._made:
            return self._made[id(node)]
        made = self._made[id(node)] = maker(self, node)
        return made

    def write(self, node: Node, live: Any, at: str) -> None:
        """Find what writes a node's value into the arrays of a live value. Raises _Unfit."""
        if isinstance(node, Array) and isinstance(live, np.ndarray):
            self._fits(at, (node.shape, node.dtype), (live.shape, live.dtype))
            if not live.flags.writeable:
                raise _Unfit("the live array is read-only", at)
            array = self._array(node)
            self.writes.append(lambda: np.copyto(live, array))
        elif isinstance(node, Tensor) and is_tensor(live):
            kind = str(live.dtype).removeprefix("torch.")
            saved = (node.shape, node.dtype, node.device.partition(":")[0])
            self._fits(at, saved, (tuple(live.shape), kind, live.device.type))
            tensor = self._tensor(node)
            self.writes.append(lambda: _write_tensor(live, tensor))
        elif isinstance(node, Items) and isinstance(live, (list, tuple)) and type(live).__name__ == node.kind:
            self._fits(at, f"{len(node.items)} items", f"{len(live)} items")
            for index, (item, old) in enumerate(zip(node.items, live, strict=True)):
                self._write_leaf(item, live, index, old, f"{at}[{index}]")
        elif isinstance(node, Pairs) and isinstance(live, dict):
            keys = [self.value(key) for key in node.keys]
            self._fits(at, set(keys), set(live))
            for key, item in zip(keys, node.values, strict=True):
                self._write_leaf(item, live, key, live[key], f"{at}[{key!r}]")
        else:
            raise _Unfit("only arrays, and lists, tuples and dicts of them, are written in place", at)
        self._made[id(node)] = live

    def _write_leaf(self, node: Node, owner: Any, key: Any, old: Any, at: str) -> None:
        if isinstance(node, (Array, Tensor, Items, Pairs)):
            self.write(node, old, at)
            return
        value = self.value(node)
        if isinstance(owner, tuple):
            if type(value) is not type(old) or value != old:
                raise _Unfit(f"{old!r} of a tuple cannot become {value!r} in place", at)
        else:
            self.writes.append(lambda: owner.__setitem__(key, value))

    def _fits(self, at: str, saved: object, live: object) -> None:
        if saved != live:
            raise _Unfit(f"the saved value has {saved} and the live one {live}: it cannot be written in place", at)

    def _items(self, node: Items) -> Any:
        if node.kind in ("list", "deque"):
            made: list[Any] | deque[Any] = [] if node.kind == "list" else deque(maxlen=node.maxlen)
            self._made[id(node)] = made
            made.extend(map(self.value, node.items))
            return made
        return _CLOSED[node.kind](self.value(item) for item in node.items)

    def _pairs(self, node: Pairs) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        self._made[id(node)] = made
        made.update((self.value(key), self.value(item)) for key, item in zip(node.keys, node.values, strict=True))
        return made

    def _instance(self, node: Instance) -> Any:
        if is_named_tuple(node.cls):
            if tuple(node.names) != node.cls._fields:  # type: ignore[attr-defined]
                raise AttributeError(f"{node.cls.__qualname__} has other fields than {', '.join(node.names)}")
            return tuple.__new__(node.cls, [self.value(item) for item in node.values])
        made = self._made[id(node)] = empty(node.cls, node.names)
        fill(made, node.names, [self.value(item) for item in node.values])
        return made

    def _dice(self, node: Dice) -> Any:
        return generators.make(node.kind, node.state)

    def _array(self, node: Array) -> Any:
        return self._arrays.array(node)

    def _tensor(self, node: Tensor) -> Any:
        return self._arrays.tensor(node)


_MAKERS: Final[dict[type, Callable[[_Build, Any], Any]]] = {
    Items: _Build._items, Pairs: _Build._pairs, Instance: _Build._instance, Dice: _Build._dice, Array: _Build._array,
    Tensor: _Build._tensor,
}  # fmt: skip


def _nodes(pairs: Iterable[tuple[Node, Any]]) -> list[tuple[Node, Any]]:
    """Return those pairs in which a generator may be."""
    return [pair for pair in pairs if isinstance(pair[0], (Items, Pairs, Instance, Dice))]


def _is_in(key: Node, live: dict[Any, Any]) -> bool:
    """Whether a key that stands in the tree as itself is one of a live dict."""
    return isinstance(key, (str, int, float, bytes)) and key in live


def _write_tensor(live: Any, fresh: Any) -> None:
    torch: Any = sys.modules["torch"]
    with torch.inference_mode():  # tensors that were made in it may be written nowhere else
        live.copy_(fresh)
