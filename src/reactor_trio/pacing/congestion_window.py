"""A congestion window for one video track to one viewer, and the quality that the viewer's link carries.

The server writes into a socket. Between it and the viewer are buffers that hold seconds of video: the kernel's, those of
proxies and of routers. The server cannot see how full they are. It only learns it from the viewer: `reactor.feedback` names
the newest frame that the viewer has decoded. The window therefore bounds latency: no more than one round trip and one frame
are in flight. A frame that must wait is replaced, before it is encoded, by a newer one.

* In frames, the window is the round trip in frame intervals, rounded up, plus one. It starts at `MIN_FRAMES` and grows by
  one with each acknowledgement that is not late, because on a slow link the first delays contain the transmission of a
  keyframe and look like a long round trip.
* In bits, once the link's limit is known, the window is what the link carries in a round trip and an interval, plus one
  frame. A keyframe, several times as large as a frame, thus closes the window until it has arrived.

The *round trip* is the least delay from send to acknowledgement in the last `FLOOR_SECONDS`. It includes the transmission
and decoding of a small frame. As a sliding minimum it follows a change of route; it is forgotten sooner if sending less and
less does not shorten the delay. An acknowledgement is *late* if its delay exceeds the round trip and the frame's own
transmission by half an interval and `TOLERANCE`, or by `TOLERANCE` alone while the target is above the link's known limit.
`rate` derives the bitrate from that, and `ladder` the quality of the picture.

A near viewer on a good link may acknowledge less often, since reading its acknowledgements costs more than sending it a
frame. `cadence` says how many seconds it may let pass between two of them. Both limits of the window then allow what is sent
in that time as well. It is `RELAXED` once every acknowledgement of `GOOD_FOR` seconds was in time, the round trip is at most
`NEAR`, and no limit of the link is known; at the first sign of a queue it is 0 again, which asks for each frame. A link that
gets thin in between has taken at most `RELAXED` seconds of video too much. So a far viewer, whose link is more likely to get
thin, is not asked.

A viewer that never acknowledges has no window. A viewer that stops acknowledging must not be locked out for ever, since a
frame lost in a broken decoder is never acknowledged. One frame therefore goes out 2, 4, then every 8 seconds after the last
one. At that rate an idle connection costs nothing, and a live one recovers.

A viewer may lie. It can only acknowledge frames that were sent, each of them once. At best it gains what a viewer without
acknowledgements has: no target exceeds full quality.

A loaded server handles acknowledgements late, and must not take that for a slow link: the viewer would then be asked to
acknowledge more often, which loads it more. So the time that an acknowledgement may have waited here is taken off its delay,
and the window allows what is sent in that time.
"""

from __future__ import annotations

import math
from collections import deque

import msgspec

from reactor_trio.pacing.bandwidth_estimator import BURST, MAX_VAIN_CUTS, BandwidthEstimator
from reactor_trio.pacing.bitrate_ladder import BitrateLadder, Quality

#: frames in flight that any window allows; twice as many are remembered where there is no window
MAX_FRAMES = 32
MIN_FRAMES = 2
FLOOR_SECONDS = 10.0
TOLERANCE = 0.020  # seconds
FIRST_WAIT, LAST_WAIT = 2.0, 8.0  # seconds
#: seconds between two acknowledgements, of a round trip of at most so many seconds, after so many without a late one
RELAXED, NEAR, GOOD_FOR = 0.25, 0.025, 2.0
ROUGHLY = 1.25


class _Flight(msgspec.Struct, frozen=True, gc=False):
    seq: int
    bits: float
    sent_at: float


class _FirstAcknowledgement(msgspec.Struct):
    """The first acknowledged frame, its delay, and when the acknowledgement came; `over` once the second one has come."""

    flight: _Flight
    delay: float
    at: float
    over: bool = False


class _SlidingMinimum:
    """The minimum of the values of the last `FLOOR_SECONDS`; the newest value always counts."""

    def __init__(self) -> None:
        self._values: deque[tuple[float, float]] = deque()  # (time, value), both rising

    def add(self, value: float, now: float) -> float:
        while self._values and self._values[-1][1] >= value:
            self._values.pop()
        self._values.append((now, value))
        while self._values[0][0] < now - FLOOR_SECONDS:
            self._values.popleft()
        return self._values[0][1]


class CongestionWindow:
    """The congestion window and the quality of one video track to one viewer.

    Args:
        full: the bitrate of full quality in bits per second; infinite until `describe` sets it.
        fps: the nominal frame rate of the track.
        expected: the viewer is known to acknowledge, so the window holds from the first frame on. Otherwise there is no
            window before the first acknowledgement, and the buffers of a slow link fill meanwhile.
        relaxes: the viewer follows `cadence`.
    """

    def __init__(
        self, full: float = math.inf, fps: float = 30.0, *, expected: bool = False, relaxes: bool = False
    ) -> None:
        #: whether the viewer has acknowledged a frame
        self.active = False
        #: the least delay of recent acknowledgements in seconds; 0 before the first
        self.round_trip = 0.0
        #: seconds that the viewer may let pass between two acknowledgements; 0: it acknowledges each frame
        self.cadence = 0.0
        self._relaxes = relaxes
        self._lag = 0.0  # the longest of this process lately
        self._good_since = math.inf
        self._windowed = expected  # or active
        self._fps = fps
        self._ladder: BitrateLadder | None = None
        self._description: tuple[object, ...] = (full, fps, None, 0, 0)
        self._rate = BandwidthEstimator(full)
        self._least_delay = _SlidingMinimum()
        self._least_delay_since = -math.inf  # the delay of frames sent earlier does not count
        self._flights: deque[_Flight] = deque()
        self._bits_in_flight = 0.0
        self._window_frames = MIN_FRAMES
        self._newest = -1
        self._acknowledged_at = -math.inf
        self._sent_at = -math.inf
        self._reopen_after = FIRST_WAIT
        self._first: _FirstAcknowledgement | None = None
        #: the quality that encoder and sender should use now
        self.quality = Quality(full, fps)
        #: what may be in flight when another frame is sent: fewer frames than this, and no more bits
        self._room_frames, self._room_bits = 0, 0.0
        self._measure_room()

    def describe(
        self, full: float, fps: float, codec: str | None = None, width: int = 0, height: int = 0, now: float = 0.0
    ) -> None:
        """Set the properties of the track at full quality. Equal values change nothing.

        Args:
            full: the bitrate in bits per second.
            fps: the nominal frame rate.
            codec, width, height: if the codec is None, only the bitrate is adapted.
        """
        description = (full, fps, codec, width, height)
        if description == self._description:
            return
        self._description = description
        self._fps = fps
        self._ladder = None if codec is None else BitrateLadder(codec, width, height, fps, full, self._ladder)
        self._rate.describe(full)
        self._update_quality(now)
        self._measure_room()

    @property
    def interval(self) -> float:
        """Seconds between two frames, as the present quality intends to send them."""
        return self.quality.divisor / self._fps

    @property
    def in_flight(self) -> int:
        """Frames that were sent and not yet acknowledged."""
        return len(self._flights)

    def sent(self, seq: int, size: int, now: float) -> None:
        """Record that the server begins to write frame `seq` of `size` bytes. A number that is not above all earlier ones is
        ignored.
        """
        if seq <= self._newest:
            return
        if self._flights and self._windowed and not self._has_room():
            self._reopen_after = min(2 * self._reopen_after, LAST_WAIT)
        self._newest = seq
        self._sent_at = now
        self._flights.append(_Flight(seq, 8.0 * size, now))
        self._bits_in_flight += 8.0 * size
        if len(self._flights) > 2 * MAX_FRAMES:
            self._bits_in_flight -= self._flights.popleft().bits
        self._rate.offered(now, skipped=False)

    def acknowledged(self, seq: int, now: float, lag: float = 0.0) -> None:
        """Record that the viewer has finished with frame `seq` and all before it. Ignored if `seq` is not in flight.

        The acknowledgement may have waited for up to `lag` seconds in this process.
        """
        if not self._flights or not self._flights[0].seq <= seq <= self._newest:
            return
        self.active = self._windowed = True
        first, bits = self._flights[0], 0.0
        while self._flights and self._flights[0].seq <= seq:
            flight = self._flights.popleft()
            bits += flight.bits
        self._bits_in_flight = self._bits_in_flight - bits if self._flights else 0.0
        delay = max(0.0, now - flight.sent_at)
        if flight.sent_at >= self._least_delay_since:
            self.round_trip = self._least_delay.add(delay, now)
        tolerance = TOLERANCE if self._rate.probing else TOLERANCE + self.interval / 2
        late = delay - lag > self.round_trip + flight.bits / self._rate.limit + tolerance
        began = max(self._acknowledged_at, min(first.sent_at + self.round_trip, now))
        self._reopen_after = FIRST_WAIT
        if not late:
            self._window_frames = min(self._window_frames + 1, MAX_FRAMES)
        self._rate.delivered(bits, now - began, max(0.0, delay - lag - self.round_trip), late, now)
        self._acknowledged_at = now
        self._lag = max(lag, self._lag / 2)
        self._learn_at_start(flight, bits, delay, now)
        if self._rate.vain_cuts >= MAX_VAIN_CUTS:
            self._rate.vain_cuts = 0
            self._least_delay = _SlidingMinimum()
        self._update_quality(now)
        self._choose_cadence(late, now)
        self._measure_room()

    def skipped(self, now: float) -> None:
        """Record that a newer frame replaced one because the window was closed. Frames that the divisor leaves out do not
        count.
        """
        if self._windowed:
            self._rate.offered(now, skipped=True)
            self._choose_cadence(True, now)
            self._measure_room()

    def open(self, now: float) -> bool:
        """Whether another frame may be sent now."""
        if not self._windowed or not self._flights:
            return True
        return self._has_room() or now >= self._sent_at + self._reopen_after

    def reopens_at(self) -> float:
        """When `open` becomes true even without an acknowledgement; minus infinity if there is no need to wait."""
        return self._sent_at + self._reopen_after if self._flights and self._windowed else -math.inf

    def _learn_at_start(self, flight: _Flight, bits: float, delay: float, now: float) -> None:
        """Separate transmission time from round trip with the first two acknowledgements.

        The first frame is a keyframe, and on a slow link most of its delay is transmission. If the second frame was sent
        before the first acknowledgement, the link may have been busy with the second frame alone between the two
        acknowledgements. That is so if the acknowledgements are further apart than the sends; or, where the write itself was
        delayed, if the keyframe's delay is long enough for its transmission.
        """
        if self._first is None:
            self._first = _FirstAcknowledgement(flight, delay, now)
            return
        first = self._first
        if first.over:
            return
        first.over = True
        apart = now - first.at
        if bits <= 0 or flight.sent_at >= first.at or apart <= self.interval + TOLERANCE:
            return
        carried = bits / apart
        transmission = (first.flight.bits - BURST) / carried  # at least
        if apart > flight.sent_at - first.flight.sent_at + TOLERANCE or transmission <= ROUGHLY * first.delay:
            self._least_delay = _SlidingMinimum()
            self._least_delay_since = now
            self.round_trip = max(0.0, first.delay - first.flight.bits / carried)
            self._rate.lower_limit(carried, now)

    def _choose_cadence(self, queued: bool, now: float) -> None:
        near = self.round_trip - self._lag <= NEAR and 3 <= RELAXED / self.interval <= MAX_FRAMES / 2
        if queued or not near or math.isfinite(self._rate.limit):
            self.cadence, self._good_since = 0.0, math.inf
        elif self._good_since == math.inf:
            self._good_since = now
        elif self._relaxes and now - self._good_since >= GOOD_FOR:
            self.cadence = RELAXED

    def _has_room(self) -> bool:
        return len(self._flights) < self._room_frames and self._bits_in_flight <= self._room_bits

    def _measure_room(self) -> None:
        """Bound what may be in flight; called whenever what it depends on has changed, since each frame asks for it."""
        behind = self.round_trip + self.cadence + self._lag
        spare = 2 if self.cadence else 1  # the acknowledgement leaves with the first frame after the time is over
        self._room_frames = min(max(math.ceil(behind / self.interval), 1) + spare, self._window_frames)
        self._room_bits = max(self._rate.limit, self._rate.target) * (behind + self.interval)

    def _update_quality(self, now: float) -> None:
        self.quality = Quality(self._rate.target, self._fps)
        if self._ladder is not None:
            chosen = self._ladder.choose(self._rate.carried, now)
            self.quality = self._ladder.quality(self._rate.target, chosen.divisor, chosen.scale)
        self._rate.asked = self.quality.bitrate
