"""Connections that say nothing fill a server, from one address and from many: probes, owners and players do not notice.

Each of them is a network of its own with ten million addresses, so that limits by address count as they do outside. The
attackers hold as many connections as they get, and try again as soon as one is closed.
"""

from __future__ import annotations

import http.client
import resource
import select
import socket
import statistics
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

import pytest

from tests.support.fault_checks import MODEL
from tests.support.fault_peers import PATIENCE, RawClient, ReactorProcess, reactor_run
from tests.support.own_network import MANY_ADDRESSES, inside_of, may_run

pytestmark = pytest.mark.soak

SERVER, PLAYER, OPERATOR = "10.9.0.1", "10.7.0.1", "10.6.0.1"
ATTACKERS = {"one address": ["10.8.0.1"], "many addresses": [f"10.8.{n // 250}.{n % 250 + 1}" for n in range(5000)]}
PROBES = 30
#: seconds in which the player's pictures are counted
WINDOW = 4.0


@pytest.mark.parametrize("count", [64, 500, 5000])
@pytest.mark.parametrize("addresses", sorted(ATTACKERS))
def test_silent_connections_keep_out_neither_probes_nor_owners(tmp_path, addresses, count):
    if not may_run(*MANY_ADDRESSES, "true"):
        pytest.skip("needs a network namespace (root, or CAP_SYS_ADMIN) to have many addresses")
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    options = ("--host", SERVER, "--port", "0", "--management", "8081")
    with (
        reactor_run(tmp_path, MODEL, *options, prefix=MANY_ADDRESSES, resume_window=30.0) as server, inside_of(server),
        ExitStack() as clients,
    ):  # fmt: skip
        client = clients.enter_context(RawClient(server.port, pongs=True, host=SERVER, source=PLAYER))
        welcome = client.text("reactor.welcome")["data"]
        alone = rate(client)
        with silent(server, ATTACKERS[addresses], count) as opened:
            told = {name: probes(server, *where) for name, where in {
                "probe": (SERVER, server.port, OPERATOR), "management": ("127.0.0.1", 8081, None),
            }.items()}  # fmt: skip
            beside = rate(client)
            stored = upload(server, welcome["upload_token"])
            client.vanish()
            path = f"/ws?video=raw&resume={welcome['resume_token']}"
            with RawClient(server.port, path, host=SERVER, source=PLAYER) as again:
                same = again.text("reactor.welcome")["data"]["session_id"] == welcome["session_id"]
        print(f"{opened[0]} connections were opened; the player has {alone:.1f}, then {beside:.1f} fps")
        for name, (good, times) in told.items():
            middle, worst = statistics.median(times) * 1e3, max(times) * 1e3
            print(f"{name}: {good} of {PROBES}, median {middle:.0f}, worst {worst:.0f} ms")
        assert {name: good for name, (good, _) in told.items()} == {"probe": PROBES, "management": PROBES}
        assert (stored, same) == (201, True)


def rate(client: RawClient) -> float:
    """Pictures that come in a second, after those that have waited for this reader."""
    until = time.monotonic() + 1.0
    while time.monotonic() < until:
        client.picture()
    frames, until = 0, time.monotonic() + WINDOW
    while time.monotonic() < until:
        client.picture()
        frames += 1
    return frames / WINDOW


def probes(server: ReactorProcess, host: str, port: int, source: str | None) -> tuple[int, list[float]]:
    """How many of `/health` were answered, and after how many seconds each one."""
    good, times = 0, []
    for _ in range(PROBES):
        began = time.monotonic()
        connection = http.client.HTTPConnection(
            host, port, timeout=PATIENCE, source_address=None if source is None else (source, 0)
        )
        try:
            connection.request("GET", "/health", headers={"connection": "close"})
            good += connection.getresponse().status == 200
        finally:
            connection.close()
        times.append(time.monotonic() - began)
    return good, times


def upload(server: ReactorProcess, token: str) -> int:
    """The status of an upload by the owner of a session."""
    connection = http.client.HTTPConnection(SERVER, server.port, timeout=PATIENCE, source_address=(PLAYER, 0))
    try:
        connection.request("POST", "/uploads", bytes(1024), {"authorization": f"Bearer {token}"})
        return connection.getresponse().status
    finally:
        connection.close()


@contextmanager
def silent(server: ReactorProcess, sources: Sequence[str], count: int) -> Iterator[list[int]]:
    """While the block runs, hold `count` connections that send nothing. Gives how many were opened so far."""
    stop, opened, full = threading.Event(), [0], threading.Event()

    def attack() -> None:
        poll, sockets = select.poll(), {}
        try:
            while not stop.is_set():
                while len(sockets) < count and not stop.is_set():
                    one = socket.socket()
                    one.setblocking(False)
                    one.bind((sources[opened[0] % len(sources)], 0))
                    one.connect_ex((SERVER, server.port))
                    sockets[one.fileno()] = one
                    poll.register(one, select.POLLIN)
                    opened[0] += 1
                full.set()
                for descriptor, _ in poll.poll(50):  # the server has answered or closed
                    poll.unregister(descriptor)
                    sockets.pop(descriptor).close()
        finally:
            for one in sockets.values():
                one.close()

    attacker = threading.Thread(target=attack)
    attacker.start()
    try:
        assert full.wait(PATIENCE)
        time.sleep(2.0)  # until those in reserved slots were taken back once
        yield opened
    finally:
        stop.set()
        attacker.join()
