"""What the server has said to one client, over all the connections of its session: numbered, and the newest of it kept for a
client that comes back.

Each message gets its number when it is said, whether a connection is there to carry it or not. Numbers begin with the
welcome, 1; what comes before it has none. A goodbye that ends a connection and not the session is no message of the session:
see `ClientSender.hang_up`. Values of settings are numbered and not kept: the welcome of a client that comes back has the
newest.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from reactor_trio.protocol import ServerText, encode_server_text

WELCOME = "reactor.welcome"


class MessageLog:
    """The messages of one client.

    Args:
        messages: how many are kept at most; 0: none, nobody will ask.
        size: bytes that they have together at most; what does not fit takes the place of the oldest.
    """

    def __init__(self, messages: int = 0, size: int = 0) -> None:
        self._messages = messages
        self._size = size
        self._said = 0
        self._kept: deque[tuple[int, str, str]] = deque()  # number, type, text
        self._kept_size = 0
        self._forgotten = 0  # number of the newest message that was kept and is not any more

    @property
    def keeps(self) -> bool:
        """Whether somebody may ask for what was said."""
        return self._messages > 0

    def add(self, type: str, data: Any, id: int | None = None, *, keep: bool = True) -> str:  # noqa: A002 - the wire's words
        """The text of the next message, numbered from the welcome on."""
        if type == WELCOME or self._said:
            self._said += 1
        text = encode_server_text(ServerText(type, data, id, self._said or None))
        if keep and self._said > 1 and self.keeps:
            self._keep(type, text)
        return text

    def welcome_again(self, data: Any) -> str:
        """The text of a welcome with which the messages do not begin anew."""
        return encode_server_text(ServerText(WELCOME, data, None, 1))

    def after(self, number: int) -> list[tuple[str, str]]:
        """Type and text of each message after `number` that is still there, in order."""
        return [(type_, text) for n, type_, text in self._kept if n > number]

    def missed_after(self, number: int) -> int:
        """How many messages after `number` are not there any more; values among those that are counted."""
        return max(0, self._forgotten - max(1, number))

    def _keep(self, type: str, text: str) -> None:  # noqa: A002 - the wire's word
        self._kept.append((self._said, type, text))
        self._kept_size += _size(text)
        while len(self._kept) > self._messages or self._kept_size > self._size:
            self._forgotten, _type, gone = self._kept.popleft()
            self._kept_size -= _size(gone)


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())
