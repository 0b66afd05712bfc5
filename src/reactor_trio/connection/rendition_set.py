"""Which viewers share an encoder: those of one session that want the same.

A member of a tier that cannot keep up is never waited for: its packets wait in its lane until they are too old. Nor does it
lower the others' quality. What its link carries is measured (`pacing.CongestionWindow`); a member alone on its tier takes
the tier with it, one among several leaves for a lower tier, of which a track has at most three. Who has recovered goes back.

A codec whose encoder has failed is not opened again in its session; one whose encoder hangs (`codec_pool`) is opened in
none. The lanes that it served go on with the next codec that their viewers decode, from the frame that could not be encoded.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import msgspec
import trio

from reactor_trio.connection.down_track import DownTrack, DueFrame, Level
from reactor_trio.connection.rendition import Rendition
from reactor_trio.media import CodecSettings, full_bitrate, open_encoder
from reactor_trio.media.codec_pool import CodecPool
from reactor_trio.telemetry import Telemetry

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


class RenditionSet:
    """The tiers of one session.

    Args:
        settings: how frames are encoded.
        coders: run the encoders.
        max_age: seconds after its due time from which a frame is too old to be encoded.
        telemetry: counts and traces what happens.
    """

    def __init__(
        self,
        settings: CodecSettings,
        codec_pool: CodecPool,
        max_age: float,
        telemetry: Telemetry,
    ) -> None:
        self._settings = settings
        self._codec_pool = codec_pool
        self._max_age = max_age
        self._telemetry = telemetry
        self._renditions: dict[str, list[Rendition]] = {}
        #: (track, codec) of encoders that have failed
        self._failed: set[tuple[str, str]] = set()
        self._shapes: dict[DownTrack, _Shape] = {}

    def join(self, down_track: DownTrack) -> None:
        """A viewer watches a track from now on, or wants it in another codec; it is told if none can be encoded."""
        self.leave(down_track)
        down_track.codec = down_track.codecs[0]
        self._place(down_track)

    def leave(self, down_track: DownTrack) -> None:
        """A viewer watches a track no longer."""
        self._shapes.pop(down_track, None)
        if (rendition := down_track.rendition) is not None:
            rendition.leave(down_track)

    def offer(self, down_track: DownTrack, frame: DueFrame) -> bool | None:
        """A frame is shown now; the lane may move to another tier for it.

        Returns whether it replaced one that the lane's link would have taken, because the encoder is still at work. None:
        it replaced one for another reason, or the lane takes no video.
        """
        if down_track.rendition is None:
            return None
        now = trio.current_time()
        self._measure(down_track, frame, now)
        self._review(down_track, now)
        assert down_track.rendition is not None
        down_track.rendition.offer(down_track, frame, now)
        if not down_track.rendition.replaced:
            return False
        return True if down_track.rendition.outpaced and down_track.ready(now) else None

    def usable(self, track: str, codecs: Sequence[str]) -> tuple[str, ...]:
        """Those of the codecs whose encoder has not failed."""
        return tuple(codec for codec in codecs if not self._fails(track, codec))

    def count(self, track: str) -> int:
        """How many tiers a track has."""
        return sum(bool(rendition.down_tracks) for rendition in self._renditions.get(track, ()))

    def leftovers(self) -> list[str]:
        """Encoders that are open, in words; none once every viewer has left."""
        return [
            f"encoder {rendition.implementation} of {track}"
            for track, renditions in self._renditions.items() for rendition in renditions if not rendition.closed
        ]  # fmt: skip

    def _measure(self, down_track: DownTrack, frame: DueFrame, now: float) -> None:
        """Tell the lane what full quality is."""
        fps = 1 / frame.duration
        shape = self._shapes.get(down_track)
        if shape is None or shape.size != frame.size or not 0.9 < fps / shape.fps < 1.1:
            self._shapes[down_track] = _Shape(frame.size, fps)
            down_track.describe(full_bitrate(down_track.codec, *frame.size, fps, self._settings), fps, frame.size, now)

    def _review(self, down_track: DownTrack, now: float) -> None:
        """Keep the lane on its tier, change the tier's level, or move the lane."""
        rendition, wanted = down_track.rendition, down_track.wanted
        assert rendition is not None
        if len(rendition.down_tracks) == 1:
            rendition.level = wanted
            if (better := self._better(down_track, rendition)) is not None:
                better.expect(down_track, now)
        elif _too_much(rendition.level, wanted):
            self._move_down(down_track, now)
        elif _rank(wanted) > _rank(rendition.level):  # else there is a member for whom it must not rise: this one
            least = min((member.wanted for member in rendition.down_tracks), key=_rank)
            if _rank(least) > _rank(rendition.level):
                rendition.level = least

    def _better(self, down_track: DownTrack, rendition: Rendition) -> Rendition | None:
        """A tier as good as the lane's own, to be shared instead of it: of two alike the one that is there for longer."""
        renditions = self._of(down_track)
        for place, other in enumerate(renditions):
            if other is rendition or other.codec != rendition.codec or not _near(other.level, down_track.wanted):
                continue
            rank, own = _rank(other.level), _rank(rendition.level)
            if rank > own or (rank == own and place < renditions.index(rendition)):
                return other
        return None

    def _move_down(self, down_track: DownTrack, now: float) -> None:
        lower = self._choose(down_track)
        if (
            lower is None or lower is down_track.rendition
        ):  # it is on the least there is: what it misses takes it to the next keyframe
            return
        assert down_track.rendition is not None
        down_track.rendition.leave(down_track)
        lower.join(down_track)
        lower.refresh(down_track, now)

    def _place(self, down_track: DownTrack) -> None:
        rendition = self._choose(down_track)
        if rendition is None:
            down_track.forsaken()
        else:
            rendition.join(down_track)

    def _choose(self, down_track: DownTrack) -> Rendition | None:
        """A tier that suits the lane; a new one if there is none and room for it. None: its codecs cannot be encoded."""
        renditions = self._of(down_track)
        known = [rendition for rendition in renditions if rendition.codec in down_track.codecs]
        for codec in dict.fromkeys((down_track.codec, *down_track.codecs)):
            same = [rendition for rendition in renditions if rendition.codec == codec]
            suiting = [rendition for rendition in same if _near(rendition.level, down_track.wanted)]
            if suiting:
                return max(suiting, key=lambda rendition: _rank(rendition.level))
            known = same or known
            if known and len(renditions) >= MOST_TIERS:
                break
            if (rendition := self._open(down_track, codec)) is not None:
                return rendition
        if not known:
            return None
        below = [rendition for rendition in known if not _too_much(rendition.level, down_track.wanted)]
        return max(below, key=lambda t: _rank(t.level)) if below else min(known, key=lambda t: _rank(t.level))

    def _open(self, down_track: DownTrack, codec: str) -> Rendition | None:
        """A new tier; None if its codec cannot be encoded in this session."""
        track = down_track.spec.name
        if self._fails(track, codec):
            return None
        try:
            encoder = open_encoder(down_track.spec, codec, self._settings)
        except Exception as error:  # whatever a codec, its driver or a device says
            self._blame(track, codec, "not opened", error)
            return None
        rendition = Rendition(
            down_track.index,
            down_track.spec,
            encoder,
            down_track.wanted,
            self._settings,
            self._codec_pool,
            self._max_age,
            self._replace,
            self._telemetry,
        )
        self._renditions[track].append(rendition)
        return rendition

    def _replace(self, rendition: Rendition, error: Exception, frame: DueFrame) -> None:
        """The encoder of a tier has failed: its lanes go on elsewhere, from `frame`."""
        down_tracks = list(rendition.down_tracks)
        for down_track in down_tracks:
            self.leave(down_track)
        self._blame(rendition.track, rendition.codec, rendition.implementation, error)
        for down_track in down_tracks:
            down_track.fresh = True
            self._place(down_track)
            if down_track.rendition is None:
                down_track.lose("encoder_failed")
                continue
            self.offer(down_track, frame)
            down_track.wake()

    def _fails(self, track: str, codec: str) -> bool:
        return (track, codec) in self._failed or self._codec_pool.hangs("encoder", codec)

    def _blame(self, track: str, codec: str, implementation: str, error: Exception) -> None:
        self._failed.add((track, codec))
        log.error(
            "%s: the %s encoder (%s) failed and is not used again in this session: %s: %s",
            track, codec, implementation, type(error).__name__, error, exc_info=error,
        )  # fmt: skip

    def _of(self, down_track: DownTrack) -> list[Rendition]:
        """The tiers of the lane's track that have members, the oldest first."""
        renditions = [rendition for rendition in self._renditions.get(down_track.spec.name, ()) if not rendition.closed]
        self._renditions[down_track.spec.name] = renditions
        return [rendition for rendition in renditions if rendition.down_tracks]


def _rank(level: Level) -> tuple[float, float, float]:
    return level.scale, -level.divisor, level.share


def _too_much(rendition: Level, wanted: Level) -> bool:
    """Whether a tier gives more than a lane's link carries."""
    return rendition.scale > wanted.scale or rendition.divisor < wanted.divisor or wanted.share < _TOO_MUCH * rendition.share


def _near(rendition: Level, wanted: Level) -> bool:
    """Whether a tier gives about what a lane's link carries, and not more."""
    alike = rendition.scale == wanted.scale and rendition.divisor == wanted.divisor
    return alike and _NEAR * wanted.share <= rendition.share <= 1.05 * wanted.share
