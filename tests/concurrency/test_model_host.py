"""The seam between the loops: one contract, every placement, real and virtual time."""

from __future__ import annotations

import contextvars
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest
import trio
import trio.testing

from reactor_trio.concurrency import ClockHooks, HostClosed, ModelHost, open_model_host, strip
from reactor_trio.testing.virtual_time import HeldTime, InlineTime, hold_clock

VAR: contextvars.ContextVar[str] = contextvars.ContextVar("var")


def run(main: Callable[[], Any], *, virtual: bool) -> Any:
    clock = trio.testing.MockClock(autojump_threshold=0) if virtual else None
    try:
        return trio.run(main, clock=clock)
    finally:
        assert not [t for t in threading.enumerate() if t.name == "reactor-model"]


PLACEMENTS: dict[str, tuple[bool, Callable[[], ClockHooks]]] = {
    "thread, real time": (False, ClockHooks),
    "thread, held clock": (True, lambda: HeldTime(None)),
    "inline, virtual time": (True, lambda: InlineTime(None)),
    "inline, real time": (False, lambda: InlineTime(None)),
}


@pytest.fixture(params=PLACEMENTS)
def placement(request: pytest.FixtureRequest) -> tuple[bool, Callable[[], AbstractAsyncContextManager[ModelHost]]]:
    virtual, time_of = PLACEMENTS[request.param]
    return virtual, lambda: open_model_host(time_of())


def test_value_error_context_and_trio_tools_cross(placement: Any) -> None:
    virtual, open_host = placement

    async def author(x: int) -> tuple[Any, ...]:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 0.01)
        with trio.move_on_after(0.01) as scope:
            await trio.sleep_forever()
        answer = await trio.to_thread.run_sync(lambda: (time.sleep(0.001), trio.from_thread.run_sync(lambda: 7))[1])
        seen = VAR.get()
        VAR.set("the author's own")
        return x, scope.cancelled_caught, answer, seen, trio.current_time()

    async def bad() -> None:
        raise ValueError("author")

    async def main() -> None:
        async with open_host() as host:
            VAR.set("session 1")
            began = trio.current_time()
            *values, at = await host.run(author, 3)
            assert values == [3, True, 7, "session 1"]
            assert VAR.get() == "session 1"
            assert began <= at <= trio.current_time()  # one time line
            with pytest.raises(ValueError, match="author"):  # bare, not in a group
                await host.run(bad)

    run(main, virtual=virtual)


def test_cancellation_crosses_and_the_unwinding_is_awaited(placement: Any) -> None:
    virtual, open_host = placement
    log: list[str] = []

    async def author() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.02)
            log.append("unwound")

    async def stubborn() -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(0.05)
        return "done"

    async def fails() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise KeyError("in unwinding")

    async def main() -> None:
        async with open_host() as host:
            with trio.move_on_after(0.02) as scope:
                await host.run(author)
            assert scope.cancelled_caught
            assert log == ["unwound"]
            with trio.CancelScope() as scope:
                scope.cancel()
                await host.run(author)
            assert log == ["unwound"]  # never started
            with trio.move_on_after(0.01) as scope:
                assert await host.run(stubborn) == "done"
            assert not scope.cancelled_caught  # it finished all the same: its value is not thrown away
            with pytest.raises(KeyError), trio.move_on_after(0.01):
                await host.run(fails)
            assert host.live_calls == 0

    run(main, virtual=virtual)


def test_an_exit_of_author_code_crosses_as_it_is(placement: Any) -> None:
    virtual, open_host = placement

    async def leave() -> None:
        raise SystemExit(3)

    async def main() -> None:
        async with open_host() as host:
            with pytest.raises(SystemExit):
                await host.run(leave)
            assert await host.run(trio.sleep, 0) is None

    run(main, virtual=virtual)


def test_sessions_unwind_through_a_loop_that_is_still_there(placement: Any) -> None:
    virtual, open_host = placement
    log: list[str] = []

    async def author() -> None:
        try:
            await trio.sleep_forever()
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(0.02)
                log.append("cleaned up")

    async def main() -> None:
        with trio.move_on_after(0.02):
            async with open_host() as host, trio.open_nursery() as nursery:
                nursery.start_soon(host.run, author)

    run(main, virtual=virtual)
    assert log == ["cleaned up"]


def test_cancelled_while_it_starts_it_leaves_nothing(placement: Any) -> None:
    virtual, open_host = placement

    async def main() -> None:
        with trio.CancelScope() as scope:
            scope.cancel()
            async with open_host():
                await trio.sleep_forever()

    run(main, virtual=virtual)


def test_posts_arrive_in_order(placement: Any) -> None:
    virtual, open_host = placement
    seen: list[int] = []

    async def main() -> None:
        async with open_host() as host:
            done = trio.Event()
            for i in range(100):
                host.post(seen.append, i)
            host.post(host.post_io, done.set)
            await done.wait()
            assert seen == list(range(100))

    run(main, virtual=virtual)


def test_in_real_time_nothing_of_ours_is_between_the_loop_and_what_is_posted_to_it() -> None:
    """What counts posts for a held clock is absent."""

    async def main() -> None:
        async with open_model_host() as host:
            callers, done = [], trio.Event()

            def posted() -> None:
                callers.append(sys._getframe(1).f_globals["__name__"])
                host.post_io(done.set)

            host.post(posted)
            await done.wait()
            assert [caller.partition(".")[0] for caller in callers] == ["trio"]

    run(main, virtual=False)


def test_a_dead_model_loop_is_reported_and_every_caller_is_released() -> None:
    released: list[str] = []

    async def main() -> None:
        async with open_model_host() as host, trio.open_nursery() as nursery:

            async def caller() -> None:
                try:
                    await host.run(trio.sleep_forever)
                except HostClosed as error:
                    released.append(str(error))

            nursery.start_soon(caller)
            await trio.testing.wait_all_tasks_blocked(0.01)
            host.post(lambda: 1 / 0)  # a posted function must not raise; this one does

    with pytest.raises(BaseExceptionGroup) as info:
        run(main, virtual=False)
    assert info.group_contains(trio.TrioInternalError)
    assert released == ["the model loop shut down"]


def test_the_stack_of_the_model_thread_begins_where_the_runtime_ends() -> None:
    entered, go = threading.Event(), threading.Event()

    async def hung_forward() -> None:
        entered.set()
        go.wait()

    async def main() -> str:
        async with open_model_host() as host, trio.open_nursery() as nursery:
            nursery.start_soon(host.run, hung_forward)
            await trio.to_thread.run_sync(entered.wait)
            stack = host.stack()
            go.set()
        return stack

    stack = run(main, virtual=False)
    assert "in hung_forward" in stack
    assert "threading.py" not in stack.partition("hung_forward")[0]


def test_one_thread_for_everything_and_not_the_io_loop_s() -> None:
    threads: set[int] = set()

    async def where() -> None:
        threads.add(threading.get_ident())

    async def main() -> None:
        async with open_model_host() as host:
            for _ in range(5):
                await host.run(where)

    run(main, virtual=False)
    assert len(threads) == 1
    assert threading.get_ident() not in threads


def test_the_virtual_clock_is_held_while_the_model_thread_computes() -> None:
    async def forward() -> None:
        time.sleep(0.02)

    async def main() -> float:
        async with open_model_host(HeldTime(None)) as host, trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep, 1000)
            await host.run(forward)
            at = trio.current_time()
            nursery.cancel_scope.cancel()
            return at

    assert run(main, virtual=True) == 0


async def test_hold_clock_holds_it_for_threads_of_one_s_own(autojump_clock: object) -> None:
    async with hold_clock():
        await trio.to_thread.run_sync(time.sleep, 0.02)
        assert trio.current_time() == 0
    await trio.sleep(5)
    assert trio.current_time() == 5


def test_strip_takes_kinds_out_of_groups() -> None:
    error = ValueError("author")
    assert strip(GeneratorExit(), GeneratorExit) is None
    assert strip(error, GeneratorExit) is error
    left = strip(BaseExceptionGroup("g", [GeneratorExit(), error]), GeneratorExit)
    assert isinstance(left, BaseExceptionGroup)
    assert left.exceptions == (error,)
