"""Time that the loop lost, which no deadline of anybody else may include.

The whole process may stand still for seconds: SIGSTOP, a frozen container, a virtual machine that moves. Then the loop reads
nothing that clients send. When it goes on, everything happens at once: their bytes are there, and their deadlines are over.
So deadlines by which this server judges others move by the time that its loop lost: those of `patient` scopes move by
themselves, and times from `run_time` leave it out.

What tells somebody when something is shown or ends does not move, for clients and a model in another process have seen that
time pass: due times of frames, timestamps, measurements of links, the length of a session, the expiry of tokens.

`LoopLag.tick` notices lost time. In a loop without it these are ordinary scopes and times.
"""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from types import TracebackType

import trio


@dataclass(eq=False)
class _Lost:
    """What one loop has lost: seconds in all, when it last went on, and the scopes that must move."""

    seconds: float = 0.0
    resumed_at: float = -math.inf
    scopes: set[trio.CancelScope] = field(default_factory=set)


_LOST = trio.lowlevel.RunVar[_Lost]("lost time")


def _lost() -> _Lost:
    try:
        return _LOST.get()
    except LookupError:
        _LOST.set(lost := _Lost())
        return lost


def run_time() -> float:
    """Return the seconds for which this loop has run, from an arbitrary start: `trio.current_time()` without lost time."""
    return trio.current_time() - _lost().seconds


def at(deadline: float) -> float:
    """Return when it will be `deadline`, a time of `run_time`, in `trio.current_time()` seconds if no more time is lost."""
    return deadline + _lost().seconds


def resumed_at() -> float:
    """Return when this loop last went on after lost time, in `trio.current_time()` seconds; -infinity without any."""
    return _lost().resumed_at


class _Patient:
    __slots__ = ("_scope", "_scopes")

    def __init__(self, scope: trio.CancelScope) -> None:
        self._scope = scope
        self._scopes = _lost().scopes

    def __enter__(self) -> trio.CancelScope:
        self._scope.__enter__()
        self._scopes.add(self._scope)
        return self._scope

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> bool:
        self._scopes.discard(self._scope)
        return self._scope.__exit__(kind, error, trace)


def patient(scope: trio.CancelScope) -> AbstractContextManager[trio.CancelScope, bool]:
    """Enter a cancel scope whose deadline moves by the time that this loop loses."""
    return _Patient(scope)


def patient_until(deadline: float) -> AbstractContextManager[trio.CancelScope, bool]:
    """Enter a cancel scope that ends at `deadline`, a time of `run_time`."""
    return _Patient(trio.CancelScope(deadline=at(deadline)))


def lose(seconds: float) -> None:
    """Note that the loop has just lost so many seconds. Called before Trio looks at deadlines."""
    lost = _lost()
    lost.seconds += seconds
    lost.resumed_at = trio.current_time()
    for scope in lost.scopes:
        scope.deadline += seconds
