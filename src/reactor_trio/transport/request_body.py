"""`Body`: a request's body as an async iterator of pieces, with two time limits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import h11
import trio

from reactor_trio.transport.peer_limits import Limits
from reactor_trio.transport.site import Refused

_PIECE = 64 * 1024


class Body:
    """The pieces of a body as they arrive, none empty: each within `Limits.stall`, all within `Limits.body_time`.

    Args:
        next_event: returns h11's next event. Its argument is the most bytes that it may read at once; None leaves the choice
            to the callee.
        size: the Content-Length, or 0 if there is none. A chunked body is read in small pieces.
    """

    def __init__(self, next_event: Callable[[int | None], Awaitable[h11.Event]], size: int, limits: Limits) -> None:
        self._next_event = next_event
        self._left = size
        self._limits = limits
        self._deadline = trio.current_time() + limits.body_time
        self._complete = False

    def __aiter__(self) -> Body:
        return self

    async def __anext__(self) -> bytes:
        """Return the next piece.

        Raises Refused: 408 if the client takes too long, 400 if the client ends the connection in the middle of the body.
        """
        if self._complete:
            raise StopAsyncIteration
        stalled_at = trio.current_time() + self._limits.stall
        with trio.CancelScope(deadline=min(self._deadline, stalled_at)) as patience:
            event = await self._next_event(min(self._left, _PIECE) or None)
        if patience.cancelled_caught and stalled_at < self._deadline:
            raise Refused.because(408, f"no byte of the body came for {self._limits.stall:g} s")
        if patience.cancelled_caught:
            raise Refused.because(408, f"the body was not complete after {self._limits.body_time:g} s")
        if isinstance(event, h11.Data):
            self._left = max(0, self._left - len(event.data))
            return bytes(event.data)
        self._complete = True
        raise StopAsyncIteration
