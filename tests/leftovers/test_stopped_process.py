"""A model's process that a signal has stopped, for real: what the server keeps for it."""

from __future__ import annotations

import os
import re
import signal
from pathlib import Path

from reactor_trio.protocol import Packet, encode_packet
from tests.support.fault_peers import BINARY, RawClient, ReactorProcess, frame, reactor_run
from tests.support.isolated_models import MODEL
from tests.support.model_processes import children

MIB = 1024 * 1024
LIMITS = {"input_bytes": 32 * MIB, "commands_per_second": 1000}
WIDTH, HEIGHT = 640, 360


def shared_memory(server: ReactorProcess) -> int:
    """The bytes of shared memory that the server's process has touched."""
    status = Path(f"/proc/{server.process.pid}/status").read_text()
    found = re.search(r"RssShmem:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def test_two_hundred_camera_frames_for_a_stopped_process_stay_within_their_bound(tmp_path):
    with reactor_run(tmp_path, MODEL, isolation="process", limits=LIMITS, step_timeout=0) as server:
        with RawClient(server.port) as client:
            tracks = client.text("reactor.welcome")["data"]["tracks"]
            camera = next(track["index"] for track in tracks if track["name"] == "webcam")
            client.picture()
            [model] = children(server.process.pid)
            before = shared_memory(server)
            meta, payload = {"codec": "raw", "width": WIDTH, "height": HEIGHT}, memoryview(bytes(WIDTH * HEIGHT * 3))
            os.kill(model, signal.SIGSTOP)
            try:
                for number in range(200):
                    packet = Packet(camera, number, number * 10_000, 0, None, 0, meta, payload)
                    client.send(frame(BINARY, encode_packet(packet)))
                    client.say("nothing", number)  # the server itself refuses it, so it has read the frame
                    client.answer(number)
                kept = shared_memory(server) - before
            finally:
                os.kill(model, signal.SIGCONT)
            # 9 frames: those under way and one that is made; the model's pictures are some more
            assert kept <= 9 * payload.nbytes + 2 * MIB
            client.say("process", 1000)
            assert client.answer(1000)["type"] == "reactor.ack"
            client.picture()
