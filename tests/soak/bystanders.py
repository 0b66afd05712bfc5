"""Who is there beside the clients that want a session: polls, viewers that come by themselves, and those without manners.

Each is a function that does one thing once; `soaking` calls them again and again, each kind on a thread of its own.
"""

from __future__ import annotations

import json
import socket
import time
from collections import deque

from tests.soak.behaviours import Door
from tests.soak.visits import Refused
from tests.support.fault_peers import Gone, RawClient, opening

#: what is asked, and the status that is due
POLLS = {
    "/health": 200, "/metrics": 200, "/schema": 200, "/schema?format=asyncapi": 200, "/": 200, "/page/main.js": 200,
    "/nothing": 404, "/uploads": 405,
}  # fmt: skip
#: open heads of slow loris, and the seconds after which one is closed at the latest; the soak's server gives them 2
LORISES = 6
PATIENT = 12.0


def polls(door: Door) -> None:
    """Asks what a supervisor, a browser or a lost soul asks."""
    path = door.dice.choice([*POLLS, "/health", "/metrics"])
    with RawClient(door.port, upgrade=False) as client:
        client.send(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        status, _, body = client.response()
    if status != POLLS[path] or (path == "/health" and json.loads(body)["status"] != "ok"):
        door.ledger.problem("wrong answers to polls", f"{path}: {status} {body[:200]!r}")
    door.ledger.count("polls")


def looks_in(door: Door) -> None:
    """A viewer of whatever session runs, which may end at any moment."""
    try:
        viewer = door.view(number=-1, receive=4096 if (slow := door.dice.random() < 0.2) else 0)
    except Refused:
        return
    with viewer:
        try:
            while viewer.welcome is None:
                viewer.pump()
            if slow:
                time.sleep(0.3)
            viewer.watch(door.dice.randrange(20))
            viewer.leave() if door.dice.random() < 0.5 else door.vanish(viewer)
        except Gone:
            pass  # its session was over
    if viewer.welcome is not None:
        viewer.check_viewed(door.ledger.sets_of(viewer.welcome["session_id"]))
        door.ledger.count("viewers that came by themselves")


def has_no_manners(door: Door) -> None:
    """Sends to the port what is no request, or one that is not granted, and reads what comes of it."""
    dice = door.dice
    rude: list[tuple[bytes, tuple[int, ...]]] = [
        (dice.randbytes(dice.randrange(1, 2000)) + b"\r\n\r\n", (400, 431)),
        (b"GET / HTTP/1.1\r\nhost: localhost\r\nx: " + b"y" * 20_000 + b"\r\n\r\n", (431,)),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + dice.randbytes(500) + b"\r\n\r\n", (400,)),
        (b"DELETE /health HTTP/1.1\r\nhost: localhost\r\n\r\n", (405, 501)),
        (b"GET /health HTTP/9.9\r\nhost: localhost\r\n\r\n", (400, 505)),
        (b"GET /health HTTP/1.1\r\nhost: elsewhere.example\r\n\r\n", (421,)),
        (b"POST /uploads HTTP/1.1\r\nhost: localhost\r\ncontent-length: 10\r\n\r\n", (401,)),
        (opening("/ws?video=no-such-codec"), (400,)),
        (opening("/ws?role=king"), (400,)),
        (opening("/ws?role=viewer&token=" + "x" * 22), (401,)),
        (opening("/ws", origin="https://elsewhere.example"), (403,)),
        (opening("/ws", sec_websocket_version="7"), (400, 426)),
        (opening("/ws", sec_websocket_key="short"), (400,)),
    ]
    sent, expected = dice.choice(rude)
    sent = sent[: dice.randrange(1, len(sent))] if (cut := dice.random() < 0.2) else sent
    with RawClient(door.port, upgrade=False) as client:
        try:
            client.send(sent)
            if cut:
                door.vanish(client)
                return
            client.socket.shutdown(socket.SHUT_WR)
            status, _, _ = client.response()
        except (Gone, ConnectionError):
            return  # a reset may overtake the answer
    if status not in expected:
        door.ledger.problem("wrong answers to nonsense", f"{status} for {sent[:80]!r}")
    door.ledger.count("requests without manners")


class Lorises:
    """Clients that send their requests a byte at a time; each must be sent away in time."""

    def __init__(self) -> None:
        self._open: deque[tuple[socket.socket, float, bytes]] = deque()

    def step(self, door: Door) -> None:
        """One more comes, if there are not enough; each sends a byte; who was sent away is gone."""
        if len(self._open) < LORISES:
            own = socket.create_connection(("127.0.0.1", door.port))
            own.setblocking(False)
            self._open.append((own, time.monotonic(), b"GET /" if door.dice.random() < 0.8 else b""))
        for _ in range(len(self._open)):
            own, since, head = self._open.popleft()
            try:
                own.send(head[:1] or b"x")
                gone = own.recv(4096) == b""
            except BlockingIOError:
                gone = False
            except ConnectionError:
                gone = True
            if gone:
                door.ledger.count("slow loris sent away")
            elif time.monotonic() - since > PATIENT:
                door.ledger.problem("slow loris that live", f"for {time.monotonic() - since:.1f} s")
            else:
                self._open.append((own, since, head[1:]))
                continue
            own.close()

    def close(self) -> None:
        """All go."""
        for own, _, _ in self._open:
            own.close()
