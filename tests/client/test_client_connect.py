"""`connect()` over real sockets, against the third-party `websockets` server and against hand-written HTTP."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import parse_qs, urlsplit

import anyio
import pytest
from tests.support.client_doubles import BACKENDS, VIDEO, packet, welcome
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from reactor_trio.client import Statistics, TrackStatistics, connect
from reactor_trio.client.statistics import spread
from reactor_trio.client.urls import session_url
from reactor_trio.errors import ConnectionRefused, SessionEnded

every_backend = pytest.mark.parametrize("backend", BACKENDS)
PICTURE = bytes(range(256)) * (1280 * 720 * 3 // 256)


def say(socket_, type_, data=None, **top):
    socket_.send(json.dumps({"type": type_, "data": data or {}, **top}))


@contextmanager
def serving(handler, **options) -> Iterator[int]:
    """The port of a `websockets` server in a thread."""
    with serve(handler, "127.0.0.1", 0, compression=None, subprotocols=["reactor.v1"], **options) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.socket.getsockname()[1]
        finally:
            server.shutdown()
            thread.join()


class Session:
    """A small reactor server: two frames, then one for each command; keeps what it saw."""

    def __init__(self) -> None:
        self.query: dict[str, list[str]] = {}
        self.closed_with: int | None = None
        self.pong_came = False
        self.said: list[tuple[str, dict]] = []

    def __call__(self, connection: ServerConnection) -> None:
        self.query = parse_qs(urlsplit(connection.request.path).query)
        try:
            self._serve(connection)
        except ConnectionClosed:
            pass
        finally:
            self.closed_with = connection.protocol.close_code

    def _serve(self, connection: ServerConnection) -> None:
        say(connection, "reactor.queued", {"position": 1, "total": 1})
        say(connection, "reactor.welcome", welcome(VIDEO | {"width": 1280, "height": 720}), n=1)
        pong = connection.ping()
        connection.send(packet(0, PICTURE))
        # In three fragments.
        whole = packet(1, PICTURE)
        connection.send([whole[:10], whole[10:1_000_000], whole[1_000_000:]])
        for text in connection:
            command = json.loads(text)
            self.said.append((command["type"], command["data"]))
            if command["type"].startswith("reactor."):
                continue
            self.pong_came = pong.wait(0)
            if command["type"] == "vanish":
                connection.socket.shutdown(socket.SHUT_RDWR)
                return
            say(connection, "reactor.ack", {"step": 2, "reply": command["data"]}, id=command["id"])
            connection.send(packet(2, PICTURE, command=command["id"]))


@every_backend
def test_a_session_over_a_real_socket(backend):
    async def main(port):
        queued = []
        url = f"http://127.0.0.1:{port}/"
        async with connect(url, video=["h266", "raw"], on_queued=lambda *at: queued.append(at)) as client:
            assert queued == [(1, 1)]
            frames = client.frames()
            for seq in range(2):
                frame = await anext(frames)
                assert (frame.seq, frame.data.tobytes() == PICTURE) == (seq, True)
            assert await client.command("echo", text="ü" * 300) == {"text": "ü" * 300}
            assert (await anext(frames)).command_id == 1
            statistics = client.statistics()
            assert statistics.tracks["main_video"].frames == 3
            assert statistics.command_to_picture.count == 1

    session = Session()
    with serving(session) as port:
        anyio.run(main, port, backend=backend)
    assert session.query == {"video": ["raw"], "role": ["control"], "feedback": ["1"], "follow": ["1"], "worlds": ["1"]}
    assert session.pong_came
    assert session.closed_with == 1000
    seqs = [data["seq"] for type_, data in session.said if type_ == "reactor.feedback"]
    assert seqs == sorted(set(seqs))  # of frames that came at once only the newest is told
    assert seqs[-1] >= 1


@every_backend
def test_a_link_that_breaks_is_lost(backend):
    async def main(port):
        async with connect(f"ws://127.0.0.1:{port}") as client:
            with pytest.raises(SessionEnded) as caught:
                await client.command("vanish")
            assert caught.value.reason == client.ended == "lost"

    with serving(Session()) as port:
        anyio.run(main, port, backend=backend)


@every_backend
def test_an_exception_of_the_block_comes_out_as_it_is(backend):
    error = RuntimeError("mine")

    async def main(port):
        async with connect(f"ws://127.0.0.1:{port}"):
            raise error

    session = Session()
    with serving(session) as port, pytest.raises(RuntimeError) as caught:
        anyio.run(main, port, backend=backend)
    assert caught.value is error
    assert session.closed_with == 1000


@every_backend
def test_a_message_over_the_cap_ends_as_too_big(backend):
    async def main(port):
        async with connect(f"ws://127.0.0.1:{port}", max_message_size=100_000) as client:
            with pytest.raises(SessionEnded, match="a message is larger than 100000 bytes") as caught:
                await anext(client.frames())
            assert caught.value.reason == "too_big"

    with serving(Session()) as port:
        anyio.run(main, port, backend=backend)


@every_backend
@pytest.mark.parametrize(("status", "headers", "retry_after"), [(403, {}, None), (503, {"Retry-After": "3"}, 3.0)])
def test_a_refused_handshake(backend, status, headers, retry_after):
    def refuse(connection, request):
        response = connection.respond(status, "not here\n")
        response.headers.update(headers)
        return response

    async def main(port):
        async with connect(f"ws://127.0.0.1:{port}"):
            pytest.fail("entered")

    with (
        serving(Session(), process_request=refuse) as port,
        pytest.raises(ConnectionRefused, match=f"refused with HTTP {status}: not here") as caught,
    ):
        anyio.run(main, port, backend=backend)
    assert (caught.value.status, caught.value.retry_after) == (status, retry_after)


@every_backend
def test_a_port_without_a_server(backend):
    async def main():
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
            with pytest.raises(ConnectionError, match=f"cannot connect to 127.0.0.1:{port}: "):
                async with connect(f"ws://127.0.0.1:{port}"):
                    pytest.fail("entered")

    anyio.run(main, backend=backend)


@every_backend
def test_a_server_without_tls(backend):
    async def main():
        async def slam(stream):
            await stream.receive()
            await stream.aclose()

        listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
        async with listener, anyio.create_task_group() as tasks:
            port = listener.extra(anyio.abc.SocketAttribute.local_port)
            tasks.start_soon(listener.serve, slam)
            with pytest.raises(ConnectionError, match=f"cannot connect to 127.0.0.1:{port}: "):
                async with connect(f"wss://127.0.0.1:{port}", ssl_context=ssl.create_default_context()):
                    pytest.fail("entered")
            tasks.cancel_scope.cancel()

    anyio.run(main, backend=backend)


def test_the_url_asks_for_the_session():
    assert session_url("ws://h:1/ws", video=["raw", "jpeg"]) == "ws://h:1/ws?video=raw,jpeg&role=control&worlds=1"
    assert session_url("https://h", role="viewer", video=[]) == "wss://h/ws?video=none&role=viewer&worlds=1"
    url = session_url("wss://h/a/ws?resume=r", token="t&?", model="my model")
    assert urlsplit(url).path == "/a/ws"
    assert parse_qs(urlsplit(url).query) == {
        "resume": ["r"], "video": ["jpeg,h264,vp8,vp9,av1"], "role": ["control"], "token": ["t&?"], "model": ["my model"],
        "worlds": ["1"],
    }  # fmt: skip
    with pytest.raises(ValueError, match="video=h266 cannot be decoded here"):
        session_url("ws://h", video=["h266"])
    url = session_url("ws://h", video="h264,jpeg", audio=["opus", "pcm_s16le"])
    asked = {"video": ["h264,jpeg"], "audio": ["opus,pcm_s16le"], "role": ["control"], "worlds": ["1"]}
    assert parse_qs(urlsplit(url).query) == asked
    assert "audio=none" in session_url("ws://h", audio=[])
    with pytest.raises(ValueError, match="audio=mp3 cannot be decoded here; available: opus, pcm_s16le"):
        session_url("ws://h", audio=["mp3"])


def test_a_line_of_figures_tells_latency_once_there_is_one():
    nothing = spread([])
    track = TrackStatistics(3, 1, 99, 0.0, nothing, dropped=2)
    assert str(Statistics({"main_video": track}, spread([0.01, 0.01]), nothing)) == (
        "main_video: 0.0 fps, jitter -, p95 -, 1 missing, 2 dropped | ack 10.0 ms, p95 10.0 ms"
    )


def test_figures_can_be_printed():
    nothing = spread([])
    track = TrackStatistics(3, 1, 99, 29.97, spread([0.03, 0.034]))
    assert str(Statistics({}, nothing, nothing)) == "no figures yet"
    assert str(track) == "30.0 fps, jitter 2.0 ms, p95 33.8 ms, 1 missing, 0 dropped"
    assert (str(nothing), str(track.interval)) == ("-, p95 -", "32.0 ms, p95 33.8 ms")
