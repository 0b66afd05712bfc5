"""`OpenRequests`: the requests of a port that have begun and are not over. The end of a drain waits for them alone."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import trio

from reactor_trio.concurrency.lost_time import patient


@dataclass(eq=False)
class OpenRequests:
    """Counts the connections whose request has begun: its first byte is there, its answer is not with the client yet.

    A WebSocket counts until it is closed. A connection that has sent nothing, or that idles between two requests, does not.
    """

    _open: int = 0
    _none_open: trio.Event | None = None  # while somebody waits for that

    @contextmanager
    def one(self) -> Iterator[None]:
        """Count a request during the block."""
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            if not self._open and self._none_open is not None:
                self._none_open.set()

    async def all_over(self, deadline: float) -> None:
        """Wait until no request is open, at the latest until `deadline`."""
        with patient(trio.move_on_at(deadline)):
            while self._open:
                self._none_open = trio.Event()
                await self._none_open.wait()
