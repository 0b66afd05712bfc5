"""An event that happens again and again: ringing wakes whoever waits now, and leaves nothing behind."""

from __future__ import annotations

import math

import trio


class Bell:
    """Wakes waiting tasks of its own loop. `ring` never raises, so it may be posted."""

    def __init__(self) -> None:
        self._rung = trio.Event()

    def ring(self) -> None:
        """Wake every task that waits now."""
        self._rung.set()
        self._rung = trio.Event()

    async def wait(self, deadline: float = math.inf) -> None:
        """Wait for the next ring, or until `deadline` in `trio.current_time()` seconds. Always a checkpoint."""
        if deadline == math.inf:
            await self._rung.wait()
            return
        with trio.move_on_at(deadline):
            await self._rung.wait()
