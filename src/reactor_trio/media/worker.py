"""The interface by which encoders and decoders run off the event loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeVar

A = TypeVar("A")
R = TypeVar("R")


class Overrun(Exception):
    """A function exceeded its time limit. It keeps running in an abandoned thread."""


class Worker(Protocol):
    """Runs a blocking function off the event loop. Cancellation takes effect only when the function has ended or its time is
    over.
    """

    async def __call__(self, function: Callable[[A], R], argument: A, /, limit: float = math.inf) -> R:
        """Return or raise what `function(argument)` does. Raises Overrun if that takes longer than `limit` seconds, not
        counting the wait for a thread.
        """
        ...
