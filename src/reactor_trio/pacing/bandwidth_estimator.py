"""How many bits per second to aim at for one link, from what was acknowledged when.

Three numbers. `full` is what full quality needs. `limit` is what the link was found to carry, infinite until it was found to
carry less than was asked of it. `target` is what is aimed at now.

*Overuse* is a queue that stands: every acknowledgement of the last `PERSISTENT` seconds was late (a probe ends sooner);
or more than `SKIPPED` of the last second's frames were not sent because the window was shut. Both leave the link busy, so
what was acknowledged meanwhile, over the time that the link worked on it, is what it carries: that becomes the limit, and
the target a `SHARE` of it, so that the queue drains. The cut is measured, not a factor of what was asked: to find the same
overuse twice changes nothing, and an encoder that is slow to obey is not punished for it.

*Growth.* Shapers let bursts through: a token bucket that was left some of its rate for two seconds passes that much at line
speed, and a short sample says a hundred times the truth. So the limit rises on proof only. `_spare` follows such a bucket:
what the limit would have carried and was not asked to, at most `BURST`. The target probes some way above the limit; when the
spare is used up and more than the limit still comes through, that is the new limit, or more if nothing queues meanwhile.
Proof after proof doubles it, the third one and those after it in larger steps, so a link that was opened is found in a
second or two, while one that was not is exceeded by half for half a second. An encoder that makes less than it may proves
nothing; then time must do, and the limit rises slowly.

*A stall* (nothing for `STALL` seconds, then all at once) says nothing of the rate. The target is halved for the few
moments that it takes to see whether the link is as it was. Two in a row are a slow link.
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
#: growth and probe once two proofs in a row have shown that the link was opened
OPENED_GROWTH, OPENED_PROBE = 2.0, 3.0
HOLD, LONG_HOLD = 1.0, 2.0  # seconds without growth after a cut; long if it came at once after growth
AT_ONCE = 1.5  # seconds
PROOF = 0.1  # seconds of the limit, that came through beyond it
CLEARLY = 1.2  # times the limit
IDLE_PATIENCE, PATIENCE = 0.5, 2.0  # seconds until a limit rises without proof, if little is asked of it or not
BURST = 8 * 32 * 1024  # bits
STALL = 1.0  # seconds
LEAST = 32_000.0  # bits per second
RELEASED = 0.9  # of full
#: cuts in a row, each lower than the one before and none with an effect, that say that delay is not the queue's
IN_VAIN = 3


class BandwidthEstimator:
    """The target of one link. Bits and seconds; `now` never goes back."""

    def __init__(self, full: float) -> None:
        self.full = full
        self.limit = math.inf
        self.target = full
        #: the part of the target that the encoder was told: a small picture has a full bitrate of its own
        self.asked = full
        self.cuts_in_vain = 0
        self._acks: deque[tuple[float, float, float]] = deque()  # when, bits, seconds that the link worked on them
        self._frames: deque[tuple[float, bool]] = deque()  # when, whether skipped
        self._skipped = 0  # of these; looked at with each acknowledgement
        self._watched_since: float | None = None
        self._late_since: float | None = None
        self._late_bits = 0.0
        self._grow_at = -math.inf
        self._raised_at = -math.inf
        self._limited_at = -math.inf
        self._probe = PROBE
        self._proofs = 0  # in a row
        self._spare = 0.0
        self._settled_at = -math.inf
        self._spared_at = -math.inf
        self._stall = False  # whether the acknowledgement before ended one

    def describe(self, full: float) -> None:
        """Full quality needs `full` from now on."""
        was_full = self.target >= self.full
        self.full = full
        self.target = full if was_full and math.isinf(self.limit) else min(self.target, full)

    @property
    def probing(self) -> bool:
        """Whether more is aimed at than the link is known to carry."""
        return self.target > self.limit

    @property
    def carried(self) -> float:
        """What frame rate and size should fit into: `target` without its probes."""
        return min(self.full, SHARE * self.limit)

    def sent(self, now: float) -> None:
        """A frame was sent."""
        self._note(now, False)

    def skipped(self, now: float) -> None:
        """A frame was not sent because the window was shut."""
        self._note(now, True)

    def delivered(self, bits: float, worked: float, waited: float, late: bool, now: float) -> None:
        """`bits` were acknowledged.

        Args:
            worked: for how long the link can have worked on them.
            waited: delay beyond the round trip.
            late: whether that is more than their own transmission explains.
        """
        if worked > STALL:
            if self._stall:
                self.found(bits / worked, now)
            else:
                self._stalled(now)
            self._stall = not self._stall
            return
        self._stall = False
        self._acks.append((now, bits, worked))
        while self._acks[0][0] < now - WINDOW:
            self._acks.popleft()
        self._settle(bits, waited, now)
        measured = self._overused(bits, late, now)
        if measured is not None:
            self.found(measured, now)
        elif not late:
            self.cuts_in_vain = 0
            self._grow(now)

    def found(self, measured: float, now: float) -> None:
        """The link was busy all the time and carried `measured` bits per second."""
        self._forget()
        if SHARE * measured >= self.full:
            return
        self.cuts_in_vain = self.cuts_in_vain + 1 if measured < 0.9 * self.limit else 1
        self.limit = max(measured, LEAST)
        self.target = min(self.target, max(SHARE * self.limit, LEAST))
        self._grow_at = now + (LONG_HOLD if now - self._raised_at < AT_ONCE else HOLD)
        self._limited_at = now
        self._probe, self._proofs = PROBE, 0
        self._settle_anew(now)

    # ---- down ---------------------------------------------------------------------------------------------------------

    def _note(self, now: float, skipped: bool) -> None:
        if self._watched_since is None:
            self._watched_since = now
        self._frames.append((now, skipped))
        self._skipped += skipped
        while self._frames[0][0] < now - WINDOW:
            self._skipped -= self._frames.popleft()[1]

    def _overused(self, bits: float, late: bool, now: float) -> float | None:
        """What the link carries, in bits per second, if it is asked for more; None otherwise."""
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
            # the round trip is not part of the work, and a guess of it: too long a one is no reason to send more
            return min(self.limit, sum(bits for _, bits, _ in self._acks) / worked) if worked > 0 else None
        return None

    def _stalled(self, now: float) -> None:
        self._forget()
        self._acks.clear()
        self._settle_anew(now)
        self.target = max(self.target / 2, min(LEAST, self.full))
        self._grow_at = now + GROWTH_EVERY

    def _forget(self) -> None:
        self._late_since = None
        self._frames.clear()
        self._skipped = 0
        self._watched_since = None

    # ---- up -----------------------------------------------------------------------------------------------------------

    def _settle(self, bits: float, waited: float, now: float) -> None:
        """Follow the bucket of an imagined shaper of `limit`, and raise the limit when more than that came through."""
        since, self._settled_at = self._settled_at, now
        if math.isinf(self.limit) or math.isinf(since):
            return
        self._spare = min(BURST, self._spare + self.limit * (now - since) - bits)
        if self._spare >= 0:
            self._spared_at = now
            return
        beyond = -self._spare / self.limit  # seconds for which a link of that limit would have kept the newest bits waiting
        prompt = waited < beyond / 2
        if beyond >= PROOF and (prompt or -self._spare >= bits):  # or more than one large frame
            proven = self.limit - self._spare / (now - self._spared_at)
            clear = prompt or proven > CLEARLY * self.limit
            self._proofs = self._proofs + 1 if clear else 0
            self._probe = (OPENED_PROBE if self._opened else PROVEN_PROBE) if clear else PROBE
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
            if now - max(self._limited_at, self._raised_at) >= (IDLE_PATIENCE if idle else PATIENCE):
                self._raise_limit(self.limit * self._growth, now)

    @property
    def _opened(self) -> bool:
        """Whether proof followed proof."""
        return self._proofs >= 2

    @property
    def _growth(self) -> float:
        return OPENED_GROWTH if self._opened else GROWTH

    def _raise_limit(self, limit: float, now: float) -> None:
        self.limit = limit if limit < RELEASED * self.full else math.inf
        self._limited_at = now
        self._settle_anew(now)

    def _settle_anew(self, now: float) -> None:
        self._spare = 0.0
        self._spared_at = self._settled_at = now
