"""Streams between Ray's asyncio loop and a Trio loop on another thread, each item a call on the other loop, in order.

If the Trio side is cancelled, the asyncio task is cancelled. If the asyncio task raises, the Trio side raises the same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TypeVar

import trio

T = TypeVar("T")


class ThreadsafeQueue(AsyncIterator[T]):
    """A queue from any thread to the asyncio loop that runs now. It has no bound, since a lease has few messages."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._queue: asyncio.Queue[T] = asyncio.Queue()

    def put(self, item: T) -> None:
        """Append `item`, from any thread. If the loop is closed, `item` is dropped."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)

    async def __anext__(self) -> T:
        return await self._queue.get()


async def run_stream(
    loop: asyncio.AbstractEventLoop, stream: Callable[[], AsyncIterator[T]], on_item: Callable[[T], None]
) -> None:
    """Run `stream()` on the asyncio `loop`, call `on_item` on this Trio loop with each item, and return at the stream's end.

    Raises the stream's exception. When cancelled, it cancels the stream and waits for its end.
    """
    token, over = trio.lowlevel.current_trio_token(), trio.Event()
    tasks: list[asyncio.Task[None]] = []

    async def run() -> None:
        async for item in stream():
            token.run_sync_soon(on_item, item)

    def start() -> None:
        tasks.append(loop.create_task(run()))
        tasks[0].add_done_callback(lambda _task: token.run_sync_soon(over.set))

    loop.call_soon_threadsafe(start)
    try:
        await over.wait()
    except trio.Cancelled:
        loop.call_soon_threadsafe(lambda: tasks[0].cancel())
        with trio.CancelScope(shield=True):
            await over.wait()
        with suppress(asyncio.CancelledError):
            tasks[0].exception()  # asyncio would log an exception that is never retrieved
        raise
    tasks[0].result()
