"""What comes, or is asked for, when a session or the process is over; and frames that are given back, in both directions."""

from __future__ import annotations

import numpy as np
import pytest
import trio

from reactor_trio.crossing.messages import BeginSession, InputArrived
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.media import Bundle, Origin
from reactor_trio.memory.shared_mapping import SharedMapping, new_shared_mapping
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.isolation.isolated_worker import work
from reactor_trio.placement.isolation.process_supervision import ProcessPlacement
from reactor_trio.placement.isolation.remote_session_run import RemoteSessionRun
from reactor_trio.placement.isolation.shared_frames import MODEL, MOST_UNRETURNED, SERVER, FrameExchange
from reactor_trio.telemetry import Telemetry
from reactor_trio.testing.memory_ipc_link import memory_links

FRAME = np.zeros((128, 128, 3), np.uint8)
FRAMES = 20


class Process:
    """A model's process without a model: its end is up to the test."""

    def __init__(self, link, memory):
        self.link, self.memory = link, memory

    async def receive(self, handle):
        await self.link.receive(handle)

    async def end(self, _handle):
        await trio.lowlevel.checkpoint()

    def exit(self):
        return "ended"

    def last_words(self):
        return ""


@pytest.fixture
async def ends():
    """The link and the memory of the server, and those of the model's process."""
    ours, theirs = memory_links(ipc_messages.FromProcess, ipc_messages.ToProcess)
    with new_shared_mapping("reactor-frames") as (memory, descriptor):
        return (ours, memory), (theirs, SharedMapping(descriptor))


async def returned(link, send):
    """How many frames the other end has given back, of `FRAMES` that `send` has sent."""
    numbers = []
    with trio.move_on_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.receive, lambda message, _session: numbers.extend(getattr(message, "numbers", [])))
            for _ in range(FRAMES):
                send()
                await trio.testing.wait_all_tasks_blocked()
    return len(numbers)


async def test_input_frames_that_come_when_their_session_is_over(ends, autojump_clock):
    (ours, memory), (theirs, their_memory) = ends
    frames = FrameExchange(their_memory, MODEL, theirs.send)
    ours.wire.share(FrameExchange(memory, SERVER, ours.send))
    theirs.wire.share(frames)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(work, theirs, None, frames)

        def send():
            ours.send(InputArrived("camera", FRAME, 0.0, None, None), session=7)

        assert await returned(ours, send) >= FRAMES - MOST_UNRETURNED
        nursery.cancel_scope.cancel()


async def test_pictures_that_come_when_their_session_is_over(ends, autojump_clock):
    (ours, memory), (theirs, their_memory) = ends
    theirs.wire.share(FrameExchange(their_memory, MODEL, theirs.send))
    placement = ProcessPlacement(Process(ours, memory), None, None, Telemetry(), 2**29)
    async with trio.open_nursery() as nursery:
        await nursery.start(placement.run)

        def send():
            theirs.send(Bundle({"main_video": FRAME}, {"main_video": 0}, 0.1, True, Origin(0), 0.0), session=7)

        assert await returned(theirs, send) >= FRAMES - MOST_UNRETURNED
        nursery.cancel_scope.cancel()


async def test_input_frames_of_a_session_that_never_began(ends):
    """They wait for `BeginSession`. A frame that is shown and not sent would never be given back."""
    (ours, memory), _ = ends
    frames, sent = FrameExchange(memory, SERVER, ours.send), []
    session = RemoteSessionRun(BeginSession("s", 1, 0.0), sent.append, 2**29, Telemetry(), lambda: None)
    before = frames.show(FRAME).offset
    for _ in range(FRAMES):
        session.take_input("camera", InputFrame(FRAME, 0.0, None, None))
    session.close()
    assert not sent
    after = frames.show(FRAME).offset
    assert after == before + 64 * 1024  # the next place: nothing was shown between the two


async def test_a_session_that_opens_when_the_process_is_gone_ends_at_once(ends, autojump_clock):
    (ours, memory), (theirs, _their_memory) = ends
    placement = ProcessPlacement(Process(ours, memory), None, None, Telemetry(), 2**29)
    async with trio.open_nursery() as nursery:
        await nursery.start(placement.run)
        theirs.close()
        await placement.until_ended()
        session = placement.open_session_run("s", (1, 0.0))
        with trio.fail_after(1):
            await session.run()
        assert session.reason == "model_restarting"


async def test_an_idle_server_has_the_process_free_its_memory(ends, autojump_clock):
    (ours, memory), (theirs, _their_memory) = ends
    placement, heard = ProcessPlacement(Process(ours, memory), None, None, Telemetry(), 2**29), []
    placement.idle()
    with trio.move_on_after(1):
        await theirs.receive(lambda message, _session: heard.append(message))
    assert heard == [ipc_messages.FreeMemory()]
