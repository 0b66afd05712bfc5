"""One hour of 30 frames a second in virtual time: nothing is lost, nothing drifts, and it takes seconds.

A frame costs about ten turns of Trio's loop, most of the time that this takes; the frame itself is a few percent of it.
"""

from __future__ import annotations

import time

import numpy as np
import pytest

from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.testing import open_server

pytestmark = pytest.mark.soak

FPS = 30
HOUR = 3600.0
#: Processor seconds that the hour may take: about twice what it takes on one slow core, so that the test is of us.
LIMIT = 60.0


class Picture(Output):
    video: Video


class Clockwork(ReactorPipeline):
    fps = FPS

    def inference(self):
        number = 0
        while True:
            yield np.full((32, 32, 3), number % 256, np.uint8)
            number += 1


async def test_an_hour_at_30_fps_drifts_by_less_than_a_frame(autojump_clock, capsys):
    began, computed = time.perf_counter(), time.process_time()
    count, last = 0, -1.0
    async with open_server(Clockwork) as server, server.connect() as client:
        async for frame in client.frames():
            if frame.pts >= HOUR:
                break
            assert frame.seq == frame.step == count, "a frame is missing"
            assert frame.data[0, 0, 0] == count % 256
            assert abs(frame.pts - count / FPS) < 1 / FPS, "the schedule drifted"
            assert frame.pts > last
            count, last = count + 1, frame.pts
    took, used = time.perf_counter() - began, time.process_time() - computed
    with capsys.disabled():
        print(f"\none virtual hour: {count} frames in {took:.1f} s of real time, {used:.1f} s of the processor's")
    assert abs(count - HOUR * FPS) <= 1
    assert server.runtime.metrics.drops().keys() <= {("lane", "client_left"), ("buffer", "session_over")}
    assert used < LIMIT
