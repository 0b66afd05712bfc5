"""`running()`: run a Client over its transport during a block."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, TypeVar

import anyio

from reactor_trio.client.client import Client
from reactor_trio.client.session_view import internals

C = TypeVar("C", bound=Client)


@asynccontextmanager
async def running(client: C) -> AsyncIterator[C]:
    """Wait for the session to begin, run the client's tasks during the block, and leave politely.

    The wait in the server's queue has no limit; cancel it to leave the queue. An exception of the block leaves it unchanged,
    never inside a group. Raises SessionEnded if the server ends the session before it begins, and RuntimeError if another
    task leaves the block than entered it; the session ends all the same.
    """
    connection = internals(client).connection
    try:
        await connection.begin()
    except BaseException:
        await client.aclose()
        raise
    async with TaskBlock("connect()", connection.run, client.aclose):
        yield client


class TaskBlock:
    """A block during which a task runs. Leaving the block ends the task and waits for it.

    An exception of the block leaves it unchanged: the task group, which would wrap it in a group, does not see it. So does
    an exception of the task, which cancels the block, unless the block has raised one of its own.

    Args:
        name: of the block, for a message.
        task: runs during the block.
        end: makes `task` end soon. If the task shields itself, it is waited for, and otherwise cancelled.

    Raises RuntimeError if another task leaves the block than entered it. It only calls `end` then, because the task group
    can be left by its own task alone: asyncio would cancel that task, and Trio would end the whole program.
    """

    # Not a generator: one that is not left in its own task would leave the task group when it is collected as garbage.

    def __init__(self, name: str, task: Callable[[], Coroutine[Any, Any, None]], end: Callable[[], Awaitable[None]]) -> None:
        self._name, self._task, self._end = name, task, end

    async def __aenter__(self) -> None:
        self._entered_by = anyio.get_current_task().id
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        self._failure: Exception | None = None
        self._tasks.start_soon(self._run)

    async def _run(self) -> None:
        try:
            await self._task()
        except Exception as error:
            self._failure = error
            self._tasks.cancel_scope.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool | None:
        if anyio.get_current_task().id != self._entered_by:
            await self._end()
            raise RuntimeError(
                f"another task left the block of {self._name} than entered it. The block has ended, but enter and leave it"
                " in one task; if an async generator contains it, use it in `async with contextlib.aclosing(generator)`"
            )
        cancelled = anyio.get_cancelled_exc_class()
        try:
            await self._end()
        finally:
            self._tasks.cancel_scope.cancel()
            if error is None or isinstance(error, cancelled):
                swallowed = await self._tasks.__aexit__(kind, error, traceback)
                if self._failure is not None:
                    raise self._failure
            else:
                swallowed = False
                with suppress(cancelled):  # `error` goes on
                    await self._tasks.__aexit__(None, None, None)
        return swallowed
