"""Clients that stop in mid-sentence, in every phase: each ends by its own limit, and nobody else notices."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest
from tests.support.fault_checks import MODEL, Witness, after, wait_for, wait_for_rest
from tests.support.fault_peers import CLOSE, PONG, SOURCE, TEXT, RawClient, frame, opening, reactor_run

LIMITS = {"handshake": 2.0, "ping_interval": 0.5, "silence": 2.0, "stall": 2.0}
#: seconds that a polite close waits for the other side
CLOSE_WAIT = 1.0
#: what a machine that is busy with other things may add
SLACK = 20.0


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stalls")
    os.mkfifo(folder / "gate")
    with reactor_run(folder, MODEL, limits=LIMITS, uploads={"time": 2.5}) as server:
        wait_for_rest(server)
        yield server


def ended_after(client: RawClient) -> float:
    """Seconds until the server has closed its end; reads nothing that would answer it."""
    began = time.monotonic()
    wait_for(lambda: socket_state(client.socket) in ("CLOSE_WAIT", "CLOSE"), "the server's close")
    return time.monotonic() - began


def socket_state(sock: socket.socket) -> str:
    state = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
    return {1: "ESTABLISHED", 7: "CLOSE", 8: "CLOSE_WAIT"}.get(state, str(state))


# ---- every phase at once ----------------------------------------------------------------------------------------------


def silent(client, witness):
    """Connected, and not a byte."""


def half_a_head(client, witness):
    client.send(b"GET /ws HTTP/1.1\r\nhost: local")


def slow_head(client, witness):
    drip(client, opening())


def slow_body(client, witness):
    token = witness.welcome["upload_token"]
    client.send(f"POST /uploads HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n".encode())
    client.send(b"content-length: 1000\r\n\r\n")
    drip(client, bytes(1000))


def no_body(client, witness):
    token = witness.welcome["upload_token"]
    client.send(f"POST /uploads HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {token}\r\n".encode())
    client.send(b"content-length: 1000\r\n\r\n123")


def deaf_in_the_queue(client, witness):
    """Asked for a WebSocket, and answers no ping."""
    client.send(opening())


def half_a_frame(client, witness):
    client.send(opening(), frame(TEXT, b'{"type": "set_level"}')[:-4])


def half_a_frame_header(client, witness):
    client.send(opening(), frame(TEXT, bytes(300))[:3])


def close_without_reading_on(client, witness):
    client.send(opening(), frame(CLOSE, b"\x03\xe8"))


def no_answer_to_the_close(client, witness):
    """Broken framing: the server says 1002 and waits for an answer."""
    client.send(opening(), frame(TEXT, b"{}", masked=False))


def drip(client: RawClient, data: bytes) -> None:
    """A byte every tenth of a second, for as long as the server takes them."""

    def work() -> None:
        for byte in data:
            try:
                client.send(bytes([byte]))
            except OSError:
                return
            time.sleep(0.1)

    threading.Thread(target=work, daemon=True).start()


#: how each stalls, and after how many seconds it is ended
STALLS = {
    silent: 2.0, half_a_head: 2.0, slow_head: 2.0, slow_body: 2.5, no_body: 2.0, deaf_in_the_queue: 2.0, half_a_frame: 2.0,
    half_a_frame_header: 2.0, close_without_reading_on: 0.0, no_answer_to_the_close: 0.0,
}  # fmt: skip


def test_a_stall_in_every_phase_ends_by_its_own_limit(server):
    with after(server), Witness(server) as witness:
        peers = []
        for stall, limit in STALLS.items():
            client = RawClient(server.port, upgrade=False)
            began = time.monotonic()
            stall(client, witness)
            peers.append((stall.__name__, client, began, limit))
        waited = {}
        while len(waited) < len(peers):
            for name, client, began, limit in peers:
                if name not in waited and socket_state(client.socket) in ("CLOSE_WAIT", "CLOSE"):
                    waited[name] = time.monotonic() - began
                assert time.monotonic() - began < limit + SLACK, f"{name} goes on"
            time.sleep(0.01)
        print({name: round(seconds, 2) for name, seconds in waited.items()})
        for name, client, _, limit in peers:
            assert limit * 0.9 <= waited[name], name
            client.socket.close()
        print(f"longest pause of the witness: {witness.longest_pause * 1000:.0f} ms")


def test_only_the_viewer_that_reads_nothing_is_too_slow(server):
    """It says that it lives, so only its full socket ends it."""
    with after(server, r"took no byte for too long and was closed"), Witness(server) as witness:
        witness.command("set_size", size=256)
        with small_window(server.port, "/ws?video=raw&role=viewer") as deaf:
            took = until_logged(server, deaf, "took no byte")
        assert took >= LIMITS["stall"]


def test_a_controlling_client_that_reads_nothing_is_too_slow(server):
    with after(server, r"took no byte for too long and was closed"):
        with small_window(server.port, "/ws?video=raw") as deaf:
            deaf.response(body=False)
            deaf.text("reactor.welcome")
            deaf.say("set_size", size=256)
            took = until_logged(server, deaf, "took no byte")
            with RawClient(server.port, pongs=True) as following:
                following.picture()
        assert took >= LIMITS["stall"]


def small_window(port: int, path: str) -> RawClient:
    client = RawClient(port, upgrade=False)
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.send(opening(path))
    return client


def until_logged(server, client: RawClient, pattern: str) -> float:
    """Seconds until the log says it, the client sending pongs and reading nothing."""
    began, before = time.monotonic(), server.log.count(pattern)

    def said() -> bool:
        with contextlib.suppress(OSError):
            client.send(frame(PONG, b""))
        time.sleep(0.05)
        return server.log.count(pattern) > before

    wait_for(said, pattern)
    return time.monotonic() - began


# ---- clients that are gone --------------------------------------------------------------------------------------------


def test_a_reset_in_mid_frame_in_both_directions(server):
    """A frame half sent, and one half received."""
    with after(server):
        for _ in range(5):
            with small_window(server.port, "/ws?video=raw") as client:
                client.response(body=False)
                client.text("reactor.welcome")
                client.say("set_size", 1, size=512)
                client.answer(1)
                client.send(frame(TEXT, b'{"type": "set_level"}')[:-4])
                client._fill(20_000)
                client.vanish()


CLIENT = """
import sys, anyio
from reactor_trio.client import connect

async def main():
    def queued(position, total):
        print("there", flush=True)
    async with connect(f"ws://127.0.0.1:{sys.argv[1]}/ws", video=["raw"], on_queued=queued) as client:
        async for frame in client.frames():
            print("there", flush=True)

anyio.run(main)
"""


def real_client(port: int) -> subprocess.Popen[bytes]:
    """A process with the Python client, once it sees pictures or waits in the queue."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLIENT, str(port)], env=os.environ | {"PYTHONPATH": SOURCE}, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"there\n"
    return process


def ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def test_a_killed_client_is_gone_while_it_watches_and_while_it_waits(server):
    with after(server):
        watching = real_client(server.port)
        waiting = real_client(server.port)
        with RawClient(server.port, pongs=True) as following:
            assert following.text("reactor.queued")["data"]["position"] == 2
            ended(waiting)
            place = {"position": 1, "total": 1, "wait": None, "heartbeat": LIMITS["ping_interval"]}
            assert following.text("reactor.queued")["data"] == place
            ended(watching)
            began = time.monotonic()
            following.text("reactor.welcome")
            print(f"the next client is served {1000 * (time.monotonic() - began):.0f} ms after the kill")
            following.picture()


def test_a_stopped_client_is_lost_and_learns_it_when_it_goes_on(server):
    with after(server):
        stopped = real_client(server.port)
        try:
            stopped.send_signal(signal.SIGSTOP)
            began = time.monotonic()
            with RawClient(server.port, pongs=True) as following:
                following.text("reactor.welcome")
                assert time.monotonic() - began >= LIMITS["silence"] * 0.6  # it may have heard it last before the stop
                following.picture()
            stopped.send_signal(signal.SIGCONT)
            assert stopped.wait(120) == 1  # SessionEnded
        finally:
            ended(stopped)
