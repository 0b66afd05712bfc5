"""A drain, an update, fewer and more replicas: sessions end in their own time, or get `reactor.ending` in time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from functools import partial

import pytest
import trio
from tests.support.free_port import free_port
from tests.support.replica_kit import (
    PATIENCE,
    REPLICAS,
    Application,
    alive,
    descendants,
    ended,
    pictures,
    title,
    until,
)

from reactor_trio.client import Client

pytestmark = pytest.mark.needs("ray")


async def version_of(client: Client) -> tuple[int, int]:
    who = await client.command("who")
    return int(who["process"]), int(who["version"])


async def changed(application: Application, **options: object) -> None:
    assert await trio.to_thread.run_sync(application.command, f"update {json.dumps(options)}") == "updated"


@pytest.mark.soak
async def test_an_update_lets_sessions_end_and_gives_new_clients_the_new_version(application: Application) -> None:
    async with trio.open_nursery() as nursery:
        async with application.client() as client:
            before = await version_of(client)
            new = before[1] + 1
            nursery.start_soon(partial(changed, application, overrides=[f"version={new}"]))

            async def draining() -> bool:
                await pictures(client, 1)
                return client.ending is not None

            await until(draining)
            assert client.ending is not None
            assert client.ending.reason == "draining"

            async def the_new_one_is_there() -> bool:
                async with application.client() as newcomer:
                    return (await version_of(newcomer))[1] == new

            await until(the_new_one_is_there)
            assert await version_of(client) == before


@pytest.mark.soak
async def test_the_number_of_replicas_follows_the_sessions_and_no_session_is_cut_off(application: Application) -> None:
    scaling = {"min": 1, "max": 2, "target": 1.0, "upscale_delay": 0.5, "downscale_delay": 1.0}
    await changed(application, autoscaling=scaling)
    try:
        await application.whole(1)
        async with application.client() as resumables:
            async with application.client() as leaves:  # it waits for the second replica
                assert (await version_of(leaves))[0] != (await version_of(resumables))[0]
            before = (await version_of(resumables))[0]

            async def one_is_left() -> bool:
                await pictures(resumables, 1)
                return len(application.processes("replica")) == 1 or resumables.ending is not None

            await until(one_is_left)
            # Serve may choose the one that is busy: then its client is told, and has its time.
            assert resumables.ending is None or resumables.ending.reason == "draining"
            assert (await version_of(resumables))[0] == before
        async with application.client() as later:
            await pictures(later)
    finally:
        await changed(application, autoscaling=None)


def test_the_command_line_drains_and_leaves_nothing() -> None:
    port = free_port()
    command = [sys.executable, "-m", "reactor_trio", "run", "--path", str(REPLICAS / "model"), "--replicas", "2"]
    command += ["--port", str(port)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            ready = until_line(process, "is ready")
            assert ready == f"crashing:Crashing is ready, 2 replicas: http://127.0.0.1:{port}/"
            trio.run(watch_until_drained, Application(process, port), process)
            assert process.wait(PATIENCE) == 0
        finally:
            process.kill()


def until_line(process: subprocess.Popen[str], words: str) -> str:
    assert process.stdout is not None
    for line in process.stdout:
        if words in line:
            return line.strip()
    raise AssertionError("it has ended")


async def watch_until_drained(application: Application, process: subprocess.Popen[str]) -> None:
    listening = await trio.run_process(["ss", "-Hltnp"], capture_stdout=True)
    below = descendants(process.pid)
    ours = [line for line in listening.stdout.decode().splitlines() if any(f"pid={one}," in line for one in below)]
    assert ours
    assert all(line.split()[3].startswith(("127.0.0.1:", "[::ffff:127.0.0.1]:", "[::1]:")) for line in ours), ours
    async with application.client() as client:
        await pictures(client)
        process.send_signal(signal.SIGTERM)
        assert await ended(client) == "draining"
    await trio.to_thread.run_sync(process.wait, PATIENCE)
    assert {one: title(one) for one in below if alive(one)} == {}


#: Those of Ray's helpers that try for a minute to tell a head that is gone.
AGENTS = ("ray::DashboardAgent", "ray::RuntimeEnvAgent")


@pytest.mark.soak
@pytest.mark.parametrize("besides", [AGENTS, ()], ids=["at-once", "all"])
def test_a_launcher_that_is_killed_takes_its_ray_along(besides: tuple[str, ...]) -> None:
    port = free_port()
    values = {"path": str(REPLICAS / "model"), "gate_port": port}
    command = [sys.executable, str(REPLICAS / "launcher.py"), json.dumps(values)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as launcher:
        try:
            until_line(launcher, "ready")
            below = descendants(launcher.pid)
            assert len(below) > 5
            os.kill(launcher.pid, signal.SIGKILL)
            launcher.wait(PATIENCE)
            trio.run(until_all_gone, below, besides)
        finally:
            launcher.kill()


async def until_all_gone(processes: list[int], besides: tuple[str, ...]) -> None:
    async def gone() -> bool:
        await trio.lowlevel.checkpoint()
        return all(title(process).startswith(besides) for process in processes if alive(process))

    await until(gone)


@pytest.mark.soak
def test_joining_a_running_cluster() -> None:
    port, head = free_port(), free_port()
    environment = os.environ | {
        "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "t" * 64, "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    }  # fmt: skip
    folder = tempfile.mkdtemp(dir="/tmp")  # the path of a socket is short
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    start = [*ray, "start", "--head", "--block", f"--port={head}", "--num-cpus=2", "--include-dashboard=false"]
    command = [sys.executable, "-m", "reactor_trio", "run", "--path", str(REPLICAS / "model"), "--replicas", "2"]
    command += ["--port", str(port), "--ray-address", f"127.0.0.1:{head}"]
    with subprocess.Popen([*start, f"--temp-dir={folder}"], env=environment, stdout=subprocess.PIPE, text=True) as cluster:
        try:
            until_line(cluster, "Ray runtime started")
            with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as process:
                try:
                    until_line(process, "is ready, 2 replicas")
                    trio.run(play_and_stop, Application(cluster, port), process)
                    assert process.wait(PATIENCE) == 0
                finally:
                    process.kill()
            assert cluster.poll() is None  # it is not ours to end
        finally:
            cluster.terminate()
            cluster.wait(PATIENCE)
            shutil.rmtree(folder, ignore_errors=True)


async def play_and_stop(application: Application, process: subprocess.Popen[str]) -> None:
    async with application.client() as client:
        await pictures(client)
        assert len(application.processes("replica")) == 2
        process.send_signal(signal.SIGTERM)
        assert await ended(client) == "draining"

    async def taken_down() -> bool:
        await trio.lowlevel.checkpoint()
        return not application.processes("replica")

    await until(taken_down)


def test_an_address_without_a_cluster() -> None:
    command = [sys.executable, "-m", "reactor_trio", "run", "--path", str(REPLICAS / "model"), "--replicas", "2"]
    command += ["--port", "0", "--ray-address", f"127.0.0.1:{free_port()}"]
    told = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert told.returncode == 70
    assert "no Ray cluster answers there" in told.stderr
