"""Says why objects are alive: knots of references among garbage, and the shortest chain from an object to what uses it."""

from __future__ import annotations

import gc
import types
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

#: How far `chain` looks, and how many references to one level of it.
_DEPTH, _WIDTH = 14, 5000


def knots(wanted: Callable[[object], bool], most: int = 6) -> list[str]:
    """A line for each kind of knot among what a collection frees now: objects that hold each other, one of them `wanted`.

    Collects.
    """
    flags = gc.get_debug()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        gc.collect()
        garbage = gc.garbage[:]
        gc.garbage.clear()
    finally:
        gc.set_debug(flags)
    found: dict[tuple[tuple[str, int], ...], list[list[object]]] = {}
    for knot in _strong_components(garbage):
        if any(map(wanted, knot)):
            found.setdefault(tuple(sorted(Counter(map(_short, filter(wanted, knot))).items())), []).append(knot)
    lines = []
    for members, alike in sorted(found.items(), key=lambda item: -len(item[1]))[:most]:
        knot = alike[0]
        ours = ", ".join(f"{count} {name}" for name, count in members)
        lines.append(f"{len(alike)} knots of {len(knot)} objects ({ours}), such as {_circle(knot, wanted)}")
    return lines


def chain(one: object, ignore: Iterable[object] = ()) -> str:
    """The shortest chain of references to `one` from a module, a running frame, or an object to which nothing refers."""
    refers: dict[int, object] = {}  # by the referrer's id: to what, which is nearer to `one`
    referrers: dict[int, object] = {id(one): one}
    level: list[object] = [one]
    own = {id(refers), id(referrers), *map(id, ignore)}
    for _ in range(_DEPTH):
        ids = {id(member): member for member in level}
        above: list[object] = []
        found = gc.get_referrers(*level)
        own |= {id(ids), id(level), id(above), id(found)}
        for referrer in found[:_WIDTH]:
            if id(referrer) in own or id(referrer) in referrers or _of_this_module(referrer):
                continue
            held = next((ids[id(each)] for each in gc.get_referents(referrer) if id(each) in ids), None)
            if held is None:
                continue
            referrers[id(referrer)], refers[id(referrer)] = referrer, held
            if _is_root(referrer):
                return _spelled(referrer, refers, one)
            above.append(referrer)
        if not above:
            break
        level = above
    return _spelled(level[0], refers, one)


def _spelled(top: object, refers: Mapping[int, object], one: object) -> str:
    text, at = _short(top), top
    while at is not one:
        below = refers[id(at)]
        text += f"{_edge(at, below)} -> {_short(below)}"
        at = below
    return text


def _circle(knot: list[object], wanted: Callable[[object], bool]) -> str:
    """The shortest way from a wanted member of a knot back to itself."""
    members = {id(member): member for member in knot}
    start = next(filter(wanted, knot))
    came: dict[int, object] = {}
    waiting = deque([start])
    while waiting:
        at = waiting.popleft()
        for target in gc.get_referents(at):
            if id(target) not in members or id(target) in came:
                continue
            came[id(target)] = at
            if target is start:
                return _back(start, came)
            waiting.append(target)
    return _short(start)


def _back(start: object, came: Mapping[int, object]) -> str:
    text, at = _short(start), start
    while True:
        source = came[id(at)]
        text = f"{_short(source)}{_edge(source, at)} -> {text}"
        at = source
        if at is start:
            return text


def _strong_components(objects: Collection[object]) -> list[list[object]]:
    """Tarjan's algorithm: the groups of several objects each of which refers, by way of others, to each."""
    by_id = {id(one): one for one in objects}
    number: dict[int, int] = {}
    low: dict[int, int] = {}
    path: list[int] = []
    on_path: set[int] = set()
    found: list[list[object]] = []
    for root in by_id:
        if root in number:
            continue
        work = [(root, iter(_references(root, by_id)))]
        number[root] = low[root] = len(number)
        path.append(root)
        on_path.add(root)
        while work:
            at, rest = work[-1]
            for target in rest:
                if target not in number:
                    number[target] = low[target] = len(number)
                    path.append(target)
                    on_path.add(target)
                    work.append((target, iter(_references(target, by_id))))
                    break
                if target in on_path:
                    low[at] = min(low[at], number[target])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == number[at]:
                    knot = []
                    while True:
                        member = path.pop()
                        on_path.discard(member)
                        knot.append(by_id[member])
                        if member == at:
                            break
                    if len(knot) > 1:
                        found.append(knot)
    return found


def _references(at: int, by_id: Mapping[int, object]) -> list[int]:
    return [id(target) for target in gc.get_referents(by_id[at]) if id(target) in by_id]


def _is_root(one: object) -> bool:
    if isinstance(one, types.ModuleType):
        return True
    return isinstance(one, dict) and "__name__" in one and "__spec__" in one


def _of_this_module(one: object) -> bool:
    return isinstance(one, types.FrameType) and one.f_code.co_filename == __file__


def _short(one: object) -> str:
    """The name of an object's kind, and what tells it from others of that kind."""
    match one:
        case types.MethodType():
            return f"method {getattr(one.__func__, '__qualname__', one.__func__)}"
        case types.FunctionType():
            return f"function {one.__qualname__}"
        case types.FrameType():
            return f"frame of {one.f_code.co_qualname}"
        case types.CoroutineType() | types.GeneratorType() | types.AsyncGeneratorType():
            return f"{type(one).__name__} {one.__qualname__}"
        case types.ModuleType():
            return f"module {one.__name__}"
        case dict() if _is_root(one):
            return f"module {one['__name__']}"
    return type(one).__qualname__


def _edge(source: object, target: object) -> str:
    """How `source` refers to `target`: an attribute, a key or an index, as far as that can be seen."""
    if isinstance(source, types.FrameType):
        names: dict[Any, Any] = source.f_locals
    elif isinstance(source, dict):
        return next((f"[{key!r:.40}]" for key, value in source.items() if value is target), "[key]")
    elif isinstance(source, list | tuple | deque):
        return next((f"[{index}]" for index, value in enumerate(source) if value is target), "")
    elif isinstance(source, types.MethodType):
        return ".__self__"
    else:
        names = getattr(source, "__dict__", {}) | {
            slot: getattr(source, slot, None) for kind in type(source).__mro__ for slot in _slots(kind)
        }
    return next((f".{name}" for name, value in names.items() if value is target), "")


def _slots(kind: type) -> Iterable[str]:
    slots = vars(kind).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else slots
