"""`StepTimer`: how long a block of work takes on its device."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING, Any

import trio

if TYPE_CHECKING:
    import torch


class StepTimer:
    """Times a block of work on its device, again and again, without making the caller wait for the device.

    On CUDA the block lies between two events on the current stream, and the time is that of the device: from the end of what
    was queued before the block to the end of the block. Elsewhere it is the time that the calls of the block take. It comes
    from Trio's clock, so it is virtual in a test; in a thread without Trio, such as a script, from the system's.

        timer = StepTimer(self.device)
        with timer:
            frames = self.generate()
        log.info("a step takes %s s", timer.seconds)

    A timer belongs to one thread, and its blocks cannot contain each other: take one timer for each part that you time. A
    block that raises, or is cancelled, counts like every other.

    Args:
        device: where the block computes, as torch names it.
    """

    def __init__(self, device: torch.device | str = "cpu") -> None:
        self._on_cuda = str(device).partition(":")[0] == "cuda"
        self._device = device
        self._began: Any = None
        #: blocks that the device has perhaps not finished, oldest first
        self._running: deque[tuple[Any, Any]] = deque()
        self._seconds: float | None = None

    def __enter__(self) -> StepTimer:
        self._collect()
        self._began = self._mark()
        return self

    def __exit__(self, *_error: object) -> None:
        self._running.append((self._began, self._mark()))

    @property
    def seconds(self) -> float | None:
        """Seconds of the newest block that the device has finished; None before the first. Never waits."""
        self._collect()
        return self._seconds

    def wait(self) -> float:
        """Block the thread until the device has finished the newest block, and return the seconds of that.

        Raises RuntimeError if there was no block yet.
        """
        if self._running:
            newest = self._running[-1][1]
            if self._on_cuda:
                newest.synchronize()
        seconds = self.seconds
        if seconds is None:
            raise RuntimeError("StepTimer.wait(): nothing was timed yet; use `with timer:` first")
        return seconds

    def _mark(self) -> Any:
        """The present place in the device's queue, or the present time."""
        if not self._on_cuda:
            return _now()
        import torch

        cuda: Any = torch.cuda
        event = cuda.Event(enable_timing=True, blocking=True)  # a wait for it sleeps instead of spinning
        event.record(cuda.current_stream(self._device))
        return event

    def _collect(self) -> None:
        """Take over the blocks that are finished. They finish in order, since they are on one stream."""
        while self._running and (not self._on_cuda or self._running[0][1].query()):
            began, ended = self._running.popleft()
            self._seconds = began.elapsed_time(ended) / 1000 if self._on_cuda else ended - began


def _now() -> float:
    try:
        return trio.current_time()
    except RuntimeError:  # no Trio runs in this thread
        return time.perf_counter()
