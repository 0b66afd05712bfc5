"""A model's messages on their way to the I/O loop, wherever the model runs: a model cannot outrun that loop."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import trio

from reactor_trio.crossing.channel import ChannelEnd
from reactor_trio.crossing.flow_window import FlowLimits, FlowReports, FlowWindow
from reactor_trio.crossing.messages import MessagesTaken, ModelMessageSent

#: of a session's messages
MESSAGES: Final = FlowLimits(items=1024, size=16 * 1024 * 1024, reported=256, reported_size=4 * 1024 * 1024)


class MessageFlow:
    """The messages of one session, on the model loop."""

    def __init__(self, channel: ChannelEnd) -> None:
        self._channel = channel
        self._window = FlowWindow(MESSAGES)
        self._wait_for_room = trio.lowlevel.ParkingLot()

    async def put(self, type: str, data: Any, client: int | None) -> None:  # noqa: A002 - the wire's words
        """Send a message. Waits only while too many are under way."""
        while not self._window.has_room:
            await self._wait_for_room.park()
        text = msgspec.json.encode(data)
        self._window.sent(len(text))
        self._channel.send(ModelMessageSent(type, text, client))

    def taken(self, report: MessagesTaken) -> None:
        """Note what the I/O loop has taken."""
        self._window.taken(report.messages, report.size)
        self._wait_for_room.unpark_all()

    def close(self) -> None:
        """Let those that wait for room go on: the session is over, and no report comes any more."""
        self._window.clear()
        self._wait_for_room.unpark_all()


class MessageReports:
    """What the I/O loop has taken of a session's messages."""

    def __init__(self, channel: ChannelEnd) -> None:
        self._channel = channel
        self._reports = FlowReports(MESSAGES)

    def took(self, size: int) -> None:
        """Note a message of `size` bytes, and report those taken if they are enough."""
        if report := self._reports.took(size):
            self._channel.send(MessagesTaken(*report))
