"""One hour of 30 frames a second in virtual time: nothing is lost, nothing drifts, and it takes seconds."""

from __future__ import annotations

import time

import numpy as np
import pytest

from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.testing import open_server

pytestmark = pytest.mark.soak

FPS = 30
HOUR = 3600.0
#: Real seconds that the hour may take.
LIMIT = 30.0


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
    began = time.perf_counter()
    count, last = 0, -1.0
    async with open_server(Clockwork, step_cost=0.01) as server, server.connect() as client:
        async for frame in client.frames():
            if frame.pts >= HOUR:
                break
            assert frame.seq == frame.step == count, "a frame is missing"
            assert frame.data[0, 0, 0] == count % 256
            assert abs(frame.pts - (0.01 + count / FPS)) < 1 / FPS, "the schedule drifted"
            assert frame.pts > last
            count, last = count + 1, frame.pts
    took = time.perf_counter() - began
    with capsys.disabled():
        print(f"\none virtual hour: {count} frames in {took:.1f} s of real time")
    assert abs(count - HOUR * FPS) <= 1
    assert server.runtime.metrics.drops().keys() <= {("lane", "client_left"), ("buffer", "session_over")}
    assert took < LIMIT
