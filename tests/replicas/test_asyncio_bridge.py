"""Streams between an asyncio loop on one thread and Trio on another: order, errors, ends and cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable

import pytest
import trio
from tests.support.replica_kit import PATIENCE

from reactor_trio.replicas.asyncio_bridge import ThreadsafeQueue, run_stream

Loop = asyncio.AbstractEventLoop


async def heard(loop: Loop, stream: Callable[[], AsyncIterator[int]], items: list[int]) -> None:
    """Put the stream's items into a list, on this thread."""
    here = threading.get_ident()

    def tell(item: int) -> None:
        assert threading.get_ident() == here
        items.append(item)

    with trio.fail_after(PATIENCE):
        await run_stream(loop, stream, tell)


async def test_a_stream_crosses_in_order_to_its_end(asyncio_loop: Loop) -> None:
    async def stream() -> AsyncIterator[int]:
        assert asyncio.get_running_loop() is asyncio_loop
        for number in range(1000):
            yield number
            if number % 100 == 0:
                await asyncio.sleep(0)

    items: list[int] = []
    await heard(asyncio_loop, stream, items)
    assert items == [*range(1000)]


async def test_a_stream_that_ends_at_once_has_no_items(asyncio_loop: Loop) -> None:
    async def stream() -> AsyncIterator[int]:
        for number in ():
            yield number

    items: list[int] = []
    await heard(asyncio_loop, stream, items)
    assert items == []


async def test_an_error_of_the_stream_is_raised_after_its_items(asyncio_loop: Loop) -> None:
    async def stream() -> AsyncIterator[int]:
        yield 1
        yield 2
        raise LookupError("nothing more")

    items: list[int] = []
    with pytest.raises(LookupError, match="nothing more"):
        await heard(asyncio_loop, stream, items)
    assert items == [1, 2]


async def test_a_stream_that_cannot_begin_is_an_error_too(asyncio_loop: Loop) -> None:
    def stream() -> AsyncIterator[int]:
        raise LookupError("no stream")

    with pytest.raises(LookupError, match="no stream"):
        await heard(asyncio_loop, stream, [])


async def test_a_cancellation_by_asyncio_is_an_error_and_no_cancellation_of_trio(asyncio_loop: Loop) -> None:
    async def stream() -> AsyncIterator[int]:
        yield 1
        raise asyncio.CancelledError

    items: list[int] = []
    with pytest.raises(asyncio.CancelledError):
        await heard(asyncio_loop, stream, items)
    assert items == [1]


async def test_a_cancellation_cancels_the_stream_and_waits_for_its_end(asyncio_loop: Loop) -> None:
    steps: list[str] = []

    async def stream() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            steps.append("cancelled")
            await asyncio.sleep(0)
            yield 2
            raise
        finally:
            steps.append("over")

    items: list[int] = []
    with trio.CancelScope() as scope:

        def tell(item: int) -> None:
            items.append(item)
            scope.cancel()

        await run_stream(asyncio_loop, stream, tell)
    assert scope.cancelled_caught
    assert (items, steps) == ([1, 2], ["cancelled", "over"])


async def test_a_cancellation_before_the_stream_begins_leaves_no_stream(asyncio_loop: Loop) -> None:
    async def stream() -> AsyncIterator[int]:
        yield 1
        await asyncio.Event().wait()

    with trio.CancelScope() as scope:
        scope.cancel()
        await run_stream(asyncio_loop, stream, lambda _: None)
    assert scope.cancelled_caught  # and the loop has no task: the fixture looks


async def test_an_error_while_the_stream_is_cancelled_does_not_hide_the_cancellation(asyncio_loop: Loop) -> None:
    async def stream() -> AsyncIterator[int]:
        try:
            yield 1
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise LookupError("on the way out") from None

    with trio.CancelScope() as scope:
        await run_stream(asyncio_loop, stream, lambda _: scope.cancel())
    assert scope.cancelled_caught


def test_items_of_another_thread_arrive_in_order() -> None:
    async def main() -> list[int]:
        messages: ThreadsafeQueue[int] = ThreadsafeQueue()

        def say() -> None:
            for number in range(1000):
                messages.put(number)

        speaker = threading.Thread(target=say)
        speaker.start()
        items = [await anext(messages) for _ in range(1000)]
        speaker.join()
        return items

    assert asyncio.run(main()) == [*range(1000)]


def test_items_for_a_closed_loop_are_dropped() -> None:
    async def main() -> ThreadsafeQueue[int]:
        return ThreadsafeQueue()

    asyncio.run(main()).put(1)


async def test_items_cross_from_trio_to_trio(asyncio_loop: Loop) -> None:
    """As between a replica and its gate: put on a Trio loop, carried by asyncio, received on a Trio loop."""
    made: list[ThreadsafeQueue[int]] = []
    ready = trio.Event()
    token = trio.lowlevel.current_trio_token()

    async def stream() -> AsyncIterator[int]:
        made.append(ThreadsafeQueue())
        token.run_sync_soon(ready.set)
        async for word in made[0]:
            yield word
            if word == 2:
                return

    items: list[int] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(heard, asyncio_loop, stream, items)
        await ready.wait()
        for word in range(3):
            made[0].put(word)
    assert items == [0, 1, 2]
