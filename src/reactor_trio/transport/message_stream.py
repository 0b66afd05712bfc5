"""What the rest of the server sees of a client: whole messages in and out, and the two ways in which it can be gone."""

from __future__ import annotations

from abc import ABC, abstractmethod


class PeerGone(Exception):
    """The client closed the connection, or the link to it is lost.

    Attributes:
        code: its WebSocket close code; 1005 if it gave none, 1006 if the link ended without a close frame, and our own
            code if we were the first to close.
        reason: readable, possibly empty.
    """

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(f"{code} {reason}".rstrip())
        self.code = code
        self.reason = reason


class PeerTooSlow(PeerGone):
    """The client's socket took no byte for `Limits.stall` seconds; the link was cut in the middle of a message."""


class MessageStream(ABC):
    """A connected client.

    One task receives and must always be receiving: only then are pings answered and a closing client noticed. Another
    task, and only one, sends.

    Attributes:
        peer: the client's address, for logs.
    """

    peer: str

    @abstractmethod
    async def receive(self) -> str | bytes:
        """The next message. Raises PeerGone; cancelling it loses nothing."""

    @abstractmethod
    async def send_text(self, text: str) -> None:
        """Send a text message; returns when the system has taken all of it.

        Raises PeerGone. Cancelling it in the middle of the message cuts the link, because half a message must never be
        followed by another.
        """

    @abstractmethod
    async def send_packet(self, head: bytes, payload: memoryview) -> None:
        """Send one binary message, `head` followed by `payload`, without joining or copying them.

        Raises PeerGone; cancellation as in `send_text`. `payload` must not change until this returns.
        """

    @abstractmethod
    async def aclose(self, code: int, reason: str) -> None:
        """Close politely: tell the client why, wait at most 1 s for its answer, then drop the connection.

        `reason` is cut to the 123 bytes of UTF-8 that a close frame has room for. Never raises PeerGone, and does
        nothing on a connection that is over. When cancelled it drops the connection at once.
        """

    @abstractmethod
    async def abort(self) -> None:
        """Drop the connection now, without a word; a pending `receive` raises PeerGone."""
