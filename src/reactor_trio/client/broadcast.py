"""From the one task that receives to any number of consumers, without ever waiting for one of them.

A Broadcast hands each item to every living Reader. Before the first reader there is a backlog, which that reader takes
over, so that nothing is lost between the connection's begin and the first `async for`. A reader is bounded: a full one
loses its oldest item, counted in `dropped`; one that keeps the newest only counts what it passed over in `skipped`.

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
    """One source of items; `limit` bounds the backlog and each reader."""

    def __init__(self, limit: int) -> None:
        self.dropped = 0
        self.skipped = 0
        self._limit = limit
        self._backlog: deque[T] | None = deque()
        self._readers: list[weakref.ref[Reader[T]]] = []
        self._error: Callable[[], Exception] | None = None

    def put(self, item: T) -> None:
        """Hand `item` to every reader, or to the backlog while there was none."""
        if self._backlog is not None:
            self._backlog.append(item)
            if len(self._backlog) > self._limit:
                self._backlog.popleft()
                self.dropped += 1
            return
        for reader in self._living():
            reader._put(item)

    def end(self, error: Callable[[], Exception]) -> None:
        """No more items: readers get what they hold, then `error()`. Only the first call counts."""
        if self._error is None:
            self._error = error
            for reader in self._living():
                reader._end(error)

    def subscribe(self, *, latest: bool = False) -> Reader[T]:
        """A new reader of all later items (`latest`: of the newest one only), and of the backlog if it is the first."""
        reader = Reader(self, 1 if latest else self._limit, latest)
        backlog, self._backlog = self._backlog or (), None
        for item in backlog:
            reader._put(item)
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
        self._source = source
        self._limit = limit
        self._latest = latest
        self._items: deque[T] = deque()
        self._error: Callable[[], Exception] | None = None
        self._changed = anyio.Event()

    async def get(self) -> T:
        """The oldest item. Raises the Broadcast's end once none is left. Cancelling it loses nothing."""
        await anyio.lowlevel.checkpoint()
        while not self._items:
            if self._error is not None:
                raise self._error()
            if self._changed.is_set():
                self._changed = anyio.Event()
            await self._changed.wait()
        return self._items.popleft()

    def _put(self, item: T) -> None:
        self._items.append(item)
        if len(self._items) > self._limit:
            self._items.popleft()
            if self._latest:
                self._source.skipped += 1
            else:
                self._source.dropped += 1
        self._changed.set()

    def _end(self, error: Callable[[], Exception]) -> None:
        self._error = error
        self._changed.set()
