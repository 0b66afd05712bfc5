"""The message log of one client: it numbers the messages of a session, and keeps the newest for a client that comes back.

It covers all connections of the client's session. Each message gets its number when it is said, also while no connection
could carry it. The welcome is number 1; messages before it have none. A goodbye that ends a connection and not the session
is not in the log: see `ClientSender.hang_up`. Values of settings are numbered and not kept, since the welcome of a client
that comes back has the newest.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from reactor_trio.protocol import ServerText, encode_server_text

WELCOME = "reactor.welcome"


class MessageLog:
    """The messages of one client.

    Args:
        messages: how many are kept at most; 0 if the client cannot come back.
        size: their bytes at most, together; a new message replaces the oldest.
    """

    def __init__(self, messages: int = 0, size: int = 0) -> None:
        self._messages = messages
        self._size = size
        self._said = 0
        self._kept: deque[tuple[int, str, str]] = deque()  # number, type, text
        self._kept_size = 0
        self._forgotten = 0  # number of the newest message that was kept and then dropped

    @property
    def keeps(self) -> bool:
        """Whether messages are kept."""
        return self._messages > 0

    def add(self, type: str, data: Any, id: int | None = None, *, keep: bool = True) -> str:  # noqa: A002 - the wire's words
        """Encode the next message, and keep it if `keep`."""
        if type == WELCOME or self._said:
            self._said += 1
        text = encode_server_text(ServerText(type, data, id, self._said or None))
        if keep and self._said > 1 and self.keeps:
            self._keep(type, text)
        return text

    def welcome_again(self, data: Any) -> str:
        """Encode the welcome of a client that comes back; the numbers go on."""
        return encode_server_text(ServerText(WELCOME, data, None, 1))

    def after(self, number: int) -> list[tuple[str, str]]:
        """Type and text of each message after `number` that is kept, in order."""
        return [(type_, text) for n, type_, text in self._kept if n > number]

    def missed_after(self, number: int) -> int:
        """How many messages after `number` are no longer kept, values of settings included."""
        return max(0, self._forgotten - max(1, number))

    def _keep(self, type: str, text: str) -> None:  # noqa: A002 - the wire's word
        self._kept.append((self._said, type, text))
        self._kept_size += _size(text)
        while len(self._kept) > self._messages or self._kept_size > self._size:
            self._forgotten, _type, gone = self._kept.popleft()
            self._kept_size -= _size(gone)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
