"""How far behind a loop is. A jump of the clock within a turn is work that holds the loop up."""

from __future__ import annotations

import trio
from trio.testing import MockClock

from reactor_trio.concurrency.loop_lag import LoopLag


async def test_input_may_have_waited_for_this_turn_and_the_two_before_it(mock_clock: MockClock) -> None:
    with LoopLag().watched() as lag:
        seen = []
        for work in (1.0, 2.0, 4.0, 8.0, 16.0):
            mock_clock.jump(work)
            seen.append(lag.seconds())
            await trio.lowlevel.checkpoint()
        assert seen == [1, 3, 7, 14, 28]


async def test_a_delay_of_the_loop_before_the_wait_does_not_count(mock_clock: MockClock) -> None:
    lag = LoopLag()
    mock_clock.jump(30)
    assert lag.seconds() == 30
    lag.before_io_wait(60)
    mock_clock.jump(5)  # it waited for input
    lag.after_io_wait(60)
    assert lag.seconds() == 0
    mock_clock.jump(2)
    assert lag.seconds() == 2


async def test_no_task_watches_the_loop_after_the_block(mock_clock: MockClock) -> None:
    with LoopLag().watched() as lag:
        pass
    for _ in range(5):
        mock_clock.jump(1)
        await trio.lowlevel.checkpoint()
    assert lag.seconds() == 5
