"""A session's commands on their way: numbered in order, and kept until they are answered.

A server counts the commands that it reads in a session, as this side counts those that it gives. After a comeback the server
says how many it has read: those behind are sent again, before any newer one. So none is lost, and none is sent twice.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from reactor_trio.errors import ProtocolError

#: commands that may be unanswered, and what their texts may hold together, in characters; beyond either a command waits
MOST_KEPT = 1024
MOST_CHARACTERS = 16 * 1024 * 1024
#: Commands that go at once after a comeback, and then in a second: half of what a server takes unless it is told otherwise.
CATCH_UP = 100

Send = Callable[[str], Awaitable[None]]


class Outbox:
    """The commands of one session. Numbers count from 1."""

    def __init__(self, most: int = MOST_KEPT, most_characters: int = MOST_CHARACTERS) -> None:
        self._most = most
        self._most_characters = most_characters
        self._texts: dict[int, str] = {}
        self._characters = 0
        self._newest = 0
        self._sent = 0
        self._put = anyio.Event()
        self._answered = anyio.Event()

    def __len__(self) -> int:
        """How many are unanswered."""
        return len(self._texts)

    async def wait_room(self) -> None:
        """Return when one more may be put. Where there is room it returns at once."""
        while len(self._texts) >= self._most or self._characters >= self._most_characters:
            self._answered = anyio.Event() if self._answered.is_set() else self._answered
            await self._answered.wait()

    def put(self, number: int, text: str) -> None:
        """Command `number`, the next one, is to be sent."""
        assert number == self._newest + 1, (number, self._newest)
        self._newest = number
        self._texts[number] = text
        self._characters += len(text)
        self._put.set()

    def answered(self, number: int) -> None:
        """Command `number` has its answer; one that is not known here is nobody's."""
        text = self._texts.pop(number, None)
        if text is not None:
            self._characters -= len(text)
            self._answered.set()

    def clear(self) -> None:
        """The session is over: nothing more is sent, and nobody waits for room."""
        self._texts.clear()
        self._characters = 0
        self._sent = self._newest
        self._answered.set()

    def resume(self, received: int) -> None:
        """The server has read `received` of the session's commands. Raises ProtocolError if that cannot be."""
        unread = range(received + 1, self._newest + 1)
        if not 0 <= received <= self._newest or not all(number in self._texts for number in unread):
            raise ProtocolError(f"it read {received} commands, it says, of {self._newest}, {len(self)} of them unanswered")
        self._sent = received

    async def send_all(self, send: Send) -> None:
        """Send what is not sent, in order, and then what is put, until cancelled. Raises what `send` raises.

        What waits now, as after a comeback, goes without haste: a server refuses more than so many commands a second.
        """
        at_once = CATCH_UP
        while self._sent < self._newest:
            if at_once == 0:
                await anyio.sleep(1 / CATCH_UP)
            at_once -= at_once > 0
            await self._send_next(send)
        while True:
            while self._sent < self._newest:
                await self._send_next(send)
            self._put = anyio.Event()
            await self._put.wait()

    async def _send_next(self, send: Send) -> None:
        number = self._sent + 1
        if (text := self._texts.get(number)) is not None:  # else a server answered what it was never sent
            await send(text)
        # An answer may have come, or the end, before the socket told that it took the command.
        self._sent = max(self._sent, number)
