"""One encoder and the lanes that it serves.

A *tier* is one encoder of one track, a codec at a quality; its members are lanes. It has no task of its own: the sending
task of whichever member can take a frame encodes it, for all of them. So nothing is encoded that nobody can take, and a
viewer alone on its tier drops before the encoder, which then refers to the last frame *sent* and never breaks its chain.

A lane that cannot go on without a packet that stands alone asks for one (`refresh`). There is a floor between two of them,
so that one client cannot make everybody's pictures expensive; a newcomer's floor is lower, since it has no picture at all,
but not twice within the floor. If the model is at rest, the picture that stands is encoded again.

An encoder may fail, at any frame, or hang (`codec_pool`). Its tier is over then, and whoever made it decides what its lanes
get instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import trio

from reactor_trio.connection.down_track import CodedFrame, DownTrack, DueFrame, Level
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings, Encoded, Encoder, Target, full_bitrate
from reactor_trio.media.codec_pool import CodecPool
from reactor_trio.protocol import KEYFRAME, Packet, TrackInfo, packet_head
from reactor_trio.telemetry import Telemetry

#: seconds between two packets that stand alone: where one is asked for, and where a newcomer needs one
KEYFRAME_FLOOR = 0.5
NEWCOMER_FLOOR = 0.05
#: seconds after which a picture is taken for the one that stands, however slow the model
_STANDS_AFTER = 0.5


class Rendition:
    """One encoder and the lanes it serves; made and kept by `RenditionSet`.

    Args:
        index, spec: of the track.
        level: what to aim at first.
        settings: say what full quality is.
        coders: run the encoder.
        max_age: seconds after its due time from which a frame is too old to be encoded.
        failed: told that the encoder has raised an exception or hangs, and is let go, and of the newest frame, which was not
            encoded.
        telemetry: counts and traces what happens.
    """

    def __init__(
        self,
        index: int,
        spec: TrackSpec,
        encoder: Encoder,
        level: Level,
        settings: CodecSettings,
        codec_pool: CodecPool,
        max_age: float,
        failed: Callable[[Rendition, Exception, DueFrame], None],
        telemetry: Telemetry,
    ) -> None:
        self.track = spec.name
        self.codec = encoder.codec
        self.implementation = encoder.implementation
        #: whether its encoder has been let go
        self.closed = False
        #: whether the newest frame replaced one that was not encoded, and whether the encoder was at work then
        self.replaced = self.outpaced = False
        self.level = level
        self.down_tracks: list[DownTrack] = []
        self._index = index
        self._spec = spec
        self._encoder = encoder
        self._settings = settings
        self._codec_pool = codec_pool
        self._max_age = max_age
        self._failed = failed
        self._telemetry = telemetry
        #: lanes of other tiers that join with the next keyframe
        self._expected: list[DownTrack] = []
        self._busy = False
        self._frame: DueFrame | None = None
        self._last: DueFrame | None = None
        #: lanes that want the picture that stands, for themselves, and from when on each may have it
        self._newcomers: dict[DownTrack, float] = {}
        #: for whom it is encoded now, None: for every member
        self._asked: list[DownTrack] | None = None
        self._newest_seq = -1
        self._last_due = -math.inf
        self._last_keyframe = -math.inf
        self._keyframe_at = math.inf
        self._target: Target | None = None
        self._info: TrackInfo | None = None

    def join(self, down_track: DownTrack) -> None:
        """A lane is served from now on; what it gets first stands alone."""
        self.down_tracks.append(down_track)
        down_track.rendition, down_track.codec = self, self.codec
        down_track.drop_queue("superseded")

    def expect(self, down_track: DownTrack, now: float) -> None:
        """A lane of another tier joins with the next packet that stands alone, and goes on over there until then."""
        if down_track not in self._expected:
            self._expected.append(down_track)
        if not self._encoder.intra_only:
            self.refresh(down_track, now)

    def leave(self, down_track: DownTrack) -> None:
        """A lane is served no longer."""
        self.down_tracks.remove(down_track)
        down_track.rendition = None
        self._newcomers.pop(down_track, None)
        self._close_if_alone()

    @property
    def describe(self) -> TrackInfo:
        """What is needed to decode its newest packet; without a size before the first."""
        return self._info or self._encoder.describe(self._index, self._spec, None)

    @property
    def waits(self) -> bool:
        """Whether a frame waits to be encoded."""
        return self._frame is not None

    @property
    def encodes(self) -> bool:
        """Whether a frame for every member is being encoded."""
        return self._busy and self._asked is None

    def offer(self, down_track: DownTrack, frame: DueFrame, now: float) -> None:
        """A frame is shown now; each member offers it, the first one counts. A newcomer may offer the one that stands."""
        newcomer, down_track.fresh = down_track.fresh, False
        if frame.seq <= self._newest_seq:
            if newcomer:
                self.refresh(down_track, now, newcomer=True)
            return
        old = self._frame
        self.replaced = old is not None and old is not self._last
        self.outpaced = self.replaced and self._busy
        if old is not None and self.replaced:
            late, thinned = now > old.due + self._max_age, old.due < self._rested_at(old)
            reason = "thinned" if thinned else "late" if late else "superseded"
            for member in self.down_tracks:
                member.passed_over(reason, now)
        self._newest_seq, self._frame = frame.seq, frame

    def refresh(self, down_track: DownTrack, now: float, *, newcomer: bool = False) -> None:
        """`down_track` needs a packet that stands alone."""
        at = down_track.refreshed_at + KEYFRAME_FLOOR
        newcomer = newcomer and now >= at
        if not self._encoder.intra_only:
            floor = NEWCOMER_FLOOR if newcomer else KEYFRAME_FLOOR
            self._keyframe_at = min(self._keyframe_at, max(now, self._last_keyframe + floor))
            if newcomer:
                self._newcomers[down_track] = down_track.refreshed_at = now
            if not self._busy:
                self._show_standing()
        elif self._last is not None and self._frame is None and down_track not in self._newcomers:
            self._newcomers[down_track] = down_track.refreshed_at = max(now, at)
        down_track.wake()

    def _show_standing(self) -> None:
        if self._frame is None:
            self._frame = self._last

    def may_encode_at(self, down_track: DownTrack, now: float) -> float:
        """When the task of `down_track`, which is ready, may encode what waits; infinite if that is nothing, or under
        way."""
        if self._busy:
            return math.inf
        frame = self._frame
        if frame is None:
            return self._newcomers.get(down_track, math.inf)
        if frame is self._last:  # it is encoded again, unless a newer one comes, or a newcomer waits
            return self._keyframe_at if self._newcomers else max(self._keyframe_at, _stands_at(frame))
        if now > frame.due + self._max_age or frame.due < self._rested_at(frame):
            return _stands_at(frame)
        return frame.due

    async def encode(self) -> None:
        """Encode what waits, for every member. Cancelled while it waits for a worker, it leaves the frame to the others.

        An exception of the encoder, or that it hangs, is for `failed`, and does not come out.
        """
        frame = self._frame or self._last
        assert frame is not None
        began = trio.current_time()
        self._asked = (
            None if self._frame is not None else [down_track for down_track, at in self._newcomers.items() if at <= began]
        )
        self._frame, self._busy = None, True
        coded: CodedFrame | None = None
        error: Exception | None = None
        try:
            target = self._new_target(frame)
            try:
                encoded = await self._work(frame, target, began)
            except Exception as raised:  # whatever a codec, its driver or a device says
                error = raised
            else:
                coded = self._coded(frame, encoded, began)
        finally:
            self._busy = False
            if coded is None and self._asked is None:
                self._put_back(frame, "superseded" if error is None else "encoder_failed")
            self._close_if_alone()
            if coded is None:
                self._wake_members()
        if error is not None:
            self._expected.clear()
            self._close()
            self._failed(self, error, self._frame or frame)
        elif coded is not None:
            self._hand_out(frame, coded)

    def _put_back(self, frame: DueFrame, reason: str) -> None:
        """`frame` was not encoded: it waits again, unless a newer one came meanwhile."""
        if self._frame is None:
            self._frame = frame
        elif frame is not self._last:
            for member in self.down_tracks:
                member.lose(reason)

    def _hand_out(self, frame: DueFrame, coded: CodedFrame) -> None:
        self._last, self._last_due, now = frame, frame.due, trio.current_time()
        taken_in = self._take_in() if coded.keyframe else ()
        for member in list(self.down_tracks if self._asked is None else self._asked):
            if member.rendition is not self:  # who was asked for may have left meanwhile
                continue
            if member in taken_in and self._encoder.intra_only and member.newest_seq >= frame.seq:
                continue  # it has had this one of the tier that it came from
            member.put(coded, now)
        served = self.down_tracks if self._asked is None else self._asked
        self._newcomers = {
            down_track: at for down_track, at in self._newcomers.items() if down_track.gated or down_track not in served
        }
        if self._keyframe_at < math.inf:
            self._show_standing()
        self._wake_members()

    def _take_in(self) -> Sequence[DownTrack]:
        expected, self._expected = self._expected, []
        taken_in = []
        for down_track in expected:
            if down_track.rendition is not None and down_track.rendition is not self and down_track.codec == self.codec:
                down_track.rendition.leave(down_track)
                self.join(down_track)
                taken_in.append(down_track)
        return taken_in

    def _wake_members(self) -> None:
        if self._frame is not None or self._newcomers:
            for member in self.down_tracks:
                member.wake()

    def _new_target(self, frame: DueFrame) -> Target | None:
        """What to aim at from now on; None: what it was."""
        level, fps = self.level, 1 / frame.duration
        full = full_bitrate(self.codec, *frame.size, fps, self._settings)
        target = Target(level.share * full, fps / level.divisor, level.scale)
        if self._target is not None and not _differ(target, self._target):
            return None
        self._target = target
        return target

    async def _work(self, frame: DueFrame, target: Target | None, began: float) -> Encoded:
        """Have the encoder do its work, and nothing else. Raises what it raises."""
        if target is not None:
            self._encoder.configure(target)
        if self._keyframe_at <= began:
            self._encoder.request_keyframe()
        encoded = await self._codec_pool.encode(self._encoder, frame.frame)
        self._info = self._encoder.describe(self._index, self._spec, encoded.size)
        return encoded

    def _coded(self, frame: DueFrame, encoded: Encoded, began: float) -> CodedFrame:
        now = trio.current_time()
        if encoded.keyframe:
            self._last_keyframe, self._keyframe_at = now, math.inf
        assert self._info is not None
        origin = frame.origin
        queued, encoding = max(0.0, began - frame.made), now - began
        self._telemetry.encoded(self.codec, encoding)
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
            self._info, head, encoded.payload, encoded.keyframe, frame.seq, frame.due, origin, queued, encoding, frame.made
        )

    def _rested_at(self, frame: DueFrame) -> float:
        """From when on a frame may be due at the level's frame rate; half a frame early, since due times swing."""
        divisor = self.level.divisor
        return -math.inf if divisor == 1 else self._last_due + (divisor - 0.5) * frame.duration

    def _close_if_alone(self) -> None:
        if not self.down_tracks and not self._busy:
            self._close()

    def _close(self) -> None:
        if not self.closed:
            self.closed = True
            self._codec_pool.close(self._encoder)


def _stands_at(frame: DueFrame) -> float:
    """From when on no newer frame is to be expected, so that this one is what the viewers should see."""
    return frame.due + min(1.5 * frame.duration, _STANDS_AFTER)


def _differ(one: Target, other: Target) -> bool:
    return (
        one.scale != other.scale
        or not 0.95 < one.bitrate / other.bitrate < 1.05
        or not 0.9 < one.fps / other.fps < 1.1
    )
