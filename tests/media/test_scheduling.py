"""What an encoder library does to the scheduling of the process that loads it, undone."""

from __future__ import annotations

import os
import threading

import numpy as np
import pytest

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings, Target, encoders, open_encoder
from reactor_trio.media.scheduling import ordinary_scheduling

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="who is not root may not be real-time, nor may a library")


def real_time() -> list[str]:
    """Threads of this process that are never preempted by an ordinary one."""
    return [name for name in os.listdir("/proc/self/task") if os.sched_getscheduler(int(name)) != os.SCHED_OTHER]


@pytest.mark.parametrize("codec", ["h264", "vp8", "vp9", "av1"])
def test_no_encoder_leaves_a_real_time_thread(codec: str) -> None:
    encoder = open_encoder(TrackSpec("main", "video", "out"), codec, CodecSettings())
    encoder.encode(np.zeros((96, 128, 3), np.uint8))
    assert real_time() == []
    encoder.configure(Target(400_000, 30))  # AV1 is opened anew for another bitrate
    encoder.encode(np.zeros((96, 128, 3), np.uint8))
    assert real_time() == []
    encoder.close()


def test_looking_for_encoders_leaves_none() -> None:
    encoders(CodecSettings())
    assert real_time() == []


@AS_ROOT
def test_the_calling_thread_and_those_that_came_are_as_it_was_and_others_are_left_alone() -> None:
    stop, policies = threading.Event(), {}

    def other() -> None:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
        begun.set()
        stop.wait(120)

    def calling() -> None:
        with ordinary_scheduling():
            os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(99))
            young.start()  # inherits it
        policies["calling"] = os.sched_getscheduler(0)
        policies["came"] = os.sched_getscheduler(young.native_id or 0)
        policies["other"] = os.sched_getscheduler(old.native_id or 0)

    begun = threading.Event()
    old, young = threading.Thread(target=other), threading.Thread(target=stop.wait, args=(120,))
    old.start()
    begun.wait(120)
    caller = threading.Thread(target=calling)
    caller.start()
    caller.join(120)
    stop.set()
    assert policies == {"calling": os.SCHED_OTHER, "came": os.SCHED_OTHER, "other": os.SCHED_RR}
