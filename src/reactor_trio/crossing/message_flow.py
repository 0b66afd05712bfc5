"""A model's messages on their way to the I/O loop: how many may be under way, so that a model cannot outrun that loop.

`MessageFlow` is the model's side. `MessageReports` is the I/O side, wherever the model runs: it reports what it has taken.
"""

from __future__ import annotations

from typing import Any

import msgspec
import trio

from reactor_trio.crossing.channel import ChannelEnd
from reactor_trio.crossing.messages import MessagesTaken, ModelMessageSent

#: messages that may be under way, and their bytes; the message that reaches the bytes may exceed them
MOST, MOST_BYTES = 1024, 16 * 1024 * 1024
#: how many messages, or how many bytes, the I/O loop takes before it reports them; less than may be under way
REPORTED, REPORTED_BYTES = 256, 4 * 1024 * 1024


class MessageFlow:
    """The messages of one session, on the model loop."""

    def __init__(self, channel: ChannelEnd) -> None:
        self._channel = channel
        self._under_way = self._bytes = 0
        self._wait_for_room = trio.lowlevel.ParkingLot()

    async def put(self, type: str, data: Any, client: int | None) -> None:  # noqa: A002 - the wire's words
        """Send a message. Waits only while too many are under way."""
        while self._under_way >= MOST or self._bytes >= MOST_BYTES:
            await self._wait_for_room.park()
        text = msgspec.json.encode(data)
        self._under_way += 1
        self._bytes += len(text)
        self._channel.send(ModelMessageSent(type, text, client))

    def taken(self, report: MessagesTaken) -> None:
        """Note what the I/O loop has taken."""
        self._under_way -= report.messages
        self._bytes -= report.size
        self._wait_for_room.unpark_all()

    def close(self) -> None:
        """Let those that wait for room go on: the session is over, and no report comes any more."""
        self._under_way = self._bytes = 0
        self._wait_for_room.unpark_all()


class MessageReports:
    """What the I/O loop has taken of a session's messages and not yet reported."""

    def __init__(self, channel: ChannelEnd) -> None:
        self._channel = channel
        self._messages = self._bytes = 0

    def took(self, size: int) -> None:
        """Note a message of `size` bytes, and report those taken if they are enough."""
        self._messages += 1
        self._bytes += size
        if self._messages >= REPORTED or self._bytes >= REPORTED_BYTES:
            self._channel.send(MessagesTaken(self._messages, self._bytes))
            self._messages = self._bytes = 0
