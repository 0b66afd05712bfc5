"""A discrete simulation of one viewer's path: sender, shaped link, decoder, and acknowledgements on the way back.

    source -> divisor -> newest-only slot -> window -> encoder -> buffer -> token bucket -> propagation -> decoder -> ack

The buffer stands for all that lies between the server's write and the bottleneck: while it is full the sender's write
blocks, as a socket's does. All randomness comes from the seed.
"""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from reactor_trio.pacing import CongestionWindow, Quality

PACKET = 1500  # bytes
LINE = 1e9  # bits per second inside a burst


@dataclass
class Path:
    """`rates`: (from when, bits per second), of which 0 is a stall. Bytes and seconds."""

    rates: list[tuple[float, float]]
    burst: int = 8 * 1024
    buffer: int = 64 * 1024
    delay: float = 0.0  # each way
    decode: tuple[float, float] = (0.002, 0.008)


@dataclass
class Source:
    fps: float = 30.0
    codec: str = "h264"
    width: int = 640
    height: int = 480
    full: float = 2_000_000.0
    spread: float = 0.3
    keyframe: float = 6.0  # times a frame
    share: float = 1.0  # of the bitrate asked for that the encoder makes
    encode: float = 0.004  # seconds


@dataclass
class Frame:
    seq: int
    pts: float
    bits: float
    keyframe: bool
    arrived: float = math.nan


@dataclass
class Outcome:
    frames: list[Frame] = field(default_factory=list)
    offered: list[float] = field(default_factory=list)
    #: (when, quality) at each change
    qualities: list[tuple[float, Quality]] = field(default_factory=list)
    most_in_flight: int = 0
    most_buffered: float = 0.0

    def ages(self, start: float, end: float = math.inf) -> list[float]:
        return sorted(f.arrived - f.pts for f in self.frames if start <= f.pts < end and not math.isnan(f.arrived))

    def age(self, share: float, start: float, end: float = math.inf) -> float:
        ages = self.ages(start, end)
        return ages[min(len(ages) - 1, int(share * len(ages)))]

    def sizes(self, start: float, end: float = math.inf) -> int:
        """The number of size changes."""
        return self._changes(lambda quality: quality.scale, start, end)

    def shapes(self, start: float, end: float = math.inf) -> int:
        """The number of changes of size or divisor."""
        return self._changes(lambda quality: (quality.scale, quality.divisor), start, end)

    def _changes(self, of: Callable[[Quality], object], start: float, end: float) -> int:
        pairs = itertools.pairwise(self.qualities)
        return sum(of(a) != of(b) for (_, a), (at, b) in pairs if start <= at < end)

    def full_since(self) -> float:
        """The time from which full quality lasts to the end."""
        full = self.qualities[0][1]
        below = [i for i, (_, quality) in enumerate(self.qualities) if quality != full]
        if not below:
            return 0.0
        return self.qualities[below[-1] + 1][0] if below[-1] + 1 < len(self.qualities) else math.inf

    def fps(self, start: float, end: float) -> float:
        return len([f for f in self.frames if start <= f.arrived < end]) / (end - start)

    def bitrate(self, start: float, end: float) -> float:
        return sum(f.bits for f in self.frames if start <= f.arrived < end) / (end - start)


class Shaper:
    """A token bucket in front of a line."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._tokens = 8.0 * path.burst
        self._at = 0.0

    def _rate(self, at: float) -> tuple[float, float]:
        """The rate at that time, and the time until which it applies."""
        rates = self._path.rates
        i = max(i for i, (since, _) in enumerate(rates) if since <= at)
        return rates[i][1], rates[i + 1][0] if i + 1 < len(rates) else math.inf

    def leaves(self, bits: float, now: float) -> float:
        """The time at which the packet at the head of the buffer has left. Call it in order."""
        at, tokens = self._at, self._tokens
        while at < now:
            rate, until = self._rate(at)
            until = min(until, now)
            at, tokens = until, min(8.0 * self._path.burst, tokens + rate * (until - at))
        rate, until = self._rate(at)
        while rate == 0 or tokens < bits - 1e-6:
            if rate == 0 and math.isinf(until):
                return math.inf
            until = min(until, at + (bits - tokens) / rate) if rate else until
            at, tokens = until, tokens + rate * (until - at)
            rate, until = self._rate(at)
        self._tokens, self._at = tokens - bits, at
        return at + bits / LINE


class Simulation:
    def __init__(self, path: Path, source: Source, seed: int = 0, *, expected: bool = True, acks: bool = True) -> None:
        self.path, self.source = path, source
        self.random = random.Random(seed)
        self.link = CongestionWindow(source.full, source.fps, expected=expected)
        self.link.describe(source.full, source.fps, source.codec, source.width, source.height)
        self.outcome = Outcome(qualities=[(0.0, self.link.quality)])
        self.acks = acks
        self.now = 0.0
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._order = itertools.count()
        self._slot: tuple[int, float] | None = None
        self._writing = False
        self._shaper = Shaper(path)
        self._buffer: deque[tuple[float, Frame | None]] = deque()  # bits, and the frame whose last packet it is
        self._buffered = 0.0
        self._outside: deque[tuple[float, Frame | None]] = deque()  # packets that the write has still to place
        self._leaving = False
        self._decoder_free = 0.0
        self._arrived_at = 0.0
        self._size: tuple[float, ...] | None = None
        self._jitter = self.random.uniform(0, 1 / source.fps)

    def at(self, when: float, what: Callable[[], None]) -> None:
        heapq.heappush(self._events, (when, next(self._order), what))

    def run(self, seconds: float) -> Outcome:
        self.at(self._jitter, lambda: self._offer(0))
        while self._events and self._events[0][0] <= seconds:
            self.now, _, what = heapq.heappop(self._events)
            what()
            if self.link.quality != self.outcome.qualities[-1][1]:
                self.outcome.qualities.append((self.now, self.link.quality))
        return self.outcome

    def _offer(self, seq: int) -> None:
        self.at(self._jitter + (seq + 1) / self.source.fps, lambda: self._offer(seq + 1))
        self.outcome.offered.append(self.now)
        if seq % self.link.quality.divisor:
            return
        if self._slot is not None:
            self.link.skipped(self.now)
        self._slot = (seq, self.now)
        self._try()

    def _try(self) -> None:
        if self._slot is None or self._writing:
            return
        if not self.link.open(self.now):
            reopens = self.link.reopens_at()
            if reopens > self.now:
                self.at(reopens, self._try)
            return
        (seq, pts), self._slot = self._slot, None
        self._writing = True
        self.at(self.now + self.source.encode, lambda: self._encoded(seq, pts))

    def _encoded(self, seq: int, pts: float) -> None:
        quality, source = self.link.quality, self.source
        size = (quality.scale,)
        keyframe = size != self._size
        self._size = size
        bits = source.share * quality.bitrate * quality.divisor / source.fps
        bits *= self.random.uniform(1 - source.spread, 1 + source.spread) * (source.keyframe if keyframe else 1)
        bits = max(bits, 800.0)
        frame = Frame(seq, pts, bits, keyframe)
        self.outcome.frames.append(frame)
        self.link.sent(seq, math.ceil(bits / 8), self.now)
        self.outcome.most_in_flight = max(self.outcome.most_in_flight, self.link.in_flight)
        while bits > 8 * PACKET:
            self._outside.append((8.0 * PACKET, None))
            bits -= 8 * PACKET
        self._outside.append((bits, frame))
        self._place()

    def _place(self) -> None:
        while self._outside and self._buffered + self._outside[0][0] <= 8 * self.path.buffer:
            packet = self._outside.popleft()
            self._buffer.append(packet)
            self._buffered += packet[0]
        self.outcome.most_buffered = max(self.outcome.most_buffered, self._buffered)
        self._serve()
        if self._writing and not self._outside:
            self._writing = False
            self._try()

    def _serve(self) -> None:
        if self._leaving or not self._buffer:
            return
        self._leaving = True
        bits, frame = self._buffer[0]
        self.at(self._shaper.leaves(bits, self.now), lambda: self._left(bits, frame))

    def _left(self, bits: float, frame: Frame | None) -> None:
        self._leaving = False
        self._buffer.popleft()
        self._buffered -= bits
        if frame is not None:
            self.at(self.now + self.path.delay, lambda: self._arrive(frame))
        self._place()

    def _arrive(self, frame: Frame) -> None:
        frame.arrived = self.now
        begins = max(self.now, self._decoder_free)
        self._decoder_free = begins + self.random.uniform(*self.path.decode)
        if self.acks:
            self.at(self._decoder_free + self.path.delay, lambda: self._acknowledge(frame.seq))

    def _acknowledge(self, seq: int) -> None:
        self.link.acknowledged(seq, self.now)
        self._try()
