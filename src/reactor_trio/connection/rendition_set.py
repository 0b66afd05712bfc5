"""Which viewers share an encoder: those of one session that want the same.

A member of a tier that cannot keep up is never waited for: its packets wait in its lane until they are too old. Nor does it
lower the others' quality. What its link carries is measured (`pacing.LinkControl`); a member alone on its tier takes the
tier with it, one among several leaves for a lower tier, of which a track has at most three. Who has recovered goes back.

A codec whose encoder has failed is not opened again in its session; one whose encoder hangs (`coders`) is opened in none.
The lanes that it served go on with the next codec that their viewers decode, from the frame that could not be encoded.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec
import trio

from reactor_trio.connection.down_track import DueFrame, Lane, Level
from reactor_trio.connection.rendition import Tier
from reactor_trio.media import CodecSettings, full_bitrate, open_encoder
from reactor_trio.media.codec_pool import Coders

log = logging.getLogger("reactor_trio.connection")

#: tiers of one track
MOST_TIERS = 3
#: a member leaves for a lower tier when its link carries less than this share of the tier's bitrate
_TOO_MUCH = 0.75
#: and joins a tier that has at least this share of what its link carries
_NEAR = 0.6


class _Shape(msgspec.Struct, frozen=True):
    """What full quality is reckoned from."""

    size: tuple[int, int]
    fps: float


class Tiers:
    """The tiers of one session.

    Args:
        settings: how frames are encoded.
        coders: run the encoders.
        max_age: seconds after its due time from which a frame is too old to be encoded.
        encoded: told of each frame encoded: codec, and seconds.
    """

    def __init__(
        self,
        settings: CodecSettings,
        coders: Coders,
        max_age: float,
        encoded: Callable[[str, float], None] = lambda _codec, _seconds: None,
    ) -> None:
        self._settings = settings
        self._coders = coders
        self._max_age = max_age
        self._encoded = encoded
        self._tiers: dict[str, list[Tier]] = {}
        #: (track, codec) of encoders that have failed
        self._failed: set[tuple[str, str]] = set()
        self._shapes: dict[Lane, _Shape] = {}

    def join(self, lane: Lane) -> None:
        """A viewer watches a track from now on, or wants it in another codec; it is told if none can be encoded."""
        self.leave(lane)
        lane.codec = lane.codecs[0]
        self._place(lane)

    def leave(self, lane: Lane) -> None:
        """A viewer watches a track no longer."""
        self._shapes.pop(lane, None)
        if (tier := lane.tier) is not None:
            tier.leave(lane)

    def offer(self, lane: Lane, frame: DueFrame) -> bool | None:
        """A frame is shown now; the lane may move to another tier for it.

        Returns whether it replaced one that the lane's link would have taken, because the encoder is still at work. None:
        it replaced one for another reason, or the lane takes no video.
        """
        if lane.tier is None:
            return None
        now = trio.current_time()
        self._measure(lane, frame, now)
        self._review(lane, now)
        assert lane.tier is not None
        lane.tier.offer(lane, frame, now)
        if not lane.tier.replaced:
            return False
        return True if lane.tier.outpaced and lane.ready(now) else None

    def usable(self, track: str, codecs: Sequence[str]) -> tuple[str, ...]:
        """Those of the codecs whose encoder has not failed."""
        return tuple(codec for codec in codecs if not self._fails(track, codec))

    def count(self, track: str) -> int:
        """How many tiers a track has."""
        return sum(bool(tier.lanes) for tier in self._tiers.get(track, ()))

    def leftovers(self) -> list[str]:
        """Encoders that are open, in words; none once every viewer has left."""
        return [
            f"encoder {tier.implementation} of {track}"
            for track, tiers in self._tiers.items() for tier in tiers if not tier.closed
        ]  # fmt: skip

    def _measure(self, lane: Lane, frame: DueFrame, now: float) -> None:
        """Tell the lane what full quality is."""
        fps = 1 / frame.duration
        shape = self._shapes.get(lane)
        if shape is None or shape.size != frame.size or not 0.9 < fps / shape.fps < 1.1:
            self._shapes[lane] = _Shape(frame.size, fps)
            lane.describe(full_bitrate(lane.codec, *frame.size, fps, self._settings), fps, frame.size, now)

    def _review(self, lane: Lane, now: float) -> None:
        """Keep the lane on its tier, change the tier's level, or move the lane."""
        tier, wanted = lane.tier, lane.wanted
        assert tier is not None
        if len(tier.lanes) == 1:
            tier.level = wanted
            if (better := self._better(lane, tier)) is not None:
                better.expect(lane, now)
        elif _too_much(tier.level, wanted):
            self._move_down(lane, now)
        elif _rank(wanted) > _rank(tier.level):  # else there is a member for whom it must not rise: this one
            least = min((member.wanted for member in tier.lanes), key=_rank)
            if _rank(least) > _rank(tier.level):
                tier.level = least

    def _better(self, lane: Lane, tier: Tier) -> Tier | None:
        """A tier as good as the lane's own, to be shared instead of it: of two alike the one that is there for longer."""
        tiers = self._of(lane)
        for place, other in enumerate(tiers):
            if other is tier or other.codec != tier.codec or not _near(other.level, lane.wanted):
                continue
            rank, own = _rank(other.level), _rank(tier.level)
            if rank > own or (rank == own and place < tiers.index(tier)):
                return other
        return None

    def _move_down(self, lane: Lane, now: float) -> None:
        lower = self._choose(lane)
        if lower is None or lower is lane.tier:  # it is on the least there is: what it misses takes it to the next keyframe
            return
        assert lane.tier is not None
        lane.tier.leave(lane)
        lower.join(lane)
        lower.refresh(lane, now)

    def _place(self, lane: Lane) -> None:
        tier = self._choose(lane)
        if tier is None:
            lane.forsaken()
        else:
            tier.join(lane)

    def _choose(self, lane: Lane) -> Tier | None:
        """A tier that suits the lane; a new one if there is none and room for it. None: its codecs cannot be encoded."""
        tiers = self._of(lane)
        known = [tier for tier in tiers if tier.codec in lane.codecs]
        for codec in dict.fromkeys((lane.codec, *lane.codecs)):
            same = [tier for tier in tiers if tier.codec == codec]
            suiting = [tier for tier in same if _near(tier.level, lane.wanted)]
            if suiting:
                return max(suiting, key=lambda tier: _rank(tier.level))
            known = same or known
            if known and len(tiers) >= MOST_TIERS:
                break
            if (tier := self._open(lane, codec)) is not None:
                return tier
        if not known:
            return None
        below = [tier for tier in known if not _too_much(tier.level, lane.wanted)]
        return max(below, key=lambda t: _rank(t.level)) if below else min(known, key=lambda t: _rank(t.level))

    def _open(self, lane: Lane, codec: str) -> Tier | None:
        """A new tier; None if its codec cannot be encoded in this session."""
        track = lane.spec.name
        if self._fails(track, codec):
            return None
        try:
            encoder = open_encoder(lane.spec, codec, self._settings)
        except Exception as error:  # whatever a codec, its driver or a device says
            self._blame(track, codec, "not opened", error)
            return None
        tier = Tier(
            lane.index, lane.spec, encoder, lane.wanted, self._settings, self._coders, self._max_age, self._replace,
            self._encoded,
        )
        self._tiers[track].append(tier)
        return tier

    def _replace(self, tier: Tier, error: Exception, frame: DueFrame) -> None:
        """The encoder of a tier has failed: its lanes go on elsewhere, from `frame`."""
        lanes = list(tier.lanes)
        for lane in lanes:
            self.leave(lane)
        self._blame(tier.track, tier.codec, tier.implementation, error)
        for lane in lanes:
            lane.fresh = True
            self._place(lane)
            if lane.tier is None:
                lane.lose("encoder_failed")
                continue
            self.offer(lane, frame)
            lane.wake()

    def _fails(self, track: str, codec: str) -> bool:
        return (track, codec) in self._failed or self._coders.hangs("encoder", codec)

    def _blame(self, track: str, codec: str, implementation: str, error: Exception) -> None:
        self._failed.add((track, codec))
        log.error(
            "%s: the %s encoder (%s) failed and is not used again in this session: %s: %s",
            track, codec, implementation, type(error).__name__, error, exc_info=error,
        )  # fmt: skip

    def _of(self, lane: Lane) -> list[Tier]:
        """The tiers of the lane's track that have members, the oldest first."""
        tiers = [tier for tier in self._tiers.get(lane.spec.name, ()) if not tier.closed]
        self._tiers[lane.spec.name] = tiers
        return [tier for tier in tiers if tier.lanes]


def _rank(level: Level) -> tuple[float, float, float]:
    return level.scale, -level.divisor, level.share


def _too_much(tier: Level, wanted: Level) -> bool:
    """Whether a tier gives more than a lane's link carries."""
    return tier.scale > wanted.scale or tier.divisor < wanted.divisor or wanted.share < _TOO_MUCH * tier.share


def _near(tier: Level, wanted: Level) -> bool:
    """Whether a tier gives about what a lane's link carries, and not more."""
    alike = tier.scale == wanted.scale and tier.divisor == wanted.divisor
    return alike and _NEAR * wanted.share <= tier.share <= 1.05 * wanted.share
