"""`running()`: run a Client over its transport during a block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio

from reactor_trio.client.client import Client

C = TypeVar("C", bound=Client)


@asynccontextmanager
async def running(client: C) -> AsyncIterator[C]:
    """Wait for the session to begin, run the client's tasks during the block, and leave politely.

    The wait in the server's queue has no limit; cancel it to leave the queue. An exception of the block leaves it unchanged,
    never inside a group. Raises SessionEnded if the server ends the session before it begins.
    """
    try:
        await client._connection.begin()
    except BaseException:
        await client.aclose()
        raise
    async with beside(client._connection.run) as scope:
        try:
            yield client
        finally:
            await client.aclose()
            scope.cancel()


@asynccontextmanager
async def beside(task: Callable[[], Coroutine[Any, Any, None]]) -> AsyncIterator[anyio.CancelScope]:
    """Run `task` during the block, then wait for it. Yields the scope that cancels it.

    An exception of the block leaves it unchanged: it is raised outside the task group, which would wrap it in a group.
    """
    failure: BaseException | None = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(task)
            try:
                yield tasks.cancel_scope
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:
                failure = error
    finally:
        if failure is not None:
            raise failure
