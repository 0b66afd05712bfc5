"""Uploads over real sockets: clients on both loops, clients that are killed, slow ones, and thousands of bad ones."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
from tests.support.fault_checks import wait_for_encoders
from tests.support.fault_peers import PATIENCE, SOURCE, RawClient, ask, health, reactor_run

from reactor_trio.client import connect
from reactor_trio.errors import CommandError, UploadRefused

MODEL = """
import numpy as np
from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, UploadedFile, Video, event, file_uploaded

class Picture(Output):
    main: Video

class State(InputState):
    image: UploadedFile | None = InputField(default=None)

class Model(ReactorPipeline):
    fps = 30
    state: State

    def load(self, config):
        self.arrived = 0

    def inference(self):
        while True:
            yield Picture(main=np.zeros((8, 8, 3), np.uint8))

    @event
    def check(self, file: UploadedFile) -> int:
        assert len(file.data) == file.size
        return sum(file.data[:1000])

    @event
    def count(self) -> int:
        return self.arrived

    @file_uploaded
    def arrive(self, file):
        assert len(file.data) == file.size
        self.arrived += 1
"""


def metric(port: int, name: str) -> float:
    _, _, body = ask(port, b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
    return next(float(line.rpartition(" ")[2]) for line in body.decode().splitlines() if line.startswith(name + " "))


def until(condition, what: str) -> None:
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.01)


def stored(server, folder: Path) -> int:
    """How many files the server holds open in `folder`, with or without a name."""
    number = re.sub(r"[0-9]+", "N", str(folder))  # as `descriptors` shows it
    return sum(name.startswith(number) for name in server.descriptors())


@pytest.fixture
def folder(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    return disk


@pytest.fixture
def server(tmp_path, folder):
    limits = {"folder": str(folder), "file_size": 4 << 20, "total_size": 8 << 20, "files": 8, "time": 20}
    with reactor_run(tmp_path, MODEL, uploads=limits, limits={"stall": 2, "handshake": 2}) as running:
        wait_for_encoders(running)
        yield running


async def use_uploads(port: int, path: Path) -> None:
    with anyio.fail_after(PATIENCE):
        async with connect(f"ws://127.0.0.1:{port}/ws", video=[]) as client:
            data = os.urandom(3_000_000)
            await anyio.Path(path).write_bytes(data)
            first = await client.upload(path)
            assert (first.name, first.mime_type, first.size) == ("cat.png", "image/png", 3_000_000)
            assert await client.command("check", file=first) == sum(data[:1000])
            second = await client.upload(memoryview(b"abc"))
            await client.command("set_image", image=second)
            assert await client.command("count") == 2
            with pytest.raises(UploadRefused, match="a file may have 4194304 bytes") as refused:
                await client.upload(bytes(50 << 20))
            assert refused.value.status == 413
            with pytest.raises(UploadRefused, match="the file is empty"):
                await client.upload(b"")
            with pytest.raises(FileNotFoundError):
                await client.upload(path.with_name("nothing"))
            with pytest.raises(CommandError, match=r"No such upload in this session - at \$.file"):
                await client.command("check", file={"upload_id": "nothing"})


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_the_client_uploads_on_both_loops(backend, server, tmp_path, folder):
    anyio.run(use_uploads, server.port, tmp_path / "cat.png", backend=backend)
    until(lambda: stored(server, folder) == 0, "a file is still there")
    assert os.listdir(folder) == []


async def cancel_an_upload(port: int) -> None:
    async def endless(_view):
        await anyio.sleep_forever()
        yield b""

    with anyio.fail_after(PATIENCE):
        async with connect(f"ws://127.0.0.1:{port}/ws", video=[]) as client:
            from reactor_trio.client import uploads

            kept, uploads._pieces_of_memory = uploads._pieces_of_memory, endless
            try:
                with anyio.move_on_after(0.3) as scope:
                    await client.upload(bytes(1000))
            finally:
                uploads._pieces_of_memory = kept
            assert scope.cancelled_caught
            await client.command("count")


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_a_cancelled_upload_leaves_nothing(backend, server, folder):
    anyio.run(cancel_an_upload, server.port, backend=backend)
    until(lambda: stored(server, folder) == 0, "a file is still there")
    assert metric(server.port, 'reactor_uploads_total{outcome="incomplete"}') == 1


KILLED = """
import socket, sys
import anyio
from reactor_trio.client import connect

async def main():
    async with connect(f"ws://127.0.0.1:{sys.argv[1]}/ws", video=[]) as client:
        for _ in range(3):
            await client.upload(bytes(100_000))
        with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as half:
            token = client.welcome.upload_token.encode()
            half.sendall(b"POST /uploads HTTP/1.1\\r\\nhost: localhost\\r\\ncontent-length: 1000000\\r\\n"
                         b"authorization: Bearer " + token + b"\\r\\n\\r\\n" + bytes(500_000))
            print("there", flush=True)
            await anyio.sleep_forever()

anyio.run(main)
"""


def test_a_killed_client_leaves_nothing(server, folder):
    command = [sys.executable, "-c", KILLED, str(server.port)]
    with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": SOURCE}, stdout=subprocess.PIPE) as client:
        try:
            assert client.stdout is not None
            assert client.stdout.readline() == b"there\n"
            until(lambda: stored(server, folder) == 4, "three files and a half")
            assert os.listdir(folder) == []
        finally:
            client.send_signal(signal.SIGKILL)
    until(lambda: stored(server, folder) == 0, "a file is still there")
    assert health(server.port)[0] == 200


def test_a_session_that_ends_ends_its_upload(server, folder):
    with RawClient(server.port, "/ws?video=none") as session:
        token = session.text("reactor.welcome")["data"]["upload_token"]
        with RawClient(server.port, upgrade=False) as uploading:
            uploading.send(post(token, 1000, 500))
            until(lambda: stored(server, folder) == 1, "half a file")
            session.vanish()
            status, headers, body = uploading.response()
            assert (status, body) == (410, b"the session has ended; the file was not kept\n")
            assert headers["connection"] == "close"
    until(lambda: stored(server, folder) == 0, "a file is still there")
    assert ask(server.port, post(token, 3, 3))[0] == 401


def test_a_slow_upload_is_cut(server, folder):
    with RawClient(server.port, "/ws?video=none") as session:
        token = session.text("reactor.welcome")["data"]["upload_token"]
        with RawClient(server.port, upgrade=False) as uploading:
            uploading.send(post(token, 1000, 500))
            assert uploading.response()[::2] == (408, b"no byte of the body came for 2 s\n")
        assert stored(server, folder) == 0


def test_another_origin_may_not_upload(server):
    with RawClient(server.port, "/ws?video=none") as session:
        token = session.text("reactor.welcome")["data"]["upload_token"]
        status, _, body = ask(server.port, post(token, 3, 3, "origin: http://evil.test"))
        assert (status, body) == (403, b"a page of http://evil.test may not send this\n")
        assert ask(server.port, post(token, 3, 3, "origin: http://localhost", "connection: close"))[0] == 201


@pytest.mark.parametrize(("request_line", "status", "allow"), [
    ("GET /uploads", 405, "POST"), ("POST /health", 405, "GET, HEAD"), ("POST /ws", 405, "GET, HEAD"),
    ("PUT /uploads", 405, "POST"),
])  # fmt: skip
def test_methods(request_line, status, allow, server):
    found, headers, _ = ask(server.port, f"{request_line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
    assert (found, headers["allow"]) == (status, allow)


def test_two_uploads_share_a_connection(server):
    with RawClient(server.port, "/ws?video=none") as session, RawClient(server.port, upgrade=False) as uploading:
        token = session.text("reactor.welcome")["data"]["upload_token"]
        uploading.send(post(token, 100_000, 100_000), post(token, 5, 5, "connection: close"))
        status, _, rest = uploading.response()
        assert status == 201
        assert rest.count(b"upload_id") == 2


def post(token: str, announced: int, sent: int, *lines: str) -> bytes:
    head = [
        "POST /uploads?name=a.bin HTTP/1.1", "host: localhost", f"authorization: Bearer {token}",
        f"content-length: {announced}", *lines, "", "",
    ]  # fmt: skip
    return "\r\n".join(head).encode() + bytes(sent)


# ---- thousands of bad ones -----------------------------------------------------------------------------------------------


def mutated(choose: random.Random, token: str) -> bytes:
    """An upload with something wrong with it, most of the time."""
    size = choose.choice([0, 1, 5, 1000, 70_000, 300_000])
    raw = post(
        choose.choice([token, token, token, "", token[:-1], token + "x", "\u00e9"]),
        choose.choice([size, size, size, size + 1, max(0, size - 1), -1, 10**15, 10**25, 5 << 20]),
        size,
        *choose.sample([
            "content-length: 7", "transfer-encoding: chunked", "transfer-encoding: gzip", "expect: 100-continue",
            "content-type: image/png", "content-type: \x01", "connection: upgrade", "upgrade: websocket",
            "origin: http://evil.test", "authorization: Bearer x", "x: " + "y" * 20_000,
        ], choose.choice([0, 0, 0, 1, 2])),
    )  # fmt: skip
    kind = choose.randrange(6)
    if kind == 0:
        return raw[: choose.randrange(len(raw))]
    if kind == 1:
        changed = bytearray(raw)
        for _ in range(choose.randrange(1, 6)):
            changed[choose.randrange(min(len(raw), 250))] = choose.randrange(256)
        return bytes(changed)
    if kind == 2:
        target = choose.choice(["?name=%FF", "?name=" + "a" * 5000, "?mime_type=x", "?" + "a=1&" * 70, "/../x", "?token=x"])
        return raw.replace(b"?name=a.bin", target.encode(), 1)
    if kind == 3 and choose.random() < 0.2:
        return raw.replace(b"content-length: ", b"x-length: ")
    return raw


def attack(server, count: int, seed: int) -> dict[int, int]:
    """Bad uploads against a session, a new one every 50; the statuses that came back."""
    choose, statuses = random.Random(seed), {}
    for begin in range(0, count, 50):
        with RawClient(server.port, "/ws?video=none") as session:
            token = session.text("reactor.welcome")["data"]["upload_token"]
            for _ in range(min(50, count - begin)):
                with RawClient(server.port, upgrade=False) as uploading:
                    try:
                        uploading.send(mutated(choose, token))
                        uploading.socket.shutdown(1)
                        answer = uploading.rest()
                    except ConnectionError:
                        answer = b""
                for line in answer.split(b"\r\n"):
                    if line.startswith(b"HTTP/1.1 "):
                        status = int(line.split()[1])
                        statuses[status] = statuses.get(status, 0) + 1
            session.say("count", 1)
            assert session.answer(1)["type"] == "reactor.ack"
    return statuses


def survive(server, folder: Path, count: int, seed: int) -> None:
    attack(server, 50, seed + 1)
    memory, threads = server.memory(), server.threads()
    statuses = attack(server, count, seed)
    print(json.dumps({"statuses": statuses, "memory_before": memory, "memory_after": server.memory()}))
    assert {200, 500, 503, 507}.isdisjoint(statuses)
    assert {201, 400, 401, 411, 413} <= set(statuses)
    until(lambda: stored(server, folder) == 0, "a file is still there")
    assert os.listdir(folder) == []
    assert server.memory() - memory < 48 << 20
    assert server.threads() <= threads + 4
    assert "Traceback" not in server.log
    assert health(server.port)[0] == 200


def test_mutated_uploads(server, folder):
    survive(server, folder, 300, seed=7)


@pytest.mark.soak
def test_ten_thousand_mutated_uploads(server, folder):
    survive(server, folder, 10_000, seed=20)
