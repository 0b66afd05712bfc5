"""How long a client waits in the queue at most: what the limits of sessions say about it, in virtual time."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
import trio

from reactor_trio.admission import Admission
from reactor_trio.connection import ConnectRequest
from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.server.waiting_room import RoomEntry, WaitingRoom
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


def room_of(slots: int, ends: Sequence[float], length: float = LENGTH, reserved: int = 0, waiting: int = 5) -> WaitingRoom:
    """A room whose slots are taken: `reserved` of them promised, the others by sessions with these ends."""
    admission = Admission(slots, 16, claim_ttl=10.0)
    admission.start_admitting(0.0)
    for number in range(slots):
        admission.reserve(f"s{number}", 0.0)
        if number >= reserved:
            admission.claim(f"s{number}", 0.0)
    for number in range(waiting):
        admission.reserve(f"w{number}", 0.0)
    return WaitingRoom(admission, session_ends=lambda: ends, session_length=length)


@pytest.mark.parametrize(
    ("ends", "length", "waits"),
    [
        # From the third on after the first clients in the queue, which may have their whole sessions.
        ([60.0, 40.0], LENGTH, [40.0, 60.0, 140.0, 160.0, 240.0]),
        ([math.inf, 40.0], math.inf, [40.0, None, None, None, None]),  # a ticket limits one of the sessions
        ([math.inf, math.inf], math.inf, [None] * 5),
        ([-1.0, 40.0], LENGTH, [0.0, 40.0, 99.0, 140.0, 199.0]),  # one ends already
        ([30.0, 50.0, 40.0], LENGTH, [40.0, 50.0, 140.0, 150.0, 240.0]),  # of three slots one is gone
    ],
)
async def test_each_client_takes_the_slot_that_is_free_first(autojump_clock, ends, length, waits):
    assert room_of(2, ends, length).longest_waits() == waits


async def test_a_promised_slot_counts_from_the_time_in_which_it_must_be_taken(autojump_clock):
    assert room_of(2, [200.0], reserved=1, waiting=1).longest_waits() == [110.0]


async def test_without_a_model_nobody_knows(autojump_clock):
    assert room_of(1, [], waiting=2).longest_waits() == [None, None]  # a slot is free, or its session is not known
    room = room_of(1, [40.0], waiting=2)
    room.admission.stop_admitting()
    assert room.longest_waits() == [None, None]


async def test_the_waits_of_a_queue_are_computed_once_for_all_who_move(autojump_clock):
    looks, heard = [], []

    def ends() -> list[float]:
        looks.append(trio.current_time())
        return [40.0]

    admission = Admission(1, 64)
    room = WaitingRoom(admission, session_ends=ends, session_length=LENGTH)
    room.start_admitting()
    request = ConnectRequest("control", ())

    def moved(*position: float) -> None:
        heard.append(position)

    entries = [RoomEntry(f"c{number}", room, request, moved, print, lambda: None) for number in range(51)]
    for entry in entries:
        room.enter(entry)
    entries[0].claim()
    looks.clear()
    heard.clear()
    entries[1].release()
    assert heard == [(n, 49, 40.0 + LENGTH * (n - 1)) for n in range(1, 50)]
    assert looks == [0.0]


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
