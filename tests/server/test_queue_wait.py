"""How long a client waits in the queue at most: what the limits of sessions say about it, in virtual time."""

from __future__ import annotations

import math

import numpy as np
import pytest
import trio

from reactor_trio.admission import Admission
from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.server.waiting_room import WaitingRoom
from reactor_trio.testing import open_server

LENGTH = 100.0


class Picture(Output):
    main_video: Video


class Still(ReactorPipeline):
    output: Picture
    fps = 1

    def inference(self):
        while True:
            yield Picture(main_video=np.zeros((4, 4, 3), np.uint8))


def room_of(slots: int, reserved: int = 0, waiting: int = 0) -> WaitingRoom:
    """A room whose slots are taken: `reserved` of them promised, the others live."""
    admission = Admission(slots, 16, claim_ttl=10.0)
    admission.start_admitting(0.0)
    for number in range(slots):
        admission.reserve(f"s{number}", 0.0)
        if number >= reserved:
            admission.claim(f"s{number}", 0.0)
    for number in range(waiting):
        admission.reserve(f"w{number}", 0.0)
    return WaitingRoom(admission)


@pytest.mark.parametrize(
    ("position", "ends", "length", "wait"),
    [
        (1, [60.0, 40.0], LENGTH, 40.0),
        (2, [60.0, 40.0], LENGTH, 60.0),
        (3, [60.0, 40.0], LENGTH, 140.0),  # after the first client in the queue, which may have its whole session
        (4, [60.0, 40.0], LENGTH, 160.0),
        (5, [60.0, 40.0], LENGTH, 240.0),
        (1, [math.inf, 40.0], math.inf, 40.0),  # a ticket limits one of the sessions
        (2, [math.inf, 40.0], math.inf, None),
        (1, [math.inf, math.inf], math.inf, None),
        (1, [-1.0, 40.0], LENGTH, 0.0),  # it ends already
    ],
)
async def test_each_client_takes_the_slot_that_is_free_first(autojump_clock, position, ends, length, wait):
    assert room_of(2).longest_wait(position, ends, length) == wait


async def test_a_promised_slot_counts_from_the_time_in_which_it_must_be_taken(autojump_clock):
    assert room_of(2, reserved=1).longest_wait(1, [200.0], LENGTH) == 110.0


async def test_without_a_model_nobody_knows(autojump_clock):
    room = room_of(1)
    assert room.longest_wait(1, [], LENGTH) is None  # a slot is free, or its session is not known
    room.admission.stop_admitting()
    assert room.longest_wait(1, [40.0], LENGTH) is None


async def test_a_client_that_waits_knows_for_how_long_at_most(autojump_clock):
    told = []
    async with open_server(Still, limits={"session_length": LENGTH}) as server, trio.open_nursery() as nursery:

        async def come(at: float) -> None:
            await trio.sleep_until(at)

            def note(position: int, total: int) -> None:
                (waiting,) = [one for one in server._clients if one.position == position and one.wait is not None]
                told.append((trio.current_time(), position, total, waiting.wait))

            async with server.connect(on_queued=note) as client:
                assert client.wait is None
                await trio.sleep_forever()

        nursery.start_soon(come, 0.0)
        nursery.start_soon(come, 30.0)
        nursery.start_soon(come, 50.0)
        await trio.sleep_until(60)
        first, second, third = server._clients
        assert (first.wait, second.wait, third.wait) == (None, 40.0, 140.0)
        nursery.cancel_scope.cancel()
    assert sorted(told) == [(30.0, 1, 1, 70.0), (50.0, 1, 2, 50.0), (50.0, 2, 2, 150.0)]  # two tasks at 50 s, in any order


async def test_without_a_limit_nobody_knows(autojump_clock):
    async with open_server(Still) as server, server.connect(), trio.open_nursery() as nursery:

        async def wait() -> None:
            async with server.connect():
                raise AssertionError("it has no session")

        nursery.start_soon(wait)
        await trio.sleep(10)
        assert (server._clients[-1].position, server._clients[-1].wait) == (1, None)
        nursery.cancel_scope.cancel()
