"""The text messages that wait for one client's socket."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress

import trio

#: bytes of texts that may wait, beyond one of any size
MOST_BYTES = 16 * 1024 * 1024


class TextQueue:
    """Texts in order, each perhaps with what to call when it has been written.

    Args:
        most: how many may wait.

    Attributes:
        count: how many wait. An attribute, since each frame asks for it several times.
    """

    def __init__(self, most: int) -> None:
        self._most, self._most_bytes = most, MOST_BYTES
        self._to_send, self._texts = trio.open_memory_channel[tuple[str, Callable[[], object] | None]](math.inf)
        self.count = self._bytes = 0  # of what waits: a channel knows no bytes

    @property
    def overfull(self) -> bool:
        """Whether more waits than may: the client does not read."""
        return self.count > self._most or (self._bytes > self._most_bytes and self.count > 1)

    def put(self, text: str, sent: Callable[[], object] | None = None) -> None:
        """Queue a text; drop it if the connection is over."""
        with suppress(trio.BrokenResourceError):
            self._to_send.send_nowait((text, sent))
            self.count += 1
            self._bytes += sys.getsizeof(text)

    def put_again(self, texts: Iterable[str]) -> None:
        """Queue texts that were kept for this client. They count against no bound."""
        for text in texts:
            self.put(text)
            self._most += 1
            self._most_bytes += sys.getsizeof(text)

    def take(self) -> tuple[str, Callable[[], object] | None]:
        """Remove the oldest text; returns it with what to call when it has been written."""
        text, sent = self._texts.receive_nowait()
        self.count -= 1
        self._bytes -= sys.getsizeof(text)
        return text, sent

    def clear(self) -> None:
        """Drop all texts."""
        while self.count:
            self.take()

    def close(self) -> None:
        """Drop all texts, and what is queued from now on: the connection is over."""
        self._texts.close()
        self.count = self._bytes = 0
