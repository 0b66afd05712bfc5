"""Frames in memory that two processes map: what the other sees, when memory is used again, what is given back."""

from __future__ import annotations

import gc
import os
import re
from collections import deque
from pathlib import Path

import numpy as np
import pytest
import trio
from tests.support.models import Picture

from reactor_trio.media import keep_frames_in
from reactor_trio.media.frames import chunk_from_output
from reactor_trio.memory.shared_mapping import SharedMapping, new_shared_mapping
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.isolation.process_main import serve_alone
from reactor_trio.placement.isolation.shared_frames import MODEL, MOST_UNRETURNED, SERVER, WORTH_SHARING, FrameExchange
from reactor_trio.testing.memory_ipc_link import memory_links

SIDE = 200
#: bytes of memory that a picture of that side takes: a multiple of 64 KiB
TAKES = 128 * 1024


class Pair:
    """Both ends in one process, each with its own view of the memory; `carry` delivers the messages."""

    def __init__(self, bound=None):
        with new_shared_mapping("reactor-frames", bound) as (memory, descriptor):
            self.file = os.dup(descriptor)
            self.made = FrameExchange(memory, MODEL, lambda message: None)
            self.seen = FrameExchange(SharedMapping(descriptor), SERVER, lambda message: self.returned.append(message))
        self.returned = []

    def see(self, frame):
        return self.seen.see(self.made.show(frame))

    async def carry(self):
        await trio.testing.wait_all_tasks_blocked()
        self.seen.return_unused()
        self.deliver()

    def deliver(self):
        for message in self.returned:
            self.made.returned(message.numbers)
        self.returned.clear()

    def memory(self):
        """How many bytes of the memory are in use, or kept for later frames."""
        self.made.empty((WORTH_SHARING,))  # it looks for what has been returned
        return os.fstat(self.file).st_blocks * 512

    def close(self):
        self.made.close()
        self.seen.close()
        os.close(self.file)


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


def is_mapped(inode):
    return re.search(rf" {inode} +/memfd:reactor-frames", Path("/proc/self/maps").read_text()) is not None


async def test_two_threads_may_return_frames_at_the_same_time(pair):
    """One of them had seen the last frame, the other took it: an IndexError ended the model's process."""

    class Taken(deque):
        """Another thread takes the last one between the look and the take."""

        def __bool__(self):
            return True

    pair.made.unused = Taken([3, 4])
    assert pair.made.returns().numbers == [3, 4]
    assert pair.made.returns().numbers == []


async def test_the_one_copy_of_an_accepted_frame_lies_in_shared_memory(pair, autojump_clock):
    _ours, theirs = memory_links(ipc_messages.FromProcess, ipc_messages.ToProcess)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_alone, theirs, None, pair.made)
        await trio.testing.wait_all_tasks_blocked()
        try:
            accepted = chunk_from_output(picture(5), (Picture,)).videos["main_video"]
        finally:
            keep_frames_in(np.empty)
        nursery.cancel_scope.cancel()
    assert pair.made.show(accepted).offset == pair.made.show(accepted).offset, "what lies elsewhere is copied each time"


async def test_a_frame_made_there_is_seen_without_another_copy(pair):
    mine = pair.made.empty((SIDE, SIDE, 3))
    mine[...] = 7
    seen = pair.see(mine)
    assert (seen == 7).all()
    mine[0, 0, 0] = 9  # no one does so; it shows that both are one memory
    assert seen[0, 0, 0] == 9
    assert not seen.flags.writeable


async def test_a_frame_made_elsewhere_is_copied_once(pair):
    theirs = picture(3)[0]
    seen = pair.see(theirs)
    theirs[...] = 0
    assert (seen == 3).all()


async def test_parts_of_a_batch_are_seen_each_and_hold_the_whole(pair):
    batch = pair.made.empty((4, SIDE, SIDE, 3))
    for level in range(4):
        batch[level] = level
    seen = [pair.see(batch[level]) for level in range(4)]
    assert [int(one[5, 5, 1]) for one in seen] == [0, 1, 2, 3]
    del batch, seen[1:]
    await pair.carry()
    again = pair.made.empty((4, SIDE, SIDE, 3))
    again[...] = 9
    assert (seen[0] == 0).all()
    last = seen.pop().copy()
    await pair.carry()
    pair.made.empty((4, SIDE, SIDE, 3))[...] = 8  # in the place of the first
    assert (last == 0).all()
    assert (again == 9).all()


async def test_memory_is_used_again_only_when_nobody_looks(pair):
    first = pair.made.empty((SIDE, SIDE, 3))
    first[...] = 1
    seen = pair.see(first)
    part = seen[10:20]
    del first, seen
    await pair.carry()
    second = pair.made.empty((SIDE, SIDE, 3))
    second[...] = 2
    assert (part == 1).all()
    del part
    await pair.carry()
    third = pair.made.empty((SIDE, SIDE, 3))
    third[...] = 3
    assert (second == 2).all()
    assert pair.see(third)[0, 0, 0] == 3
    assert pair.memory() <= 2 * TAKES + TAKES // 2


async def test_hundreds_of_frames_take_the_memory_of_a_few(pair):
    for level in range(300):
        frame = pair.made.empty((SIDE, SIDE, 3))
        frame[...] = level % 256
        assert pair.see(frame)[-1, -1, 2] == level % 256
        del frame
        await pair.carry()
    assert pair.memory() <= 4 * TAKES


async def test_of_free_memory_only_so_much_is_kept(pair):
    frames = [pair.made.empty((SIDE + 40 * index, SIDE, 3)) for index in range(40)]
    for frame in frames:
        frame[...] = 1
    seen = [pair.see(frame) for frame in frames]
    all_of_it = sum(frame.nbytes for frame in frames)
    assert pair.memory() >= all_of_it
    del frame, frames, seen
    await pair.carry()
    assert pair.memory() < all_of_it * 2 / 3  # 16 of 40 are kept, the newest


async def test_frames_take_no_descriptors(pair):
    before = len(os.listdir("/proc/self/fd"))
    frames = [pair.see(picture(level)[0]) for level in range(100)]
    assert len(os.listdir("/proc/self/fd")) == before
    assert [int(frame[3, 3, 0]) for frame in frames] == list(range(100))


async def test_without_room_frames_go_inline():
    pair = Pair(bound=4 * TAKES)
    seen = [pair.see(picture(level)[0]) for level in range(10)]
    assert [int(frame[3, 3, 0]) for frame in seen] == list(range(10))
    seen.clear()
    await pair.carry()
    shown = pair.made.show(picture(1)[0])
    assert not shown.inline  # there is room again
    pair.close()


async def test_after_the_end_frames_stay_valid_and_the_memory_goes_with_the_last():
    pair = Pair()
    number = os.fstat(pair.file).st_ino
    mine = pair.made.empty((SIDE, SIDE, 3))
    mine[...] = 5
    seen = pair.see(mine)
    pair.close()
    assert (seen == 5).all()
    assert is_mapped(number)
    later = pair.made.empty((SIDE, SIDE, 3))  # a model that is still in its step
    later[...] = 6
    assert (mine == 5).all()
    assert pair.made.show(later).inline == later.tobytes()
    del mine, seen
    assert not is_mapped(number)


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
    assert sum(len(message.numbers) for message in pair.returned) == 2 * MOST_UNRETURNED + 1


async def test_a_small_frame_goes_inline(pair):
    frame = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    assert frame.nbytes < WORTH_SHARING
    assert (pair.see(frame) == frame).all()
    sound = np.arange(960, dtype=np.int16).reshape(1, -1)
    assert (pair.see(sound) == sound).all()
    assert pair.made.show(sound).inline


async def test_a_frame_that_is_no_row_after_row_is_copied_as_it_looks(pair):
    turned = np.ascontiguousarray(picture(0)[0])
    turned[0, :, 0] = 9
    view = turned.transpose(1, 0, 2)
    assert (pair.see(view) == view).all()
