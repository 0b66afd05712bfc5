"""`MessageChannel`: the interface through which the rest of the server talks to one client, in whole messages."""

from __future__ import annotations

from typing import Literal, Protocol

import trio

#: How `send_packet_now` went. "sent": the system has all of the message. "begun": it has a part, and `finish` writes the
#: rest. "refused": it has nothing.
SentNow = Literal["sent", "begun", "refused"]


class PeerGone(Exception):
    """Raised when the client has closed the connection, or the connection is lost.

    Attributes:
        code: the client's WebSocket close code: 1005 if its close frame had none, 1006 if the connection ended without a
            close frame. If the server closed first, it is the server's code.
        reason: text for people, possibly empty.
    """

    def __init__(self, code: int, reason: str = "") -> None:
        super().__init__(f"{code} {reason}".rstrip())
        self.code = code
        self.reason = reason


class PeerTooSlow(PeerGone):
    """Raised when the client took no byte for `Limits.stall` seconds. The server cut the connection within a message."""


class MessageChannel(Protocol):
    """The WebSocket messages of one connected client.

    One task must call `receive` all the time: the server answers pings and notices a close only while a task receives.
    One other task may send.

    Attributes:
        peer: the client's address, for logs.
    """

    peer: str

    async def receive(self) -> str | bytes:
        """Return the next message. Raises PeerGone. Cancelling it loses no message."""

    async def send_text(self, text: str) -> None:
        """Send a text message, and return when the system has taken all of it.

        Raises PeerGone. Cancelling it in the middle of the message cuts the connection, because no other message may follow
        half a message.
        """

    async def send_packet(self, head: bytes, payload: memoryview) -> None:
        """Send one binary message, `head` followed by `payload`, without joining or copying them.

        Raises PeerGone. Cancellation works as in `send_text`. `payload` must not change until this returns.
        """

    def send_packet_now(self, head: bytes, payload: memoryview) -> SentNow:
        """Write one binary message without waiting, as far as the system takes it now. Any task may call this.

        Refused while another message is being written, on a connection that is over, and where the stream below can write
        only by waiting. `payload` must not change until the message is finished.
        """
        return "refused"

    async def finish(self) -> None:
        """Write the rest of a message that `send_packet_now` has begun.

        Raises PeerGone. Cancellation works as in `send_text`.
        """
        await trio.lowlevel.checkpoint()

    async def aclose(self, code: int, reason: str) -> None:
        """Send a close frame, wait at most 1 s for the client's close frame, then drop the connection.

        `reason` is cut to the 123 bytes of UTF-8 that fit into a close frame. Never raises PeerGone. On a connection that
        has ended it does nothing. When cancelled it drops the connection at once.
        """

    async def abort(self) -> None:
        """Drop the connection now, without a close frame. A pending `receive` raises PeerGone."""
