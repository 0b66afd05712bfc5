"""How much may be under way to one viewer, and what quality its link carries.

The server writes into a socket; between it and the viewer lie buffers that hold seconds of video: the kernel's, proxies',
routers'. Nothing that the server can see tells how full they are, except what the viewer says: `reactor.feedback` names the
newest frame that it has decoded. So the *window* alone bounds latency: no more is under way than one round trip and one
frame. What cannot go yet is replaced by what is newer before it is encoded.

* In frames: the round trip in intervals, rounded up, and one. It opens by one for each acknowledgement that came in time,
  since the first ones of a slow link carry a keyframe's transmission in what looks like its round trip.
* In bits, once the link's limit is known: what the link carries in a round trip and an interval, and one frame. A
  keyframe, several times a frame, so shuts the window until it is through.

The *round trip* is the least delay from send to acknowledgement of the last `FLOOR_SECONDS`: transmission and decoding
of a small frame are in it. It is a sliding minimum, so another route is learned; sooner if sending less and less makes no
difference to the delay. An acknowledgement is *late* if its delay exceeds the round trip and the frame's own transmission by
half an interval and `TOLERANCE`, or by `TOLERANCE` alone while more is asked of the link than it is known to carry. What
follows from that is in `rate`, and what it means for the picture in `ladder`.

A viewer that never acknowledges has no window. One that stops must not be shut out for ever: a frame lost by a broken
decoder is never acknowledged. So one frame goes out all the same 2, 4, then 8 seconds after the one before, at which an
idle connection costs nothing and a live one shows itself.

A viewer may lie. It can only acknowledge what was sent, each frame once, and at best is treated as one that acknowledges
nothing: no target exceeds full quality.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass

from reactor_trio.pacing.bandwidth_estimator import BURST, IN_VAIN, BandwidthEstimator
from reactor_trio.pacing.bitrate_ladder import BitrateLadder, Quality

#: frames under way that any window allows, and that are remembered where there is none
MOST_FRAMES = 32
FEWEST_FRAMES = 2
FLOOR_SECONDS = 10.0
TOLERANCE = 0.020  # seconds
FIRST_PROBE, LAST_PROBE = 2.0, 8.0  # seconds
ROUGHLY = 1.25


@dataclass(frozen=True, slots=True)
class _Flight:
    seq: int
    bits: float
    sent_at: float


@dataclass(slots=True)
class _Start:
    """The first acknowledgement: of what, after how long, when; and whether the second has come."""

    flight: _Flight
    delay: float
    at: float
    over: bool = False


class _SlidingMinimum:
    """The least of the values of the last `FLOOR_SECONDS`, the newest of which always counts."""

    def __init__(self) -> None:
        self._values: deque[tuple[float, float]] = deque()  # when and what, both rising

    def add(self, value: float, now: float) -> float:
        while self._values and self._values[-1][1] >= value:
            self._values.pop()
        self._values.append((now, value))
        while self._values[0][0] < now - FLOOR_SECONDS:
            self._values.popleft()
        return self._values[0][1]

    def forget(self) -> None:
        self._values.clear()


class CongestionWindow:
    """Window and quality for one video track to one viewer.

    Args:
        full: bits per second of full quality; infinite until it is described.
        fps: frames per second that the track nominally has.
        expected: the viewer is known to acknowledge, so the window holds from the first frame on. Otherwise there is none
            until the first acknowledgement, and a slow link's buffers are filled meanwhile.
    """

    def __init__(self, full: float = math.inf, fps: float = 30.0, *, expected: bool = False) -> None:
        #: whether feedback has come
        self.active = False
        #: the least recent delay in seconds, 0 while none is known
        self.round_trip = 0.0
        self._expected = expected
        self._fps = fps
        self._ladder: BitrateLadder | None = None
        self._description: tuple[object, ...] = (full, fps, None, 0, 0)
        self._rate = BandwidthEstimator(full)
        self._floor = _SlidingMinimum()
        self._floor_since = -math.inf  # of what was sent before, the delay is not the round trip
        self._flights: deque[_Flight] = deque()
        self._bits = 0.0
        self._allowed = FEWEST_FRAMES
        self._newest = -1
        self._acknowledged_at = -math.inf
        self._sent_at = -math.inf
        self._probe = FIRST_PROBE
        self._start: _Start | None = None
        self._quality = Quality(full)

    def describe(
        self, full: float, fps: float, codec: str | None = None, width: int = 0, height: int = 0, now: float = 0.0
    ) -> None:
        """The track is so from now on; the same again changes nothing.

        Args:
            full, fps: as at the start.
            codec, width, height: at full quality. None: only the bitrate is adapted.
        """
        description = (full, fps, codec, width, height)
        if description == self._description:
            return
        self._description = description
        self._fps = fps
        self._ladder = None if codec is None else BitrateLadder(codec, width, height, fps, full, self._ladder)
        self._rate.describe(full)
        self._aim(now)

    @property
    def quality(self) -> Quality:
        """What encoder and sender should aim at now."""
        return self._quality

    @property
    def interval(self) -> float:
        """Seconds between two frames that are meant to be sent."""
        return self._quality.divisor / self._fps

    @property
    def in_flight(self) -> int:
        """Frames under way."""
        return len(self._flights)

    def sent(self, seq: int, size: int, now: float) -> None:
        """Frame `seq` of `size` bytes begins to be written. Numbers rise; what does not is not measured."""
        if seq <= self._newest:
            return
        if self._flights and self._windowed and not self._has_room():
            self._probe = min(2 * self._probe, LAST_PROBE)
        self._newest = seq
        self._sent_at = now
        self._flights.append(_Flight(seq, 8.0 * size, now))
        self._bits += 8.0 * size
        if len(self._flights) > 2 * MOST_FRAMES:
            self._bits -= self._flights.popleft().bits
        self._rate.sent(now)

    def acknowledged(self, seq: int, now: float) -> None:
        """The viewer has done with frame `seq` and all before it. What is not under way is ignored."""
        if not self._flights or not self._flights[0].seq <= seq <= self._newest:
            return
        self.active = True
        bits = 0.0
        while self._flights and self._flights[0].seq <= seq:
            flight = self._flights.popleft()
            bits += flight.bits
        self._bits = self._bits - bits if self._flights else 0.0
        delay = max(0.0, now - flight.sent_at)
        if flight.sent_at >= self._floor_since:
            self.round_trip = self._floor.add(delay, now)
        tolerance = TOLERANCE if self._rate.probing else TOLERANCE + self.interval / 2
        late = delay > self.round_trip + flight.bits / self._rate.limit + tolerance
        began = max(self._acknowledged_at, min(flight.sent_at + self.round_trip, now))
        self._probe = FIRST_PROBE
        if not late:
            self._allowed = min(self._allowed + 1, MOST_FRAMES)
        self._rate.delivered(bits, now - began, delay - self.round_trip, late, now)
        self._acknowledged_at = now
        self._learn_at_start(flight, bits, delay, now)
        if self._rate.cuts_in_vain >= IN_VAIN:
            self._rate.cuts_in_vain = 0
            self._floor.forget()
        self._aim(now)

    def skipped(self, now: float) -> None:
        """A frame was replaced by a newer one because the window was shut. What the divisor leaves out is no such frame."""
        if self._windowed:
            self._rate.skipped(now)

    def open(self, now: float) -> bool:
        """Whether another frame may be sent now."""
        return not self._windowed or not self._flights or self._has_room() or now >= self.reopens_at()

    def reopens_at(self) -> float:
        """When `open` becomes true at the latest, acknowledged or not; in the past if there is no need to wait."""
        return self._sent_at + self._probe if self._flights and self._windowed else -math.inf

    def _learn_at_start(self, flight: _Flight, bits: float, delay: float, now: float) -> None:
        """Tell transmission from round trip by the first two acknowledgements.

        The first is of a keyframe, whose transmission on a slow link is most of its delay. If the second frame was sent
        before it came, the link may have worked on that alone in between. It has if the two are further apart than the
        frames were sent; or, where the write was held up, if the keyframe's delay has room for its transmission.
        """
        if self._start is None:
            self._start = _Start(flight, delay, now)
            return
        start = self._start
        if start.over:
            return
        start.over = True
        apart = now - start.at
        if bits <= 0 or flight.sent_at >= start.at or apart <= self.interval + TOLERANCE:
            return
        carried = bits / apart
        transmission = (start.flight.bits - BURST) / carried  # at least
        if apart > flight.sent_at - start.flight.sent_at + TOLERANCE or transmission <= ROUGHLY * start.delay:
            self._floor.forget()
            self._floor_since = now
            self.round_trip = max(0.0, start.delay - start.flight.bits / carried)
            self._rate.found(carried, now)

    @property
    def _windowed(self) -> bool:
        return self.active or self._expected

    def _has_room(self) -> bool:
        frames = min(max(math.ceil(self.round_trip / self.interval), 1) + 1, self._allowed)
        carried = max(self._rate.limit, self._rate.target) * (self.round_trip + self.interval)
        return len(self._flights) < frames and self._bits <= carried

    def _aim(self, now: float) -> None:
        target = self._rate.target
        if self._ladder is None:
            self._quality = Quality(target)
            self._rate.asked = target
            return
        shape = self._ladder.choose(self._rate.carried, now)
        bitrate = min(target, self._ladder.most(shape.divisor, shape.scale))
        self._quality = Quality(bitrate, shape.divisor, shape.scale)
        self._rate.asked = bitrate
