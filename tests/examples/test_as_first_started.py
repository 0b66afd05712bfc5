"""Every example as a new user starts it: all its defaults and its own dice, for 15 s, and another client after the first."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pytest
import trio

import reactor_trio
from reactor_trio.client import connect
from reactor_trio.testing import open_server

EXAMPLES = Path(__file__).parents[2] / "examples"
NAMES = sorted(folder.name for folder in EXAMPLES.iterdir() if (folder / "reactor.yaml").is_file())
#: tracks that are sent only on request
ON_REQUEST = {"game"}
#: runtime settings of an example that one process in virtual time cannot have
IN_ONE_PROCESS = {"two_ranks": {"ranks": 1}}
#: seconds that a process may take to end
PATIENCE = 120.0

pytestmark = pytest.mark.usefixtures("torch_threads")


def scene(number):
    """A picture of a camera, another for each number."""
    return np.random.default_rng(number).integers(0, 256, (360, 640, 3), np.uint8)


def cameras(client):
    inputs = [track for track in client.tracks if track.direction == "in"]
    assert all(track.kind == "video" for track in inputs)
    return [track.name for track in inputs]


def pictures(client):
    """How many have come, of the video track that has the fewest."""
    shown = client.statistics().tracks
    outputs = [track.name for track in client.tracks if (track.kind, track.direction) == ("video", "out")]
    return min(shown[name].frames for name in outputs if name not in ON_REQUEST)


async def watch(client, seconds):
    """Look on for so long. Raises what ends the session before, in the model's own words."""
    end, second = trio.current_time() + seconds, 0
    while trio.current_time() < end:
        for camera in cameras(client):
            await client.push(camera, scene(second))
        second += 1
        await trio.sleep_until(min(end, trio.current_time() + 1))
        if client.ended:
            await client.take(1)


@pytest.mark.parametrize("name", NAMES)
async def test_it_runs_for_two_clients_in_a_row(autojump_clock, example, caplog, name):
    manifest = example(name)
    # A step of 0.5 s keeps this cheap, and leaves the dice enough throws.
    options = {"step_cost": 0.5} | IN_ONE_PROCESS.get(name, {})
    async with open_server(manifest.model, config=manifest.config, **options) as server:
        for seconds in (15, 5):
            async with server.connect() as client:
                await watch(client, seconds)
                assert client.ended is None
                assert pictures(client) >= seconds - 1
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR", "CRITICAL")]


@contextmanager
def running(name, log):
    """`reactor run` of an example, as a process that is killed at the end of the block."""
    command = [sys.executable, "-m", "reactor_trio", "run", "--path", EXAMPLES / name, "--port", "0", "--json-logs"]
    source = str(Path(reactor_trio.__file__).parents[1])
    with (
        log.open("w") as stderr,
        subprocess.Popen(
            command, env=os.environ | {"PYTHONPATH": source}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=stderr, text=True,
        ) as process,
    ):  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            print(name, log.read_text()[-4000:])  # shown if the test fails


def port_of(process):
    for line in process.stdout:
        if " is ready: " in line:
            return int(line.rstrip().rstrip("/").rpartition(":")[2])
    raise AssertionError("it ended before it was ready")


@pytest.mark.soak
async def test_all_of_them_side_by_side_on_the_real_server(tmp_path):
    async def visit(name, port):
        for _ in range(2):
            async with connect(f"ws://127.0.0.1:{port}/ws") as client:
                with trio.move_on_after(30):
                    for second in range(30):
                        for camera in cameras(client):
                            await client.push_video(camera, scene(second))
                        await trio.sleep(1)
                assert client.ended is None, f"{name}: {client.ended}"
                assert pictures(client) > 10, f"{name}: {client.statistics()}"

    with ExitStack() as stack:
        processes = {name: stack.enter_context(running(name, tmp_path / name)) for name in NAMES}
        ports = {name: await trio.to_thread.run_sync(port_of, process) for name, process in processes.items()}
        async with trio.open_nursery() as nursery:
            for name, port in ports.items():
                nursery.start_soon(visit, name, port)
        for process in processes.values():
            process.send_signal(signal.SIGTERM)
        codes = {name: await trio.to_thread.run_sync(process.wait, PATIENCE) for name, process in processes.items()}
    assert codes == dict.fromkeys(NAMES, 0)
    for name in NAMES:
        lines = [json.loads(line) for line in (tmp_path / name).read_text().splitlines()]
        assert not [line for line in lines if line["level"] in ("error", "critical")], name
