"""Loops that plain author code runs inside its own call: asyncio with AnyIO, uvloop, a loop of the author's, Trio."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import numpy as np
import pytest
import sniffio
import trio
import trio.testing

from reactor_trio.concurrency.asyncio_guard import WrongLoopError
from reactor_trio.concurrency.nested_loops import hide_trio_from_nested_loops
from reactor_trio.errors import CommandError
from reactor_trio.interface import Output, ReactorApp, ReactorPipeline, Video, connected, disconnected, event
from reactor_trio.offline.open_rendering import rendered
from reactor_trio.testing import PipelineExecutor, open_server, open_session

BLACK = np.zeros((2, 2, 3), np.uint8)


class Picture(Output):
    picture: Video


async def uses_anyio() -> str:
    """What httpx does, without the network."""
    done: list[int] = []

    async def work() -> None:
        await anyio.sleep(0.001)
        done.append(await anyio.to_thread.run_sync(lambda: 1))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(work)
        tasks.start_soon(work)
    with anyio.move_on_after(0) as scope:
        await anyio.sleep(1000)
    assert done == [1, 1]
    assert scope.cancelled_caught
    return sniffio.current_async_library()


def loop_of_the_author() -> str:
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(uses_anyio())
    finally:
        loop.close()


def twice() -> str:
    with asyncio.Runner() as runner:
        assert runner.run(uses_anyio()) == "asyncio"
        return runner.run(uses_anyio())


async def runs_trio() -> str:
    trio.run(trio.sleep, 0)
    return await uses_anyio()


def uvloop_run() -> str:
    loop = pytest.importorskip("uvloop").new_event_loop()
    try:
        return loop.run_until_complete(uses_anyio())  # type: ignore[no-any-return]
    finally:
        loop.close()


LOOPS: dict[str, Callable[[], str]] = {
    "asyncio.run": lambda: asyncio.run(uses_anyio()),
    "own loop": loop_of_the_author,
    "Runner": twice,
    "uvloop": uvloop_run,
    "trio.run in asyncio.run": lambda: asyncio.run(runs_trio()),
}


def plain_code_works() -> None:
    """What works in a plain method without another loop, also after one."""
    assert sniffio.current_async_library() == "trio"
    assert anyio.current_time() <= trio.current_time()
    with anyio.CancelScope(), anyio.move_on_after(1) as scope:  # noqa: ASYNC100 - plain code has nothing to await
        assert trio.lowlevel.current_task()
    assert not scope.cancel_called


class Model(ReactorPipeline):
    output: Picture

    def load(self, config: dict[str, Any]) -> None:
        self.run_loop, self.seen = LOOPS[config["loop"]], config["seen"]
        self.call("load")

    def call(self, place: str) -> None:
        plain_code_works()
        self.seen.append((place, self.run_loop()))
        plain_code_works()

    @connected
    def join(self) -> None:
        self.call("connected")

    @disconnected
    def leave(self) -> None:
        self.call("disconnected")

    @event
    def handle(self) -> None:
        self.call("handler")

    def inference(self) -> Any:
        try:
            yield BLACK
            self.call("step")
            while True:
                yield BLACK
        finally:
            self.call("close")


@pytest.mark.parametrize(("loop", "thread"), [*((loop, True) for loop in LOOPS), ("asyncio.run", False)])
async def test_in_plain_author_code(autojump_clock: object, loop: str, thread: bool) -> None:
    seen: list[tuple[str, str]] = []
    async with open_session(Model, config={"loop": loop, "seen": seen}, thread=thread) as client:
        await client.take(2)
        await client.command("handle")
    assert {place for place, _ in seen} == {"load", "connected", "step", "handler", "disconnected", "close"}
    assert {library for _, library in seen} == {"asyncio"}
    plain_code_works()


async def test_in_generate_of_an_app(autojump_clock: object) -> None:
    class App(ReactorApp):
        output: Picture

        def generate(self, input: Any) -> Any:  # noqa: A002
            assert asyncio.run(uses_anyio()) == "asyncio"
            return Picture(picture=BLACK)

        async def process_output(self, outcome: Any) -> Any:
            if outcome.error is not None:
                raise outcome.error
            return outcome.result

    async with open_session(App) as client:
        await client.take(2)


def test_in_the_executor_and_in_a_rendering() -> None:
    seen: list[tuple[str, str]] = []
    with PipelineExecutor(Model, {"loop": "asyncio.run", "seen": seen}) as executor:
        executor.connect()
        next(executor)
        next(executor)
    assert ("step", "asyncio") in seen
    seen.clear()
    rendered(Model, config={"loop": "asyncio.run", "seen": seen}, frames=3)
    assert ("step", "asyncio") in seen


async def holds_a_nursery() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep, 1)


async def sleeps_on_trio() -> None:
    await trio.sleep(1)


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "trio.run": (lambda: trio.run(trio.sleep, 0), "^trio.run .* await the function in an async method"),
    "anyio.run": (lambda: anyio.run(uses_anyio), "^anyio.run .* await the .*; in a plain method use asyncio.run"),
    "anyio.run on trio": (lambda: anyio.run(uses_anyio, backend="trio"), "^anyio.run .* await the function"),
    "trio.from_thread": (lambda: trio.from_thread.run(trio.sleep, 0), "^trio.from_thread .* await the function"),
    "its token": (
        lambda: trio.from_thread.run(trio.sleep, 0, trio_token=trio.lowlevel.current_trio_token()),
        "^trio.from_thread .* await the function",
    ),
    "anyio.from_thread": (lambda: anyio.from_thread.run(anyio.sleep, 0), "^anyio.from_thread .* await the function"),
    "trio's nursery in asyncio.run": (lambda: asyncio.run(holds_a_nursery()), "^trio runs .* use anyio there"),
    "trio's sleep in asyncio.run": (lambda: asyncio.run(sleeps_on_trio()), "^trio runs .* use anyio there"),
}


class Wrong(ReactorPipeline):
    output: Picture

    def load(self, config: dict[str, Any]) -> None:
        self.wrong = WRONG[config["wrong"]][0]
        self.steps = False

    @event
    def handle(self) -> None:
        self.wrong()

    @event
    def step(self) -> None:
        self.steps = True

    def inference(self) -> Any:
        while True:
            if self.steps:
                self.steps = False
                self.wrong()
            yield BLACK


@pytest.mark.parametrize("wrong", WRONG)
async def test_a_nested_loop_that_cannot_work_names_the_remedy_and_ends_no_server(
    autojump_clock: object, wrong: str
) -> None:
    text = WRONG[wrong][1]
    async with open_server(Wrong, config={"wrong": wrong}, debug=True, thread=True) as server:
        async with server.connect() as client:
            with pytest.raises(CommandError, match=text.replace("^", "WrongLoopError: ")):
                await client.command("handle")
            await client.take(2)
            await client.command("step")
            with pytest.raises(WrongLoopError, match=text):
                await client.take(5)
        async with server.connect() as client:
            await client.take(2)


async def lines() -> Any:
    with anyio.move_on_after(1000):
        yield 1
        yield 2


@pytest.mark.parametrize("place", ["connected", "handler", "step", "generator"])
async def test_a_scope_left_open_ends_its_session_and_no_other(autojump_clock: object, place: str) -> None:
    class Leaving(ReactorPipeline):
        output: Picture
        leaves_at = place

        def leave(self, here: str) -> None:
            if self.leaves_at == here:
                self.leaves_at = ""
                anyio.move_on_after(1000).__enter__()

        @connected
        def join(self) -> None:
            self.leave("connected")

        @event
        async def handle(self) -> None:
            self.leave("handler")
            if self.leaves_at == "generator":
                self.leaves_at = ""
                self.lines = lines()
                async for _line in self.lines:
                    break

        def inference(self) -> Any:
            while True:
                self.leave("step")
                yield BLACK

    served = False
    with pytest.raises(RuntimeError, match="model code left a cancel scope or a nursery open"):
        async with open_server(Leaving, thread=True) as server:
            async with server.connect() as client:
                await client.take(2)
                await client.command("handle")
            async with server.connect() as client:
                await client.take(2)
                served = True
    assert served


async def test_asyncio_run_in_async_author_code_names_the_way_out(autojump_clock: object) -> None:
    class Async(ReactorPipeline):
        output: Picture

        @event
        async def handle(self) -> None:
            code = uses_anyio()
            try:
                asyncio.run(code)
            finally:
                code.close()

        def inference(self) -> Any:
            while True:
                yield BLACK

    async with open_session(Async, debug=True) as client:
        with pytest.raises(CommandError, match=r"asyncio\.run .*trio\.to_thread\.run_sync\(asyncio\.run, function\(\)\)"):
            await client.command("handle")


def test_under_anyio_run() -> None:
    """It leaves its loop's name to all code that it starts."""
    seen: list[tuple[str, str]] = []

    async def main() -> None:
        async with open_session(Model, config={"loop": "asyncio.run", "seen": seen}, thread=True) as client:
            await client.take(2)

    clock = trio.testing.MockClock(autojump_threshold=0)
    anyio.run(main, backend="trio", backend_options={"clock": clock})
    assert ("step", "asyncio") in seen


async def test_a_loop_within_a_notebooks_loop_gives_trio_back() -> None:
    """nest_asyncio lets a loop run inside another, and names the outer one again at the end."""
    hide_trio_from_nested_loops()
    notebook, inner = asyncio.new_event_loop(), asyncio.new_event_loop()
    raw = sys.modules["_asyncio"]
    raw._set_running_loop(notebook)
    try:
        asyncio._set_running_loop(inner)
        hidden = sniffio.thread_local.name
        asyncio._set_running_loop(notebook)
        plain_code_works()
    finally:
        raw._set_running_loop(None)
        notebook.close()
        inner.close()
    assert hidden is None


def test_trio_as_the_guest_of_an_asyncio_loop_stays() -> None:
    hide_trio_from_nested_loops()
    loop = asyncio.new_event_loop()

    async def guest() -> int:
        await trio.sleep(0.001)
        return 3

    results: list[Any] = []

    def done(result: Any) -> None:
        results.append(result.unwrap())
        loop.stop()

    trio.lowlevel.start_guest_run(guest, run_sync_soon_threadsafe=loop.call_soon_threadsafe, done_callback=done)
    loop.run_forever()
    loop.close()
    assert results == [3]


FIRST_IMPORT = """
import sys
{first}
import numpy as np
from reactor_trio import Output, ReactorPipeline, Video
from reactor_trio.offline.open_rendering import rendered

class Picture(Output):
    picture: Video

class Model(ReactorPipeline):
    output: Picture
    def inference(self):
        assert {expected}
        import anyio, asyncio
        async def main():
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(anyio.sleep, 0)
            return "ran"
        print({run})
        yield np.zeros((2, 2, 3), np.uint8)

rendered(Model)
"""


@pytest.mark.parametrize(
    ("first", "expected", "run"),
    [
        ("", "'asyncio' not in sys.modules", "asyncio.run(main())"),
        ("import uvloop", "'uvloop' in sys.modules", "uvloop.run(main())"),
    ],
    ids=["asyncio in the step", "uvloop before"],
)
def test_whoever_imports_the_loop_first(first: str, expected: str, run: str) -> None:
    if first:
        pytest.importorskip("uvloop")
    program = FIRST_IMPORT.format(first=first, expected=expected, run=run)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.stdout == "ran\n", done.stderr
