"""Hundreds of sessions of a model in a process of its own: both processes' descriptors are what they were."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from reactor_trio.protocol import Packet, encode_packet
from tests.support.fault_peers import BINARY, RawClient, frame, reactor_run
from tests.support.isolated_models import MODEL
from tests.support.model_processes import until_served

SHAPE = (240, 320, 3)
WARM, SESSIONS = 20, 600


def held(pid: int) -> tuple[Counter[str], float]:
    """What a process's descriptors are, and its resident MiB."""
    links = [f"/proc/{pid}/fd/{name}" for name in os.listdir(f"/proc/{pid}/fd")]
    kinds = Counter(os.readlink(link).partition(":[")[0] for link in links if os.path.islink(link))
    return kinds, int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def session(client: RawClient) -> None:
    """A client that has sent a camera frame and seen a picture vanishes."""
    picture = client.picture()
    meta = {"codec": "raw", "width": SHAPE[1], "height": SHAPE[0]}
    pixels = memoryview(np.full(SHAPE, picture.seq % 256, np.uint8)).cast("B")
    client.send(frame(BINARY, encode_packet(Packet(1, 0, 0, 1, None, 0, meta, pixels))))
    client.picture()
    client.vanish()


@pytest.mark.soak
def test_six_hundred_sessions_leave_the_descriptors_of_both_processes(tmp_path):
    with reactor_run(tmp_path, MODEL, isolation="process") as server:

        def measured() -> list[tuple[Counter[str], float]]:
            with until_served(server) as client:
                client.picture()
                client.say("process", 1)
                model = client.answer(1)["data"]["reply"]["pid"]
                return [held(server.process.pid), held(model)]

        for _ in range(WARM):
            session(until_served(server))
        before = measured()
        for _ in range(SESSIONS):
            session(until_served(server))
        after = measured()
    for name, (was, memory), (now, grown) in zip(("server", "model"), before, after, strict=True):
        print(f"{name}: {was.total()} -> {now.total()} descriptors, {memory:.1f} -> {grown:.1f} MiB resident")
        assert now == was
