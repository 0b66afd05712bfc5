"""How encoders and decoders leave the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from reactor_trio.media.encoders import Encoded, Encoder
from reactor_trio.media.frames import FrameHandle

A = TypeVar("A")
R = TypeVar("R")


class Worker(Protocol):
    """Runs a blocking function away from the loop, and is cancelled only after it has ended."""

    async def __call__(self, function: Callable[[A], R], argument: A, /) -> R:
        """What `function(argument)` returns or raises."""
        ...


async def run_encoder(encoder: Encoder, frame: FrameHandle, worker: Worker) -> Encoded:
    """Encode, away from the loop if that costs anything. Raises what the encoder raises."""
    if encoder.blocking or not isinstance(frame, np.ndarray):  # a tensor may have to come from its device
        return await worker(encoder.encode, frame)
    return encoder.encode(frame)
