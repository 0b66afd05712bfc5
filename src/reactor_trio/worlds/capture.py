"""Capture: the values of a model's world copied out of it, between two of its steps."""

from __future__ import annotations

import enum
import itertools
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable
from types import NoneType
from typing import Any, Final

import numpy as np
from numpy.lib.format import descr_to_dtype, dtype_to_descr

from reactor_trio.errors import CommandError
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.interface.files import UploadedFile
from reactor_trio.interface.saving import SavedPath, WorldDeclaration, is_named_tuple
from reactor_trio.interface.tensors import is_tensor
from reactor_trio.plain_text import sendable, similar
from reactor_trio.worlds import generators
from reactor_trio.worlds.buffers import Copies, Live, live_array, live_tensor
from reactor_trio.worlds.instances import attributes_of
from reactor_trio.worlds.nodes import (
    DEEPEST,
    MOST_VALUES,
    SHORT,
    VALUE_BYTES,
    Buffer,
    Dice,
    Instance,
    Items,
    Node,
    Pairs,
    World,
)

#: what stands in the tree as itself
_PLAIN: Final = frozenset((NoneType, bool, int, float))
_REMEDY: Final = "name its parts in Saves(...), list its class in types=, or write @saving and @restored"


class NoValue(Exception):
    """A value cannot be saved. `trail` is where it lies below its path, from the outside in."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.trail: list[str] = []


def declared_world(model: Any) -> WorldDeclaration:
    """Return what the model's class declares about its worlds. Raises CommandError `not_saveable`."""
    declared = declaration_of(type(model)).world
    if declared is None:
        raise CommandError(
            "not_saveable", f"{type(model).__qualname__} cannot save its worlds: its class needs `saves = Saves()`"
        )
    return declared


def capture(
    model: Any,
    copies: Copies,
    *,
    step: int,
    steps: int,
    age: float,
    saved: dict[str, Any] | None = None,
    alone: bool,
) -> World:
    """Copy the world of a model that has just made a step.

    Args:
        model: the session's model.
        copies: those of this session's captures before.
        step: the number of the session's step.
        steps: how many steps the world has made.
        age: seconds of the world's own time.
        saved: what `@saving` has returned.
        alone: whether the process has no other session, so that its generators of random numbers belong to this one.

    Raises CommandError `cannot_save`, whose message has the path and what to do.
    """
    declared = declared_world(model)
    walk = _Walk({*declared.classes.values()})
    values: dict[str, Node] = {}
    for path in saved_paths(model, declared):
        try:
            parent = parent_of(model, path)
            values[path.text] = walk.capture(attribute_of(parent, path), 0)
        except NoValue as refused:
            raise _cannot_save(path.text, refused) from None
    try:
        if saved is not None and type(saved) is not dict:
            raise NoValue(f"it returned {type(saved).__qualname__}, not a dict")
        more = walk.capture(saved, 0)
    except NoValue as refused:
        raise _cannot_save("@saving", refused) from None
    process = generators.of_process() if alone else {}
    drawn = {name: generators.state_of(kind, each) for name, (kind, each) in process.items()}
    buffers = copies.fill(walk.living)
    blobs: dict[int, Buffer | bytes] = {id(each): each for each in buffers}
    blobs |= {id(each): each for each in walk.long}
    small = VALUE_BYTES * (walk.count + len(values)) + walk.text_bytes + sum(len(state) for state in drawn.values())
    fps = None if model._reactor_binding is None else model._reactor_binding.chosen_fps
    return World(step, steps, age, fps, values, more, drawn, blobs, small)


def saved_paths(model: Any, declared: WorldDeclaration) -> list[SavedPath]:
    """Return all paths of a world: those of `Saves`, and the fields of the state, but for those of which parts are named."""
    paths = list(declared.saves.paths)
    if declaration_of(type(model)).state is not None and model.state is not None:
        parts = {path.names[1] for path in paths if path.names[0] == "state"}
        names = [name for name in attributes_of(model.state)[0] if name not in parts]
        paths = [*(SavedPath(f"state.{name}", ("state", name)) for name in names), *paths]
    return paths


def parent_of(model: Any, path: SavedPath) -> Any:
    """Return the object whose attribute a path names. Raises NoValue if there is none."""
    value = model
    for depth in range(1, len(path.names)):
        value = attribute_of(value, SavedPath(path.text, path.names[:depth]))
    return value


def attribute_of(parent: Any, path: SavedPath) -> Any:
    """Return the value at the end of a path. Raises NoValue if there is none."""
    name = path.names[-1]
    try:
        return getattr(parent, name)
    except AttributeError:
        near = similar(name, getattr(parent, "__dict__", {}))
        hint = f"; did you mean {near}?" if near else ""
        raise NoValue(f"{type(parent).__qualname__} has no attribute {name}{hint}") from None
    except Exception as error:  # a property of the author
        raise NoValue(f"to read {name} raised {type(error).__name__}: {sendable(error)}") from None


def _cannot_save(path: str, refused: NoValue) -> CommandError:
    return CommandError("cannot_save", f"{path}{''.join(refused.trail)}: {refused}")


class _Walk:
    """One walk over the values of a world, which makes their nodes.

    Attributes:
        living: the arrays whose memory is still to be copied.
        long: the bytes that count on their own.
        count: how many values there were.
        text_bytes: of short text and bytes.
    """

    def __init__(self, classes: set[type]) -> None:
        self.living: list[Live] = []
        self.long: list[bytes] = []
        self.count = 0
        self.text_bytes = 0
        self._classes = classes
        #: id -> node, and the object, so that its id stays its own
        self._known: dict[int, tuple[Node, object]] = {}
        #: ids of tuples and sets that are being walked: if one is met again, it holds itself
        self._open: set[int] = set()

    def capture(self, value: Any, depth: int) -> Node:
        """Return the node of a value. Raises NoValue."""
        kind = type(value)
        if kind in _PLAIN:
            return value
        known = self._known.get(id(value))
        if known is not None:
            return known[0]
        if depth > DEEPEST:
            raise NoValue(f"values lie in each other {DEEPEST} deep at most")
        maker = _MAKERS.get(kind)
        return self._other(value, depth) if maker is None else maker(self, value, depth)

    def _note(self, value: object, node: Node) -> Node:
        self._known[id(value)] = node, value
        return node

    def _text(self, value: str, _depth: int) -> Node:
        self.text_bytes += len(value)
        return value

    def _bytes(self, value: bytes, _depth: int) -> Node:
        if len(value) < SHORT:
            self.text_bytes += len(value)
            return value
        self.long.append(value)
        return self._note(value, value)

    def _list(self, value: list[Any], depth: int) -> Node:
        node = self._note(value, Items("list", []))
        node.items += self._each(value, "[{}]", depth)
        return node

    def _deque(self, value: deque[Any], depth: int) -> Node:
        node = self._note(value, Items("deque", [], value.maxlen))
        node.items += self._each(value, "[{}]", depth)
        return node

    def _closed(self, value: Any, depth: int) -> Node:
        """Capture what can only be made when its items are there: a tuple, a set."""
        if id(value) in self._open:
            raise NoValue(f"a {type(value).__name__} that holds itself is no value that can be saved")
        if isinstance(value, (set, frozenset)):
            self._check_keys(value)
        self._open.add(id(value))
        items = list(self._each(value, "[{}]", depth))
        self._open.discard(id(value))
        return self._note(value, Items(type(value).__name__, items))  # type: ignore[arg-type]

    def _dict(self, value: dict[Any, Any], depth: int) -> Node:
        self._check_keys(value)
        node = self._note(value, Pairs([], []))
        node.keys += self._each(value, " (a key)", depth)
        node.values += self._named(value, value.values(), "[{!r}]", depth)
        return node

    def _check_keys(self, keys: Iterable[Any]) -> None:
        """Raise NoValue for a key that runs code of the author when it is looked up, and may need its attributes there."""
        for key in keys:
            if isinstance(key, (tuple, frozenset)):
                self._check_keys(key)
            elif type(key) in self._classes and not isinstance(key, enum.Enum):
                raise NoValue(
                    f"an instance of {type(key).__qualname__} is a key or in a set; text, numbers, enum members and tuples "
                    "of them may be there"
                )

    def _each(self, values: Collection[Any], place: str, depth: int) -> list[Node]:
        return self._named(itertools.count(), values, place, depth)

    def _named(self, names: Iterable[Any], values: Collection[Any], place: str, depth: int) -> list[Node]:
        nodes: list[Node] = []
        name: Any = None
        self.count += len(values)
        if self.count > MOST_VALUES:
            raise NoValue(f"a world has at most {MOST_VALUES} values; keep numbers in arrays")
        try:
            for name, value in zip(names, values):  # noqa: B007, B905 - told where it is refused; items have all numbers
                nodes.append(value if type(value) in _PLAIN else self.capture(value, depth + 1))
        except NoValue as refused:
            refused.trail.insert(0, place.format(name))
            raise
        return nodes

    def _array(self, value: np.ndarray[Any, Any], _depth: int) -> Node:
        if value.dtype.hasobject:
            raise NoValue("an array of objects is no value that can be saved; use a list")
        if value.dtype.str[1] == "V" and descr_to_dtype(dtype_to_descr(value.dtype)) != value.dtype:
            raise NoValue(f"arrays of {value.dtype} cannot be saved: NumPy itself does not know that type")
        self.living.append(live_array(value))
        return self._note(value, self.living[-1].node)

    def _other(self, value: Any, depth: int) -> Node:
        cls = type(value)
        if isinstance(value, UploadedFile):
            self.long.append(value.data)
            return self._note(value, value)
        if isinstance(value, np.generic) and not isinstance(value, (np.void, np.object_)):
            return value
        if is_tensor(value):
            return self._tensor(value)
        if cls in self._classes:
            if isinstance(value, enum.Enum):
                return value
            return self._instance(value, depth)
        if (kind := generators.kind_of(value)) is not None:
            return self._note(value, Dice(kind, generators.state_of(kind, value)))
        if isinstance(value, enum.Enum):
            raise NoValue(f"{cls.__qualname__} is an Enum that is not in types=; list it there")
        raise NoValue(f"{cls.__qualname__} is no value that can be saved: {_REMEDY}")

    def _instance(self, value: Any, depth: int) -> Node:
        closed = is_named_tuple(type(value))
        if id(value) in self._open:
            raise NoValue(f"a {type(value).__qualname__} that holds itself is no value that can be saved")
        names, values = attributes_of(value)
        node = Instance(type(value), names, [])
        if closed:
            self._open.add(id(value))
        else:
            self._note(value, node)
        node.values += self._named(names, values, ".{}", depth)
        self._open.discard(id(value))
        return self._note(value, node)

    def _tensor(self, value: Any) -> Node:
        torch: Any = sys.modules["torch"]
        if type(value) is not torch.Tensor:
            raise NoValue(f"{type(value).__qualname__}: only plain tensors are values, and weights are no part of a world")
        if value.layout is not torch.strided or value.is_quantized or value.is_nested or value.is_meta:
            raise NoValue("a tensor that is sparse, quantized, nested or without data is no value that can be saved")
        if value.requires_grad:
            raise NoValue("a tensor that records gradients cannot be saved; make it under torch.inference_mode()")
        if value.is_conj() or value.is_neg():
            raise NoValue("a conjugated view of a tensor cannot be saved; write .resolve_conj().resolve_neg()")
        self.living.append(live_tensor(value))
        return self._note(value, self.living[-1].node)


#: plain functions: methods of a walk would keep it, and the live values that it has seen, until the collector comes
_MAKERS: Final[dict[type, Callable[[_Walk, Any, int], Node]]] = {
    list: _Walk._list, deque: _Walk._deque, dict: _Walk._dict, tuple: _Walk._closed, set: _Walk._closed,
    frozenset: _Walk._closed, np.ndarray: _Walk._array, bytes: _Walk._bytes, str: _Walk._text,
}  # fmt: skip
