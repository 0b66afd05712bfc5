"""How encoders and decoders leave the loop."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Protocol, TypeVar

A = TypeVar("A")
R = TypeVar("R")


class Overrun(Exception):
    """A function has not returned in its time; it runs on, in a thread that is left behind."""


class Worker(Protocol):
    """Runs a blocking function away from the loop, and is cancelled only after it has ended or its time is over."""

    async def __call__(self, function: Callable[[A], R], argument: A, /, limit: float = math.inf) -> R:
        """What `function(argument)` returns or raises. Raises Overrun if that takes longer than `limit` seconds.

        A wait for a thread does not count.
        """
        ...
