"""Time that a loop loses, and who is spared it. A jump of the clock within a turn is a process that is stopped."""

from __future__ import annotations

import math

import pytest
import trio
from trio.testing import MockClock

from reactor_trio.concurrency.loop_lag import LoopLag
from reactor_trio.concurrency.lost_time import patient, patient_until, resumed_at, run_time


async def stops(clock: MockClock, *pauses: tuple[float, float]) -> None:
    """Stop the loop at each time from now on for so many seconds."""
    began = trio.current_time()
    for at, seconds in pauses:
        await trio.sleep_until(began + at)
        clock.jump(seconds)


async def ends(scope: trio.CancelScope) -> float:
    with patient(scope):
        await trio.sleep_forever()
    return trio.current_time()


@pytest.mark.parametrize(
    ("pauses", "end"),
    [
        ([], 10.0),
        ([(2.2, 3.0)], 13.0),
        ([(2.2, 60.0)], 70.0),  # longer than the deadline
        ([(2.2, 3.0), (7.2, 4.0)], 17.0),
        ([(9.9, 1.1)], 11.1),
        ([(2.2, 0.5)], 10.0),  # too short to be noticed
        ([(2.2, 3.0), (5.3, 4.0)], 13.0),  # the second follows at once: a model that holds the loop up in each step
    ],
)
async def test_a_patient_scope_ends_later_by_what_the_loop_lost(autojump_clock, pauses, end):
    with LoopLag().watched() as lag:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lag.tick)
            nursery.start_soon(lambda: stops(autojump_clock, *pauses))
            assert round(await ends(trio.move_on_after(10)), 6) == end
            lost = sum(seconds for _, seconds in pauses)
            assert round(run_time(), 6) in (10.0, end) if lost else run_time() == 10
            nursery.cancel_scope.cancel()


async def test_a_deadline_that_was_over_in_the_pause_spares_what_had_come_meanwhile(autojump_clock):
    """Trio looks for input and for deadlines in one turn; what came in the pause is taken, and not cancelled."""
    send, receive = trio.open_memory_channel[int](1)
    with LoopLag().watched() as lag:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lag.tick)
            await trio.sleep(0.2)

            @nursery.start_soon
            async def stop():
                await trio.sleep(1)
                autojump_clock.jump(5)
                await trio.sleep(0.1)
                await send.send(1)

            with patient(trio.move_on_after(2)) as scope:
                assert await receive.receive() == 1
            assert not scope.cancelled_caught
            assert resumed_at() == 6.2
            nursery.cancel_scope.cancel()


async def test_a_time_before_the_pause_can_be_kept_as_run_time(autojump_clock):
    with LoopLag().watched() as lag:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lag.tick)
            until = run_time() + 4
            await trio.sleep(1)
            autojump_clock.jump(3)
            await trio.sleep(1)
            with patient_until(until):
                await trio.sleep_forever()
            assert trio.current_time() == 7
            nursery.cancel_scope.cancel()


async def test_other_scopes_and_loops_that_are_not_watched_know_no_lost_time(autojump_clock):
    with LoopLag().watched() as lag:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: stops(autojump_clock, (1.2, 3.0)))
            assert await ends(trio.move_on_after(2)) == 4.2  # it could not end earlier
            assert (run_time(), resumed_at()) == (4.2, -math.inf)
            nursery.start_soon(lag.tick)
            nursery.start_soon(lambda: stops(autojump_clock, (1.2, 3.0)))
            with trio.move_on_after(2):
                await trio.sleep_forever()
            assert trio.current_time() == 4.2 + 4.2
            nursery.cancel_scope.cancel()
