"""One source of items and any number of consumers; the source never waits for a consumer.

`Broadcast.put` copies each item to every living Reader. Items that come before the first reader go to a backlog, which that
reader takes over: nothing is lost between the start of the session and the first `async for`. The backlog and the queue of
each reader are bounded in items and in bytes. A full one loses its oldest item, which `dropped` counts. A reader with
`latest=True` keeps only the newest item; `skipped` counts the others.

An item may depend on the item before it, as an inter-frame picture depends on the picture before it. An item that depends
on no other is a *keyframe* here. A reader that loses one item drops all later items up to the next keyframe. A reader that
starts in the middle of the stream also starts at the next keyframe. While it waits, the Broadcast asks for a keyframe.

The Broadcast holds its readers by weak references, so a reader needs no close: it disappears with its consumer.
"""

from __future__ import annotations

import math
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


@dataclass(eq=False)
class Broadcast(Generic[T]):
    """The source of items, and the counters of what its readers lost.

    Args:
        limit: the most items in the backlog, and in each reader's queue.
        most_bytes: the most bytes in each of them, if it has more than one item.
        is_keyframe: returns whether an item is a keyframe, that is, usable without the items before it.
        request_keyframe: asks the producer for a keyframe. The Broadcast calls it again for each other item that comes while
            a reader waits.
    """

    limit: int
    most_bytes: float = math.inf
    is_keyframe: Callable[[T], bool] = lambda _: True
    request_keyframe: Callable[[], object] = lambda: None

    def __post_init__(self) -> None:
        #: items lost, also those that were lost before the first reader came
        self.dropped = 0
        self.skipped = 0
        self._dropped_before = 0
        self._backlog: Reader[T] | None = Reader(self, latest=False)
        self._readers: weakref.WeakSet[Reader[T]] = weakref.WeakSet()
        self._error: Callable[[], Exception] | None = None
        self._mid_stream = False  # whether the newest item depends on items before it

    @property
    def dropped_by_readers(self) -> int:
        """Items that readers were too slow to take. What no reader wanted yet is not among them."""
        return 0 if self._backlog is not None else self.dropped - self._dropped_before

    def put(self, item: T, size: int = 0) -> None:
        """Give `item`, of `size` bytes, to every reader, or to the backlog if there has been no reader yet."""
        self._mid_stream = not self.is_keyframe(item)
        if self._backlog is not None:
            self._backlog._put(item, size)
            return
        waiting = [reader._put(item, size) for reader in self._readers]
        if any(waiting):
            self.request_keyframe()

    def end(self, error: Callable[[], Exception]) -> None:
        """End the stream: each reader gives its remaining items, then raises `error()`. Only the first call counts."""
        if self._error is None:
            self._error = error
            for reader in self._readers:
                reader._changed.set()

    def subscribe(self, *, latest: bool = False) -> Reader[T]:
        """Return a new reader of all later items. The first reader also gets the backlog.

        With `latest` the reader skips each item that a newer keyframe makes unnecessary.
        """
        reader = Reader(self, latest)
        backlog, self._backlog = self._backlog, None
        if backlog is not None:
            self._dropped_before = self.dropped
        for item, size in backlog._items if backlog is not None else ():
            reader._put(item, size)
        reader._awaiting_keyframe = self._mid_stream if backlog is None else backlog._awaiting_keyframe
        if reader._awaiting_keyframe:
            self.request_keyframe()
        self._readers.add(reader)
        return reader


class Reader(Generic[T]):
    """One consumer's bounded queue of a Broadcast's items."""

    def __init__(self, source: Broadcast[T], latest: bool) -> None:
        self.latest = latest
        self.source = source
        self._items: deque[tuple[T, int]] = deque()
        self._bytes = 0
        self._awaiting_keyframe = False
        self._changed = anyio.Event()

    async def get(self) -> T:
        """Return the oldest item; after the last one, raise the error that ended the Broadcast. Cancellation loses none."""
        await anyio.lowlevel.checkpoint()
        while not self._items:
            if self.source._error is not None:
                raise self.source._error()
            if self._changed.is_set():
                self._changed = anyio.Event()
            await self._changed.wait()
        return self._pop()

    def take(self) -> list[T]:
        """Return all items without waiting."""
        items = [item for item, _ in self._items]
        self._clear()
        return items

    def resync(self) -> None:
        """Drop all items before the next keyframe, because the consumer could not use the item that it took."""
        self._awaiting_keyframe = True
        self._skip_to_keyframe()
        if self._awaiting_keyframe:
            self.source.request_keyframe()

    def _put(self, item: T, size: int) -> bool:
        """Queue `item`. Returns whether this reader still waits for a keyframe."""
        is_keyframe = self.source.is_keyframe(item)
        if self._awaiting_keyframe and not is_keyframe:
            self.source.dropped += 1
            return True
        self._awaiting_keyframe = False
        if self.latest and is_keyframe:
            self.source.skipped += len(self._items)
            self._clear()
        self._items.append((item, size))
        self._bytes += size
        most, most_bytes = self.source.limit, self.source.most_bytes
        while len(self._items) > most or (self._bytes > most_bytes and len(self._items) > 1):
            self._drop()
            self._awaiting_keyframe = True
            self._skip_to_keyframe()
        if self._items:
            self._changed.set()
        return self._awaiting_keyframe

    def _skip_to_keyframe(self) -> None:
        """Drop the items that depend on a lost one. The first keyframe ends the wait for one."""
        while self._items:
            if self.source.is_keyframe(self._items[0][0]):
                self._awaiting_keyframe = False
                return
            self._drop()

    def _drop(self) -> None:
        self._pop()
        self.source.dropped += 1

    def _pop(self) -> T:
        item, size = self._items.popleft()
        self._bytes -= size
        return item

    def _clear(self) -> None:
        self._items.clear()
        self._bytes = 0
