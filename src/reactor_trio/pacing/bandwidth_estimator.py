"""A bandwidth estimate for one link, from the times and sizes of acknowledgements.

There are three bitrates. `full` is what full quality needs. `limit` is what the link was measured to carry; it is infinite
until the link has carried less than was asked of it. `target` is what to send now.

*Overuse* is a standing queue: every acknowledgement of the last `PERSISTENT` seconds was late (`PERSISTENT_PROBE` during a
probe), or more than `SKIPPED` of the last second's frames were skipped because the window was closed. In both cases the link
was busy, so the acknowledged bits, divided by the time that the link worked on them, are what it carries. That becomes the
limit, and the target becomes `SHARE` of it, so that the queue drains. The cut is a measurement and not a factor of the old
target: measuring the same overuse twice changes nothing, and an encoder that reacts slowly causes no second cut.

*Growth.* Traffic shapers let bursts through: a token bucket that was underused for two seconds passes the saved amount at
line speed, and a short sample then shows a hundred times the real rate. The limit therefore rises only on proof. `_spare`
models such a bucket: what the limit would have carried and was not used, at most `BURST`. The target probes above the limit.
If the spare is used up and more than the limit still arrives, that rate is the new limit; the new limit is higher still if
nothing queued meanwhile. Proof after proof doubles the limit, and from the third on the steps are larger. A link that was
opened is thus found in a second or two, and a link that was not is exceeded by half for half a second. An encoder that
produces less than the target proves nothing; then the limit rises slowly with time.

*A stall* (nothing for `STALL` seconds, then everything at once) tells nothing about the rate. The target is halved for a
moment, until it is clear whether the link is as before. Two stalls in a row mean a slow link.
"""

from __future__ import annotations

import math
from collections import deque

PERSISTENT, PERSISTENT_PROBE = 0.2, 0.1  # seconds
WINDOW = 1.0  # seconds over which skipped frames and rates are taken
SKIPPED = 0.25
SHARE = 0.85
GROWTH = 1.5
GROWTH_EVERY = 0.25  # seconds
PROBE, PROVEN_PROBE = 1.5, 2.0  # times the limit
#: proofs in a row that show that the link was opened; growth and probe from then on
OPENED, OPENED_GROWTH, OPENED_PROBE = 2, 2.0, 3.0
HOLD, LONG_HOLD = 1.0, 2.0  # seconds without growth after a cut; the long one if growth caused it
AT_ONCE = 1.5  # seconds
PROOF = 0.1  # seconds' worth of the limit that must arrive beyond it
CLEARLY = 1.2  # times the limit
IDLE_RAISE_INTERVAL, RAISE_INTERVAL = 0.5, 2.0  # seconds until a limit rises without proof: while little is sent, or else
BURST = 8 * 32 * 1024  # bits
STALL = 1.0  # seconds
MIN_BITRATE = 32_000.0  # bits per second
RELEASED = 0.9  # of full
#: falling cuts in a row without effect, after which the delay is taken for the round trip and not for a queue
MAX_VAIN_CUTS = 3


class BandwidthEstimator:
    """The bandwidth estimator of one link. Units are bits and seconds; `now` never decreases."""

    def __init__(self, full: float) -> None:
        self.full = full
        self.limit = math.inf
        self.target = full
        #: the bitrate that the encoder was asked for; less than the target if a small picture needs less at full quality
        self.asked = full
        self.vain_cuts = 0
        self._acks: deque[tuple[float, float, float]] = deque()  # (time, bits, seconds that the link worked on them)
        self._frames: deque[tuple[float, bool]] = deque()  # (time, whether skipped)
        self._skipped = 0  # how many of `_frames` were skipped
        self._watched_since: float | None = None
        self._late_since: float | None = None
        self._late_bits = 0.0
        self._grow_at = -math.inf
        self._raised_at = -math.inf
        self._limited_at = -math.inf
        self._probe = PROBE
        self._proofs = 0  # in a row
        self._spare = 0.0
        self._bucket_at = -math.inf
        self._spared_at = -math.inf
        self._stall = False  # whether the previous acknowledgement ended a stall

    def describe(self, full: float) -> None:
        """Set the bitrate of full quality."""
        was_full = self.target >= self.full
        self.full = full
        self.target = full if was_full and math.isinf(self.limit) else min(self.target, full)

    @property
    def probing(self) -> bool:
        """Whether the target is above what the link is known to carry."""
        return self.target > self.limit

    @property
    def carried(self) -> float:
        """The bitrate that frame rate and size should fit into: `target` without its probes."""
        return min(self.full, SHARE * self.limit)

    def offered(self, now: float, skipped: bool) -> None:
        """Record a frame that was sent, or `skipped` because the window was closed."""
        if self._watched_since is None:
            self._watched_since = now
        self._frames.append((now, skipped))
        self._skipped += skipped
        while self._frames[0][0] < now - WINDOW:
            self._skipped -= self._frames.popleft()[1]

    def delivered(self, bits: float, worked: float, waited: float, late: bool, now: float) -> None:
        """Record that `bits` were acknowledged, and move limit and target.

        Args:
            worked: for how long the link can have worked on them, in seconds.
            waited: delay beyond the round trip, in seconds.
            late: whether the delay is longer than their own transmission explains.
        """
        if worked > STALL:
            if self._stall:
                self.lower_limit(bits / worked, now)
            else:
                self._halve(now)
            self._stall = not self._stall
            return
        self._stall = False
        self._acks.append((now, bits, worked))
        while self._acks[0][0] < now - WINDOW:
            self._acks.popleft()
        self._follow_bucket(bits, waited, now)
        measured = self._overused(bits, late, now)
        if measured is not None:
            self.lower_limit(measured, now)
        elif not late:
            self.vain_cuts = 0
            self._grow(now)

    def lower_limit(self, measured: float, now: float) -> None:
        """Lower the limit to `measured` bits per second, which the link carried while it was busy all the time."""
        self._reset_overuse()
        if SHARE * measured >= self.full:
            return
        self.vain_cuts = self.vain_cuts + 1 if measured < 0.9 * self.limit else 1
        self.limit = max(measured, MIN_BITRATE)
        self.target = min(self.target, max(SHARE * self.limit, MIN_BITRATE))
        self._grow_at = now + (LONG_HOLD if now - self._raised_at < AT_ONCE else HOLD)
        self._limited_at = now
        self._probe, self._proofs = PROBE, 0
        self._reset_bucket(now)

    # ---- down ---------------------------------------------------------------------------------------------------------

    def _overused(self, bits: float, late: bool, now: float) -> float | None:
        """The measured bitrate of the link if it is overused, else None."""
        if not late:
            self._late_since = None
        elif self._late_since is None:
            self._late_since, self._late_bits = now, 0.0
        else:
            self._late_bits += bits
            if now - self._late_since >= (PERSISTENT_PROBE if self.probing else PERSISTENT):
                return self._late_bits / (now - self._late_since)
        watched = self._watched_since is not None and now - self._watched_since >= WINDOW
        if watched and self._skipped > SKIPPED * len(self._frames):
            worked = sum(seconds for _, _, seconds in self._acks)
            # `worked` excludes the round trip, which is a guess: if it is too long, the quotient is too high
            return min(self.limit, sum(bits for _, bits, _ in self._acks) / worked) if worked > 0 else None
        return None

    def _halve(self, now: float) -> None:
        self._reset_overuse()
        self._acks.clear()
        self._reset_bucket(now)
        self.target = max(self.target / 2, min(MIN_BITRATE, self.full))
        self._grow_at = now + GROWTH_EVERY

    def _reset_overuse(self) -> None:
        self._late_since = None
        self._frames.clear()
        self._skipped = 0
        self._watched_since = None

    # ---- up -----------------------------------------------------------------------------------------------------------

    def _follow_bucket(self, bits: float, waited: float, now: float) -> None:
        """Follow the token bucket of an imagined shaper of `limit`, and raise the limit when more than that arrived."""
        since, self._bucket_at = self._bucket_at, now
        if math.isinf(self.limit) or math.isinf(since):
            return
        self._spare = min(BURST, self._spare + self.limit * (now - since) - bits)
        if self._spare >= 0:
            self._spared_at = now
            return
        if now == self._spared_at:
            return  # two acknowledgements at one instant: how fast the link carried the second one, only a later one shows
        beyond = -self._spare / self.limit  # seconds by which a link of that limit would have delayed the newest bits
        prompt = waited < beyond / 2
        if beyond >= PROOF and (prompt or -self._spare >= bits):  # or more than one large frame
            proven = self.limit - self._spare / (now - self._spared_at)
            clear = prompt or proven > CLEARLY * self.limit
            self._proofs = self._proofs + 1 if clear else 0
            self._probe = (OPENED_PROBE if self._proofs >= OPENED else PROVEN_PROBE) if clear else PROBE
            self._raise_limit(max(proven, self._growth * self.limit) if prompt else proven, now)

    def _grow(self, now: float) -> None:
        if now < self._grow_at:
            return
        ceiling = min(self.full, self._probe * self.limit)
        if self.target < ceiling:
            self.target = min(ceiling, self.target * self._growth)
            self._raised_at = now
            self._grow_at = now + GROWTH_EVERY
        elif math.isfinite(self.limit):
            delivered = sum(bits for _, bits, _ in self._acks) / WINDOW
            idle = delivered < 0.9 * self.limit or self.asked < 1.1 * self.limit
            if now - max(self._limited_at, self._raised_at) >= (IDLE_RAISE_INTERVAL if idle else RAISE_INTERVAL):
                self._raise_limit(self.limit * self._growth, now)

    @property
    def _growth(self) -> float:
        return OPENED_GROWTH if self._proofs >= OPENED else GROWTH

    def _raise_limit(self, limit: float, now: float) -> None:
        self.limit = limit if limit < RELEASED * self.full else math.inf
        self._limited_at = now
        self._reset_bucket(now)

    def _reset_bucket(self, now: float) -> None:
        self._spare = 0.0
        self._spared_at = self._bucket_at = now
