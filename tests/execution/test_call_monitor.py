"""Which call of author code is reported, and what is told of those that run at the same time."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import trio
import trio.testing

from reactor_trio.concurrency import open_model_host
from reactor_trio.execution.call_monitor import CallMonitor, MonitorsPieces, RunningCall
from reactor_trio.execution.traced_awaitable import TracedAwaitable
from reactor_trio.testing.virtual_time import InlineTime


class Watch:
    """A watch whose words are kept: when and what was reported, and what was told."""

    def __init__(self, calls: CallMonitor) -> None:
        self.calls = calls
        self.reported: list[tuple[float, str]] = []
        self.told: list[tuple[str, float]] = []

    def report(self, call: RunningCall) -> None:
        self.reported.append((trio.current_time(), call.what))


@asynccontextmanager
async def watching() -> AsyncGenerator[Watch, None]:
    async with open_model_host(InlineTime(None)) as host, trio.open_nursery() as nursery:
        watch = Watch(CallMonitor(host))
        nursery.start_soon(watch.calls.run, 5.0, watch.report, lambda *what: watch.told.append(what))
        await trio.testing.wait_all_tasks_blocked()
        yield watch
        nursery.cancel_scope.cancel()


async def test_calls_that_end_in_time_are_not_reported(autojump_clock: Any) -> None:
    async with watching() as watch:
        for _ in range(20):
            with watch.calls.running("it has run"):
                await trio.sleep(4.9)
            await trio.sleep(3)
        assert (watch.reported, watch.told) == ([], [])


async def test_of_two_long_calls_the_older_is_reported_first(autojump_clock: Any) -> None:
    async with watching() as watch:
        one = watch.calls.begins("one has run", trio.current_time())
        await trio.sleep(2)
        two = watch.calls.begins("two has run", trio.current_time())
        await trio.sleep(10)
        assert watch.reported == [(5, "one has run"), (7, "two has run")]
        assert watch.told == [("one has run", 0), ("one has run", 0)]
        watch.calls.ends(one)
        await trio.testing.wait_all_tasks_blocked()
        assert watch.told[2:] == [("two has run", 2)]
        watch.calls.ends(two)
        watch.calls.ends(two)
        await trio.testing.wait_all_tasks_blocked()
        assert watch.told[3:] == [("", 0)]


async def test_a_call_that_ends_while_it_is_reported_is_not_reported(autojump_clock: Any) -> None:
    """The model's thread has taken it away, but not yet seen the flag when it looked."""
    async with watching() as watch:
        call = watch.calls.begins("it has run", trio.current_time())

        class EndsNow(set[RunningCall]):
            def __contains__(self, _call: object) -> bool:
                self.discard(call)
                return False

        watch.calls._running = EndsNow({call})
        await trio.sleep(20)
        assert (watch.reported, watch.told) == ([], [])


async def test_the_end_of_the_watch_withdraws_its_report(autojump_clock: Any) -> None:
    async with watching() as watch:
        watch.calls.begins("it has run", trio.current_time())
        await trio.sleep(6)
        assert watch.told == [("it has run", 0)]
    assert watch.told == [("it has run", 0), ("", 0)]


async def test_a_run_is_watched_between_two_awaits_and_only_in_a_session(autojump_clock: Any) -> None:
    async with watching() as watch:
        session: list[CallMonitor] = []
        seen: list[list[str]] = []

        async def run() -> str:
            for _ in range(3):
                seen.append([call.what for call in watch.calls._running])
                await trio.sleep(20)
                session.append(watch.calls)
            return "over"

        observer = MonitorsPieces(lambda: session[-1] if session else None)
        assert await TracedAwaitable(run(), observer=observer) == "over"
        assert seen == [[], [], ["run() has awaited nothing"]]  # the piece that found the session had begun before
        assert watch.calls.oldest is None
        assert watch.reported == []


async def test_a_reader_that_began_to_wait_before_the_session_hides_nothing(autojump_clock: Any) -> None:
    """Only its going on is told to this watch."""
    async with watching() as watch:
        watch.calls.waits_for_input(False)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(hangs, watch.calls)
            await trio.sleep(6)
            assert watch.reported == [(5, "it has run")]
            nursery.cancel_scope.cancel()


async def hangs(calls: CallMonitor) -> None:
    with calls.running("it has run"):
        await trio.sleep_forever()
