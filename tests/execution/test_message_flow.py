"""A model's messages between two loops that run when the test says so."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from reactor_trio.execution.mailbox import Mailbox
from reactor_trio.execution.message_flow import MOST, MOST_BYTES, REPORTED, MessageFlow


class Loops:
    """The I/O loop stands still until `tell_all`."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.to_io = Mailbox(lambda _deliver: None, asleep=False)
        self.to_model = Mailbox(lambda deliver: deliver(), asleep=False)
        self.flow = MessageFlow(self.to_io, self.to_model)
        self.sent = 0

    def tell(self, type, data, client):  # noqa: A002
        self.told.append(data)

    async def send(self, data: str, messages: int = 10_000) -> None:
        for _ in range(messages):
            await self.flow.put(self.tell, "said", data, None)
            self.sent += 1


@pytest.mark.parametrize(("data", "fit"), [("x", MOST), ("x" * (MOST_BYTES // 4 - 2), 4), ("x" * 2 * MOST_BYTES, 1)])
async def test_a_model_waits_while_the_io_loop_stands_still(autojump_clock, data, fit):
    loops = Loops()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loops.send, data)
        await trio.sleep(60)
        assert loops.sent == fit
        for _ in range(3):
            loops.to_io.deliver()
            told = len(loops.told)
            await trio.sleep(60)
            assert loops.sent > told
            assert loops.sent - told <= MOST
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("size", "messages"), [(1, MOST + REPORTED), (1000, MOST + REPORTED), (4_000_000, 10), (17_000_000, 3)]
)
async def test_no_message_waits_for_a_report_that_does_not_come(autojump_clock, size, messages):
    loops = Loops()
    for _ in range(messages):
        with trio.fail_after(1):
            await loops.send("x" * size, 1)
        loops.to_io.deliver()
    assert len(loops.told) == messages


async def test_what_waits_for_room_goes_on_when_the_session_is_over(autojump_clock):
    """A `run()` that sends outlives its sessions."""
    loops = Loops()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loops.send, "x", MOST + 1)
        await trio.sleep(60)
        assert loops.sent == MOST
        loops.flow.close()
        with trio.fail_after(1):
            await trio.testing.wait_all_tasks_blocked()
        assert loops.sent == MOST + 1
