"""Frames in memory that two processes map: what the other sees, when a segment is used again, what is closed."""

from __future__ import annotations

import gc
import os

import numpy as np
import pytest
import trio

from reactor_trio.execution.isolation.shared_frames import MOST_UNRETURNED, WORTH_SHARING, FrameExchange, SharedFrames

SIDE = 200


class Pair:
    """Both ends in one process; `carry` delivers the messages."""

    def __init__(self):
        self.said, self.returned = [], []
        self.shared = SharedFrames(lambda message, descriptor=None: self.said.append((message, descriptor)))
        self.seen = FrameExchange(lambda message: self.returned.append(message))

    def see(self, frame):
        plane = self.shared.show(frame)
        for message, descriptor in self.said:
            self.seen.receive(message, descriptor)
        self.said.clear()
        return self.seen.see(plane)

    async def carry(self):
        await trio.testing.wait_all_tasks_blocked()
        self.seen.return_unused()
        self.deliver()

    def deliver(self):
        for message in self.returned:
            self.shared.returned(message.numbers)
        self.returned.clear()

    def in_use(self):
        with self.shared._lock:
            self.shared._collect()
        return len(self.shared._live)

    def close(self):
        self.shared.close()
        self.seen.close()


@pytest.fixture
async def pair():
    before = set(os.listdir("/proc/self/fd"))
    pair = Pair()
    yield pair
    pair.close()
    gc.collect()
    # What a test before this one left behind may have been closed meanwhile.
    assert set(os.listdir("/proc/self/fd")) <= before


def picture(level, frames=1, side=SIDE):
    return np.full((frames, side, side, 3), level, np.uint8)


async def test_a_frame_made_there_is_seen_without_another_copy(pair):
    mine = pair.shared.empty((SIDE, SIDE, 3))
    mine[...] = 7
    seen = pair.see(mine)
    assert (seen == 7).all()
    mine[0, 0, 0] = 9  # no one does so; it shows that both are one memory
    assert seen[0, 0, 0] == 9
    assert not seen.flags.writeable
    assert pair.in_use() == 1


async def test_a_frame_made_elsewhere_is_copied_once(pair):
    theirs = picture(3)[0]
    seen = pair.see(theirs)
    theirs[...] = 0
    assert (seen == 3).all()


async def test_parts_of_a_batch_are_seen_each_and_hold_the_whole(pair):
    batch = pair.shared.empty((4, SIDE, SIDE, 3))
    for level in range(4):
        batch[level] = level
    seen = [pair.see(batch[level]) for level in range(4)]
    assert [int(one[5, 5, 1]) for one in seen] == [0, 1, 2, 3]
    del batch, seen[1:]
    await pair.carry()
    assert pair.in_use() == 1
    del seen[:]
    await pair.carry()
    assert pair.in_use() == 0


async def test_memory_is_used_again_only_when_nobody_looks(pair):
    first = pair.shared.empty((SIDE, SIDE, 3))
    first[...] = 1
    seen = pair.see(first)
    part = seen[10:20]
    del first, seen
    await pair.carry()
    second = pair.shared.empty((SIDE, SIDE, 3))
    second[...] = 2
    assert (part == 1).all()
    del part
    await pair.carry()
    third = pair.shared.empty((SIDE, SIDE, 3))
    third[...] = 3
    assert (second == 2).all()
    assert pair.see(third)[0, 0, 0] == 3
    assert len(pair.shared._live) + len(pair.shared._free) == 2


async def test_hundreds_of_frames_take_the_memory_of_a_few(pair):
    for level in range(300):
        frame = pair.shared.empty((SIDE, SIDE, 3))
        frame[...] = level % 256
        assert pair.see(frame)[-1, -1, 2] == level % 256
        del frame
        await pair.carry()
    assert len(pair.shared._live) + len(pair.shared._free) <= 3


async def test_of_free_memory_only_so_much_is_kept(pair):
    frames = [pair.shared.empty((SIDE + 40 * index, SIDE, 3)) for index in range(40)]
    seen = [pair.see(frame) for frame in frames]
    del frames, seen
    await pair.carry()
    assert pair.in_use() == 0
    assert len(pair.shared._free) <= 16
    pair.see(picture(1)[0])  # the other side hears what is gone with the next frame
    assert len(pair.seen._maps) <= 17


async def test_a_frame_that_is_no_longer_in_use_waits_for_the_next_message(pair):
    pair.see(picture(1)[0])
    await trio.testing.wait_all_tasks_blocked()
    assert not pair.returned
    pair.seen.return_unused()
    pair.seen.return_unused()
    assert [message.numbers for message in pair.returned] == [[1]]


async def test_no_more_than_a_few_frames_wait_for_a_message(pair):
    seen = [pair.see(picture(1)[0]) for _ in range(2 * MOST_UNRETURNED + 1)]
    del seen[:MOST_UNRETURNED]
    await trio.testing.wait_all_tasks_blocked()
    assert not pair.returned
    seen.clear()
    await trio.testing.wait_all_tasks_blocked()
    pair.deliver()
    assert pair.in_use() == 0


async def test_a_small_frame_goes_inline(pair):
    frame = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    assert frame.nbytes < WORTH_SHARING
    assert (pair.see(frame) == frame).all()
    sound = np.arange(960, dtype=np.int16).reshape(1, -1)
    assert (pair.see(sound) == sound).all()
    assert not pair.said
    assert pair.in_use() == 0


async def test_a_frame_that_is_no_row_after_row_is_copied_as_it_looks(pair):
    turned = np.ascontiguousarray(picture(0)[0])
    turned[0, :, 0] = 9
    view = turned.transpose(1, 0, 2)
    assert (pair.see(view) == view).all()
