"""Encoder libraries do not change the scheduling of the threads that use them."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings, encoders, open_encoder
from reactor_trio.media.scheduling import ordinary_scheduling
from reactor_trio.pacing import Quality


def scheduling() -> int:
    """The scheduling of the calling thread."""
    return os.sched_getscheduler(0)


@pytest.mark.parametrize("codec", ["h264", "vp8", "vp9", "av1"])
def test_no_encoder_makes_its_caller_a_real_time_thread(codec: str) -> None:
    encoder = open_encoder(TrackSpec("main", "video", "out"), codec, CodecSettings())
    encoder.encode(np.zeros((96, 128, 3), np.uint8))
    assert scheduling() == os.SCHED_OTHER
    encoder.configure(Quality(400_000, 30))  # reopens AV1
    encoder.encode(np.zeros((96, 128, 3), np.uint8))
    assert scheduling() == os.SCHED_OTHER
    encoder.close()


def test_looking_for_encoders_makes_no_real_time_thread() -> None:
    encoders(CodecSettings())
    assert scheduling() == os.SCHED_OTHER


@pytest.mark.skipif(os.geteuid() != 0, reason="who is not root may not be real-time, nor may a library")
def test_a_real_time_thread_stays_one() -> None:
    found = []

    def calling() -> None:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        with ordinary_scheduling():
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))
        found.append((os.sched_getscheduler(0), os.sched_getparam(0).sched_priority))

    caller = threading.Thread(target=calling)
    caller.start()
    caller.join(120)
    assert found == [(os.SCHED_RR, 1)]
