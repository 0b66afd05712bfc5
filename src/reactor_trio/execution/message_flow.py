"""A model's messages on their way to the I/O loop: how many may be under way, so that a model cannot outrun that loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.execution.mailbox import Mailbox

#: messages that may be under way, and their bytes; the message that reaches the bytes may exceed them
MOST, MOST_BYTES = 1024, 16 * 1024 * 1024
#: how many messages, or how many bytes, the I/O loop takes before it reports them; less than may be under way
REPORTED, REPORTED_BYTES = 256, 4 * 1024 * 1024


#: `SessionEvents.tell`
Tell = Callable[[str, Any, int | None], object]


class MessageFlow:
    """The messages of one session.

    Args:
        mailbox: carries calls to the I/O loop.
        replies: carries calls back.
    """

    def __init__(self, mailbox: Mailbox, replies: Mailbox) -> None:
        self._mailbox = mailbox
        self._replies = replies
        # on the model loop
        self._under_way = self._bytes = 0
        self._room = RepeatedEvent()
        # on the I/O loop
        self._told = self._told_bytes = 0

    async def put(self, tell: Tell, type: str, data: Any, client: int | None) -> None:  # noqa: A002 - the wire's words
        """Have the I/O loop call `tell` with a message. Waits only while too many are under way."""
        while self._under_way >= MOST or self._bytes >= MOST_BYTES:
            await self._room.wait()
        size = len(msgspec.json.encode(data))
        self._under_way += 1
        self._bytes += size
        self._mailbox.post(self._tell, tell, type, data, client, size)

    def close(self) -> None:
        """Let those that wait for room go on: the session is over, and no report comes any more."""
        self._under_way = self._bytes = 0
        self._room.set()

    def _tell(
        self, tell: Tell, type: str, data: Any, client: int | None, size: int  # noqa: A002 - the wire's words
    ) -> None:
        tell(type, data, client)
        self._told += 1
        self._told_bytes += size
        if self._told >= REPORTED or self._told_bytes >= REPORTED_BYTES:
            self._replies.post(self._reported, self._told, self._told_bytes)
            self._told = self._told_bytes = 0

    def _reported(self, messages: int, size: int) -> None:
        self._under_way -= messages
        self._bytes -= size
        self._room.set()
