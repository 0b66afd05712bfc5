"""Descriptors that no child of this process may keep: the port, the connections of clients, the links between processes.

Author code may start processes, in `load` and in a step. A child that `os.fork` makes, also as a `multiprocessing.Process`
of the start method `fork`, has each descriptor of this process. If this process then dies and the child lives on, the port
stays taken, so the server cannot start again; and no client learns that its connection is over. So in a forked child each
registered descriptor becomes one of the null device, before any other code of the child runs. It is not merely closed:
objects of the child still hold its number, and would close or write to whatever gets that number next. Nothing is sent, and
nothing is shut down: the connection is still that of the parent.

A program that is started, for example by `subprocess`, keeps no descriptor that is closed on exec. Those of Python are, but
for the ones that this process has inherited itself; `keep_from_children` makes these like the others.

A fork in C code that does not pass through Python (`PyOS_AfterFork_Child`) keeps everything.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable
from typing import Protocol, TypeVar


class _HasDescriptor(Protocol):
    def fileno(self) -> int:
        """Return the number of the descriptor; negative, or ValueError, if it is closed."""


T = TypeVar("T", bound=_HasDescriptor)

_KEPT: weakref.WeakSet[_HasDescriptor] = weakref.WeakSet()
_OPENING = threading.RLock()  # no other thread forks meanwhile


def keep_from_children(owner: T) -> T:
    """Register the open descriptor of `owner` until that is closed or gone; returns `owner`. May be called again."""
    os.set_inheritable(owner.fileno(), False)
    _KEPT.add(owner)
    return owner


def open_kept_from_children(opener: Callable[[], T]) -> T:
    """Return what `opener` opens, registered; a fork of another thread waits until it is.

    Raises what `opener` raises.
    """
    with _OPENING:
        return keep_from_children(opener())


def _let_go() -> None:
    """In a forked child, whose only thread runs this."""
    numbers = []
    for owner in list(_KEPT):
        try:
            numbers.append(owner.fileno())
        except ValueError:
            continue
    try:
        null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # such as EMFILE
        null = None
    for number in numbers:
        if number >= 0:
            if null is None:
                os.close(number)
            else:
                os.dup2(null, number, inheritable=False)
    if null is not None:
        os.close(null)


def _after_in_child() -> None:
    _OPENING.release()
    _let_go()


os.register_at_fork(before=_OPENING.acquire, after_in_parent=_OPENING.release, after_in_child=_after_in_child)
