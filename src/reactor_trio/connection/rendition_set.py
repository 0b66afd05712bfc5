"""The renditions of a session: viewers of one session that want the same share an encoder.

A member that cannot keep up never makes the others wait: its packets wait in its down track until they are too old. Nor
does it lower the others' quality. `pacing.CongestionWindow` measures what its link carries. A member alone on its rendition
takes the rendition's quality with it. One among several leaves for a lower rendition, of which a track has at most three,
and goes back when its link has recovered.

A session does not use a codec again whose encoder has failed in it; no session opens an encoder of a codec that hangs
(`media.codec_pool`). The members that the encoder served go on with the next codec that their viewers decode, from the
frame that could not be encoded.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

import trio

from reactor_trio.connection.down_track import DownTrack
from reactor_trio.connection.outgoing_frames import DueFrame
from reactor_trio.connection.rendition import Rendition
from reactor_trio.connection.sender_context import SenderContext
from reactor_trio.media import full_bitrate, open_encoder
from reactor_trio.pacing import Quality

log = logging.getLogger("reactor_trio.connection")

#: renditions of one track
MOST_RENDITIONS = 3
#: a member leaves for a lower rendition when its link carries less than this share of the rendition's bitrate
_TOO_MUCH = 0.75
#: a member joins a rendition that has at least this share of what its link carries
_NEAR = 0.6


class RenditionSet:
    """The renditions of one session; the `RenditionOwner` of each."""

    def __init__(self, context: SenderContext) -> None:
        self.context = context
        #: the rendition of each down track that has one
        self.placed: dict[DownTrack, Rendition] = {}
        self._renditions: dict[str, list[Rendition]] = {}
        #: (track, codec) of encoders that have failed
        self._failed: set[tuple[str, str]] = set()

    def join(self, down_track: DownTrack) -> None:
        """Place a down track in a rendition, or move it to one of another codec. Calls `forsaken` if no encoder is left."""
        self.leave(down_track)
        down_track.codec = down_track.codecs[0]
        self._place(down_track)

    def leave(self, down_track: DownTrack) -> None:
        """Take a down track out of its rendition."""
        down_track.shape = None
        if (rendition := self.placed.get(down_track)) is not None:
            rendition.leave(down_track)

    def review(self, down_track: DownTrack, frame: DueFrame, now: float) -> Rendition | None:
        """The rendition to which a frame that is shown now is to be offered. For it the down track may change renditions.

        None if the down track takes no video.
        """
        if (rendition := self.placed.get(down_track)) is None:
            return None
        size, fps = frame.size, 1 / frame.duration
        shape = down_track.shape
        if shape is None or shape[0] != size or not 0.9 < fps / shape[1] < 1.1:
            down_track.shape = size, fps
            full = full_bitrate(down_track.codec, *size, fps, self.context.codec)
            down_track.link.describe(full, fps, down_track.codec, *size, now)
        wanted = down_track.link.quality
        if len(rendition.members) == 1:
            rendition.quality = wanted
            several = len(self._renditions[rendition.track]) > 1
            if several and (better := self._better(down_track, rendition)) is not None:
                better.expect(down_track, now)
        elif _too_much(rendition.quality, wanted):
            return self._move_down(down_track, rendition, now)
        elif down_track is rendition.members[0]:  # once for each frame
            least = min((member.link.quality for member in rendition.members), key=_rank)
            rendition.quality = max(rendition.quality, least, key=_rank)
        return rendition

    def usable(self, track: str, codecs: Sequence[str]) -> tuple[str, ...]:
        """The codecs whose encoder has neither failed nor hangs."""
        return tuple(codec for codec in codecs if not self._fails(track, codec))

    def leftovers(self) -> list[str]:
        """A text for each encoder that is open; empty once every viewer has left."""
        return [
            f"encoder {rendition.implementation} of {track}"
            for track, renditions in self._renditions.items() for rendition in renditions
        ]  # fmt: skip

    def _better(self, down_track: DownTrack, rendition: Rendition) -> Rendition | None:
        """A rendition as good as the down track's own, to be shared instead of it; of two alike the older one."""
        renditions = self._of(down_track)
        if len(renditions) == 1:
            return None
        own, place = _rank(rendition.quality), renditions.index(rendition)
        for index, other in enumerate(renditions):
            if other is rendition or other.codec != rendition.codec or not _near(other.quality, down_track.link.quality):
                continue
            rank = _rank(other.quality)
            if rank > own or (rank == own and index < place):
                return other
        return None

    def _move_down(self, down_track: DownTrack, rendition: Rendition, now: float) -> Rendition:
        lower = self._choose(down_track)
        if lower is None or lower is rendition:  # there is no lower one: what it misses gates it until the next keyframe
            return rendition
        rendition.leave(down_track)
        lower.join(down_track)
        lower.refresh(down_track, now)
        return lower

    def _place(self, down_track: DownTrack) -> None:
        rendition = self._choose(down_track)
        if rendition is None:
            down_track.owner.forsaken()
        else:
            rendition.join(down_track)

    def _choose(self, down_track: DownTrack) -> Rendition | None:
        """A rendition that suits the down track; a new one if none suits and there is room. None: no codec is left."""
        renditions = self._of(down_track)
        known = [rendition for rendition in renditions if rendition.codec in down_track.codecs]
        for codec in dict.fromkeys((down_track.codec, *down_track.codecs)):
            same = [rendition for rendition in renditions if rendition.codec == codec]
            suiting = [rendition for rendition in same if _near(rendition.quality, down_track.link.quality)]
            if suiting:
                return max(suiting, key=lambda rendition: _rank(rendition.quality))
            known = same or known
            if known and len(renditions) >= MOST_RENDITIONS:
                break
            if (rendition := self._open(down_track, codec)) is not None:
                return rendition
        if not known:
            return None
        below = [rendition for rendition in known if not _too_much(rendition.quality, down_track.link.quality)]
        choose = max if below else min
        return choose(below or known, key=lambda rendition: _rank(rendition.quality))

    def _open(self, down_track: DownTrack, codec: str) -> Rendition | None:
        """A new rendition; None if its codec cannot be encoded in this session."""
        track = down_track.spec.name
        if self._fails(track, codec):
            return None
        try:
            encoder = open_encoder(down_track.spec, codec, self.context.codec)
        except Exception as error:  # whatever a codec, its driver or a device says
            self._blame(track, codec, "not opened", error)
            return None
        rendition = Rendition(self, down_track.index, down_track.spec, encoder, down_track.link.quality)
        self._renditions.setdefault(track, []).append(rendition)
        return rendition

    def closed(self, rendition: Rendition) -> None:
        """See `RenditionOwner.closed`."""
        self._renditions[rendition.track].remove(rendition)

    def replace(self, rendition: Rendition, error: Exception, frame: DueFrame) -> None:
        """See `RenditionOwner.replace`."""
        members = list(rendition.members)
        for down_track in members:
            self.leave(down_track)
        self._blame(rendition.track, rendition.codec, rendition.implementation, error)
        now = trio.current_time()
        for down_track in members:
            down_track.enter("renewed")
            self._place(down_track)
            if (chosen := self.review(down_track, frame, now)) is None:
                down_track.lose("encoder_failed")
                continue
            chosen.offer(down_track, frame, now)
            down_track.owner.wake()

    def _fails(self, track: str, codec: str) -> bool:
        return (track, codec) in self._failed or self.context.codec_pool.hangs("encoder", codec)

    def _blame(self, track: str, codec: str, implementation: str, error: Exception) -> None:
        self._failed.add((track, codec))
        log.error(
            "%s: the %s encoder (%s) failed and is not used again in this session: %s: %s",
            track, codec, implementation, type(error).__name__, error, exc_info=error,
        )  # fmt: skip

    def _of(self, down_track: DownTrack) -> list[Rendition]:
        """The renditions of the down track's track that have members, the oldest first."""
        return [rendition for rendition in self._renditions.get(down_track.spec.name, ()) if rendition.members]


def _rank(quality: Quality) -> tuple[float, int, float]:
    return quality.scale, -quality.divisor, quality.share


def _too_much(given: Quality, wanted: Quality) -> bool:
    """Whether a rendition gives more than a link carries."""
    return given.scale > wanted.scale or given.divisor < wanted.divisor or wanted.share < _TOO_MUCH * given.share


def _near(given: Quality, wanted: Quality) -> bool:
    """Whether a rendition gives about what a link carries, and not more."""
    alike = given.scale == wanted.scale and given.divisor == wanted.divisor
    return alike and _NEAR * wanted.share <= given.share <= 1.05 * wanted.share
