"""Cancellation at every place where a server waits: first a run that notes the places, then one run for each of them.

A place is "task T has made its n-th step": from there T waits (or has ended), and so does everybody else. The scope under
test is cancelled then, in virtual time, so no place depends on how fast a machine is. Trio runs ready tasks in any order; a
place that one order has and another has not is simply not reached in that run, which then ends by itself.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import trio

#: seconds of virtual time after which something hangs
PATIENCE = 120.0
#: runs for one place at most: each has another order of ready tasks
_ORDERS = 4

#: tasks by the module of their function: the server's; those of the far side and of the kit
_OURS = ("reactor_trio.", "trio_websocket.")
_NOT_OURS = ("reactor_trio.client", "reactor_trio.testing")

Place = tuple[str, int, int]
#: where a task waits: file and line of each of its awaits, the outermost first; empty if it has ended
Stack = tuple[tuple[str, int], ...]


class Injector(trio.abc.Instrument):
    """Notes each place that the tasks begun while `run` lasts come to, or cancels its scope at one of them.

    Attributes:
        places: without a `target`, in the order in which they were first reached, and where the task waited.
        waiting: file and line of each await at which some task waited when the cancellation came.
        hit: whether it came.
    """

    def __init__(self, target: Place | None = None) -> None:
        self.target = target
        self.places: dict[Place, Stack] = {}
        self.waiting: set[tuple[str, int]] = set()
        self.hit = False
        self._scope = trio.CancelScope()
        self._armed = False
        self._seen: Counter[str] = Counter()
        self._tasks: dict[trio.lowlevel.Task, list[object]] = {}

    async def run(self, function: Callable[..., Awaitable[object]], *args: object) -> None:
        """Await `function(*args)` in the scope under test."""
        assert not self._armed
        self._armed = True
        trio.lowlevel.add_instrument(self)
        with self._scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(function, *args)  # a task of its own, so that its places count, too

    def stop(self) -> None:
        """The conversation is over."""
        if self._armed:
            trio.lowlevel.remove_instrument(self)

    def task_spawned(self, task: trio.lowlevel.Task) -> None:
        """Name a task by its name, which is its function or what the program calls it, and how many of that there were."""
        frame = getattr(task.coro, "cr_frame", None)
        module = f"{frame.f_globals['__name__']}." if frame is not None else task.name
        if module.startswith(_OURS) and not module.startswith(_NOT_OURS):
            self._tasks[task] = [task.name, self._seen[task.name], 0]
            self._seen[task.name] += 1

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """A place."""
        known = self._tasks.get(task)
        if known is None:
            return
        known[2] += 1  # type: ignore[operator]
        place: Place = tuple(known)  # type: ignore[assignment]
        if self.target is None:  # to look where a task waits takes longer than most steps
            self.places[place] = _awaits(task)
        if place == self.target:
            self.hit = True
            self.waiting = set().union(*(_awaits(waiting) for waiting in self._tasks))
            self._scope.cancel()


@dataclass
class Campaign:
    """What became of the places.

    Attributes:
        places: how many were tried.
        reached: those of them at which a cancellation came.
        waiting: file and line of each await at which some task waited then.
    """

    places: int = 0
    reached: int = 0
    waiting: set[tuple[str, int]] = field(default_factory=set)

    def __str__(self) -> str:
        return f"{self.places} places, {self.reached} reached by a cancellation, {len(self.waiting)} awaits"


async def everywhere(
    serve_client: Callable[[Injector], Awaitable[None]],
    *,
    thorough: bool,
    within: str = "",
    known: set[tuple[str, Stack]] | None = None,
    awaits: set[tuple[str, int]] | None = None,
    notes: int = 3,
) -> Campaign:
    """Run `serve_client` `notes` times as it is, then for each place that these runs came to until one run reaches it.

    Unless `thorough`, of the places at which tasks of one name wait in one and the same await only the first and the last,
    and only where the task waits in files of the package whose path has `within` in it; those in `known` are left out, and
    the others added to it. With `awaits`, file and line of each, only the places at which the task waits at one of these.
    """
    places: dict[Place, Stack] = {}
    for _ in range(notes):
        injector = Injector()
        await _bounded(serve_client, injector)
        places |= injector.places
    chosen = [place for place, stack in places.items() if awaits is None or not awaits.isdisjoint(stack)]
    if not thorough and awaits is None:
        known = set() if known is None else known
        there = {
            place: stack for place, stack in places.items()
            if within in _innermost(stack) and (place[0], stack) not in known
        }  # fmt: skip
        known |= {(place[0], stack) for place, stack in there.items()}
        first = {(place[0], stack): place for place, stack in reversed(there.items())}
        last = {(place[0], stack): place for place, stack in there.items()}
        chosen = list(dict.fromkeys([*first.values(), *last.values()]))
    campaign = Campaign()
    for place in chosen:
        for _ in range(_ORDERS):
            injector = Injector(place)
            try:
                await _bounded(serve_client, injector)
            except BaseException as error:
                error.add_note(f"cancelled at step {place[2]} of {place[0]} number {place[1]}")
                raise
            if injector.hit:
                break
        campaign.places += 1
        campaign.reached += injector.hit
        campaign.waiting |= injector.waiting
    return campaign


def _awaits(task: trio.lowlevel.Task) -> Stack:
    if task.coro.cr_frame is None:
        return ()
    return tuple((frame.f_code.co_filename, line) for frame, line in task.iter_await_frames())


async def _bounded(serve_client: Callable[[Injector], Awaitable[None]], injector: Injector) -> None:
    with trio.fail_after(PATIENCE):
        try:
            await serve_client(injector)
        finally:
            injector.stop()


def _innermost(stack: Stack) -> str:
    return next((file for file, _ in reversed(stack) if "reactor_trio" in file), "")


def tasks() -> Counter[str]:
    """The names of all tasks of this loop."""
    found: Counter[str] = Counter()
    waiting = [trio.lowlevel.current_root_task()]
    while waiting:
        task = waiting.pop()
        assert task is not None
        found[task.name] += 1
        waiting += [child for nursery in task.child_nurseries for child in nursery.child_tasks]
    return found


@dataclass(frozen=True)
class Missed:
    """An await at which no task waited when a cancellation came."""

    function: str
    source: str
    #: file and line of each of its lines
    lines: frozenset[tuple[str, int]] = field(repr=False)


def never_waited(campaigns: Iterable[Campaign], *modules: ModuleType) -> list[Missed]:
    """The awaits of these modules at which no task waited when a cancellation came."""
    waiting = set[tuple[str, int]]().union(*(campaign.waiting for campaign in campaigns))
    missed: list[Missed] = []
    for module in modules:
        assert module.__file__ is not None
        source = Path(module.__file__).read_text()
        for function in _functions(ast.parse(source)):
            for node in _own_nodes(function):
                if not isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith):
                    continue
                last = node.end_lineno if isinstance(node, ast.Await) else node.lineno
                assert last is not None
                lines = frozenset((module.__file__, line) for line in range(node.lineno, last + 1))
                if lines.isdisjoint(waiting):
                    missed.append(Missed(function.name, source.splitlines()[node.lineno - 1].strip(), lines))
    return missed


def _functions(tree: ast.AST) -> Iterator[ast.AsyncFunctionDef]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef))


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(function):
        if not isinstance(child, ast.AsyncFunctionDef | ast.FunctionDef | ast.Lambda):
            yield child
            yield from _own_nodes(child)
