"""The text messages that wait for one client's socket."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable

#: bytes of texts that may wait, beyond one of any size
MOST_BYTES = 16 * 1024 * 1024


class TextQueue:
    """Texts in order, each perhaps with what to call when it has been written.

    Args:
        most: how many may wait.
    """

    def __init__(self, most: int) -> None:
        self._most, self._most_bytes = most, MOST_BYTES
        self._texts: deque[tuple[str, Callable[[], object] | None]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._texts)

    @property
    def overfull(self) -> bool:
        """Whether more waits than may: the client does not read."""
        return len(self._texts) > self._most or (self._bytes > self._most_bytes and len(self._texts) > 1)

    def put(self, text: str, sent: Callable[[], object] | None = None) -> None:
        """Queue a text."""
        self._texts.append((text, sent))
        self._bytes += sys.getsizeof(text)

    def put_again(self, texts: Iterable[str]) -> None:
        """Queue texts that were kept for this client. They count against no bound."""
        for text in texts:
            self.put(text)
            self._most += 1
            self._most_bytes += sys.getsizeof(text)

    def take(self) -> tuple[str, Callable[[], object] | None]:
        """Remove the oldest text; returns it with what to call when it has been written."""
        text, sent = self._texts.popleft()
        self._bytes -= sys.getsizeof(text)
        return text, sent

    def clear(self) -> None:
        """Drop all texts."""
        self._texts.clear()
        self._bytes = 0
