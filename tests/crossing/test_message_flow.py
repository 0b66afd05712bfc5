"""A model's messages between two loops that run when the test says so."""

from __future__ import annotations

import pytest
import trio
import trio.testing

from reactor_trio.crossing.local_channel import open_local_channel
from reactor_trio.crossing.message_flow import MESSAGES, MessageFlow, MessageReports
from reactor_trio.crossing.messages import MessagesTaken, ModelMessageSent


class Loops:
    """The I/O loop stands still until `io.take`."""

    def __init__(self) -> None:
        self.told: list[bytes] = []
        self.io, model = open_local_channel(lambda _take: None, lambda take: take())
        self.flow, self.reports = MessageFlow(model), MessageReports(self.io)
        self.io.connect({ModelMessageSent: self.take})
        model.connect({MessagesTaken: self.flow.taken})
        self.sent = 0

    def take(self, message: ModelMessageSent) -> None:
        self.told.append(message.data)
        self.reports.took(len(message.data))

    async def send(self, data: str, messages: int = 10_000) -> None:
        for _ in range(messages):
            await self.flow.put("said", data, None)
            self.sent += 1


@pytest.mark.parametrize(
    ("data", "fit"), [("x", MESSAGES.items), ("x" * (MESSAGES.size // 4 - 2), 4), ("x" * 2 * MESSAGES.size, 1)]
)
async def test_a_model_waits_while_the_io_loop_stands_still(autojump_clock, data, fit):
    loops = Loops()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loops.send, data)
        await trio.sleep(60)
        assert loops.sent == fit
        for _ in range(3):
            loops.io.take()
            told = len(loops.told)
            await trio.sleep(60)
            assert loops.sent > told
            assert loops.sent - told <= MESSAGES.items
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("size", "messages"),
    [(1, MESSAGES.items + MESSAGES.reported), (1000, MESSAGES.items + MESSAGES.reported), (4_000_000, 10), (17_000_000, 3)],
)
async def test_no_message_waits_for_a_report_that_does_not_come(autojump_clock, size, messages):
    loops = Loops()
    for _ in range(messages):
        with trio.fail_after(1):
            await loops.send("x" * size, 1)
        loops.io.take()
    assert len(loops.told) == messages


async def test_what_waits_for_room_goes_on_when_the_session_is_over(autojump_clock):
    """A `run()` that sends outlives its sessions."""
    loops = Loops()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(loops.send, "x", MESSAGES.items + 1)
        await trio.sleep(60)
        assert loops.sent == MESSAGES.items
        loops.flow.close()
        with trio.fail_after(1):
            await trio.testing.wait_all_tasks_blocked()
        assert loops.sent == MESSAGES.items + 1
