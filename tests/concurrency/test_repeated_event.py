"""Waking, by ring and by time."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from reactor_trio.concurrency.repeated_event import RepeatedEvent


async def test_a_ring_wakes_all_that_wait_and_leaves_nothing(autojump_clock: trio.testing.MockClock) -> None:
    bell, woken = RepeatedEvent(), []

    async def wait(name: str, deadline: float) -> None:
        await bell.wait(deadline)
        woken.append((name, trio.current_time()))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait, "for ever", trio.current_time() + 1e9)
        nursery.start_soon(wait, "a while", trio.current_time() + 5)
        await trio.sleep(1)
        bell.set()
    assert [name for name, _at in sorted(woken)] == ["a while", "for ever"]
    assert trio.current_time() == 1
    await bell.wait(3)
    assert trio.current_time() == 3


async def test_a_deadline_that_has_passed_is_a_checkpoint(autojump_clock: trio.testing.MockClock) -> None:
    bell = RepeatedEvent()
    with trio.testing.assert_checkpoints():
        await bell.wait(-1.0)
    assert trio.current_time() == 0


@pytest.mark.parametrize("deadline", [100.0, float("inf")])
async def test_a_cancellation_is_not_taken_for_the_deadline(
    deadline: float, autojump_clock: trio.testing.MockClock
) -> None:
    bell, passed = RepeatedEvent(), False
    with trio.move_on_after(2) as scope:
        await bell.wait(deadline)
        passed = True
    assert scope.cancelled_caught
    assert not passed
    assert trio.current_time() == 2
    bell.set()  # nobody is left to be woken
    await bell.wait(4)


async def test_a_cancellation_at_the_instant_of_the_deadline_is_raised_by_the_next_checkpoint_at_last(
    autojump_clock: trio.testing.MockClock,
) -> None:
    bell, passed = RepeatedEvent(), False
    with trio.move_on_at(2) as scope:
        await bell.wait(2)
        await bell.wait(2)  # a deadline that has passed is a checkpoint, too
        passed = True
    assert scope.cancelled_caught
    assert not passed
    assert trio.current_time() == 2


async def test_a_ring_and_the_deadline_at_one_instant_wake_once(autojump_clock: trio.testing.MockClock) -> None:
    bell, times = RepeatedEvent(), []

    async def wait() -> None:
        for deadline in (1.0, 2.0):
            await bell.wait(deadline)
            times.append(trio.current_time())

    async def ring() -> None:
        await trio.sleep_until(1.0)
        bell.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(ring)
    assert times in ([1.0, 2.0], [1.0, 1.0])  # the ring may find it waiting for the second time


async def test_a_task_that_is_cancelled_and_then_shielded_goes_on(autojump_clock: trio.testing.MockClock) -> None:
    """It failed with Trio's "this should never happen": a task of the author had armed the guard of the driver meanwhile."""
    event, token = RepeatedEvent(), trio.lowlevel.current_trio_token()
    with trio.CancelScope() as scope, trio.CancelScope() as guard:
        scope.cancel()
        token.run_sync_soon(token.run_sync_soon, setattr, guard, "shield", True)
        await event.wait(trio.current_time() + 1)
    assert not scope.cancelled_caught
