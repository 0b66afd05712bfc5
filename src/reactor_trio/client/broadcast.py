"""From the one task that receives to any number of consumers, without ever waiting for one of them.

A Broadcast hands each item to every living Reader. Before the first reader there is a backlog, which that reader takes
over, so that nothing is lost between the connection's begin and the first `async for`. A reader is bounded: a full one
loses its oldest item, counted in `dropped`; one that keeps the newest only counts what it passed over in `skipped`.

An item may be of use only after the one before it, as a picture of a codec between frames is. With one item a reader loses
all that follow, up to the next one that stands *alone*; and one that begins in mid-stream begins there. While it waits, it
asks for such an item.

Readers are held weakly: one whose consumer left its loop disappears with it, and needs no closing.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class Broadcast(Generic[T]):
    """One source of items.

    Args:
        limit: bounds the backlog and each reader.
        alone: whether an item is of use without those before it.
        ask: called when a reader waits for such an item, as often as it gets another one instead.
    """

    def __init__(
        self, limit: int, alone: Callable[[T], bool] = lambda _: True, ask: Callable[[], object] = lambda: None
    ) -> None:
        self.dropped = 0
        self.skipped = 0
        self.alone = alone
        self.ask = ask
        self._limit = limit
        self._backlog: Reader[T] | None = Reader(self, limit, False)
        self._readers: list[weakref.ref[Reader[T]]] = []
        self._error: Callable[[], Exception] | None = None
        self._in_chain = False  # whether the newest item was of use only after others

    def put(self, item: T) -> None:
        """Hand `item` to every reader, or to the backlog while there was none."""
        self._in_chain = not self.alone(item)
        if self._backlog is not None:
            self._backlog._put(item)
            return
        waiting = [reader._put(item) for reader in self._living()]
        if any(waiting):
            self.ask()

    def end(self, error: Callable[[], Exception]) -> None:
        """No more items: readers get what they hold, then `error()`. Only the first call counts."""
        if self._error is None:
            self._error = error
            for reader in self._living():
                reader._end(error)

    def subscribe(self, *, latest: bool = False) -> Reader[T]:
        """A new reader of all later items (`latest`: it passes over those that a newer one makes needless), and of the
        backlog if it is the first.
        """
        reader = Reader(self, self._limit, latest)
        backlog, self._backlog = self._backlog, None
        if backlog is not None:
            backlog._hand_over(reader)
        else:
            reader._gated = self._in_chain
        if reader._gated:
            self.ask()
        if self._error is not None:
            reader._end(self._error)
        self._readers.append(weakref.ref(reader))
        return reader

    def _living(self) -> list[Reader[T]]:
        readers = [reader for reference in self._readers if (reader := reference()) is not None]
        if len(readers) < len(self._readers):
            self._readers = [weakref.ref(reader) for reader in readers]
        return readers


class Reader(Generic[T]):
    """One consumer's bounded queue of a Broadcast's items."""

    def __init__(self, source: Broadcast[T], limit: int, latest: bool) -> None:
        self.latest = latest
        self._source = source
        self._limit = limit
        self._items: deque[T] = deque()
        self._gated = False
        self._error: Callable[[], Exception] | None = None
        self._changed = anyio.Event()

    async def wait(self) -> None:
        """Return when there is an item. Raises the Broadcast's end once there will be none."""
        await anyio.lowlevel.checkpoint()
        while not self._items:
            if self._error is not None:
                raise self._error()
            if self._changed.is_set():
                self._changed = anyio.Event()
            await self._changed.wait()

    async def get(self) -> T:
        """The oldest item. Raises the Broadcast's end once none is left. Cancelling it loses nothing."""
        await self.wait()
        return self.pop()

    def pop(self) -> T:
        """The oldest item, which there must be."""
        return self._items.popleft()

    def take(self) -> list[T]:
        """All items, without waiting."""
        items = list(self._items)
        self._items.clear()
        return items

    def skip(self, items: int) -> None:
        """Count items that were taken and passed over because there was a newer one."""
        self._source.skipped += items

    def drop(self, items: int) -> None:
        """Count items that were taken and were of no use."""
        self._source.dropped += items

    def rebegin(self) -> None:
        """What was taken was of no use: nothing is until the next item that stands alone."""
        self._gated = True
        self._lose_chain()
        if self._gated:
            self._source.ask()

    def _put(self, item: T) -> bool:
        """Whether this reader waits for an item that stands alone, and this is none."""
        alone = self._source.alone(item)
        if self._gated and not alone:
            self._source.dropped += 1
            return True
        self._gated = False
        if self.latest and alone:
            self._source.skipped += len(self._items)
            self._items.clear()
        self._items.append(item)
        if len(self._items) > self._limit:
            self._items.popleft()
            self._source.dropped += 1
            self._gated = True
            self._lose_chain()
        if self._items:
            self._changed.set()
        return self._gated

    def _lose_chain(self) -> None:
        """Drop what is of no use after a loss; the first item that stands alone opens the gate."""
        while self._items:
            if self._source.alone(self._items[0]):
                self._gated = False
                return
            self._items.popleft()
            self._source.dropped += 1

    def _hand_over(self, reader: Reader[T]) -> None:
        for item in self._items:
            reader._put(item)
        reader._gated = self._gated

    def _end(self, error: Callable[[], Exception]) -> None:
        self._error = error
        self._changed.set()
