"""`ServedSession`: all that a server knows of one session, from its admission until its client's last connection is over.

    ServedSession.run -+- session   ends on its own, or is cancelled: at once when the client leaves for good, else when the
                       |            time to come back is over, which is the deadline of the scope
                       '- its entry in the waiting room, released when the session has unwound and the goodbye is sent

If a session may outlive its connection, it runs in the server's scope, else in that of the connection
(`SessionProvider.session_scope`). The rest is the same: without time to come back, a client that is lost has left.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import InitVar, dataclass
from typing import Any, Protocol

import trio

from reactor_trio.concurrency.lost_time import patient
from reactor_trio.connection.client_sender import ClientSender
from reactor_trio.connection.rendition_set import RenditionSet
from reactor_trio.media import Bundle
from reactor_trio.pacing import EncoderPace
from reactor_trio.protocol import EndReason
from reactor_trio.session import Session

log = logging.getLogger("reactor_trio.connection")

#: Close codes of a client that does not come back: it closed (1000; 1005 is a close frame without a code), broke the
#: WebSocket protocol, sent text that is not UTF-8, or sent a message that is too big.
FINAL_CODES = frozenset({1000, 1005, 1002, 1007, 1009})


class Entry(Protocol):
    """A client's entry in the waiting room: a slot, or a position in the queue."""

    sid: str
    admitted: trio.Event

    def claim(self) -> None:
        """Take the slot of the model. Raises NotAdmitted."""

    def release(self) -> None:
        """Give back the slot or the position; the next client may come."""


@dataclass(eq=False)
class ServedSession:
    """A session, its encoders, the secrets that open it, and the client that controls it.

    Args:
        renditions: the encoders, which the client and its viewers share.
        entry: released at the end.
        first: the sender of the client's first connection.
        window: seconds in which the client may come back; 0: it may not.
        run_session: runs the session; returns when the model has let go of it.
        changed: called when the client is lost, or is back.
        closed: called once, when this is over.

    Attributes:
        share_token: what a viewer must show to watch it.
        resume_token: what the client must show to come back; None if it may not.
        detached: what the session has in place of the client while that is away.
        received: commands that were read on the client's connections.
        sender: that of the client's present connection; None while the client is away.
        over: whether `run` has ended.
    """

    session: Session
    renditions: RenditionSet
    entry: Entry
    first: InitVar[ClientSender]
    window: float
    run_session: Callable[[ServedSession], Awaitable[None]]
    changed: Callable[[ServedSession], None]
    closed: Callable[[ServedSession], None]

    def __post_init__(self, first: ClientSender) -> None:
        self.share_token = secrets.token_urlsafe(16)
        self.resume_token = secrets.token_urlsafe(32) if self.window else None
        self.claims = first.request.claims
        self.detached = DetachedClient(first)
        self.received = 0
        self.sender: ClientSender | None = first
        self.over = False
        self._scope = trio.CancelScope()
        self._lost = trio.Event()  # of a connection, while `run` waits for the last one

    @property
    def running(self) -> bool:
        """Whether the model has not let go of the session yet."""
        return not (self.session.ended.is_set() or self.over)

    @property
    def resumable(self) -> bool:
        """Whether the client may come back now."""
        return self.resume_token is not None and self.session.reason is None and not self._scope.cancel_called

    @property
    def away(self) -> bool:
        """Whether the session runs without its client, which may come back."""
        return self.sender is None and self.resumable

    @property
    def end_reason(self) -> EndReason | None:
        """Why the client must go; None while it may stay."""
        return self.session.reason or (None if self.sender is None else self.sender.end_reason)

    async def run(self) -> None:
        """Run the session and release the entry. Returns when the session and the client's last connection are over."""
        try:
            with patient(self._scope):
                await self.run_session(self)
            while self.sender is not None:
                self._lost = trio.Event()
                await self._lost.wait()
        finally:
            self.over = True
            self.entry.release()
            self.closed(self)

    def take_over(self, sender: ClientSender) -> None:
        """Use `sender` from now on: the client is back. A connection that it still has is ended."""
        before, self.sender = self.sender, sender
        self._scope.deadline = math.inf
        log.info("session %s has its client again", self.session.id)
        if before is not None:
            before.hang_up("taken_over")
        self.changed(self)

    def lost(self, sender: ClientSender, code: int | None) -> None:
        """A connection is over. Wait for the client to come back, or end the session.

        `code`: the close code of the client (`PeerGone.code`); None if the server ended the connection.
        """
        if self.over or self.sender is not sender:
            return  # the server was cancelled before the connection ended, or another connection has replaced this one
        self.sender = None
        if self.resumable and _may_come_back(sender, code):
            self._scope.deadline = trio.current_time() + self.window
            log.info("session %s has lost its client, which may come back in %g s", self.session.id, self.window)
            self.session.keep_for(self.detached)
        else:
            self.session.detach(sender)
            self.session.reason = self.session.reason or sender.end_reason or "client_left"
            self._scope.cancel()
        self._lost.set()
        self.changed(self)


def _may_come_back(sender: ClientSender, code: int | None) -> bool:
    if code in FINAL_CODES:
        return False
    return sender.end_reason == "too_slow" or (sender.end_reason is None and code is not None)


class DetachedClient:
    """The `Attachment` of a controlling client that is away: it keeps messages and drops frames."""

    watches = False

    def __init__(self, sender: ClientSender) -> None:
        self.number, self.joined_at = sender.number, sender.joined_at
        self.follows_worlds = sender.follows_worlds
        self.message_log = sender.message_log

    def offer(self, bundle: Bundle, pts: float) -> EncoderPace:
        """Drop a bundle."""
        return "unknown"

    def say(self, type: str, data: Any, id: int | None = None) -> None:  # noqa: A002 - the wire's words
        """Keep a message until the client is back."""
        self.message_log.add(type, data, id)

    def say_values(self, values: dict[str, Any], sent: Callable[[], object]) -> None:
        """Do nothing: the welcome of a client that comes back has the values."""

    def end(self, reason: EndReason, message: str = "") -> None:
        """Do nothing."""

    async def wait_free(self) -> None:
        """Return at once: nothing waits."""
        await trio.lowlevel.checkpoint()
