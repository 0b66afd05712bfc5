"""What the client measures of a session, all from times that its caller passes in.

Latency to the picture needs no clock of the server: a packet names the newest command that its frame was made with, so
the first packet that names a command, or a later one, is the first whose picture can show it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

import msgspec
import numpy as np

from reactor_trio.protocol import Packet

#: Seconds over which the frame rate is counted.
WINDOW = 2.0
#: How many newest samples a distribution is made of.
SAMPLES = 300
#: How many newest times between arrivals are given one by one.
RECENT = 60
_WAITING = 1024
#: frames whose decoding is waited for
_TO_DECODE = 64


class Spread(msgspec.Struct, frozen=True):
    """A distribution in seconds; NaN where there is no sample yet."""

    count: int
    std: float
    p50: float
    p95: float

    def __str__(self) -> str:
        return f"{_ms(self.p50)}, p95 {_ms(self.p95)}"


class TrackStatistics(msgspec.Struct, frozen=True):
    """One track since the session began, as it arrived here.

    Attributes:
        frames: frames received.
        missing: frames that the server dropped, seen as gaps in `seq` after the first frame received.
        bytes: bytes received, heads included.
        fps: frames per second over the last 2 s.
        interval: time between arrivals over the last 300 frames; its `std` is the jitter.
        dropped: frames lost here because a consumer of `frames()` was slower than the track.
        skipped: frames passed over by `frames(latest=True)`.
        recent: the newest of those times between arrivals, at most 60, in seconds, the newest last.
    """

    frames: int
    missing: int
    bytes: int
    fps: float
    interval: Spread
    dropped: int = 0
    skipped: int = 0
    recent: tuple[float, ...] = ()

    def __str__(self) -> str:
        return (
            f"{self.fps:.1f} fps, jitter {_ms(self.interval.std)}, p95 {_ms(self.interval.p95)}, "
            f"{self.missing} missing, {self.dropped} dropped"
        )


class Latency(msgspec.Struct, frozen=True):
    """Where the time from a command to its picture went, over the last 300 commands whose frames say it.

    Attributes:
        wait: from the command's arrival at the model to the step that saw it.
        step: that step.
        queue: from its end to the frame's turn to be encoded.
        encode: encoding it.
        network: what is left between sending the command and the arrival of its frame.
        decode: from that until the frame was decoded and taken, its time in the client's own queue included.
        total: from sending the command until then.
    """

    wait: Spread
    step: Spread
    queue: Spread
    encode: Spread
    network: Spread
    decode: Spread
    total: Spread

    def __str__(self) -> str:
        shares = ((name, getattr(self, name)) for name in self.__struct_fields__)
        return "p50/p95 " + ", ".join(f"{name} {_ms(share.p50)[:-3]}/{_ms(share.p95)}" for name, share in shares)


class Statistics(msgspec.Struct, frozen=True):
    """One session as this client saw it.

    Attributes:
        tracks: by track name.
        command_to_ack: seconds from sending a command to its ack, over the last 300.
        command_to_picture: seconds from sending a command to the arrival of the first frame made with it.
        messages_dropped: model messages lost here because nobody took them.
        latency: the way from a command to its picture in the program's hands, split; None without a server that says it.
        comebacks: how often the session went on over another connection after its link was lost.
        seconds_lost: how long it was without a link, until now.
    """

    tracks: dict[str, TrackStatistics]
    command_to_ack: Spread
    command_to_picture: Spread
    messages_dropped: int = 0
    latency: Latency | None = None
    comebacks: int = 0
    seconds_lost: float = 0.0

    def __str__(self) -> str:
        """One line: the tracks, then the commands."""
        parts = [f"{name}: {track}" for name, track in self.tracks.items()]
        parts += [f"ack {self.command_to_ack}"] if self.command_to_ack.count else []
        parts += [f"picture {self.command_to_picture}"] if self.command_to_picture.count else []
        parts += [str(self.latency)] if self.latency is not None else []
        return " | ".join(parts) or "no figures yet"


def _ms(seconds: float) -> str:
    return "-" if math.isnan(seconds) else f"{seconds * 1000:.1f} ms"


def spread(samples: Sequence[float]) -> Spread:
    """The distribution of `samples`."""
    if not samples:
        return Spread(0, math.nan, math.nan, math.nan)
    p50, p95 = np.percentile(samples, (50, 95))
    return Spread(len(samples), float(np.std(samples)), float(p50), float(p95))


class TrackMeter:
    """Counts one track's packets."""

    def __init__(self) -> None:
        self._frames = 0
        self._missing = 0
        self._bytes = 0
        self._expected: int | None = None
        self._first_at = 0.0
        self._newest_at = 0.0
        self._arrivals: deque[float] = deque()
        self._intervals: deque[float] = deque(maxlen=SAMPLES)

    def add(self, packet: Packet, size: int, now: float) -> None:
        """A packet of `size` bytes arrived."""
        if self._expected is None:
            self._first_at = now
        else:
            # A number that does not grow is a fault of the server, not a gap.
            self._missing += max(0, packet.seq - self._expected)
            self._intervals.append(now - self._newest_at)
        self._expected = packet.seq + 1
        self._newest_at = now
        self._frames += 1
        self._bytes += size
        self._arrivals.append(now)
        self._forget(now)

    def statistics(self, now: float, dropped: int = 0, skipped: int = 0) -> TrackStatistics:
        """The figures at `now`, with what the client's own queues lost."""
        self._forget(now)
        watched = min(WINDOW, now - self._first_at) if self._frames else 0.0
        # The frame that opens the window belongs to the interval before it.
        counted = len(self._arrivals) - (self._first_at > now - WINDOW)
        return TrackStatistics(
            self._frames,
            self._missing,
            self._bytes,
            counted / watched if watched > 0 else 0.0,
            spread(self._intervals),
            dropped,
            skipped,
            tuple(islice(self._intervals, max(0, len(self._intervals) - RECENT), None)),
        )

    def _forget(self, now: float) -> None:
        while self._arrivals and self._arrivals[0] <= now - WINDOW:
            self._arrivals.popleft()


class CommandMeter:
    """Measures commands from sending to ack and to the first picture made with them."""

    def __init__(self) -> None:
        self._unanswered: dict[int, float] = {}
        self._unseen: dict[int, float] = {}
        self.to_ack: deque[float] = deque(maxlen=SAMPLES)
        self.to_picture: deque[float] = deque(maxlen=SAMPLES)

    def sent(self, id: int, now: float) -> None:  # noqa: A002 - the wire's word
        """Command `id` is on its way."""
        self._unanswered[id] = now
        self._unseen[id] = now
        if len(self._unseen) > _WAITING:
            # No pictures arrive, as in a session for control only.
            del self._unseen[next(iter(self._unseen))]

    def forget(self, id: int) -> None:  # noqa: A002 - the wire's word
        """Leave command `id` out."""
        self._unanswered.pop(id, None)
        self._unseen.pop(id, None)

    def answered(self, id: int, now: float, applied: bool) -> None:  # noqa: A002 - the wire's word
        """Command `id` was answered; a refused one shows in no picture."""
        sent_at = self._unanswered.pop(id, None)
        if not applied:
            self._unseen.pop(id, None)
        elif sent_at is not None:
            self.to_ack.append(now - sent_at)

    def pictured(self, newest: int, now: float) -> float | None:
        """A frame arrived that was made with the commands up to `newest`: when that one was sent, if it is the first."""
        sent_at = None
        while self._unseen and (id_ := next(iter(self._unseen))) <= newest:
            sent_at = self._unseen.pop(id_)
            self.to_picture.append(now - sent_at)
            if id_ != newest:
                sent_at = None
        return sent_at


class _Shares(NamedTuple):
    """One command's seconds."""

    wait: float
    step: float
    queue: float
    encode: float
    network: float
    decode: float
    total: float


class LatencyMeter:
    """Splits the time from a command to its picture by what the server says in `meta.timing`."""

    def __init__(self) -> None:
        self._arrived: deque[tuple[int, int, tuple[float, float, float, float], float, float]] = deque(maxlen=_TO_DECODE)
        self._samples: deque[_Shares] = deque(maxlen=SAMPLES)

    def arrived(self, track: int, seq: int, timing: object, sent_at: float, now: float) -> None:
        """The first frame made with a command arrived; nothing is counted if `timing` is not four times."""
        if not isinstance(timing, list) or len(timing) != 4 or not all(type(part) is int and part >= 0 for part in timing):
            return
        wait, step, queue, encode = (part / 1e6 for part in timing)
        self._arrived.append((track, seq, (wait, step, queue, encode), sent_at, now))

    def given(self, track: int, seq: int, now: float) -> None:
        """Frame `seq` was taken, decoded; a command whose first frame was dropped shows in it too."""
        for sample in [sample for sample in self._arrived if sample[0] == track and sample[1] <= seq]:
            self._arrived.remove(sample)
            _, _, shares, sent_at, arrived_at = sample
            network = max(0.0, arrived_at - sent_at - sum(shares))
            self._samples.append(_Shares(*shares, network, now - arrived_at, now - sent_at))

    def statistics(self) -> Latency | None:
        """The distributions; None if there is no sample."""
        if not self._samples:
            return None
        return Latency(*(spread(shares) for shares in zip(*self._samples, strict=True)))
