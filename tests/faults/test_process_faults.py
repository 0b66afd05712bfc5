"""What befalls the whole process: it is stopped, its clock jumps, its disk is full, its descriptors run out, its link dies.

The server goes on, says so once, and serves the next client.
"""

from __future__ import annotations

import contextlib
import os
import re
import resource
import signal
import socket
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
from tests.support.fault_checks import MODEL, Witness, after, entries, wait_for, wait_for_rest
from tests.support.fault_peers import Gone, RawClient, ask, health, reactor_run
from tests.support.own_network import OWN_NETWORK, inside_of, may_run

LIMITS = {"handshake": 2.0, "ping_interval": 0.5, "silence": 2.0, "stall": 2.0}


# ---- stopped ----------------------------------------------------------------------------------------------------------


def test_a_server_that_was_stopped_goes_on_with_all_its_clients(tmp_path):
    """Stopped for longer than the watchdog's limit and than a client may be silent: neither counts what nobody saw."""
    with reactor_run(tmp_path, MODEL, limits=LIMITS, watchdog=1.0) as server:
        wait_for_rest(server)
        with after(server), Witness(server) as witness, RawClient(server.port, pongs=True) as waiting:
            waiting.text("reactor.queued")
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(3.0)
            server.process.send_signal(signal.SIGCONT)
            answers_pings_for(waiting, 2.5)
            witness.is_well()
        assert server.process.poll() is None


def answers_pings_for(client: RawClient, seconds: float) -> None:
    """The client reads and is not closed meanwhile."""
    client.socket.settimeout(seconds)
    with contextlib.suppress(TimeoutError):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            client.next_frame()
    client.socket.settimeout(30)


# ---- the clock --------------------------------------------------------------------------------------------------------

JUMPING = MODEL + '''
import itertools
import time

for name in ("time", "time_ns"):  # as if somebody set the clock a day forth and back, again and again
    real, jump = getattr(time, name), itertools.cycle([0, 86_400, -86_400])
    unit = 1 if name == "time" else 10**9
    setattr(time, name, lambda real=real, jump=jump, unit=unit: real() + next(jump) * unit)
'''


def test_a_wall_clock_that_jumps_changes_nothing(tmp_path):
    with reactor_run(tmp_path, JUMPING, limits=LIMITS) as server:
        wait_for_rest(server)
        with after(server), Witness(server) as witness:
            frames, began = witness.frames, time.monotonic()
            wait_for(lambda: witness.frames - frames >= 60, "60 frames")
            assert time.monotonic() - began > 0.8  # paced at 60 fps all the same


# ---- a full disk ------------------------------------------------------------------------------------------------------


def small_disk(folder: Path) -> list[str]:
    """A command that runs another with 2 MiB of disk at `folder`/disk, in a mount namespace of its own."""
    (folder / "disk").mkdir()
    if not may_run("unshare", "-m", "true"):
        pytest.skip("needs a mount namespace (root, or CAP_SYS_ADMIN) to have a small disk")
    return ["unshare", "-m", "sh", "-c", f'mount -t tmpfs -o size=2m none "{folder}/disk" && exec "$@"', "sh"]


def test_a_full_disk_refuses_an_upload_and_takes_the_next(tmp_path):
    uploads = {"folder": str(tmp_path / "disk")}
    with reactor_run(tmp_path, MODEL, prefix=small_disk(tmp_path), uploads=uploads) as server:
        wait_for_rest(server)
        with after(server, r"session \w+: an upload failed: the server's disk is full"), Witness(server) as witness:
            token = witness.welcome["upload_token"]
            assert upload(server.port, token, 3 << 20)[0] == 507
            assert upload(server.port, token, 1 << 20)[0] == 201


def upload(port: int, token: str, size: int) -> tuple[int, bytes]:
    head = f"POST /uploads HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\ncontent-length: {size}\r\n"
    status, _, body = ask(port, f"{head}connection: close\r\n\r\n".encode() + bytes(size))
    return status, body


def test_a_full_disk_ends_the_recording_and_not_the_session(tmp_path):
    """It is said once for each session; when there is room again, the next is recorded."""
    pytest.importorskip("av")
    with reactor_run(tmp_path, MODEL, prefix=small_disk(tmp_path), record=str(tmp_path / "disk")) as server:
        fill(server, 4 << 20)
        for number in (1, 2):
            with Witness(server) as witness:
                wait_for(partial(told_of_failures, server, number), "the end of the recording")
                witness.is_well()
        assert health(server.port)[0] == 200
        fill(server, 0)
        with RawClient(server.port) as following:
            for _ in range(20):
                following.picture()
        server.wait_log("main [0-9]+ packets")
        told = [entry for entry in entries(server.log) if entry.level != "INFO"]
        assert len(told) == 2, told
        assert not any(entry.traceback for entry in told)
        assert all("No space left on device" in entry.text for entry in told)


def told_of_failures(server, number: int) -> bool:
    return server.log.count(" ended, the session goes on") == number


def fill(server, size: int) -> None:
    """Let a file on the server's small disk have `size` bytes, or what there is room for."""
    command = f"dd if=/dev/zero of={server.log_path.parent}/disk/filler bs=64k count={size >> 16}"
    subprocess.run(["nsenter", "-t", str(server.process.pid), "-m", *command.split()], check=False, capture_output=True)


# ---- no descriptors ---------------------------------------------------------------------------------------------------


def test_a_server_out_of_descriptors_says_so_once_and_recovers(tmp_path):
    with reactor_run(tmp_path, MODEL, limits={"connections": 1024, "handshake": 60}) as server:
        wait_for_rest(server)
        pid = server.process.pid
        with after(server, r"no connection can be accepted: Too many open files.*Raise the limit"):
            _, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
            with Witness(server) as witness:
                resource.prlimit(pid, resource.RLIMIT_NOFILE, (len(server.descriptors()) + 10, hard))
                idle = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(30)]
                server.wait_log("no connection can be accepted")
                used = cpu_seconds(pid)
                time.sleep(1.0)
                assert cpu_seconds(pid) - used < 0.8, "it spins"
                witness.is_well()  # who is in goes on
                for one in idle:
                    one.close()
                assert health(server.port)[0] == 200
            server.wait_log("connections are accepted again after")
            resource.prlimit(pid, resource.RLIMIT_NOFILE, (hard, hard))


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# ---- a dead link ------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize("phase", ["in a session", "in the queue"])
def test_half_open_connections_are_freed_within_the_silence(tmp_path, phase):
    """Every packet is lost from one moment on, in both directions; neither side is told."""
    if not may_run("unshare", "-n", "ip", "link", "set", "lo", "up"):
        pytest.skip("needs a network namespace (root, or CAP_SYS_ADMIN) to lose packets in")
    with reactor_run(tmp_path, MODEL, prefix=OWN_NETWORK, limits=LIMITS) as server, inside_of(server):
        wait_for_rest(server)
        with after(server), contextlib.ExitStack() as clients:
            first = clients.enter_context(RawClient(server.port, pongs=True))
            first.picture()
            if phase == "in the queue":
                clients.enter_context(RawClient(server.port)).text("reactor.queued")
            link(server, "down")
            began = time.monotonic()
            wait_for(lambda: ended(server) == server.log.count("begins"), "the end of its session")
            print(f"freed after {time.monotonic() - began:.2f} s")
            link(server, "up")
            with pytest.raises(Gone):
                while True:
                    first.next_frame()


def ended(server) -> int:
    return len(re.findall("session .* ended: (client_left|too_slow)", server.log))


def link(server, state: str) -> None:
    subprocess.run(["nsenter", "-t", str(server.process.pid), "-n", "ip", "link", "set", "lo", state], check=True)
