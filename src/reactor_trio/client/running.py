"""`running()`: run a Client over its transport during a block."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TypeVar

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
    failure: BaseException | None = None
    try:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client._connection.run)
            try:
                yield client
            except anyio.get_cancelled_exc_class():
                raise
            except BaseException as error:
                # Raised outside the task group, which would wrap it in a group.
                failure = error
            finally:
                await client.aclose()
            tasks.cancel_scope.cancel()
    finally:
        if failure is not None:
            raise failure
