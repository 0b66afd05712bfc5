"""Encoders, and whom they serve: viewers of one session share one where they want the same.

A *tier* is one encoder of one track, a codec at a quality; its members are lanes. It has no task of its own: the sending
task of whichever member can take a frame encodes it, for all of them. So nothing is encoded that nobody can take, and a
viewer alone on its tier drops before the encoder, which then refers to the last frame *sent* and never breaks its chain.

A member that cannot keep up is never waited for: its packets wait in its lane until they are too old. Nor does it lower the
others' quality. What its link carries is measured (`pacing.LinkControl`); a member alone on its tier takes the tier with it,
one among several leaves for a lower tier, of which a track has at most three. Who has recovered goes back.

A lane that cannot go on without a packet that stands alone asks for one (`refresh`). There is a floor between two of them,
so that one client cannot make everybody's pictures expensive; a newcomer's floor is lower, since it has no picture at all.
If the model is at rest, the picture that stands is encoded again.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import trio

from reactor_trio.connection.lane import CodedFrame, DueFrame, Lane
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings, Encoded, Encoder, FrameHandle, Target, Worker, full_bitrate, open_encoder
from reactor_trio.pacing import Quality
from reactor_trio.protocol import KEYFRAME, Packet, TrackInfo, packet_head

#: tiers of one track
MOST_TIERS = 3
#: seconds between two packets that stand alone: where one is asked for, and where a newcomer needs one
KEYFRAME_FLOOR = 0.5
NEWCOMER_FLOOR = 0.05
#: seconds after which a picture is taken for the one that stands, however slow the model
_STANDS_AFTER = 0.5
#: a member leaves for a lower tier when its link carries less than this share of the tier's bitrate
_TOO_MUCH = 0.75
#: and joins a tier that has at least this share of what its link carries
_NEAR = 0.6


class Tier:
    """One encoder and the lanes it serves; made and kept by `Tiers`."""

    def __init__(
        self, index: int, spec: TrackSpec, encoder: Encoder, quality: Quality, worker: Worker, max_age: float
    ) -> None:
        self.codec = encoder.codec
        self.quality = quality
        self.lanes: list[Lane] = []
        self._index = index
        self._spec = spec
        self._encoder = encoder
        self._worker = worker
        self._max_age = max_age
        #: lanes of other tiers that join with the next keyframe
        self._expected: list[Lane] = []
        self._busy = False
        self._frame: DueFrame | None = None
        self._last: DueFrame | None = None
        #: lanes that want the picture that stands, for themselves
        self._newcomers: list[Lane] = []
        #: for whom it is encoded now, None: for every member
        self._asked: list[Lane] | None = None
        self._newest_seq = -1
        self._last_due = -math.inf
        self._last_keyframe = -math.inf
        self._keyframe_at = math.inf
        self._target: Target | None = None
        self._info: TrackInfo | None = None

    def join(self, lane: Lane) -> None:
        """A lane is served from now on; what it gets first stands alone."""
        self.lanes.append(lane)
        lane.tier, lane.codec = self, self.codec
        lane.drop_queue("superseded")

    def expect(self, lane: Lane, now: float) -> None:
        """A lane of another tier joins with the next packet that stands alone, and goes on over there until then."""
        if lane not in self._expected:
            self._expected.append(lane)
        self.refresh(lane, now)

    def leave(self, lane: Lane) -> None:
        """A lane is served no longer."""
        self.lanes.remove(lane)
        lane.tier = None
        if lane in self._newcomers:
            self._newcomers.remove(lane)
        self._close_if_alone()

    @property
    def describe(self) -> TrackInfo:
        """What is needed to decode its newest packet; without a size before the first."""
        return self._info or self._encoder.describe(self._index, self._spec, None)

    @property
    def waits(self) -> bool:
        """Whether a frame waits to be encoded."""
        return self._frame is not None

    def offer(self, lane: Lane, frame: DueFrame, now: float) -> None:
        """A frame is shown now; each member offers it, the first one counts. A newcomer may offer the one that stands."""
        newcomer, lane.fresh = lane.fresh, False
        if frame.seq <= self._newest_seq:
            if newcomer:
                self.refresh(lane, now, newcomer=True)
            return
        if (old := self._frame) is not None and old is not self._last:
            late, thinned = now > old.due + self._max_age, old.due < self._rested_at(old)
            reason = "thinned" if thinned else "late" if late else "superseded"
            for member in self.lanes:
                member.passed_over(reason, now)
        self._newest_seq, self._frame = frame.seq, frame
        self._newcomers.clear()

    def refresh(self, lane: Lane, now: float, *, newcomer: bool = False) -> None:
        """`lane` needs a packet that stands alone."""
        if not self._encoder.intra_only:
            floor = NEWCOMER_FLOOR if newcomer else KEYFRAME_FLOOR
            self._keyframe_at = min(self._keyframe_at, max(now, self._last_keyframe + floor))
            if newcomer:
                self._newcomers.append(lane)
            if not self._busy:
                self._show_standing()
        elif self._last is not None and self._frame is None and not (self._busy and self._asked is None):
            self._newcomers.append(lane)
        lane.wake()

    def _show_standing(self) -> None:
        if self._frame is None:
            self._frame = self._last

    def may_encode_at(self, lane: Lane, now: float) -> float:
        """When the task of `lane`, which is ready, may encode what waits; infinite if that is nothing, or under way."""
        if self._busy:
            return math.inf
        frame = self._frame
        if frame is None:
            return now if lane in self._newcomers else math.inf
        if frame is self._last:  # it is encoded again, unless a newer one comes, or a newcomer waits
            return self._keyframe_at if self._newcomers else max(self._keyframe_at, _stands_at(frame))
        if now > frame.due + self._max_age or frame.due < self._rested_at(frame):
            return _stands_at(frame)
        return frame.due

    async def encode(self) -> None:
        """Encode what waits, for every member. Cancelled while it waits for a worker, it leaves the frame to the others."""
        frame = self._frame or self._last
        assert frame is not None
        self._asked = None if self._frame is not None else list(self._newcomers)
        self._frame, self._busy = None, True
        began = trio.current_time()
        encoded: Encoded | None = None
        try:
            self._prepare(frame, began)
            encoded = await self._run(frame.frame)
        finally:
            self._busy = False
            if encoded is None and self._asked is None and self._frame is None:
                self._frame = frame
            self._close_if_alone()
            if encoded is None:
                self._wake_members()
        self._last, self._last_due = frame, frame.due
        coded = self._coded(frame, encoded, began)
        if coded.keyframe:
            self._take_in()
        for member in list(self.lanes) if self._asked is None else self._asked:
            member.put(coded)
        self._newcomers = [lane for lane in self._newcomers if lane.gated]
        if self._keyframe_at < math.inf:
            self._show_standing()
        self._wake_members()

    def _take_in(self) -> None:
        expected, self._expected = self._expected, []
        for lane in expected:
            if lane.tier is not None and lane.tier is not self and lane.codec == self.codec:
                lane.tier.leave(lane)
                self.join(lane)

    def _wake_members(self) -> None:
        if self._frame is not None or self._newcomers:
            for member in self.lanes:
                member.wake()

    def _prepare(self, frame: DueFrame, now: float) -> None:
        fps = 1 / frame.duration / self.quality.divisor
        target = Target(self.quality.bitrate, fps, self.quality.scale)
        if self._target is None or _differ(target, self._target):
            self._target = target
            self._encoder.configure(target)
        if self._keyframe_at <= now:
            self._encoder.request_keyframe()

    async def _run(self, frame: FrameHandle) -> Encoded:
        if self._encoder.blocking or not isinstance(frame, np.ndarray):  # a tensor may have to come from its device
            return await self._worker(self._encoder.encode, frame)
        return self._encoder.encode(frame)

    def _coded(self, frame: DueFrame, encoded: Encoded, began: float) -> CodedFrame:
        now = trio.current_time()
        if encoded.keyframe:
            self._last_keyframe, self._keyframe_at = now, math.inf
        self._info = self._encoder.describe(self._index, self._spec, encoded.size)
        origin = frame.origin
        queued, encoding = max(0.0, began - frame.made), now - began
        meta = dict(encoded.meta)
        meta["timing"] = [
            None if origin.waited is None else round(origin.waited * 1e6),
            round(origin.seconds * 1e6), round(queued * 1e6), round(encoding * 1e6),
        ]  # fmt: skip
        if origin.input_pts_us is not None:
            meta["input_pts_us"] = origin.input_pts_us
        head = packet_head(Packet(
            self._index, frame.seq, round(frame.pts * 1e6), KEYFRAME if encoded.keyframe else 0,
            origin.command, origin.step, meta, encoded.payload,
        ))  # fmt: skip
        return CodedFrame(
            self._info, head, encoded.payload, encoded.keyframe, frame.seq, frame.due, origin, queued, encoding
        )

    def _rested_at(self, frame: DueFrame) -> float:
        """From when on a frame may be due at the quality's frame rate; half a frame early, since due times swing."""
        divisor = self.quality.divisor
        return -math.inf if divisor == 1 else self._last_due + (divisor - 0.5) * frame.duration

    def _close_if_alone(self) -> None:
        if not self.lanes and not self._busy:
            self._encoder.close()


@dataclass(frozen=True, slots=True)
class _Shape:
    """What full quality is reckoned from."""

    codec: str
    size: tuple[int, int]
    fps: float


class Tiers:
    """The tiers of one session.

    Args:
        settings: how frames are encoded.
        worker: runs an encoder away from the loop.
        max_age: seconds after its due time from which a frame is too old to be encoded.
    """

    def __init__(self, settings: CodecSettings, worker: Worker, max_age: float) -> None:
        self._settings = settings
        self._worker = worker
        self._max_age = max_age
        self._tiers: dict[str, list[Tier]] = {}
        self._shapes: dict[Lane, _Shape] = {}

    def join(self, lane: Lane) -> None:
        """A viewer watches a track from now on, or wants it in another codec."""
        self.leave(lane)
        lane.codec = lane.codecs[0]
        self._place(lane)

    def leave(self, lane: Lane) -> None:
        """A viewer watches a track no longer."""
        self._shapes.pop(lane, None)
        if (tier := lane.tier) is not None:
            tier.leave(lane)

    def offer(self, lane: Lane, frame: DueFrame) -> None:
        """A frame is shown now; the lane may move to another tier for it."""
        if lane.tier is None:
            return
        now = trio.current_time()
        self._measure(lane, frame, now)
        self._review(lane, now)
        assert lane.tier is not None
        lane.tier.offer(lane, frame, now)

    def count(self, track: str) -> int:
        """How many tiers a track has."""
        return sum(bool(tier.lanes) for tier in self._tiers.get(track, ()))

    def _measure(self, lane: Lane, frame: DueFrame, now: float) -> None:
        """Tell the lane's link what full quality is."""
        fps = 1 / frame.duration
        shape = self._shapes.get(lane)
        if shape is None or shape.size != frame.size or shape.codec != lane.codec or not 0.9 < fps / shape.fps < 1.1:
            shape = self._shapes[lane] = _Shape(lane.codec, frame.size, fps)
            full = full_bitrate(lane.codec, *frame.size, fps, self._settings)
            lane.link.describe(full, fps, lane.codec, *frame.size, now)

    def _review(self, lane: Lane, now: float) -> None:
        """Keep the lane on its tier, change the tier's quality, or move the lane."""
        tier, wanted = lane.tier, lane.wanted
        assert tier is not None
        if len(tier.lanes) == 1:
            tier.quality = wanted
            if (better := self._better(lane, tier)) is not None:
                better.expect(lane, now)
        elif _too_much(tier.quality, wanted):
            self._move_down(lane, now)
        else:
            least = min((member.wanted for member in tier.lanes), key=_rank)
            if _rank(least) > _rank(tier.quality):
                tier.quality = least

    def _better(self, lane: Lane, tier: Tier) -> Tier | None:
        """A tier as good as the lane's own, to be shared instead of it: of two alike the one that is there for longer."""
        tiers = self._of(lane)
        for place, other in enumerate(tiers):
            if other is tier or other.codec != tier.codec or not _near(other.quality, lane.wanted):
                continue
            rank, own = _rank(other.quality), _rank(tier.quality)
            if rank > own or (rank == own and place < tiers.index(tier)):
                return other
        return None

    def _move_down(self, lane: Lane, now: float) -> None:
        tier = lane.tier
        assert tier is not None
        tier.leave(lane)
        self._place(lane)
        assert lane.tier is not None
        lane.tier.refresh(lane, now)

    def _place(self, lane: Lane) -> None:
        """Put the lane on a tier that suits it; on a new one if there is none and room for it."""
        tiers = self._of(lane)
        same = [tier for tier in tiers if tier.codec == lane.codec]
        # How large its pictures are is not known before the first of them: until then the best tier will do.
        suiting = [tier for tier in same if lane not in self._shapes or _near(tier.quality, lane.wanted)]
        if suiting:
            max(suiting, key=lambda tier: _rank(tier.quality)).join(lane)
            return
        if len(tiers) >= MOST_TIERS:
            known = same or [tier for tier in tiers if tier.codec in lane.codecs]
            if known:
                below = [tier for tier in known if not _too_much(tier.quality, lane.wanted)]
                chosen = max(below, key=lambda t: _rank(t.quality)) if below else min(known, key=lambda t: _rank(t.quality))
                chosen.join(lane)
                return
        encoder = open_encoder(lane.spec, lane.codec, self._settings)
        tier = Tier(lane.index, lane.spec, encoder, lane.wanted, self._worker, self._max_age)
        tiers.append(tier)
        tier.join(lane)

    def _of(self, lane: Lane) -> list[Tier]:
        """The tiers of the lane's track that have members, the oldest first."""
        tiers = [tier for tier in self._tiers.get(lane.spec.name, ()) if tier.lanes]
        self._tiers[lane.spec.name] = tiers
        return tiers


def _stands_at(frame: DueFrame) -> float:
    """From when on no newer frame is to be expected, so that this one is what the viewers should see."""
    return frame.due + min(1.5 * frame.duration, _STANDS_AFTER)


def _rank(quality: Quality) -> tuple[float, float, float]:
    return quality.scale, -quality.divisor, quality.bitrate


def _too_much(tier: Quality, wanted: Quality) -> bool:
    """Whether a tier gives more than a lane's link carries."""
    return (
        tier.scale > wanted.scale or tier.divisor < wanted.divisor or wanted.bitrate < _TOO_MUCH * tier.bitrate
    )


def _near(tier: Quality, wanted: Quality) -> bool:
    """Whether a tier gives about what a lane's link carries, and not more."""
    return (
        tier.scale == wanted.scale
        and tier.divisor == wanted.divisor
        and _NEAR * wanted.bitrate <= tier.bitrate <= 1.05 * wanted.bitrate
    )


def _differ(one: Target, other: Target) -> bool:
    return (
        one.scale != other.scale
        or not 0.95 < one.bitrate / other.bitrate < 1.05
        or not 0.9 < one.fps / other.fps < 1.1
    )
