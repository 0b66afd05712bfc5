"""What a client can send to the server: text, packets, an HTTP head, a query, an upload, a WebSocket's frames."""

from __future__ import annotations

import enum
import json
import random
import zlib
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal
from urllib.parse import parse_qsl

import h11
import msgspec
import numpy as np
import simplejpeg
import trio
import trio.testing

from reactor_trio.connection.client_connection import _ClientConnection
from reactor_trio.connection.client_sender import ClientSender
from reactor_trio.connection.connect_request import ConnectRequest, parse_connect_request
from reactor_trio.connection.media_receiver import MediaReceiver
from reactor_trio.connection.rendition_set import RenditionSet
from reactor_trio.connection.sender_context import SenderContext
from reactor_trio.gate.waiting_client import _answer
from reactor_trio.interface import (
    Idle,
    InputField,
    InputState,
    Output,
    ReactorPipeline,
    UploadedFile,
    Video,
    event,
    file_uploaded,
)
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.media import CodecSettings
from reactor_trio.media.codec_pool import CodecPool
from reactor_trio.protocol import decode_server_text, encode_server_text
from reactor_trio.testing import open_server
from reactor_trio.testing.inspected_server import left_of
from reactor_trio.testing.memory_exchange import MemoryExchange
from reactor_trio.testing.memory_server import TestServer
from reactor_trio.transport import Refused, Response, serve_http
from reactor_trio.transport.request_reader import parse_head
from tests.fuzz.fuzz_tickets import JsonWebTokens
from tests.fuzz.fuzzing import LONGEST, Run, Target, kind_of, mutated
from tests.support.models import Webcam

VECTORS = json.loads((Path(__file__).parents[2] / "docs" / "reference" / "protocol-vectors.json").read_text())
PICTURE = np.random.default_rng(1).integers(0, 255, (8, 8, 3), np.uint8)
#: characters of a text that the server says about what a client sent; an answer may not be as large as the question
LONGEST_WORDS = 4096


class Main(Output):
    main_video: Video


class Mood(enum.Enum):
    CALM = "calm"
    WILD = "wild"


class State(InputState):
    x: int = 0
    amount: float = InputField(default=1.0, ge=0.5, le=2.0)
    on: bool = False
    prompt: str = InputField(default="a fox", min_length=3, max_length=6)
    words: list[str] = InputField(default=[], min_length=0, max_length=2)
    seed: int | None = 3
    zoom: float = InputField(default=1.5, choices=[0.5, 1.5])
    mode: Literal["fast", "fine"] = "fast"
    mood: Mood = Mood.CALM
    table: dict[str, float] = InputField(default={})
    anything: Any = None
    image: UploadedFile | None = None


class Fuzzed(ReactorPipeline):
    """Each kind of argument; shows a picture when it is switched on."""

    output: Main
    input: Webcam
    state: State

    def inference(self):
        while True:
            yield Main(PICTURE) if self.state.on else Idle

    @event
    def mark(self, what: Any = "", at: int | float = 0.0):
        return [what, at]

    @event(dedupe=True)
    def refresh(self):
        pass

    @file_uploaded
    def on_file(self, uploaded_file):
        pass


COMMANDS = [
    {"type": "set_x", "data": {"x": 5}, "id": 1},
    {"type": "set_amount", "data": {"amount": 1.5}, "id": 2},
    {"type": "set_on", "data": {"on": True}},
    {"type": "set_prompt", "data": {"prompt": "a dog"}, "id": 3},
    {"type": "set_words", "data": {"words": ["a", "b"]}, "id": 4},
    {"type": "set_seed", "data": {"seed": None}, "id": 5},
    {"type": "set_zoom", "data": {"zoom": 0.5}, "id": 6},
    {"type": "set_mode", "data": {"mode": "fine"}, "id": 7},
    {"type": "set_mood", "data": {"mood": "wild"}, "id": 8},
    {"type": "set_table", "data": {"table": {"a": 1.0}}, "id": 9},
    {"type": "set_anything", "data": {"anything": [1, {"b": [None, True]}]}, "id": 10},
    {"type": "set_image", "data": {"image": {"upload_id": "abc"}}, "id": 11},
    {"type": "mark", "data": {"what": "here", "at": 2.5}, "id": 12},
    {"type": "refresh", "id": 13},
    {"type": "reactor.feedback", "data": {"track": 0, "seq": 7, "held_us": 1200}},
    {"type": "reactor.keyframe", "data": {"track": 0}},
    {"type": "reactor.video", "data": {"video": ["raw", "jpeg"]}},
    {"type": "reactor.video", "data": {"video": ["none"], "tracks": {"main_video": ["raw"]}}},
]
TEXTS = [json.dumps(command).encode() for command in COMMANDS] + [
    vector["text"].encode() for part in ("exact", "accepted", "refused") for vector in VECTORS["client_texts"][part]
]
WORDS_OF_TEXT = (
    b'"id":',
    b'"data":',
    b'"type":',
    b'"reactor.',
    b'"x":',
    b"NaN",
    b"1.0",
    b'"\\ud800":NaN',
    b'"upload_id"',
    b"-0",
    b"{}",
    b'"set_x"',
    b'"held_us":',
    b'"seq":',
    b'"track":',
)


def packets() -> list[bytes]:
    """Good packets for the model's input tracks."""
    encode = msgspec.msgpack.encode
    jpeg = simplejpeg.encode_jpeg(PICTURE, colorspace="RGB")
    return [
        encode([1, 0, 0, 1, None, 0, {"codec": "jpeg"}, jpeg]),
        encode([1, 1, 40_000, 1, None, 0, {"codec": "raw", "width": 8, "height": 8}, PICTURE.tobytes()]),
        encode([1, 1, 40_000, 1, None, 0, {"codec": "h264", "matrix": "bt709", "full_range": True}, b"\0\0\0\1\x67"]),
        encode([2, 0, 0, 1, None, 0, {"codec": "pcm_s16le", "sample_rate": 48_000}, b"\1\2" * 480]),
        *(bytes.fromhex(vector["hex"]) for part in ("exact", "accepted", "refused") for vector in VECTORS["packets"][part]),
    ]


WORDS_OF_PACKETS = (
    b"\x98",
    b"\xcf\xff\xff\xff\xff\xff\xff\xff\xff",
    b"\xd3\x80\0\0\0\0\0\0\0",
    b"\xcb\x7f\xf0\0\0\0\0\0\0",
    b"\xc0",
    b"\xc2",
    b"\xdd\xff\xff\xff\xff",
    b"\xdf\xff\xff\xff\xff",
    b"\xc6\xff\xff\xff\xff",
    b"\xd6\xff\0\0\0\0",
    b"\xc7\x0c\xff" + b"\xff" * 12,
    b"\xa5codec",
    b"\xa5width",
    b"\xa6height",
    b"\xa3raw",
    b"\xa4jpeg",
    b"\xabsample_rate",
    b"\x91" * 900,
    b"\x91" * 980,
    b"\x81\xa1a" * 900,
)


class _Desk:
    """Of a server, what a client's words reach without a model."""

    farewell_timeout = 1.0

    def __init__(self) -> None:
        self.declaration = declaration_of(Fuzzed)

    def sender(self, request: ConnectRequest, _back_in: None = None) -> ClientSender:
        context = SenderContext(
            tracks=self.declaration.tracks,
            codec=CodecSettings(),
            codec_pool=CodecPool(_here, 10),
            max_age=0.15,
            message_limit=1024,
        )
        sender = ClientSender(1, 0.0, request, context)
        sender.join(RenditionSet(context))
        return sender


async def _here(function: Callable[[Any], Any], argument: Any, /, limit: float) -> Any:
    await trio.lowlevel.checkpoint()
    return function(argument)


class _Session:
    """Decodes the arguments, and answers at once."""

    def __init__(self, session_manager: _Desk, sender: ClientSender) -> None:
        self._session_manager, self._sender = session_manager, sender
        self.ended = trio.Event()

    def submit(self, name: str, data: bytes, id: int | None, trace: object = None) -> None:  # noqa: A002
        self._session_manager.declaration.command(name).arguments.decode(data, _no_file)
        if id is not None:
            self._sender.say("reactor.ack", {"step": 0}, id)


def _no_file(upload_id: str) -> Any:
    raise LookupError


def said(sender: ClientSender) -> list[Any]:
    """What waits to be sent, read as a client reads it."""
    found = []
    while sender._texts.count:
        text, _sent = sender._texts.take()
        assert len(text) <= LONGEST_WORDS, f"an answer of {len(text)} characters"
        found.append(decode_server_text(text))
    return found


class Texts(Target):
    """Text messages, from the socket to the decoded arguments, and what they are answered."""

    name, share, words = "text", 28, WORDS_OF_TEXT

    def seeds(self) -> list[bytes]:
        return TEXTS

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Run, None]:
        session_manager = _Desk()
        conversation = _ClientConnection(session_manager, ConnectRequest("control", ("raw", "jpeg")), None, None)  # type: ignore[arg-type]
        sender = conversation.sender
        conversation._joined = SimpleNamespace(  # type: ignore[assignment]
            session=_Session(session_manager, sender), sender=sender, received=0
        )

        async def run(data: bytes) -> str:
            try:
                text = data.decode()  # the WebSocket has refused what is no UTF-8
            except UnicodeDecodeError:
                text = data.decode("latin-1")
            conversation._take(text)
            answers = said(sender)
            assert len(answers) <= 1
            with suppress(ValueError, RecursionError):
                message = json.loads(text)
                if isinstance(message, dict) and type(message.get("id")) is int and type(message.get("type")) is str:
                    runtime = message["type"].startswith("reactor.")
                    assert answers or runtime, "a command with an id has no answer"
            assert sender.end_reason is None
            if not answers:
                return "no answer"
            (answer,) = answers
            if answer.type == "reactor.ack":
                return "ack"
            return f"{answer.data['code']}: {kind_of(answer.data['message'])}"

        yield run


class WaitingTexts(Target):
    """Text messages of a client that waits at a gate, and what they are answered."""

    name, share, words = "waiting", 4, WORDS_OF_TEXT

    def seeds(self) -> list[bytes]:
        return TEXTS

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Run, None]:
        async def run(data: bytes) -> str:
            text = encode_server_text(_answer(data.decode(errors="replace")))
            assert len(text) <= LONGEST_WORDS, f"an answer of {len(text)} characters"
            answer = decode_server_text(text)
            assert answer.type == "reactor.error"
            return f"{answer.data['code']}: {kind_of(answer.data['message'])}"

        yield run


class Packets(Target):
    """Binary messages, from the socket to what the model reads; JPEG, raw and sound."""

    name, share, words = "packet", 14, WORDS_OF_PACKETS

    def seeds(self) -> list[bytes]:
        return packets()

    def make(self, dice: random.Random, pool: list[bytes]) -> bytes:
        if dice.random() < 0.02:  # as deep as the decoder takes, which what looks at it afterwards may not
            return b"\x98\x01\x00\x00\x01\xc0\x00\x81\xa5codec" + b"\x91" * dice.randrange(1, 1100) + b"\xc0\xc4\x00"
        return mutated(dice, pool, self.words)

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Run, None]:
        session_manager = _Desk()
        sender = session_manager.sender(ConnectRequest("control", ()))
        sender.say("reactor.welcome", {})
        sender._texts.clear()

        async def run(data: bytes) -> str:
            receiver = MediaReceiver(sender.context, sender.say)
            frames = []
            receiver.take(data, lambda track, frame: frames.append((track, frame)))
            if receiver._waiting:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(receiver.run)
                    await trio.testing.wait_all_tasks_blocked()
                    nursery.cancel_scope.cancel()
            answers = said(sender)
            for track, frame in frames:
                assert frame.data.dtype == (np.uint8 if track == "camera" else np.int16)
                assert 0 <= frame.pts <= 2**53
                return f"{track}: a frame"
            assert answers
            return kind_of(answers[0].data.get("message", "keyframe").rpartition("used: ")[2])

        yield run


GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
OPENING = (
    b"GET /ws?video=%s HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
HEADS = [
    GET % b"/",
    GET % b"/health",
    GET % b"/schema?format=asyncapi",
    GET % b"/metrics",
    GET % b"/page/app.js",
    GET % b"/page/a.js",
    GET.replace(b"localhost", b"localhost\r\nOrigin: http://[") % b"/ws",
    b"POST /uploads HTTP/1.1\r\nHost: a\r\nOrigin: http://[a\r\n\r\n",
    GET % b"/favicon.ico",
    GET % b"http://localhost:80/schema?format=json&a=%C3%A4",
    GET % b"/uploads",
    b"HEAD / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: [::1]:8080\r\nConnection: close\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc",
    b"POST /uploads?name=a.png&mime_type=image/png HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer TOKEN\r\n"
    b"Content-Length: 5\r\nOrigin: http://localhost\r\nExpect: 100-continue\r\n\r\nhello",
    b"POST /uploads HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil\r\nTransfer-Encoding: chunked\r\n\r\n"
    b"3\r\nabc\r\n0\r\n\r\n",
    OPENING % b"none&role=control&token=a&feedback=1&model=Fuzzed",
    OPENING.replace(b"Host: localhost", b"Host: localhost\r\nOrigin: http://localhost\r\nSec-WebSocket-Protocol: reactor.v1")
    % b"raw",
    OPENING % b"h264,jpeg&role=viewer&audio=none",
]
WORDS_OF_HTTP = (
    b"Content-Length: ",
    b"Transfer-Encoding: chunked\r\n",
    b"Host: ",
    b"Origin: http://[\r\n",
    b"Origin: http://\xe2\x84\x80\r\n",
    b"Expect: 100-continue\r\n",
    b"Upgrade: websocket\r\n",
    b"Connection: ",
    b"HTTP/1.1",
    b"HTTP/1.0",
    b"HTTP/2.0",
    b"GET ",
    b"POST ",
    b"/ws",
    b"?",
    b"#",
    b"Authorization: Bearer ",
    b"X: y\r\n",
    b"\r\n\r\n",
    b"http://",
    b"https://",
    b"[::1]",
    b"%zz",
    b"/page/",
    b".js",
    b"a" * 300,
    b"token=",
    b"video=",
    b"role=viewer",
    b"resume=",
    b"model=",
)


class Heads(Target):
    """An HTTP head with all that is decided by it, without a connection: host, origin, path, query, handshake."""

    name, share, words = "head", 22, WORDS_OF_HTTP

    def seeds(self) -> list[bytes]:
        return HEADS

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Run, None]:
        async with open_server(Fuzzed) as server:
            site = server._site

            async def run(data: bytes) -> str:
                connection = h11.Connection(h11.SERVER, max_incomplete_event_size=16 * 1024 - 1)
                connection.receive_data(data[: 16 * 1024])  # as the server reads it
                try:
                    head = connection.next_event()
                except h11.RemoteProtocolError as error:
                    return f"{error.error_status_hint}: {kind_of(str(error))}"
                if not isinstance(head, h11.Request):
                    return "not complete"
                try:
                    headers = tuple((name.decode(), value.decode("latin-1")) for name, value in head.headers)
                    request = parse_head(head, headers, "fuzz")
                    answer = await site.serve(MemoryExchange(site, request))
                except Refused as refused:
                    answer = Response.refusing(refused.refusal)
                if not isinstance(answer, Response):
                    return "ws: 101"
                assert len(answer.body) < 20_000 or answer.status == 200
                return f"{answer.status}: {kind_of(answer.body[:60].decode('latin-1'))}"

            yield run


class Queries(Target):
    """The query of `/ws`."""

    name, share = "query", 8
    words = (
        b"video=",
        b"audio=",
        b"role=",
        b"token=",
        b"resume=",
        b"after=",
        b"model=",
        b",",
        b"none",
        b"h264",
        b"raw",
        b"%20",
    )

    def seeds(self) -> list[bytes]:
        return [
            b"video=raw,jpeg&role=control",
            b"video=none&audio=none",
            b"video=h264,vp8,vp9,av1,lossless&feedback=1",
            b"role=viewer&token=abc&model=m",
            b"resume=1&after=2",
            b"audio=opus,pcm_s16le",
            b"video=none&video.depth=raw,jpeg&beat=1&refusals=bye",
        ]

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Run, None]:
        async def run(data: bytes) -> str:
            query = dict(parse_qsl(data.decode("latin-1"), keep_blank_values=True))
            try:
                request = parse_connect_request(query, "m", ("main_video", "depth"))
            except Refused as refused:
                return f"{refused.refusal.kind.status}: {kind_of(refused.refusal.message)}"
            assert len(set(request.video)) == len(request.video) <= 8
            return f"{request.role} {','.join(request.video[:2])} {','.join(request.audio)}"

        yield run


class _Served(Target):
    """A whole connection in memory: cut into segments, half-closed; over when the server has let go of everything."""

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Run, None]:
        async with (
            open_server(Fuzzed, uploads={"file_size": 4096, "total_size": 16384, "files": 4}) as server,
            self.with_client(server) as fill,
        ):

            async def run(data: bytes) -> str:
                answer = await exchange(server, fill(data))
                left = len(server.runtime.session_manager.clients) - self.others
                assert not left, f"{left} clients are still there"
                over, server.served[self.others :] = server.served[self.others :], []
                assert all(served.session.ended.is_set() and not left_of(served) for served in over)
                return self.outcome(answer)

            yield run

    others = 0

    @asynccontextmanager
    async def with_client(self, server: TestServer) -> AsyncGenerator[Callable[[bytes], bytes], None]:
        yield lambda data: data

    def outcome(self, answer: bytes) -> str:
        if not answer:
            return "closed without a word"
        statuses = []
        while answer.startswith(b"HTTP/1.1 ") and len(statuses) < 4:
            head, _, answer = answer.partition(b"\r\n\r\n")
            statuses.append(head[9:12].decode())
            length = next((int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:")), 0)
            answer = answer[length:] if statuses[-1] not in ("101", "100") else answer
            if statuses[-1] == "101":
                return f"101 {spoken(answer)}"
        assert statuses, answer[:100]
        assert "500" not in statuses, "500"
        return " ".join(statuses)


def spoken(data: bytes) -> str:
    """What a server says over its WebSocket: the types of its messages and how it closes."""
    words: list[str] = []
    while len(data) >= 2:
        opcode, length, at = data[0], data[1], 2
        assert opcode & 0x80, "fragmented"
        if length == 126:
            length, at = int.from_bytes(data[2:4], "big"), 4
        elif length == 127:
            length, at = int.from_bytes(data[2:10], "big"), 10
        payload, data = data[at : at + length], data[at + length :]
        if len(payload) < length:  # a message cut short is never followed by another
            words.append("cut")
            break
        match opcode & 0xF:
            case 1:
                message = json.loads(payload)
                words.append(message["type"].removeprefix("reactor.") + ":" + str(message.get("data", {}).get("code", "")))
            case 2:
                words.append("frame")
            case 8:
                words.append(f"close {int.from_bytes(payload[:2], 'big')}")
                assert not data, "something follows the close frame"
            case 9 | 10:
                words.append("pong")
            case other:
                raise AssertionError(f"opcode {other}")
    return " ".join(sorted(set(words)))


async def exchange(server: TestServer, data: bytes) -> bytes:
    """Send `data` as a client that sends nothing more; all that the server answers."""
    ours, theirs = trio.testing.memory_stream_pair()
    site, received = server._site, bytearray()

    async def read() -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            while piece := await theirs.receive_some():
                received.extend(piece)

    async def serve() -> None:
        await serve_http(ours, site.serve, site.rules, closing=server.runtime.closing)
        await theirs.aclose()

    with trio.fail_after(2000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(serve)
            nursery.start_soon(read)
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                for piece in pieces(data):
                    await theirs.send_all(piece)
                await trio.testing.wait_all_tasks_blocked()
                await theirs.send_eof()
    return bytes(received)


def pieces(data: bytes) -> list[bytes]:
    """How an input is cut into segments, by what it is."""
    number = zlib.crc32(data)
    match number % 4:
        case 0:
            at = number // 4 % (len(data) + 1)
            return [data[:at], data[at:]]
        case 1 if len(data) < 2000:
            return [data[at : at + 7] for at in range(0, len(data), 7)]
        case _:
            return [data]


class Http(_Served):
    """A whole connection: requests, bodies, upgrades, and what follows them."""

    name, share, words = "http", 9, WORDS_OF_HTTP

    def seeds(self) -> list[bytes]:
        return [*HEADS, HEADS[0] + HEADS[1], HEADS[-1] + frame(1, TEXTS[0]), HEADS[11] + HEADS[0]]


class Uploads(_Served):
    """`POST /uploads` of a session that runs."""

    name, share, words = (
        "upload",
        3,
        (*WORDS_OF_HTTP, b"TOKEN", b"name=", b"mime_type=", b"image/png", b"; charset=", b"..%2f"),
    )
    others = 1

    def seeds(self) -> list[bytes]:
        return [
            HEADS[12],
            HEADS[12].replace(b"Expect: 100-continue\r\n", b""),
            HEADS[12] + HEADS[0],
            HEADS[13],
            HEADS[12].replace(b"5\r\n", b"4000\r\n") + b"x" * 3995,
            HEADS[12].replace(b"Authorization: Bearer TOKEN\r\n", b"").replace(b"?name", b"?token=TOKEN&name"),
        ]

    @asynccontextmanager
    async def with_client(self, server: TestServer) -> AsyncGenerator[Callable[[bytes], bytes], None]:
        async with server.connect(video=["none"]) as client:
            (session,) = server.sessions
            store = session.uploads
            assert store is not None
            token = (store.token or "").encode()

            def fill(data: bytes) -> bytes:
                assert client.ended is None
                return data.replace(b"TOKEN", token)

            yield fill


def frame(
    opcode: int, payload: bytes, *, fin: bool = True, mask: bytes | None = b"\1\2\3\4", length: int | None = None
) -> bytes:
    """A client's WebSocket frame, right or wrong."""
    size = len(payload) if length is None else length
    bit = 0x80 if mask is not None else 0
    if size < 126:
        header = bytes([bit | size])
    elif size < 1 << 16:
        header = bytes([bit | 126]) + size.to_bytes(2, "big")
    else:
        header = bytes([bit | 127]) + size.to_bytes(8, "big")
    if mask:
        payload = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return bytes([(0x80 if fin else 0) | opcode]) + header + (mask or b"") + payload


@cache
def _payloads() -> list[bytes]:
    return [
        *TEXTS,
        *packets(),
        b"",
        b"\x03\xe8bye",
        b"\x03",
        b"\x03\xec",
        b"\xff\xff\xff",
        b"\xed\xa0\x80",
        b"x" * 126,
        b"y" * 65536,
    ]


class Frames(_Served):
    """The WebSocket after the upgrade: fragments, masks, lengths, control frames."""

    name, share = "websocket", 4

    def seeds(self) -> list[bytes]:
        texts = [OPENING % b"raw" + frame(1, text) for text in TEXTS]
        return [
            *texts,
            *(OPENING % b"none" + frame(2, packet) for packet in packets()),
            OPENING % b"none" + frame(8, b"\x03\xe8bye"),
            OPENING % b"jpeg"
            + frame(1, TEXTS[0][:9], fin=False)
            + frame(9, b"ping")
            + frame(0, TEXTS[0][9:])
            + frame(8, b""),
        ]

    def make(self, dice: random.Random, pool: list[bytes]) -> bytes:
        if dice.random() < 0.3:
            return mutated(dice, pool, WORDS_OF_TEXT)
        data = OPENING % dice.choice((b"raw", b"none", b"jpeg", b"raw&role=viewer"))
        for _ in range(dice.choice((1, 1, 2, 3, 6))):
            payload = mutated(dice, _payloads(), WORDS_OF_TEXT) if dice.random() < 0.5 else dice.choice(_payloads())
            data += frame(
                dice.choice((0, 1, 1, 1, 2, 2, 8, 9, 10, 3, 11, 0x41, 0x22)),
                payload,
                fin=dice.random() < 0.7,
                mask=dice.choice((b"\0\0\0\0", b"abcd", b"\xff\0\xff\0", None)) if dice.random() < 0.1 else b"\0\0\0\0",
                length=dice.choice((None,) * 12 + (0, 1, 125, 126, 65535, 2**31, 2**63 - 1)),
            )
        return data[:LONGEST]


SERVER_TARGETS: list[Callable[[], Target]] = [
    Texts,
    WaitingTexts,
    Packets,
    Heads,
    Queries,
    Http,
    Uploads,
    Frames,
    JsonWebTokens,
]
