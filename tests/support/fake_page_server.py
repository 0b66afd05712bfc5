"""A server that a test controls step by step: the page's files over HTTP, and one `Peer` for each WebSocket of the page.

Use it for behaviour that a real server shows rarely: refuse, queue, end with a given reason, declare an odd schema. The
test runs in one thread and each socket in another, so a test reads like a conversation.
"""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import simplejpeg
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

from reactor_trio.protocol import close_code

PATIENCE = 120.0
ASKS = "&beat=1&refusals=bye&worlds=1"
POLICY = "default-src 'self'; img-src 'self' blob:; connect-src 'self' ws: wss: http: https:"
TYPES = {"html": "text/html; charset=utf-8", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}


def video(index: int = 0, name: str = "main_video", codec: str = "jpeg", **more: Any) -> dict[str, Any]:
    """A track description of the welcome."""
    track = {"index": index, "name": name, "kind": "video", "direction": "out", "codec": codec, "codec_string": None}
    return {**track, "width": None, "height": None, "pixel_format": None, "color": None, "sample_rate": None, **more}


def command(name: str, description: str = "", /, required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    """A command of the schema."""
    schema = {"title": name, "type": "object", "properties": properties, "required": list(required)}
    return {"name": name, "description": description, "schema": schema}


def introduction(**about: Any) -> dict[str, Any]:
    """How a model introduces itself, with these parts of it."""
    nothing = dict.fromkeys(("title", "description", "author", "hint", "accent", "mark", "thumbnail"))
    return {**nothing, "hints": {}, "links": [], "examples": [], "settings": {}, **about}


def picture(red: int, green: int, blue: int, width: int = 64, height: int = 48) -> np.ndarray:
    """A picture of one colour."""
    return np.full((height, width, 3), (red, green, blue), np.uint8)


class Pushed(msgspec.Struct, array_like=True):
    """A packet of an input track, as the page sent it."""

    track: int
    seq: int
    pts_us: int
    flags: int
    command: int | None
    step: int
    meta: dict[str, Any]
    payload: bytes


class Peer:
    """The server's end of one WebSocket."""

    def __init__(self, socket: ServerConnection) -> None:
        assert socket.request is not None
        self.socket = socket
        # What the page asks of the model; ASKS says how it wants to be told, at each connection.
        self.path = socket.request.path.removesuffix(ASKS)
        self.asks = socket.request.path.endswith(ASKS)
        self.subprotocol = socket.subprotocol
        self.inbox: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.feedback: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self.media: queue.SimpleQueue[Pushed] = queue.SimpleQueue()
        self._said = 0

    def listen(self) -> None:
        """Receive the page's messages until it disconnects."""
        try:
            for text in self.socket:
                if isinstance(text, bytes):
                    self.media.put(msgspec.msgpack.decode(text, type=Pushed))
                    continue
                message = json.loads(text)
                (self.feedback if message["type"] == "reactor.feedback" else self.inbox).put(message)
        except ConnectionClosed:
            pass
        self.inbox.put(None)

    def say(self, kind: str, data: Any, answers: int | None = None) -> None:
        """Send a text message; `answers` is the id of the command that it answers."""
        message = {"type": kind, "data": data}
        if answers is not None:
            message["id"] = answers
        if kind != "reactor.queued":
            self._said += 1
            message["n"] = self._said
        self.socket.send(json.dumps(message))

    def welcome(
        self,
        *commands: Any,
        tracks: list[dict[str, Any]] | None = None,
        role: str = "control",
        upload: str | None = None,
        share: str | None = None,
        state: dict[str, Any] | None = None,
        about: dict[str, Any] | None = None,
        transport: tuple[str, ...] = (),
        worlds: dict[str, Any] | None = None,
        session: str = "s",
        heartbeat: float = 10.0,
    ) -> None:
        """Begin a session; `upload` is its upload token, `share` the token for those who may watch it.

        `state` has the values of settings; None: a server that does not tell them. `about` is how the model
        introduces itself, `transport` what the client may do with it, `worlds` with its worlds.
        `heartbeat` in seconds: the test says the beats.
        """
        tracks = [video()] if tracks is None else tracks
        schema = {"name": "fake", "protocol": 1, "tracks": tracks, "commands": list(commands), "messages": []}
        if about is not None:
            schema["about"] = introduction(**about)
        self.say("reactor.welcome", {
            "session_id": session, "protocol": 1, "name": "fake", "role": role, "heartbeat": heartbeat,
            "resume_token": None, "upload_token": upload, "share_token": share, "schema": schema, "tracks": tracks,
            "transport": transport, "paused": False, "worlds": worlds,
        } | ({} if state is None else {"state": state}))  # fmt: skip

    def frame(
        self,
        seq: int,
        image: np.ndarray,
        *,
        track: int = 0,
        raw: bool = False,
        command: Any = None,
        input_pts: int | None = None,
        timing: list[int | None] | None = None,
    ) -> None:
        """Send a picture; `input_pts` is the time of the newest input frame that it was made with, `timing` in us."""
        payload = image.tobytes() if raw else simplejpeg.encode_jpeg(image, quality=95, colorsubsampling="444")
        meta: dict[str, Any] = {"later": [1]} if input_pts is None else {"input_pts_us": input_pts}
        if timing is not None:
            meta["timing"] = timing
        self.socket.send(msgspec.msgpack.encode((track, seq, seq * 33_333, 1, command, seq, meta, payload)))

    def block(self, seq: int, samples: np.ndarray, *, track: int) -> None:
        """Send a block of 48 kHz sound."""
        pts_us = seq * len(samples) * 1_000_000 // 48_000
        self.socket.send(msgspec.msgpack.encode((track, seq, pts_us, 1, None, seq, {}, samples.tobytes())))

    def packet(
        self, seq: int, payload: bytes, *, track: int = 0, key: bool = True, pts_us: int | None = None, command: Any = None,
        meta: dict[str, Any] | None = None,
    ) -> None:  # fmt: skip
        """Send an encoded packet."""
        pts_us = seq * 33_333 if pts_us is None else pts_us
        self.socket.send(msgspec.msgpack.encode((track, seq, pts_us, int(key), command, seq, meta or {}, payload)))

    def asked_for(self, kind: str) -> dict[str, Any]:
        """The page's next message that is not a command of the model; it must have this type."""
        message = self.next()
        assert message["type"] == kind
        data: dict[str, Any] = message["data"]
        return data

    def next(self) -> dict[str, Any]:
        """The next command of the page; fails if it leaves instead."""
        message = self.inbox.get(timeout=PATIENCE)
        assert message is not None, "the page closed the connection"
        return message

    def pushed(self) -> Pushed:
        """The next packet of an input track; fails if none comes."""
        return self.media.get(timeout=PATIENCE)

    def ack(self, message: dict[str, Any], reply: Any = None) -> None:
        """Answer that `message` was applied."""
        self.say("reactor.ack", {"step": 0, "reply": reply}, message["id"])

    def refuse(self, message: dict[str, Any], text: str, code: str = "invalid_command") -> None:
        """Answer that `message` changed nothing."""
        self.say("reactor.error", {"code": code, "message": text}, message["id"])

    def bye(self, reason: Any, message: str | None = None) -> None:
        """End the session for a reason."""
        self.say("reactor.bye", {"reason": reason, "message": message})
        self.socket.close(close_code(reason))

    def silent(self) -> bool:
        """Whether the page has sent nothing more. Call it only after a later message has arrived."""
        return self.inbox.empty()


class FakeServer:
    """The server of the page.

    `refuse_with` answers WebSockets with that status; `health` is the answer of `/health`; `modules` is a folder with files
    that it serves beside the page's; `pictures` are those of the model's examples, PNG by name; `about` is how the
    model introduces itself in `/schema`, and `commands` what it declares there.
    """

    def __init__(self) -> None:
        self.peers: queue.SimpleQueue[Peer] = queue.SimpleQueue()
        self.asked: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.refuse_with: int | None = None
        self.health: tuple[int, dict[str, Any]] = (200, {"status": "ok", "model": "fake"})
        self.modules: Path | None = None
        self.pictures: dict[str, bytes] = {}
        self.about: dict[str, Any] = {}
        self.commands: list[dict[str, Any]] = []
        self.url = ""

    def accept(self) -> Peer:
        """The next WebSocket that the page opens."""
        return self.peers.get(timeout=PATIENCE)

    def handle(self, socket: ServerConnection) -> None:
        peer = Peer(socket)
        self.peers.put(peer)
        peer.listen()

    def respond(self, _socket: ServerConnection, request: Request) -> Response | None:
        path, _, query = request.path.removeprefix("/prefix").partition("?")
        self.asked.put(path)
        if path == "/ws":
            return None if self.refuse_with is None else answer(self.refuse_with, "text/plain", b"refused\n")
        if path == "/schema" and self.health[1].get("phase") == "loading" and "format=about" not in query:
            return answer(503, "text/plain", b"the model is still loading\n")
        if path == "/schema":
            nothing: dict[str, Any] = {"name": "fake", "protocol": 1, "tracks": [], "messages": []}
            nothing["commands"] = [] if "format=about" in query else self.commands
            schema = nothing | {"about": introduction(**self.about)}
            return answer(200, "application/json", json.dumps(schema).encode())
        if path == "/health":
            return answer(self.health[0], "application/json", json.dumps(self.health[1]).encode())
        if (png := self.pictures.get(path.removeprefix("/pictures/"))) is not None:
            return answer(200, "image/png", png)
        name = "index.html" if path == "/" else path.removeprefix("/page/")
        for folder in (files("reactor_trio") / "page", self.modules):
            if folder is not None and "/" not in name and (file := folder / name).is_file():
                return answer(200, TYPES[name.rpartition(".")[2]], file.read_bytes())
        return answer(404, "text/plain", b"not found\n")


def answer(status: int, content_type: str, body: bytes) -> Response:
    headers = Headers({
        "Content-Type": content_type, "Content-Length": str(len(body)), "Connection": "close",
        "Content-Security-Policy": POLICY,
    })  # fmt: skip
    return Response(status, HTTPStatus(status).phrase, headers, body)


@contextmanager
def fake_server() -> Iterator[FakeServer]:
    """A FakeServer on a free port, gone with all its sockets after the block."""
    fake = FakeServer()
    server = serve(
        fake.handle, "127.0.0.1", 0, process_request=fake.respond, subprotocols=["reactor.v1"], compression=None,  # type: ignore[list-item]
        open_timeout=120, close_timeout=1,
    )  # fmt: skip
    port = server.socket.getsockname()[1]
    fake.url = f"http://127.0.0.1:{port}/"
    thread = threading.Thread(target=server.serve_forever, name="fake server")
    thread.start()
    try:
        yield fake
    finally:
        server.shutdown()
        thread.join()
