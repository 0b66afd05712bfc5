"""The other sides: a site to serve, raw HTTP, and a WebSocket client that can misbehave (wsproto, any Trio stream)."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager, contextmanager
from functools import partial

import trio
import trio.testing
from wsproto import ConnectionType, WSConnection
from wsproto.events import AcceptConnection, BytesMessage, Event, RejectConnection, TextMessage
from wsproto.events import Request as Opening

from reactor_trio.edge.cors import is_preflight, preflight_answer
from reactor_trio.transport import (
    Conversation,
    Exchange,
    Limits,
    MessageChannel,
    PeerGone,
    PortRules,
    Refusal,
    Refused,
    Request,
    Response,
    serve_http,
)
from reactor_trio.transport.upgrade import UPGRADE_HEADERS, WEBSOCKET_PATH, check_handshake, wants_websocket

PAGE = b"<!doctype html>hello"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
HOSTS = ("localhost", "127.0.0.1", "::1")
MASK = b"\x00\x00\x00\x00"


async def until_gone(messages: MessageChannel) -> PeerGone:
    try:
        while True:
            await messages.receive()
    except PeerGone as gone:
        return gone


def plain(status: int, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, "text/plain; charset=utf-8", f"{message}\n".encode(), headers or {})


class TinySite:
    """A site with one page. Its conversation is the function `talk`; `result` is what `talk` returned."""

    def __init__(
        self,
        talk: Callable[[MessageChannel], Awaitable[object]] = until_gone,
        limits: Limits | None = None,
        methods: Sequence[str] = ("GET", "HEAD"),
    ) -> None:
        self.talk = talk
        self.limits = limits or Limits()
        self.methods = methods
        self.requests: list[Request] = []
        self.result: object = None
        self.conversations = self.refused_sockets = 0
        self.pieces: list[int] = []

    @property
    def rules(self) -> PortRules:
        return PortRules(self.limits, shared_with=self.shared_with)

    def shared_with(self, request: Request) -> str | None:
        friend = request.header("origin") == "https://friend.test" and request.host in HOSTS
        return "https://friend.test" if friend and request.path in ("/stream", "/never") else None

    async def serve(self, exchange: Exchange) -> Response | Conversation:
        """Answer as a site of `edge` does, in the same order."""
        request = exchange.request
        if request.authority and request.host not in HOSTS:
            raise Refused(Refusal("wrong_host", "not here"))
        if exchange.shared_with is not None and is_preflight(request):
            await exchange.read_body()
            return preflight_answer()
        if request.method not in self.methods:
            why = f"{request.method} is not allowed"
            raise Refused(Refusal("method_not_allowed", why, {"allow": ", ".join(self.methods)}))
        if request.method == "POST":
            self.check_origin(request)
            return await self.take(exchange)
        if wants_websocket(request):
            return await self.admit(exchange)
        await exchange.read_body()
        if request.path == "/ws":
            raise Refused(Refusal("upgrade_required", "a WebSocket", UPGRADE_HEADERS))
        return self.respond(request)

    def check_origin(self, request: Request) -> None:
        if request.header_values("origin") not in ([], ["https://friend.test"], [f"http://{request.authority}"]):
            raise Refused(Refusal("wrong_origin", "not you"))

    async def take(self, exchange: Exchange) -> Response:
        """`/stream` counts its body; `/first` answers after the first piece, `/never` refuses before it."""
        async with aclosing(exchange.pieces()) as body:
            match exchange.request.path:
                case "/stream":
                    self.pieces = [len(piece) async for piece in body]
                    return plain(200, f"{sum(self.pieces)}")
                case "/first":
                    return plain(200, f"{len(await anext(body))}")
                case "/never":
                    raise Refused(Refusal("too_large", "too much"))
                case "/crash" | "/break":
                    raise ZeroDivisionError
                case _:
                    size = len(await exchange.read_body())
                    return plain(200, f"POST {size}")

    def respond(self, request: Request) -> Response:
        self.requests.append(request)
        if request.path == "/":
            return Response(200, "text/html; charset=utf-8", PAGE, {"content-security-policy": "default-src 'self'"})
        if request.path == "/bug":
            raise ZeroDivisionError
        return plain(404, "no such page")

    async def admit(self, exchange: Exchange) -> Response | Conversation:
        request = exchange.request
        if request.path != WEBSOCKET_PATH:
            raise Refused(Refusal("not_found", "no WebSocket here"))
        handshake = check_handshake(request)
        self.check_origin(request)
        await exchange.read_body()
        if "crowded" not in request.query:
            exchange.upgrade(handshake, self.counted())
        self.requests.append(request)
        with exchange.within("not_decided", f"the server did not decide within {self.limits.handshake:g} s"):
            await trio.sleep(float(request.query.get("admission", 0)))
        if "full" in request.query:
            raise Refused(Refusal("full", "no room", after=5))
        if "crash" in request.query:
            raise ZeroDivisionError
        if "elsewhere" in request.query:
            return plain(307, "", {"location": "ws://elsewhere.test/ws"})
        return self.serve_client

    @contextmanager
    def counted(self) -> Iterator[None]:
        self.refused_sockets += 1
        try:
            yield
        finally:
            self.refused_sockets -= 1

    async def serve_client(self, messages: MessageChannel) -> None:
        self.conversations += 1
        self.result = await self.talk(messages)


@asynccontextmanager
async def serving(
    site: TinySite | None = None, limits: Limits | None = None, *, closing: trio.Event | None = None,
    methods: Sequence[str] | None = None,
) -> AsyncIterator[trio.abc.Stream]:  # fmt: skip
    """The client's end of a served memory connection. At the end the client hangs up, and the server must end."""
    site = site or TinySite()
    site.limits, site.methods = limits or site.limits, methods or site.methods
    ours, theirs = trio.testing.memory_stream_pair()
    closing = trio.Event() if closing is None else closing
    serve = partial(serve_http, ours, site.serve, site.rules, closing=closing)
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            yield theirs
            await theirs.aclose()


async def read_all(stream: trio.abc.ReceiveStream) -> bytes:
    data = b""
    while piece := await stream.receive_some():
        data += piece
    return data


class Answer:
    def __init__(self, status: int, headers: dict[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body


def answers(data: bytes, *, head_only: bool = False) -> list[Answer]:
    """Every answer in `data`, by their Content-Length alone."""
    found = []
    while data:
        head, _, data = data.partition(b"\r\n\r\n")
        first, *lines = head.decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        length = 0 if head_only else int(headers.get("content-length", 0))
        body, data = data[:length], data[length:]
        found.append(Answer(int(first.split()[1]), headers, body))
    return found


def opening(*lines: str, path: str = "/ws", drop: str = "", host: str = "localhost") -> bytes:
    """A handshake as bytes; `lines` are added, those that start with `drop` left out."""
    head = [
        f"GET {path} HTTP/1.1",
        f"Host: {host}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {KEY}",
        "Sec-WebSocket-Version: 13",
    ]
    kept = [line for line in head if not drop or not line.startswith(drop)]
    return "\r\n".join([*kept, *lines, "", ""]).encode()


def frame(opcode: int, payload: bytes, *, masked: bool = True, fin: bool = True) -> bytes:
    """A client's frame, byte for byte; the mask is zero."""
    size = len(payload)
    bit = 0x80 if masked else 0
    if size < 126:
        length = bytes([bit | size])
    elif size < 1 << 16:
        length = bytes([bit | 126]) + size.to_bytes(2, "big")
    else:
        length = bytes([bit | 127]) + size.to_bytes(8, "big")
    return bytes([(0x80 if fin else 0) | opcode]) + length + (MASK if masked else b"") + payload


class Peer:
    """A WebSocket client that sends only what a test asks for: no pong and no close reply of its own."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self.ws = WSConnection(ConnectionType.CLIENT)
        self._events: list[Event] = []

    async def open(self, path: str = "/ws", **options: object) -> AcceptConnection | RejectConnection:
        await self.send(Opening(host="localhost", target=path, **options))
        answer = await self.event()
        assert isinstance(answer, AcceptConnection | RejectConnection)
        return answer

    async def send(self, event: Event) -> None:
        await self.stream.send_all(self.ws.send(event))

    async def write(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def event(self) -> Event | None:
        """The next whole message or control frame; None when the server has ended the connection."""
        parts: list[bytes | str] = []
        while True:
            while not self._events:
                data = await self.stream.receive_some(65536)
                if not data:
                    return None
                self.ws.receive_data(bytes(data))
                self._events = list(self.ws.events())
            event = self._events.pop(0)
            if not isinstance(event, BytesMessage | TextMessage):
                return event
            parts.append(event.data)
            if event.message_finished:
                joined = "".join(parts) if isinstance(event, TextMessage) else b"".join(parts)
                return type(event)(data=joined)


@asynccontextmanager
async def conversing(
    talk: Callable[[MessageChannel], Awaitable[object]] = until_gone, limits: Limits | None = None
) -> AsyncIterator[tuple[Peer, TinySite]]:
    """An open WebSocket to a site with the conversation `talk`."""
    site = TinySite(talk)
    async with serving(site, limits) as stream:
        peer = Peer(stream)
        assert isinstance(await peer.open(), AcceptConnection)
        yield peer, site


def endless_limits(**limits: float) -> Limits:
    """No heartbeat, for tests that let time pass."""
    return Limits(ping_interval=math.inf, silence=math.inf, **limits)  # type: ignore[arg-type]
