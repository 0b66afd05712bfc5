"""`asyncio.to_thread` and `asyncio.sleep` in model code, on Trio: its cancellation, and the clock of the test kit."""

from __future__ import annotations

import asyncio
import contextvars
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest
import trio

from reactor_trio.concurrency.asyncio_calls import ASYNCIO_CALLS
from reactor_trio.execution.traced_awaitable import TracedAwaitable
from reactor_trio.interface import (
    Output,
    ReactorModel,
    ReactorPipeline,
    Video,
    connected,
    disconnected,
    event,
)
from reactor_trio.testing import PipelineExecutor, open_session

BLACK = np.zeros((2, 2, 3), np.uint8)


class Picture(Output):
    picture: Video


def here() -> str:
    return threading.current_thread().name


def author_code(function: Callable[[], Awaitable[Any]]) -> Awaitable[Any]:
    return TracedAwaitable(function())


async def test_sleep_takes_trios_time_and_returns_its_result(autojump_clock: object) -> None:
    began = trio.current_time()
    assert await author_code(lambda: asyncio.sleep(2.5, "rested")) == "rested"
    assert trio.current_time() - began == 2.5


async def test_sleep_0_lets_other_tasks_run(autojump_clock: object) -> None:
    order: list[str] = []

    async def code() -> None:
        order.append("before")
        await asyncio.sleep(0)
        await asyncio.sleep(0)  # Trio runs the tasks of one turn in any order
        order.append("after")

    async with trio.open_nursery() as nursery:
        nursery.start_soon(_note, order, "other")
        await author_code(code)
    assert order == ["before", "other", "after"]


async def _note(order: list[str], text: str) -> None:
    order.append(text)


@pytest.mark.parametrize("seconds", [0, 5])
async def test_trio_cancels_a_sleep(autojump_clock: object, seconds: float) -> None:
    cleaned = []

    async def code() -> None:
        try:
            await asyncio.sleep(seconds)
        finally:
            cleaned.append(True)

    with trio.CancelScope() as scope:
        scope.cancel()
        await author_code(code)
    assert scope.cancelled_caught
    assert cleaned


async def test_to_thread_runs_in_a_worker_thread_with_the_callers_context() -> None:
    user = contextvars.ContextVar("user", default="")

    async def code() -> tuple[str, str, int]:
        user.set("ann")
        return await asyncio.to_thread(lambda a, b: (user.get(), here(), a - b), 3, b=1)

    name, thread, difference = await author_code(code)
    assert (name, difference) == ("ann", 2)
    assert thread != here()


async def test_to_thread_raises_what_the_function_raises() -> None:
    async def code() -> None:
        await asyncio.to_thread(int, "x")

    with pytest.raises(ValueError, match="invalid literal"):
        await author_code(code)


async def test_a_cancelled_to_thread_waits_for_its_thread() -> None:
    ended = threading.Event()

    def work(scope: trio.CancelScope) -> None:
        trio.from_thread.run_sync(scope.cancel)
        ended.set()

    async def code(scope: trio.CancelScope) -> None:
        await asyncio.to_thread(work, scope)
        await trio.lowlevel.checkpoint()

    with trio.CancelScope() as scope:
        await TracedAwaitable(code(scope))
    assert scope.cancelled_caught
    assert ended.is_set()


async def test_the_loop_is_there_only_while_the_coroutine_runs() -> None:
    seen: list[object] = []

    async def other() -> None:
        seen.append(asyncio._get_running_loop())

    async def code() -> None:
        await asyncio.sleep(0)
        assert asyncio.get_running_loop() is calls

    calls, notebook = ASYNCIO_CALLS.get(), object()
    notebook_loop = sys.modules["_asyncio"]._set_running_loop  # of a loop that ran before Trio did
    notebook_loop(notebook)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(other)
            await TracedAwaitable(code())
            assert asyncio._get_running_loop() is notebook  # type: ignore[comparison-overlap]
    finally:
        notebook_loop(None)
    assert seen == [notebook]


async def test_in_a_handler_a_hook_and_a_step_of_a_model(autojump_clock: object) -> None:
    threads: list[str] = []

    class Model(ReactorPipeline):
        output: Picture

        @connected
        async def join(self) -> None:
            threads.append(await asyncio.to_thread(here))

        @disconnected
        async def leave(self) -> None:
            await asyncio.sleep(0.5)
            threads.append(await asyncio.to_thread(here))

        @event
        async def ask(self) -> str:
            await asyncio.sleep(0)
            return await asyncio.to_thread(here)

        async def inference(self) -> Any:
            try:
                while True:
                    threads.append(await asyncio.to_thread(here))
                    yield BLACK
            finally:
                await asyncio.sleep(0.1)
                threads.append("closed")

    async with open_session(Model) as client:
        await client.take(2)
        reply = await client.command("ask")
    assert reply != here()
    assert here() not in threads
    assert threads[-1] == "closed"
    assert len(threads) >= 5


async def test_in_a_run_loop(autojump_clock: object) -> None:
    class Model(ReactorModel):
        output: Picture

        async def load(self, config: dict[str, Any]) -> None:
            self.loaded = await asyncio.to_thread(here)

        async def run(self) -> None:
            while True:
                await self.connected.wait()
                await asyncio.sleep(0.25)
                await asyncio.to_thread(here)
                await self.emit(Picture(picture=BLACK))

    async with open_session(Model) as client:
        began = trio.current_time()
        await client.take(3)
        assert trio.current_time() - began == pytest.approx(0.75, abs=0.04)


async def test_the_clock_of_the_test_kit_waits_for_the_worker_thread(autojump_clock: object) -> None:
    class Model(ReactorPipeline):
        output: Picture

        @event
        async def work(self) -> float:
            began = trio.current_time()
            await asyncio.to_thread(time.sleep, 0.05)  # real seconds, in which the virtual clock would jump far
            return trio.current_time() - began

        def inference(self) -> Any:
            while True:
                yield BLACK

    async with open_session(Model) as client:
        assert await client.command("work") == 0


async def test_a_disconnect_cancels_a_sleep_of_the_step(autojump_clock: object) -> None:
    slept: list[float] = []

    class Model(ReactorPipeline):
        output: Picture

        async def inference(self) -> Any:
            yield BLACK
            began = trio.current_time()
            try:
                await asyncio.sleep(1000)
            finally:
                slept.append(trio.current_time() - began)

    async with open_session(Model) as client:
        await client.take(1)
        await trio.sleep(1)
    assert slept
    assert slept[0] < 2


async def test_the_time_of_the_loop_is_trios(autojump_clock: object) -> None:
    """Public models pace themselves by it, within an `except` of their own."""

    class Model(ReactorModel):
        output: Picture

        async def run(self) -> None:
            while True:
                await self.connected.wait()
                try:
                    loop = asyncio.get_running_loop()
                    due = loop.time() + 0.25
                    assert asyncio.get_event_loop().time() == trio.current_time()
                    await asyncio.sleep(due - loop.time())
                    await self.emit(Picture(picture=BLACK))
                except RuntimeError:
                    await trio.sleep(1)

    async with open_session(Model) as client:
        began = trio.current_time()
        await client.take(3)
        assert trio.current_time() - began == pytest.approx(0.75, abs=0.04)


async def test_plain_code_may_run_a_loop_of_its_own(autojump_clock: object) -> None:
    class Model(ReactorPipeline):
        output: Picture

        def inference(self) -> Any:
            while True:
                assert asyncio.run(asyncio.sleep(0, "done")) == "done"
                yield BLACK

    async with open_session(Model) as client:
        await client.take(2)


IMPORTS_LATE = """
import sys
import trio
from reactor_trio.execution.traced_awaitable import TracedAwaitable

async def handler():
    import asyncio
    return await asyncio.to_thread(int, "3")

async def main():
    assert "asyncio" not in sys.modules
    assert await TracedAwaitable(handler()) == 3

trio.run(main)
"""


def test_a_handler_may_import_asyncio_itself() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS_LATE], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr


def test_in_the_executor() -> None:
    class Model(ReactorPipeline):
        output: Picture

        @event
        async def ask(self) -> str:
            return await asyncio.to_thread(here)

        async def inference(self) -> Any:
            while True:
                await asyncio.sleep(0)
                yield BLACK

    with PipelineExecutor(Model) as executor:
        executor.connect()
        next(executor)
        executor.send_event("ask")
        assert executor.reply not in ("reactor-model", here())
