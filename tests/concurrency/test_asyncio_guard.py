"""Author code that calls asyncio is told Trio's twin, wherever it stands."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import numpy as np
import pytest
import trio

from reactor_trio.concurrency import AsyncioUsedError
from reactor_trio.concurrency.asyncio_guard import _TWINS, with_twin
from reactor_trio.errors import CommandError
from reactor_trio.execution.traced_awaitable import TracedAwaitable
from reactor_trio.interface import Output, ReactorPipeline, Video, event
from reactor_trio.testing import open_session

made: list[Coroutine[Any, Any, None]] = []


def nothing() -> Coroutine[Any, Any, None]:
    """A coroutine that asyncio does not take, and that this module closes."""

    async def code() -> None: ...

    made.append(code())
    return made[-1]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    while made:
        made.pop().close()


async def full_queue() -> None:
    queue: asyncio.Queue[int] = asyncio.Queue(1)
    await queue.put(1)
    await queue.put(2)


async def task_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(nothing())


async def timeout() -> None:
    async with asyncio.timeout(1):
        await trio.lowlevel.checkpoint()


async def locked() -> None:
    lock = asyncio.Lock()
    await lock.acquire()
    await lock.acquire()


async def executor() -> None:
    with ThreadPoolExecutor(1) as pool:
        await asyncio.get_running_loop().run_in_executor(pool, print)


async def task_of_loop() -> None:
    asyncio.get_event_loop().create_task(nothing())


async def future_of_loop() -> None:
    await asyncio.get_running_loop().create_future()


async def gathered() -> None:
    await asyncio.gather(nothing())


async def waited_for() -> None:
    sleep = asyncio.sleep(0)
    try:
        await asyncio.wait_for(sleep, 1)
    finally:
        sleep.close()


async def imported() -> None:
    from asyncio import gather

    await gather(nothing())


CALLS: dict[str, tuple[Any, str]] = {
    "event": (lambda: asyncio.Event().wait(), "asyncio.Event .*use trio.Event"),
    "wait_for": (waited_for, "asyncio.wait_for .*use trio.fail_after"),
    "gather": (gathered, "asyncio.gather .*use trio.open_nursery or anyio.create_task_group"),
    "imported": (imported, "asyncio.gather .*use trio.open_nursery"),
    "create_task": (lambda: asyncio.create_task(nothing()), "asyncio.create_task .*use trio.open_nursery"),
    "TaskGroup": (task_group, "asyncio.TaskGroup .*use trio.open_nursery"),
    "as_completed": (lambda: list(asyncio.as_completed([nothing()])), "asyncio.as_completed .*use trio.open_nursery"),
    "Queue.get": (lambda: asyncio.Queue().get(), "asyncio.Queue .*use trio.open_memory_channel"),
    "Queue.put": (full_queue, "asyncio.Queue .*use trio.open_memory_channel"),
    "Lock": (locked, "asyncio.Lock .*use trio.Lock"),
    "timeout": (timeout, "asyncio.timeout .*use trio.fail_after"),
    "get_running_loop": (executor, "asyncio.run_in_executor .*use trio.to_thread.run_sync"),
    "get_event_loop": (task_of_loop, "asyncio.create_task .*use trio.open_nursery"),
    "create_future": (future_of_loop, "asyncio.Future .*use trio.Event"),
    "current_task": (lambda: asyncio.current_task(), "asyncio.current_task .*use trio.lowlevel.current_task"),
    "subprocess": (lambda: asyncio.create_subprocess_exec("true"), "create_subprocess_exec .*use trio.run_process"),
}


class Picture(Output):
    picture: Video


class Model(ReactorPipeline):
    output: Picture

    def load(self, config: dict[str, Any]) -> None:
        self.call = config["call"]

    @event
    async def handle(self) -> None:
        await CALLS[self.call][0]()

    async def inference(self) -> Any:
        yield np.zeros((2, 2, 3), np.uint8)
        if self.call != "handler":
            await CALLS[self.call][0]()
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited", "ignore:There is no current event loop")
@pytest.mark.parametrize("call", CALLS)
async def test_in_inference(autojump_clock: object, call: str) -> None:
    async with open_session(Model, config={"call": call}) as client:
        with pytest.raises(AsyncioUsedError, match=CALLS[call][1]):
            await client.take(5)


@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.parametrize("call", CALLS)
async def test_the_authors_own_except_sees_it(autojump_clock: object, call: str) -> None:
    async def code() -> str:
        try:
            await CALLS[call][0]()
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        raise AssertionError("it works")

    assert re.search(f"^AsyncioUsedError: .*{CALLS[call][1]}", await TracedAwaitable(code()))


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ("create_task", "asyncio.create_task does not work here, .* use trio.open_nursery or anyio.create_task_group"),
        ("call_soon", "asyncio.call_soon does .* use trio.open_nursery"),
        ("call_soon_threadsafe", "asyncio.call_soon_threadsafe does .* use trio.from_thread.run_sync"),
        ("create_connection", "asyncio.create_connection does .* use trio.open_tcp_stream or anyio.connect_tcp"),
        ("is_running", r"asyncio.get_running_loop\(\).is_running does .* use its counterpart in trio or anyio"),
    ],
)
async def test_an_attribute_of_the_loop(attribute: str, text: str) -> None:
    async def code() -> None:
        loop = asyncio.get_running_loop()
        assert loop.time() <= trio.current_time()
        getattr(loop, attribute)

    with pytest.raises(AsyncioUsedError, match=f"^{text}"):
        await TracedAwaitable(code())


async def test_in_a_handler_the_session_goes_on(autojump_clock: object) -> None:
    class Handling(Model):
        async def inference(self) -> Any:
            while True:
                yield np.zeros((2, 2, 3), np.uint8)

    async with open_session(Handling, config={"call": "gather"}, debug=True) as client:
        with pytest.raises(CommandError, match=r"use trio\.open_nursery"):
            await client.command("handle")
        await client.take(2)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: asyncio.sleep(1), "asyncio.sleep does not work here.*use trio.sleep or anyio.sleep"),
        (lambda: asyncio.sleep(0), "use trio.sleep"),
        (lambda: asyncio.to_thread(print), "use trio.to_thread.run_sync or anyio.to_thread.run_sync"),
    ],
)
async def test_in_a_task_that_the_author_started(call: Any, text: str) -> None:
    with pytest.raises((RuntimeError, TypeError)) as raised:
        await call()
    assert re.search(text, str(with_twin(raised.value)))


def test_other_errors_are_left_as_they_are() -> None:
    error = RuntimeError("CUDA error")
    assert with_twin(error) is error


@pytest.mark.parametrize("name", _TWINS)
def test_each_suggested_function_exists(name: str) -> None:
    for module, twin in zip((trio, anyio), _TWINS[name], strict=True):
        path = twin.partition("(")[0].split(".")
        assert path[0] == module.__name__
        found: Any = module
        for part in path[1:]:
            found = getattr(found, part)
        assert callable(found)
