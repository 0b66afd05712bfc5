"""What may be on its way to a model's process that takes nothing, and how it goes on when that process does."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from reactor_trio.crossing.flow_window import FlowReports
from reactor_trio.crossing.input_lanes import FRAMES, InputLanes
from reactor_trio.interface import InputBuffer, InputFrame

MIB = 1024 * 1024


class Setting:
    """A process that takes frames when the test says so. The frames have numbers from 0 on as their `pts`."""

    def __init__(self, most_bytes: int = 512 * MIB) -> None:
        self.sent: list[int] = []
        self.drops: Counter[str] = Counter()
        self.lanes = InputLanes(self._send, self._dropped, most_bytes)
        self.reports = FlowReports(FRAMES)
        self._sizes: list[int] = []
        self._put = self._took = 0

    def put(self, frames: int, size: int = 100) -> None:
        for _ in range(frames):
            self.lanes.put("camera", InputFrame(np.broadcast_to(np.uint8(0), (size,)), float(self._put)))
            self._put += 1

    def take(self, frames: int) -> None:
        for _ in range(frames):
            if report := self.reports.took(self._sizes[self._took]):
                self.lanes.taken("camera", *report)
            self._took += 1

    def _send(self, track: str, frame: InputFrame) -> None:
        assert track == "camera"
        self.sent.append(int(frame.pts))
        self._sizes.append(frame.data.nbytes)

    def _dropped(self, reason: str, frames: int) -> None:
        self.drops[reason] += frames


def test_a_few_frames_are_under_way_and_of_those_that_wait_the_oldest_are_dropped():
    setting = Setting()
    setting.lanes.open()
    setting.put(InputBuffer.capacity)
    assert setting.sent == list(range(FRAMES.items))
    assert not setting.drops
    setting.put(3)
    assert setting.drops == {"evicted": 3}
    setting.take(FRAMES.reported)
    assert setting.sent[FRAMES.items:] == list(range(FRAMES.items + 3, FRAMES.items + 3 + FRAMES.reported))


@pytest.mark.parametrize(
    ("most", "size", "under_way", "kept"),
    [
        (512, 16, 2, 16),  # 32 MiB under way, 256 MiB in all
        (32, 3, 6, 7),  # half of the limit, and the newest frame
        (32, 40, 1, 2),  # a frame that is larger than all bounds, and one behind it
        (0.001, 5, 2, 3),  # 8 MiB may always be under way, or frames would wait for a report that does not come
    ],
)
def test_bytes_are_bounded(most, size, under_way, kept):
    setting = Setting(int(most * MIB))
    setting.lanes.open()
    setting.put(100, size * MIB)
    assert setting.sent == list(range(under_way))
    assert setting.drops == {"evicted": 100 - kept}
    setting.lanes.close()
    assert setting.drops["unread"] == kept - under_way


@pytest.mark.parametrize("size", [1, 1024, MIB, 3 * MIB, 4 * MIB, 7 * MIB, 33 * MIB])
@pytest.mark.parametrize("most", [1024, 8 * MIB, 512 * MIB])
def test_a_process_that_takes_what_comes_gets_every_frame(most, size):
    setting = Setting(most)
    setting.lanes.open()
    for number in range(40):
        setting.put(1, size)
        setting.take(len(setting.sent) - setting._took)
        assert setting.sent[-1] == number
    assert not setting.drops


def test_frames_wait_for_the_begin_of_the_session_and_after_its_end_they_are_counted():
    setting = Setting()
    setting.put(2)
    assert setting.sent == []
    setting.lanes.open()
    assert setting.sent == [0, 1]
    setting.lanes.close()
    setting.lanes.taken("camera", 2, 200)  # was under way
    setting.put(1)
    assert setting.sent == [0, 1]
    assert setting.drops == {"unread": 1}
