"""A session's figures as the client measures them. Every time is an argument.

The latency from a command to its picture needs no clock of the server. A packet names the newest command with which its
frame was made, so the first packet that names a command, or a later one, is the first whose picture can show it.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from reactor_trio.protocol import Packet

#: Seconds over which the frame rate is counted.
WINDOW = 2.0
#: Samples in a distribution: the newest.
SAMPLES = 300
#: Times between arrivals in `TrackStatistics.recent`: the newest.
RECENT = 60
#: Most commands that wait for their first picture.
_WAITING = 1024
#: Most latency samples that wait for their frame to be decoded.
_TO_DECODE = 64


class Spread(msgspec.Struct, frozen=True):
    """A distribution of seconds; NaN without samples."""

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
        missing: frames that the server dropped: gaps in `seq` after the first frame received.
        bytes: bytes received, including packet heads.
        fps: frames per second over the last 2 s.
        interval: time between arrivals over the last 300 frames; its `std` is the jitter.
        dropped: frames lost here because a consumer of `frames()` was slower than the track.
        skipped: frames that `frames(latest=True)` skipped.
        recent: the newest times between arrivals, at most 60, in seconds, newest last.
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
    """How the time from a command to its picture divides, over the last 300 commands for which the server sent its timing.

    Attributes:
        wait: from the command's arrival at the model to the step that sees it.
        step: that step.
        queue: from the step's end to the start of the encoding.
        encode: encoding the frame.
        network: the rest of the time between sending the command and receiving its frame.
        decode: from then until the frame was decoded and taken, including its time in the client's queue.
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
        command_to_picture: seconds from sending a command to receiving the first frame made with it.
        messages_dropped: model messages lost here because the program did not take them.
        latency: how the time from a command to its picture divides; None if the server sends no timing.
        comebacks: how often the session continued over another connection after its link was lost.
        seconds_lost: how many seconds it has been without a link.
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
    """Return the distribution of `samples`."""
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
        self._newest_at: float | None = None
        self._arrivals: deque[float] = deque()
        self._intervals: deque[float] = deque(maxlen=SAMPLES)

    def add(self, packet: Packet, size: int, now: float) -> None:
        """Count a packet of `size` bytes."""
        if self._expected is None:
            self._first_at = now
        else:
            # A number that does not grow is a server's mistake, not a gap.
            self._missing += max(0, packet.seq - self._expected)
            if self._newest_at is not None:
                self._intervals.append(now - self._newest_at)
        self._expected = packet.seq + 1
        self._newest_at = now
        self._frames += 1
        self._bytes += size
        self._arrivals.append(now)
        self._forget(now)

    def rest(self) -> None:
        """Do not count the time until the next packet: the session is paused."""
        self._newest_at = None

    def statistics(self, now: float, dropped: int = 0, skipped: int = 0) -> TrackStatistics:
        """Return the figures at `now`, with the losses of the client's own queues."""
        self._forget(now)
        watched = min(WINDOW, now - self._first_at) if self._frames else 0.0
        # The first frame of the window ends the interval before it.
        counted = len(self._arrivals) - (self._first_at > now - WINDOW)
        fps = counted / watched if watched > 0 else 0.0
        interval, recent = spread(self._intervals), tuple(self._intervals)[-RECENT:]
        return TrackStatistics(self._frames, self._missing, self._bytes, fps, interval, dropped, skipped, recent)

    def _forget(self, now: float) -> None:
        while self._arrivals and self._arrivals[0] <= now - WINDOW:
            self._arrivals.popleft()


class CommandMeter:
    """Measures the time from sending a command to its ack, and to the first picture made with it.

    Args:
        to_ack, to_picture: called with each time, in seconds.
    """

    def __init__(self, to_ack: Callable[[float], None], to_picture: Callable[[float], None]) -> None:
        self._to_ack = to_ack
        self._to_picture = to_picture
        self._unanswered: dict[int, float] = {}
        self._unseen: dict[int, float] = {}

    def sent(self, id: int, now: float, *, shows: bool = True) -> None:  # noqa: A002 - the wire's word
        """Start measuring command `id`. `shows`: whether a picture made with it will come by itself, without a resume."""
        self._unanswered[id] = now
        if shows:
            self._unseen[id] = now
        if len(self._unseen) > _WAITING:
            # No pictures arrive, as in a session without video.
            del self._unseen[next(iter(self._unseen))]

    def forget(self, id: int) -> None:  # noqa: A002 - the wire's word
        """Stop measuring command `id`."""
        self._unanswered.pop(id, None)
        self._unseen.pop(id, None)

    def rest(self) -> None:
        """Measure no picture of the commands until now: the session is paused, and their pictures come when it goes on."""
        self._unseen.clear()

    def answered(self, id: int, now: float, applied: bool) -> bool:  # noqa: A002 - the wire's word
        """Measure the answer of command `id`; a refused command shows in no picture. Returns whether `id` was measured."""
        sent_at = self._unanswered.pop(id, None)
        if not applied:
            self._unseen.pop(id, None)
        elif sent_at is not None:
            self._to_ack(now - sent_at)
        return sent_at is not None

    def pictured(self, newest: int, now: float) -> float | None:
        """Measure the arrival of a frame made with the commands up to `newest`.

        If it is the first frame with command `newest`, return when that command was sent.
        """
        sent_at = None
        while self._unseen and (id_ := next(iter(self._unseen))) <= newest:
            sent_at = self._unseen.pop(id_)
            self._to_picture(now - sent_at)
            if id_ != newest:
                sent_at = None
        return sent_at


class LatencyMeter:
    """Divides the time from a command to its picture by the server's `meta.timing`."""

    def __init__(self) -> None:
        self._arrived: deque[tuple[int, int, tuple[float, float, float, float], float, float]] = deque(maxlen=_TO_DECODE)
        self._samples: deque[tuple[float, ...]] = deque(maxlen=SAMPLES)

    def arrived(self, track: int, seq: int, timing: object, sent_at: float, now: float) -> None:
        """Start a sample for the first frame made with a command. Ignored if `timing` is not four times."""
        if not isinstance(timing, list) or len(timing) != 4 or not all(type(part) is int and part >= 0 for part in timing):
            return
        wait, step, queue, encode = (part / 1e6 for part in timing)
        self._arrived.append((track, seq, (wait, step, queue, encode), sent_at, now))

    def taken(self, track: int, seq: int, now: float) -> None:
        """Complete the samples up to frame `seq`, which the consumer took: a later frame stands in for a dropped one."""
        for sample in [sample for sample in self._arrived if sample[0] == track and sample[1] <= seq]:
            self._arrived.remove(sample)
            _, _, shares, sent_at, arrived_at = sample
            network = max(0.0, arrived_at - sent_at - sum(shares))
            self._samples.append((*shares, network, now - arrived_at, now - sent_at))

    def statistics(self) -> Latency | None:
        """Return the distributions; None without samples."""
        return Latency(*map(spread, zip(*self._samples, strict=True))) if self._samples else None
