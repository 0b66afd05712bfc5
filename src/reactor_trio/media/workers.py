"""How encoders and decoders leave the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

A = TypeVar("A")
R = TypeVar("R")


class Worker(Protocol):
    """Runs a blocking function away from the loop, and is cancelled only after it has ended."""

    async def __call__(self, function: Callable[[A], R], argument: A, /) -> R:
        """What `function(argument)` returns or raises."""
        ...
