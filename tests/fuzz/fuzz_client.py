"""What a hostile server can send to the client, and what the other decoders take: manifests, feedback, bitstreams."""

from __future__ import annotations

import json
import math
import random
import struct
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

import anyio
import anyio.abc
import msgspec
import numpy as np
import simplejpeg

from reactor_trio.client.client import Client
from reactor_trio.client.client_transport import TransportClosed
from reactor_trio.client.handshake import open_websocket
from reactor_trio.client.push_video import PushEncoder
from reactor_trio.client.running import running
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.decoding import DecodeError, VideoDecoder
from reactor_trio.errors import ConnectionRefused, ManifestError, ProtocolError, SessionEnded
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import InputDecoder, Undecodable
from reactor_trio.pacing import CongestionWindow
from tests.fuzz.fuzz_server import PICTURE, VECTORS, WORDS_OF_PACKETS, WORDS_OF_TEXT, frame
from tests.fuzz.fuzzing import Run, Target, kind_of, mutated

TRACK = {
    "index": 0,
    "name": "main_video",
    "kind": "video",
    "direction": "out",
    "codec": "raw",
    "width": 8,
    "height": 8,
}
WELCOME = {
    "type": "reactor.welcome",
    "n": 1,
    "data": {
        "session_id": "s",
        "protocol": 1,
        "name": "m",
        "role": "control",
        "heartbeat": 10,
        "resume_token": None,
        "upload_token": None,
        "schema": {},
        "tracks": [
            TRACK,
            TRACK | {"index": 1, "name": "sound", "kind": "audio", "codec": "pcm_s16le", "sample_rate": 48_000},
            TRACK | {"index": 2, "name": "camera", "direction": "in", "codec": None},
        ],
    },
}
#: between two messages of an input; `T` or `B` before each says which it is
BETWEEN = b"\xfe\xff\xfe\xff"


def _text(type_: str, data: object, id_: int | None = None) -> bytes:
    return b"T" + json.dumps({"type": type_, "data": data, "n": 2} | ({} if id_ is None else {"id": id_})).encode()


class _Scripted:
    """A transport on which a server says what an input holds, and then is gone."""

    def __init__(self, messages: list[str | bytes]) -> None:
        self.messages = messages

    async def receive(self) -> str | bytes:
        await anyio.lowlevel.checkpoint()
        if not self.messages:
            raise TransportClosed(1006)
        return self.messages.pop(0)

    async def send(self, text: str) -> None:
        await anyio.lowlevel.checkpoint()

    async def send_bytes(self, data: bytes) -> None:
        await anyio.lowlevel.checkpoint()

    async def aclose(self, code: int = 1000, reason: str = "") -> None:
        reason.encode()


class _Client(Client):
    async def _away(self, work: Callable[[], Any]) -> Any:
        return work()


class Clients(Target):
    """The client's side: text, packets, and the frames that are made of them."""

    name, share = "client", 8
    words = (
        *WORDS_OF_TEXT,
        *WORDS_OF_PACKETS,
        BETWEEN,
        b"T{",
        b"B\x98",
        b'"width":',
        b'"codec":"jpeg"',
        b'"codec":"opus"',
        b"-1",
    )

    def seeds(self) -> list[bytes]:
        encode, welcome = msgspec.msgpack.encode, b"T" + json.dumps(WELCOME).encode()
        jpeg = simplejpeg.encode_jpeg(PICTURE, colorspace="RGB")
        after = [
            b"B" + encode([0, 0, 0, 1, None, 0, {"timing": [1, 2, 3, 4]}, PICTURE.tobytes()]),
            b"B" + encode([1, 0, 0, 1, 1, 0, {}, b"\1\2" * 480]),
            _text("reactor.track", TRACK | {"codec": "jpeg"}) + BETWEEN + b"B" + encode([0, 1, 4, 1, None, 0, {}, jpeg]),
            _text("reactor.track", TRACK | {"index": 1, "kind": "audio", "codec": "opus", "sample_rate": 48_000})
            + BETWEEN
            + b"B"
            + encode([1, 1, 4, 1, None, 0, {"sizes": [3]}, b"\xf8\xff\xfe"]),
            _text("reactor.track", TRACK | {"width": 4, "coded_width": 8})
            + BETWEEN
            + b"B"
            + encode([0, 1, 4, 1, None, 0, {}, PICTURE[:, :4].tobytes()]),
            *(b"B" + bytes.fromhex(v["hex"]) for part in ("exact", "accepted") for v in VECTORS["packets"][part]),
            *(b"T" + vector["text"].encode() for vector in VECTORS["server_texts"]["exact"]),
        ]
        return [
            welcome,
            *(welcome + BETWEEN + message for message in after),
            _text("reactor.queued", {"position": 1, "total": 2}),
        ]

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Run, None]:
        async def run(data: bytes) -> str:
            messages: list[str | bytes] = [
                part[1:].decode(errors="replace") if part[:1] == b"T" else part[1:] for part in data.split(BETWEEN)
            ]
            taken, why = 0, ""
            client = _Client(_Scripted(messages), feedback=True)  # type: ignore[arg-type]
            try:
                async with running(client):
                    with suppress(SessionEnded):
                        async for _ in client.messages():  # until the session has ended
                            pass
                    for track in client.tracks:
                        if track.direction == "in":
                            continue
                        try:
                            async for got in client.frames(track.name):
                                assert got.data.dtype == (np.uint8 if track.kind == "video" else np.int16)
                                assert got.data.nbytes < 250e6
                                taken += 1
                        except (SessionEnded, ProtocolError, DecodeError) as error:
                            why = kind_of(str(error))
                    client.statistics()
            except SessionEnded as error:
                return kind_of(str(error).rpartition("protocol: ")[2])
            return f"{min(taken, 1)} {client.ended} {why}"

        yield run


ACCEPTED = (
    b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ACCEPT\r\n"
    b"Sec-WebSocket-Protocol: reactor.v1\r\n\r\n"
)


def error_of(what: str) -> str:
    """Fail."""
    raise AssertionError(what)


class _Stream(anyio.abc.ByteStream):
    """Answers the handshake with what an input holds; `ACCEPT` in it stands for the right answer to the key."""

    def __init__(self, data: bytes) -> None:
        self._data, self._sent = data, b""

    async def receive(self, max_bytes: int = 65536) -> bytes:
        await anyio.lowlevel.checkpoint()
        if not self._data:
            raise anyio.EndOfStream
        size = 11 if len(self._data) % 3 == 0 else max_bytes
        data, self._data = self._data[:size], self._data[size:]
        return data

    async def send(self, item: bytes) -> None:
        await anyio.lowlevel.checkpoint()
        if not self._sent:
            from wsproto.utilities import generate_accept_token

            lines = bytes(item).split(b"\r\n")
            key = next(line[19:] for line in lines if line.lower().startswith(b"sec-websocket-key: "))
            self._data = self._data.replace(b"ACCEPT", generate_accept_token(key))
        self._sent = b"yes"

    async def send_eof(self) -> None:
        pass

    async def aclose(self) -> None:
        pass


class Handshakes(Target):
    """The client's handshake and framing."""

    name, share = "handshake", 7
    words = (
        b"HTTP/1.1 ",
        b"101",
        b"100",
        b"503",
        b"ACCEPT",
        b"Retry-After: ",
        b"Content-Length: ",
        b"\r\n\r\n",
        b"\x81",
        b"\x88",
    )

    def seeds(self) -> list[bytes]:
        server = [
            frame(1, b'{"type":"reactor.bye","data":{"reason":"done"}}', mask=None),
            frame(8, b"\x03\xe8bye", mask=None),
            frame(9, b"ping", mask=None) + frame(2, b"\x98", mask=None, fin=False) + frame(0, b"", mask=None),
            frame(8, b"\x03", mask=None),
            frame(1, b"\xff", mask=None),
            frame(1, b"x", mask=b"abcd"),
            frame(3, b"", mask=None),
            frame(2, b"", mask=None, length=2**63 - 1),
            frame(8, b"\x03\xed\xff", mask=None),
        ]
        return [
            *(ACCEPTED + data for data in server),
            b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nContent-Length: 4\r\n\r\nfull",
            b"HTTP/1.1 401 Unauthorized\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
            b"HTTP/1.1 100 Continue\r\n\r\n" + ACCEPTED,
            b"HTTP/1.0 200 OK\r\n\r\n<html>",
            b"SSH-2.0-OpenSSH\r\n",
        ]

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Run, None]:
        async def run(data: bytes) -> str:
            try:
                transport = await open_websocket("ws://localhost/ws", stream=_Stream(data))
            except ConnectionRefused as error:
                wait = error.retry_after or 0.0
                return f"refused {error.status}" + ("" if 0 <= wait <= 1e6 else error_of(f"waits {wait} s"))
            except OSError as error:
                return kind_of(str(error))
            count = 0
            try:
                while True:
                    await transport.receive()
                    count = 1
            except TransportClosed as error:
                await transport.aclose()
                return f"{count} {error.code} {kind_of(error.reason)}"

        yield run


class Manifests(Target):
    """`reactor.yaml` and `config.yml`: a manifest, or one ManifestError of one line."""

    name, share = "manifest", 2
    patience = 20.0  # PyYAML's own; the file is its author's
    times = math.inf
    words = (
        b"!!timestamp ",
        b"!!bool ",
        b"!!int ",
        b"!!float ",
        b"!!binary ",
        b"!!set ",
        b"!!omap ",
        b"!!python/object:os.system ",
        b"&a ",
        b"*a",
        b"<<: ",
        b"? ",
        b"- ",
        b"|\n",
        b"[[[[",
        b"{}",
        b".inf",
        b".nan",
        b"0b",
        b"0x_",
        b"1:60",
        b"\n  ",
        b": ",
        b"~",
        b"runtime:",
        b"limits:",
        b"config: config.yml",
        b"model: a:B",
        b"!!int ''",
        b"[" * 1200,
    )

    def seeds(self) -> list[bytes]:
        example = (Path(__file__).parents[2] / "reactor.yaml.example").read_bytes()
        return [
            b"model: a:B\nname: n\nruntime:\n  port: 0\n  fps: 1e1\n  limits:\n    text_message: 4096\n",
            b"model: a:B\nruntime: {origins: [http://a], codec: {}, uploads: {files: 1}, auth: null}\n",
            b"model: a:B\nconfig: reactor.yaml\nruntime: &r {host: h}\nx: *r\n",
            b"- a\n- {b: [1, 2.5, true, null]}\n",
            example[:1500],
            b"model: a:B\nname: !!int ''\n",
            b"model: a:B\nruntime:\n  <<: {port: 1}\n  hosts: [a, b]\n",
        ]

    def make(self, dice: random.Random, pool: list[bytes]) -> bytes:
        return mutated(dice, pool, self.words)[:1000]  # one's own file; PyYAML takes 1 ms for 1 KB, four times that for two

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Run, None]:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "reactor.yaml"

            async def run(data: bytes) -> str:
                path.write_bytes(data)
                try:
                    manifest = load_manifest(path.parent, ["a.b=1"])
                except ManifestError as error:
                    return error_of("several lines") if "\n" in str(error) else kind_of(str(error).replace(folder, ""))
                return f"manifest with {len(manifest.config)}"

            yield run


class Links(Target):
    """What viewers acknowledge, as extreme and in whatever order: window and quality stay within their bounds."""

    name, share = "link", 5
    _STEP = struct.Struct("<Bqd")

    def seeds(self) -> list[bytes]:
        pack, dice = self._STEP.pack, random.Random(1)
        steps = [(dice.randrange(4), number // 2, 0.033) for number in range(40)]
        return [
            b"".join(pack(*step) for step in steps),
            b"".join(pack(kind, number, 0.02) for number in range(30) for kind in (0, 1)),
            pack(0, 1, 1e300) + pack(1, 1, -1.0) + pack(0, 2**62, 0.0) + pack(1, 2**62, 1e-300),
        ]

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Run, None]:
        async def run(data: bytes) -> str:
            link, now, full = CongestionWindow(4e6, 30, expected=len(data) % 2 == 0), 0.0, 4e6
            for at in range(0, min(len(data), 4000) - self._STEP.size + 1, self._STEP.size):
                kind, number, seconds = self._STEP.unpack_from(data, at)
                now += min(max(seconds, 0.0), 1e6) if seconds == seconds else 0.0  # the clock is ours
                match kind % 4:
                    case 0:
                        link.sent(abs(number) % 2**40, abs(number) % 2**24, now)
                    case 1:
                        link.acknowledged(number, now)
                    case 2:
                        link.skipped(now)
                    case 3:
                        link.describe(full, 30, "h264", 1 + abs(number) % 4096, 1 + abs(number) % 2160, now)
                quality = link.quality
                assert 0 < quality.bitrate <= full, quality
                assert quality.divisor >= 1, quality
                assert 0 < quality.scale <= 1, quality
                assert link.round_trip >= 0
                assert link.in_flight <= 64
                link.open(now)
            return f"{link.quality.divisor} {link.quality.scale:.1f} {link.active} {link.in_flight > 2}"

        yield run


@cache
def _streams() -> dict[str, list[tuple[bytes, bool]]]:
    noise = np.random.default_rng(1).integers(0, 255, (48, 64, 3), np.uint8)
    found = {}
    for codec in ("h264", "vp8", "vp9"):
        encoder = PushEncoder(codec, 64, 48)
        found[codec] = [
            encoder.encode(np.roll(noise, 3 * number, axis=1), number / 30, number % 3 == 0) for number in range(6)
        ]
    return found


class Streams(Target):
    """Bitstreams of codecs between frames, on the server and in the client."""

    name, share = "stream", 2

    def seeds(self) -> list[bytes]:
        tags = {"h264": b"h", "vp8": b"8", "vp9": b"9"}
        return [tags[codec] + data for codec, stream in _streams().items() for data, _ in stream] + [
            b"1" + b"\x12\0\x0a\x0a\0\0\0\x02"
        ]

    @asynccontextmanager
    async def opened(self) -> AsyncGenerator[Run, None]:
        codecs = {b"h": "h264", b"8": "vp8", b"9": "vp9", b"1": "av1"}
        decoders = {codec: InputDecoder(TrackSpec("camera", "video", "in")) for codec in codecs.values()}

        async def run(data: bytes) -> str:
            codec, payload = codecs.get(data[:1], "h264"), memoryview(data[1:])
            try:
                if codec == "av1":
                    (picture, *_) = VideoDecoder("av1").decode(payload) or [PICTURE]
                    limit = 8192
                else:
                    decoder, meta = decoders[codec], {"codec": codec}
                    if not decoder.wants(meta, False):
                        for good, _ in _streams()[codec][:1]:
                            decoder.decode(meta, memoryview(good))
                    picture, limit = decoder.decode(meta, payload), 4096
            except (Undecodable, DecodeError) as error:
                return kind_of(str(error))
            assert picture.dtype == np.uint8
            assert max(picture.shape) <= limit
            return f"{codec}: a picture"

        yield run


CLIENT_TARGETS: list[Callable[[], Target]] = [Clients, Handshakes, Manifests, Links, Streams]
