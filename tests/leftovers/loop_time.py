"""What one message costs: each decoder with input that was made to be dear, at growing sizes.

Two measures. `calls` counts calls of Python and of C functions, exactly, so a test may assert on it: they grow no faster
than the input. Work inside one call (a path that is written anew for each value, a search that begins again, a picture with
60 000 scans) shows only in `seconds`. The soak tests look at their growth, and at how many times as long as plainly decoding
a valid input of that size it takes.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from types import FrameType
from typing import Any

import msgspec
import numpy as np
import simplejpeg
import trio
import trio.testing

from tests.fuzz.fuzz_client import BETWEEN, WELCOME, Clients, Handshakes, Links, Streams
from tests.fuzz.fuzz_server import GET, OPENING, Frames, Heads, Http, Packets, Queries, Texts, Uploads, WaitingTexts, frame
from tests.fuzz.fuzz_tickets import JsonWebTokens
from tests.fuzz.fuzzing import Run, Target, seconds_of
from tests.support.many_scans import jpeg_of_scans

KIB = 1024
#: growth of the calls over that of the input
MOST_GROWTH = 1.1
#: growth of the seconds while the input grows fourfold. A table that leaves the processor's caches grows by 6 to 9, also if
#: it is plainly decoded; what looks at all for each grows by 12 to 26.
MOST_FOURFOLD = 10.0
#: seconds as a multiple of those of plainly decoding a valid input
MOST_TIMES = 40.0

Make = Callable[[int], bytes]


@dataclass(frozen=True)
class Cell:
    """One decoder with one kind of input; `make` gives about so many bytes of it."""

    target: Callable[[], Target]
    shape: str
    make: Make
    #: from the smallest, each twice the one before
    sizes: tuple[int, ...]
    #: what plainly decodes a valid input that is as long; None if the input is many messages, or nothing compares with it
    plain: Callable[[bytes], Callable[[], object]] | None

    def __str__(self) -> str:
        return f"{self.target().name}-{self.shape}"


# ---- texts ------------------------------------------------------------------------------------------------------------


def _many(one: str, begin: str = "[", end: str = "0]") -> Callable[[int], str]:
    return lambda size: begin + one * (size // len(one)) + end


def _numbered(one: str, between: str, begin: str, end: str) -> Callable[[int], str]:
    def make(size: int) -> str:
        parts, left = [], size
        while left > 0:
            parts.append(one % len(parts))
            left -= len(parts[-1]) + len(between)
        return begin + between.join(parts) + end

    return make


def _long_key(value: str) -> Callable[[int], str]:
    """Half of it is a key, four bytes a character in memory; the rest lists, and at last what JSON does not have."""
    return lambda size: '{"\U0001f600' + "k" * (size // 2) + '":[' + "[]," * (size // 6) + value + "]}"


#: JSON values that are dear, of about so many characters
VALUES: dict[str, Callable[[int], str]] = {
    "lists": _many("[],"),
    "lists of depth": _many("[" * 30 + "]" * 30 + ","),
    "numbers": _many("1.0,"),
    "deep": lambda size: "[" * size,
    "deep objects": lambda size: '{"a":' * (size // 5),
    "keys": _numbered('"%d":[]', ",", "{", "}"),
    "equal keys": _many('"a":1,', "{", '"a":1}'),
    "long key, lists": _long_key("0"),
    "long key, lists, NaN": _long_key("NaN"),
    "lists, NaN": _many("[],", end="NaN]"),
    "keys, NaN": _numbered('"%d":[1]', ",", "{", ',"z":NaN}'),
    "digits": lambda size: "9" * size,
    "digits, NaN": lambda size: "[" + ("9" * 4000 + ",") * (size // 4001) + "NaN]",
    "fraction": lambda size: "0." + "7" * size,
    "exponent": lambda size: "1e-" + "9" * size,
    "long floats": _many("0.1234567890123456789012345678901e-300,"),
    "text": lambda size: '"' + "x" * size + '"',
    "wide text": lambda size: '"' + "\U0001f600" * (size // 4) + '"',
    "escapes": lambda size: '"' + "\\n" * (size // 2) + '"',
    "surrogates": lambda size: '"' + "\\ud83d\\ude00" * (size // 12) + '"',
    "lone surrogates": lambda size: '{"' + "\\ud800" * (size // 6) + '":NaN}',
    "spaces": lambda size: " " * size + "1",
}
#: those that are tried with every type of message, not only with the one that takes any value
DEAREST = ("long key, lists, NaN", "lists", "numbers", "keys", "text", "digits")


def _error_like(size: int) -> str:
    """A key that looks like the text about it."""
    return '{"' + "` - at `" * (size // 8) + '\\n":1}'


#: types of messages of a client, and the argument that takes the value; None: the value is all of the data
TYPES: dict[str, str | None] = {
    "set_anything": "anything", "set_x": "x", "set_prompt": "prompt", "set_words": "words", "set_zoom": "zoom",
    "set_mode": "mode", "set_mood": "mood", "set_table": "table", "set_image": "image", "mark": "what", "set_x ": None,
    "unknown": None, "reactor.feedback": "seq", "reactor.keyframe": "track", "reactor.video": "video",
    "reactor.video ": "tracks", "reactor.unknown": None,
}  # fmt: skip


def _client_text(type_: str, argument: str | None, value: Callable[[int], str], size: int) -> bytes:
    data = value(size) if argument is None else f'{{"{argument}":{value(size)}}}'
    return f'{{"type":"{type_.strip()}","id":7,"data":{data}}}'.encode()


def _around(begin: str, value: Callable[[int], str], end: str, size: int) -> bytes:
    return (begin + value(size) + end).encode()


def plain_text(data: bytes) -> Callable[[], object]:
    """Decode `data` as JSON; where that is refused at once, as many bytes of numbers instead."""
    valid = b"[" + b"0," * (len(data) // 2) + b"0]"

    def decode() -> None:
        try:
            msgspec.json.decode(data)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            msgspec.json.decode(valid)

    return decode


def texts() -> Iterator[Cell]:
    """Texts to the server and to the gate, and texts to the client."""
    sizes = tuple(KIB * n for n in (32, 64, 128, 256))

    def cell(target: Callable[[], Target], shape: str, make: Make) -> Cell:
        return Cell(target, shape, make, sizes, plain_text)

    for shape, value in VALUES.items():
        yield cell(Texts, f"any {shape}", partial(_client_text, "set_anything", "anything", value))
        yield cell(WaitingTexts, shape, partial(_client_text, "set_x", None, value))
        yield cell(Texts, f"type {shape}", partial(_around, '{"type":', value, ',"id":7}'))
    for type_, argument in TYPES.items():
        for shape in DEAREST:
            yield cell(Texts, f"{type_} {shape}", partial(_client_text, type_, argument, VALUES[shape]))
        yield cell(Texts, f"{type_} error-like", partial(_client_text, type_, argument, _error_like))
    for key in ("id", "traceparent", "none of ours"):
        yield cell(Texts, f"{key} digits", partial(_around, f'{{"type":"mark","{key}":', VALUES["digits"], "}"))
    welcome = "T" + json.dumps(WELCOME) + BETWEEN.decode("latin-1") + "T"
    for type_ in ("reactor.ack", "reactor.error", "reactor.state", "reactor.track", "reactor.bye", "theirs"):
        for shape in DEAREST:
            begin, make = f'{{"type":"{type_}","n":2,"id":1,"data":', VALUES[shape]
            yield cell(Clients, f"{type_} {shape}", partial(_to_client, welcome, begin, make))


def _to_client(welcome: str, begin: str, value: Callable[[int], str], size: int) -> bytes:
    return welcome.encode("latin-1") + _around(begin, value, "}", size)


# ---- packets and files ------------------------------------------------------------------------------------------------


def _packet(codec: str, payload: bytes, **meta: object) -> bytes:
    return msgspec.msgpack.encode([1, 0, 0, 1, None, 0, {"codec": codec, **meta}, payload])


def _noise(size: int) -> bytes:
    """A JPEG of noise: about one byte a pixel."""
    side = max(8, round(size**0.5))
    picture = np.random.default_rng(1).integers(0, 255, (side, side, 3), np.uint8)
    return bytes(simplejpeg.encode_jpeg(picture, quality=80, colorspace="RGB"))


@cache
def _noise_of(size: int) -> bytes:
    return _noise(size)


def plain_jpeg(data: bytes) -> Callable[[], object]:
    """Decode a JPEG of noise of as many bytes."""
    return partial(simplejpeg.decode_jpeg, _noise_of(len(data)), colorspace="RGB")


def _scans(size: int) -> bytes:
    one = len(jpeg_of_scans(2, 1024)) - len(jpeg_of_scans(1, 1024))
    return jpeg_of_scans(max(2, size // one), 1024)


JPEGS: dict[str, Make] = {
    "noise": _noise,
    "scans": _scans,
    "segments": lambda size: _noise(4096)[:2] + b"\xff\xfe\x00\x02" * (size // 4) + _noise(4096)[2:],
    "fill bytes": lambda size: _noise(4096)[:2] + b"\xff" * size + _noise(4096)[2:],
    "restarts": lambda size: _noise(4096)[:-2] + b"\xff\xd0" * (size // 2) + b"\xff\xd9",
    "behind its end": lambda size: _noise(4096) + b"\xff\xda" * (size // 2),
    "zeros": bytes,
}


def packets() -> Iterator[Cell]:
    """Binary messages to the server and to the client."""
    sizes = tuple(KIB * n for n in (256, 512, 1024, 2048, 4092))
    for shape, make in JPEGS.items():
        yield Cell(Packets, f"jpeg {shape}", lambda size, make=make: _packet("jpeg", make(size)), sizes, plain_jpeg)
    metas: dict[str, Make] = {
        "many keys": lambda size: _packet("jpeg", b"", **{f"{n:07x}": n for n in range(size // 12)}),
        "long key": lambda size: _packet("jpeg", b"", **{"k" * size: 1}),
        "lists": lambda size: _packet("jpeg", b"", x=[[]] * size),
        "texts": lambda size: _packet("jpeg", b"", x=["abc"] * (size // 4)),
        "long codec": lambda size: _packet("j" * size, b""),
        "a size of texts": lambda size: _packet("raw", b"", width="9" * size, height=1),
        "a picture": lambda size: _packet("raw", bytes(1024 * (size // 3072) * 3), width=1024, height=size // 3072),
    }
    for shape, make in metas.items():
        yield Cell(Packets, shape, make, sizes, plain_msgpack)


def plain_msgpack(data: bytes) -> Callable[[], object]:
    """Decode a list of as many small numbers."""
    valid = msgspec.msgpack.encode([0] * (len(data) - 5))
    return partial(msgspec.msgpack.decode, valid)


# ---- what comes before and around messages ----------------------------------------------------------------------------


def edges() -> Iterator[Cell]:
    """HTTP, queries, tickets, uploads and WebSocket frames, within the sizes that the server reads of them."""
    small = tuple(KIB * n for n in (2, 4, 8, 15))
    #: fewer than the 1 024 frames that come at once: the model runs on while others wait for their rate
    at_once = tuple(KIB * n for n in (1, 2, 4, 7))
    shapes: dict[tuple[Callable[[], Target], str], Make] = {
        (Heads, "many headers"): lambda n: (GET % b"/")[:-2] + b"a:b\r\n" * (n // 5) + b"\r\n",
        (Heads, "long header"): lambda n: (GET % b"/")[:-2] + b"x: " + b"y" * n + b"\r\n\r\n",
        (Heads, "commas"): lambda n: (OPENING % b"raw")[:-2] + b"Connection: " + b"a," * (n // 2) + b"\r\n\r\n",
        (Heads, "long path"): lambda n: GET % (b"/" + b"a/" * (n // 2)),
        (Heads, "page path"): lambda n: GET % (b"/page/" + b"0123456789abcdef/" * (n // 17)),
        (Heads, "percent"): lambda n: GET % (b"/?a=" + b"%41" * (n // 3)),
        (Heads, "fields"): lambda n: GET % (b"/?" + b"a=1&" * (n // 4)),
        (Heads, "origin"): lambda n: (OPENING % b"raw")[:-2] + b"Origin: http://" + b"[" * n + b"\r\n\r\n",
        (Heads, "hops"): lambda n: (OPENING % b"raw")[:-2] + b"X-Forwarded-For: " + b"1.2.3.4," * (n // 8) + b"\r\n\r\n",
        (Heads, "codecs"): lambda n: OPENING % (b"raw," * (n // 4)),
        (Heads, "token"): lambda n: OPENING % (b"raw&token=" + b"a.b" * (n // 3)),
        (Queries, "codecs"): lambda n: b"video=" + b"h264," * (n // 5),
        (Queries, "unknown codec"): lambda n: b"video=" + b"q" * n,
        (Queries, "unknown tracks"): lambda n: b"".join(b"video.%d=raw&" % i for i in range(n // 14)),
        (Queries, "digits"): lambda n: b"after=" + b"9" * n,
        (JsonWebTokens, "dots"): lambda n: b"eyJhbGciOiJIUzI1NiJ9" + b"." * n,
        (JsonWebTokens, "long"): lambda n: b"eyJhbGciOiJIUzI1NiJ9." + b"eyJh" * (n // 4) + b".AAAA",
        (JsonWebTokens, "long head"): lambda n: b"W1tb" * (n // 4) + b".AAAA.AAAA",
        (JsonWebTokens, "deep"): lambda n: b"signed " + b'{"exp":' * (n // 7),
        (Http, "requests"): lambda n: (GET % b"/health") * (n // len(GET % b"/health")),
        (Uploads, "small chunks"): lambda n: _chunked(b"1\r\nx\r\n" * (n // 6)),
        (Frames, "fragments"): lambda n: _fragments(n // 7, b"1"),
        (Frames, "empty fragments"): lambda n: _fragments(n // 6, b""),
        (Frames, "pings"): lambda n: OPENING % b"none" + frame(9, b"") * (n // 6),
        (Frames, "small texts"): lambda n: OPENING % b"none" + frame(1, b"1") * (n // 7),
        (Frames, "small packets"): lambda n: OPENING % b"none" + frame(2, b"1") * (n // 7),
        (Handshakes, "many headers"): lambda n: b"HTTP/1.1 101 Go\r\n" + b"a:b\r\n" * (n // 5) + b"\r\n",
        (Handshakes, "refusal"): lambda n: b"HTTP/1.1 503 No\r\nContent-Length: %d\r\n\r\n" % n + b"x" * n,
    }  # fmt: skip
    for (target, shape), make in shapes.items():
        yield Cell(target, shape, make, at_once if target is Frames else small, None)
    middle = tuple(KIB * n for n in (32, 64, 128, 256))
    for tag, codec in ((b"h", "h264"), (b"8", "vp8"), (b"9", "vp9")):
        units = {"start codes": b"\0\0\1", "units": b"\0\0\1\x09\xf0", "zeros": b"\0", "ones": b"\xff"}
        for shape, unit in units.items():
            make = partial(_repeated, tag, unit)
            yield Cell(Streams, f"{codec} {shape}", make, middle, plain_text)
    yield Cell(Links, "acknowledgements", lambda n: Links._STEP.pack(1, 5, 0.01) * (n // 17), (1000, 2000, 4000), plain_text)


def _repeated(tag: bytes, unit: bytes, size: int) -> bytes:
    return tag + unit * (size // len(unit))


def _chunked(body: bytes) -> bytes:
    head = b"POST /uploads?name=a&token=TOKEN HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    return head + body + b"0\r\n\r\n"


def _fragments(count: int, each: bytes) -> bytes:
    return OPENING % b"none" + frame(1, b"[", fin=False) + frame(0, each, fin=False) * count + frame(0, b"]")


# ---- measuring --------------------------------------------------------------------------------------------------------


def cells() -> list[Cell]:
    """All cells."""
    return [*texts(), *packets(), *edges()]


@contextmanager
def _counted() -> Iterator[list[int]]:
    found = [0]

    def count(_frame: FrameType, event: str, _argument: Any) -> None:
        if event in ("call", "c_call"):
            found[0] += 1

    collects = gc.isenabled()
    gc.disable()  # what a collection calls is not this input's
    sys.setprofile(count)
    try:
        yield found
    finally:
        sys.setprofile(None)
        if collects:
            gc.enable()


def _in_target(target: Target, work: Callable[[Run], Awaitable[Any]]) -> Any:
    async def opened() -> Any:
        async with target.opened() as run:
            return await work(run)

    disabled = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        return trio.run(opened, clock=trio.testing.MockClock(autojump_threshold=0))
    finally:
        logging.disable(disabled)


def calls(target: Target, inputs: list[bytes]) -> list[int]:
    """Calls of Python and C functions that each input leads to. The first one runs twice, so that nothing is imported."""

    async def work(run: Run) -> list[int]:
        found = []
        await run(inputs[0])
        for data in inputs:
            with _counted() as counted:
                await run(data)
            found.append(counted[0])
        return found

    return list(_in_target(target, work))


def seconds(target: Target, inputs: list[bytes], repeats: int = 5) -> list[float]:
    """CPU seconds that each input takes: the least of some runs, with the collector off."""

    async def work(run: Run) -> list[float]:
        found = []
        await run(inputs[0])
        for data in inputs:
            least = float("inf")
            for _ in range(repeats):
                least = min(least, await seconds_of(run, data))
                if least > 1:  # it has shown what it is
                    break
            found.append(least)
        return found

    return list(_in_target(target, work))


def plainly(decode: Callable[[], object], repeats: int = 5) -> float:
    """CPU seconds that `decode` takes."""
    least = float("inf")
    for _ in range(repeats):
        began = time.thread_time()
        decode()
        least = min(least, time.thread_time() - began)
    return least
