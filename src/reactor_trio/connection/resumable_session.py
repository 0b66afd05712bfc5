"""One controlling client's time in the server, over all its connections: its place, its session, what it is told.

    Stay.run -+- session   ends by itself, or is cancelled: at once when the client leaves, else when its time to come back
              |            is over, which is the deadline of the scope
              '- its place in the waiting room, given back when the session has unwound and the goodbye is said

Where it runs depends on whether a session may outlive its connection (`SessionProvider.home`): in the scope of that
connection, or in the server's. The rest is the same: without time to come back a client that is lost has left.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import trio

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.connection.client_sender import ClientSender
from reactor_trio.connection.message_log import MessageLog
from reactor_trio.media import Bundle
from reactor_trio.protocol import EndReason
from reactor_trio.session import Session
from reactor_trio.transport import PeerGone

log = logging.getLogger("reactor_trio.connection")

#: Close codes of a client that does not come back: it said so (a close frame without a code says no more), or what it sent
#: was no WebSocket message, no text, or too big.
FINAL_CODES = frozenset({1000, 1005, 1002, 1007, 1009})


class Place(Protocol):
    """A client's place in the waiting room."""

    sid: str
    admitted: trio.Event

    def claim(self) -> None:
        """Take the slot. Raises Refused."""

    def release(self) -> None:
        """Give back whatever is held; the next client may come."""


class ResumableSession:
    """A session and the client that controls it.

    Args:
        place: given back at the end.
        outbound: the client's first connection.
        window: seconds in which it may come back; 0: it may not.
        run_session: runs the session; returns when the model has let go of it.
        changed: told when the client is away, is back, or the stay is over.

    Attributes:
        token: with it the client may come back; None if it may not.
        received: commands that were read on its connections.
        outbound: the connection that it has now; None while it is away.
    """

    def __init__(
        self,
        session: Session,
        place: Place,
        sender: ClientSender,
        window: float,
        run_session: Callable[[Session], Awaitable[None]],
        changed: Callable[[ResumableSession], None],
    ) -> None:
        self.session = session
        self.token = secrets.token_urlsafe(32) if window else None
        self.claims = sender.request.claims
        self.number, self.joined_at = sender.number, sender.joined_at
        self.message_log = sender.message_log
        self.received = 0
        self.sender: ClientSender | None = sender
        self.over = False
        self._place = place
        self._window = window
        self._run_session = run_session
        self._changed = changed
        self._scope = trio.CancelScope()
        self._wakeup = RepeatedEvent()

    @property
    def open(self) -> bool:
        """Whether the client may come back now."""
        return self.token is not None and self.session.reason is None and not self._scope.cancel_called

    @property
    def away(self) -> bool:
        """Whether the session runs although its client is not there."""
        return self.sender is None and self.open

    @property
    def end_reason(self) -> EndReason | None:
        """Why the client is going, None if it is not."""
        return self.session.reason or (None if self.sender is None else self.sender.end_reason)

    async def run(self) -> None:
        """The stay's whole life; returns when nothing is left of it."""
        try:
            with self._scope:
                await self._run_session(self.session)
            while self.sender is not None:
                await self._wakeup.wait()
        finally:
            self.over = True
            self._place.release()
            self._changed(self)

    def take_over(self, sender: ClientSender) -> None:
        """The client is back: `sender` is its connection from now on, and one that it still has is ended."""
        before, self.sender = self.sender, sender
        self._scope.deadline = math.inf
        log.info("session %s has its client again", self.session.id)
        if before is not None:
            before.hang_up("taken_over")
        self._changed(self)

    def lost(self, sender: ClientSender, why: PeerGone | None) -> None:
        """A connection is over; `why` is how its client went, None if it was not the client that ended it."""
        if self.sender is not sender:
            return  # another has taken its place
        self.sender = None
        if self.open and _may_come_back(sender, why):
            self._scope.deadline = trio.current_time() + self._window
            log.info("session %s has lost its client, which may come back in %g s", self.session.id, self._window)
            self.session.keep_for(DetachedClient(sender.number, sender.joined_at, self.message_log))
        else:
            self.session.detach(sender)
            self.session.reason = self.session.reason or sender.end_reason or "client_left"
            self._scope.cancel()
        self._wakeup.set()
        self._changed(self)


def _may_come_back(sender: ClientSender, why: PeerGone | None) -> bool:
    if why is not None and why.code in FINAL_CODES:
        return False
    return sender.end_reason == "too_slow" or (sender.end_reason is None and why is not None)


class DetachedClient:
    """Stands for a controlling client that is away: what it is told is kept, what is shown it does not see."""

    watches = False

    def __init__(self, number: int, joined_at: float, message_log: MessageLog) -> None:
        self.number = number
        self.joined_at = joined_at
        self._message_log = message_log

    def offer(self, bundle: Bundle, pts: float) -> None:
        """Nobody looks."""

    def say(self, type: str, data: Any, id: int | None = None) -> None:  # noqa: A002 - the wire's words
        """It will be told when it is back."""
        self._message_log.add(type, data, id)

    def say_values(self, values: dict[str, Any], sent: Callable[[], object]) -> None:
        """The welcome will have them when it is back."""

    def end(self, reason: EndReason, message: str = "") -> None:
        """Nobody is there to be told."""

    async def wait_free(self) -> None:
        """Nothing waits."""
        await trio.lowlevel.checkpoint()
