"""The limit on another process's time to answer, which does not count a standstill of this process; in virtual time."""

from __future__ import annotations

import math

import pytest
import trio
import trio.testing

from reactor_trio.crossing.socket_link import SLICES, answered_within


@pytest.mark.parametrize(("takes", "in_time"), [(0, True), (7.9, True), (8.1, False), (math.inf, False)])
async def test_what_ends_in_time(autojump_clock, takes, in_time):
    until = trio.current_time() + takes
    assert await answered_within(8, lambda: trio.sleep_until(until)) is in_time
    assert trio.current_time() == min(takes, 8)


async def test_without_a_limit(autojump_clock):
    until = trio.current_time() + 1e6
    assert await answered_within(math.inf, lambda: trio.sleep_until(until))


async def test_a_standstill_costs_one_slice(autojump_clock):
    async def stand_still() -> None:
        await trio.sleep(1)
        autojump_clock.jump(1000)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stand_still)
        assert not await answered_within(8, trio.sleep_forever)
        assert trio.current_time() == 1001 + 8 / SLICES * (SLICES - 1)


async def test_what_is_there_after_a_standstill_is_seen(autojump_clock):
    done = trio.Event()

    async def stand_still() -> None:
        await trio.sleep(1)
        autojump_clock.jump(1000)
        done.set()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(stand_still)
        assert await answered_within(8, done.wait)
        assert trio.current_time() == 1001


async def test_who_is_cancelled_is_cancelled(autojump_clock):
    with trio.move_on_after(3) as limit:
        await answered_within(8, trio.sleep_forever)
    assert limit.cancelled_caught
    assert trio.current_time() == 3


async def test_an_error_comes_out(autojump_clock):
    async def fail() -> None:
        await trio.lowlevel.checkpoint()
        raise OSError

    with pytest.raises(OSError, match=r"^$"):
        await answered_within(8, fail)
