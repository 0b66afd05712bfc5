"""A rendition: one encoder of one video track, a codec at a quality, and the down tracks that it serves, its *members*.

A rendition has no task. The sending task of whichever member can take a frame encodes it, for all members. So a frame that
no member can take is not encoded. A viewer alone on its rendition drops frames before the encoder. The encoder then refers
to the last frame *sent*, and its chain of references never breaks.

One more member costs little more than a write, because its task sleeps. A frame wakes the task of one member, the *called*
one (`_call`). That task encodes, and writes the packet to every socket that takes it at once (`DownTrack.put`); only where
that cannot be done is the member's own task woken. A called task that finds something else to do, or whose client leaves,
has another one called (`decline`). Any other task that happens to be awake may encode as well.

A member that needs a keyframe asks for one (`refresh`). A floor between two keyframes keeps one client from making the
pictures of all expensive. A newcomer's floor is lower, since it has no picture at all, but it uses the lower floor at most
once in the time of the higher one. If the model makes no new frame, the standing picture is encoded again.

An encoder may fail at any frame, or hang (`media.codec_pool`). Its rendition is then over, and its owner places the members.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol

import trio

from reactor_trio.connection.down_track import DownTrack
from reactor_trio.connection.encoder_target import EncoderTarget
from reactor_trio.connection.outgoing_frames import CodedFrame, DueFrame
from reactor_trio.connection.sender_context import SenderContext
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import Encoded, Encoder
from reactor_trio.pacing import EncoderPace, Quality
from reactor_trio.protocol import KEYFRAME, TrackInfo, packet_head

#: seconds between two keyframes that members ask for, and between a keyframe and a newcomer's first one
KEYFRAME_FLOOR = 0.5
NEWCOMER_FLOOR = 0.05


#: what the encoder does: idle -> encoding (a frame for every member) or catching up (it encodes the standing picture for
#: newcomers only) -> idle ... -> closed (it has been let go)
_State = Literal["idle", "encoding", "catching up", "closed"]

#: what waits to be encoded: nothing, the standing picture once more, or a new frame; a new frame replaces everything, and
#: what the encoder takes leaves nothing
_Waiting = Literal["nothing", "again", "frame"]


class RenditionOwner(Protocol):
    """The `RenditionSet` that a rendition belongs to.

    Attributes:
        placed: the rendition of each down track of the session.
    """

    context: SenderContext
    placed: dict[DownTrack, Rendition]

    def closed(self, rendition: Rendition) -> None:
        """Forget a rendition whose encoder has been let go."""

    def replace(self, rendition: Rendition, error: Exception, frame: DueFrame) -> None:
        """Place the members elsewhere: the encoder has raised `error` or hangs, and did not encode `frame`, the newest."""


class Rendition:
    """One encoder and its members; a `RenditionSet` makes and keeps it.

    Args:
        index, spec: of the track.
        quality: what to aim at first.
    """

    def __init__(self, owner: RenditionOwner, index: int, spec: TrackSpec, encoder: Encoder, quality: Quality) -> None:
        self.track = spec.name
        self.codec = encoder.codec
        self.implementation = encoder.implementation
        #: what the link of one member carries; `share`, `divisor` and `scale` hold for every frame
        self.quality = quality
        self.members: list[DownTrack] = []
        self._owner = owner
        self._index = index
        self._spec = spec
        self._encoder = encoder
        #: members of other renditions that join with the next keyframe
        self._expected: list[DownTrack] = []
        self._state: _State = "idle"
        self._waiting: _Waiting = "nothing"
        #: the newest new frame, and the last one that was encoded, which is the standing picture
        self._frame: DueFrame | None = None
        self._last: DueFrame | None = None
        #: members that want the standing picture for themselves, and from when on each may have it
        self._newcomers: dict[DownTrack, float] = {}
        #: the member whose task was woken to encode what waits
        self._called: DownTrack | None = None
        #: whether the newest frame replaced one that was not encoded, and whether the encoder was at work then
        self._replaced = self._outpaced = False
        self._newest_seq = -1
        self._last_due = -math.inf
        self._last_keyframe = -math.inf
        self._keyframe_at = math.inf
        self._target = EncoderTarget(encoder.codec, owner.context.codec)
        self._info: TrackInfo | None = None

    def join(self, down_track: DownTrack) -> None:
        """Serve a down track from now on, with a keyframe first."""
        self.members.append(down_track)
        self._owner.placed[down_track], down_track.codec = self, self.codec
        down_track.drop_queue("superseded")

    def expect(self, down_track: DownTrack, now: float) -> None:
        """Let a member of another rendition join with the next keyframe; the other one serves it until then."""
        if down_track not in self._expected:
            self._expected.append(down_track)
        if not self._encoder.intra_only:
            self.refresh(down_track, now)

    def leave(self, down_track: DownTrack) -> None:
        """Stop serving a down track."""
        self.members.remove(down_track)
        del self._owner.placed[down_track]
        self._newcomers.pop(down_track, None)
        self.decline(down_track)
        self._close_if_alone()

    @property
    def info(self) -> TrackInfo:
        """What a viewer needs to decode the newest packet; without a size before the first."""
        return self._info or self._encoder.describe(self._index, self._spec, None)

    @property
    def closed(self) -> bool:
        """Whether the encoder has been let go."""
        return self._state == "closed"

    @property
    def _busy(self) -> bool:
        return self._state in ("encoding", "catching up")

    @property
    def waits(self) -> bool:
        """Whether a frame waits to be encoded."""
        return self._waiting != "nothing"

    @property
    def frames(self) -> int:
        """How many frames wait to be encoded or are being encoded, for every member."""
        return self.waits + (self._state == "encoding")

    # ---- what members ask -----------------------------------------------------------------------------------------------

    def offer(self, down_track: DownTrack, frame: DueFrame, now: float) -> EncoderPace:
        """Take a frame that is shown now: each member offers it, the first one counts. A newcomer offers the standing one.

        Returns the pace of the encoder: it is unknown if the link of `down_track` holds frames up.
        """
        newcomer = down_track.enter("offered")
        if frame.seq > self._newest_seq:
            self._replaced = self._waiting == "frame"
            self._outpaced = self._replaced and self._busy
            if self._replaced:
                self._pass_over(now)
            self._newest_seq, self._frame, self._waiting, self._called = frame.seq, frame, "frame", None
        elif newcomer:
            self.refresh(down_track, now, newcomer=True)
        if self._called is None and not self._busy and self._waiting != "nothing" and down_track.idle(now):
            self._call(down_track)
        if not self._replaced:
            return "kept_up"
        return "outpaced" if self._outpaced and down_track.ready(now) else "unknown"

    def _pass_over(self, now: float) -> None:
        assert self._frame is not None
        thinned, late = self._frame.due < self._rested_at(self._frame), now > self._frame.due + self._owner.context.max_age
        reason = "thinned" if thinned else "late" if late else "superseded"
        for member in self.members:
            member.passed_over(reason, now)

    def refresh(self, down_track: DownTrack, now: float, *, newcomer: bool = False) -> None:
        """Make the next packet for `down_track` a keyframe, as soon as the floor allows."""
        at = down_track.refreshed_at + KEYFRAME_FLOOR
        newcomer = newcomer and now >= at
        if not self._encoder.intra_only:
            floor = NEWCOMER_FLOOR if newcomer else KEYFRAME_FLOOR
            self._keyframe_at = min(self._keyframe_at, max(now, self._last_keyframe + floor))
            if newcomer:
                self._newcomers[down_track] = down_track.refreshed_at = now
            if not self._busy:
                self._show_again()
        elif self._last is not None and not self.waits and down_track not in self._newcomers:
            self._newcomers[down_track] = down_track.refreshed_at = max(now, at)
        down_track.owner.wake()

    def acknowledged(self, down_track: DownTrack) -> None:
        """The member has acknowledged a frame, so it may have room again."""
        if len(down_track) or down_track in self._newcomers or (self.waits and self._called is None and not self._busy):
            down_track.owner.wake()

    def decline(self, down_track: DownTrack) -> None:
        """If this member was called to encode what waits, call another one: it does something else first, or leaves."""
        if self._called is down_track:
            self._called = None
            self._call_another(down_track)

    def _call(self, down_track: DownTrack) -> None:
        self._called = down_track
        down_track.owner.wake()

    def _call_another(self, other: DownTrack | None = None) -> None:
        """Call a member that can encode at once. If none can, the first one that has room again looks by itself."""
        now = trio.current_time()
        called = next((member for member in self.members if member is not other and member.idle(now)), None)
        if called is not None and self.waits and not self._busy:
            self._call(called)

    def _show_again(self) -> None:
        if self._last is not None and not self.waits:
            self._waiting = "again"

    # ---- encoding -------------------------------------------------------------------------------------------------------

    def may_encode_at(self, down_track: DownTrack, now: float) -> float:
        """When the task of `down_track`, which is ready, may encode; infinite if nothing waits or the encoder is at work."""
        if self._busy:
            return math.inf
        frame = self._next
        if frame is None or self._waiting == "nothing":
            return self._newcomers.get(down_track, math.inf)
        if self._waiting == "again":  # unless a newer frame comes, or a newcomer waits
            return self._keyframe_at if self._newcomers else max(self._keyframe_at, frame.stands_at)
        if now > frame.due + self._owner.context.max_age or frame.due < self._rested_at(frame):
            return frame.stands_at
        return frame.due

    @property
    def _next(self) -> DueFrame | None:
        """The frame to encode next; if nothing waits, the standing picture, for newcomers."""
        return self._frame if self._waiting == "frame" else self._last

    async def encode(self, sender: DownTrack) -> CodedFrame | None:
        """Encode the next frame and queue the packet for each member but `sender`, whose packet is returned if it takes it.

        Cancelled while it waits for a worker, it leaves the frame to the others. If the encoder raises an exception or
        hangs, the owner replaces this rendition.
        """
        frame, kept, began = self._next, self._waiting, trio.current_time()
        assert frame is not None
        newcomers = [each for each, at in self._newcomers.items() if at <= began] if kept == "nothing" else None
        self._state = "encoding" if newcomers is None else "catching up"
        self._waiting, self._called = "nothing", None
        coded: CodedFrame | None = None
        error: Exception | None = None
        try:
            target = self._target.change(self.quality, frame.frame.shape, frame.duration)
            try:
                if target is not None:
                    self._encoder.configure(target)
                if self._keyframe_at <= began:
                    self._encoder.request_keyframe()
                encoded = await self._owner.context.codec_pool.encode(self._encoder, frame.frame)
                self._info = self._encoder.describe(self._index, self._spec, encoded.size)
            except Exception as raised:  # whatever a codec, its driver or a device says
                error = raised
            else:
                coded = self._packet(frame, encoded, self._info, began)
        finally:
            self._state = "idle"
            if coded is None:
                self._put_back(kept, "superseded" if error is None else "encoder_failed")
            self._close_if_alone()
            if coded is None:
                self._wake_members()
        if error is not None:
            newest = self._next or frame
            self._close()
            self._owner.replace(self, error, newest)
            error = None  # its traceback has this frame
        if coded is None:
            return None
        self._last, self._last_due = None if self.closed else frame, frame.due
        return self._hand_out(coded, sender, newcomers)

    def _put_back(self, kept: _Waiting, reason: str) -> None:
        """Let what was not encoded wait again, unless a newer frame has come."""
        if not self.waits:
            self._waiting = kept
        elif kept == "frame":
            for member in self.members:
                member.lose(reason)

    def _hand_out(self, coded: CodedFrame, sender: DownTrack, newcomers: list[DownTrack] | None) -> CodedFrame | None:
        """Queue the packet for every member, or for `newcomers` only; return it if `sender` takes it."""
        now = trio.current_time()
        taken_in = self._take_in() if coded.keyframe and self._expected and not self.closed else ()
        served = self.members if newcomers is None else newcomers
        own: CodedFrame | None = None
        for member in list(served):
            if self._owner.placed.get(member) is not self:  # a newcomer may have left meanwhile
                continue
            if member in taken_in and self._encoder.intra_only and member.newest_seq >= coded.seq:
                continue  # the rendition that it came from has given it this frame
            if not member.accepts(coded):
                continue
            if member is sender:
                own = coded
            else:
                member.put(coded, now)
        if self._newcomers:
            self._newcomers = {each: at for each, at in self._newcomers.items() if each.gated or each not in served}
        if self._keyframe_at < math.inf:
            self._show_again()
        self._wake_members()
        return own

    def _take_in(self) -> list[DownTrack]:
        expected, self._expected = self._expected, []
        taken_in = []
        for down_track in expected:
            before = self._owner.placed.get(down_track)
            if before is not None and before is not self and down_track.codec == self.codec:
                before.leave(down_track)
                self.join(down_track)
                taken_in.append(down_track)
        return taken_in

    def _wake_members(self) -> None:
        if self._called is None and self._waiting != "nothing":
            self._call_another()
        for newcomer in self._newcomers:
            newcomer.owner.wake()

    def _packet(self, frame: DueFrame, encoded: Encoded, info: TrackInfo, began: float) -> CodedFrame:
        now, origin = trio.current_time(), frame.origin
        if encoded.keyframe:
            self._last_keyframe, self._keyframe_at = now, math.inf
        queued, encoding = max(0.0, began - frame.made), now - began
        self._owner.context.telemetry.encoded(self.codec, encoding)
        meta = dict(encoded.meta)
        if origin.again:
            meta["again"] = True
        else:
            meta["timing"] = [
                None if origin.waited is None else round(origin.waited * 1e6),
                round(origin.seconds * 1e6), round(queued * 1e6), round(encoding * 1e6),
            ]  # fmt: skip
        if origin.input_pts_us is not None:
            meta["input_pts_us"] = origin.input_pts_us
        if origin.metadata is not None and (metadata := origin.metadata.get(info.name)) is not None:
            meta["metadata"] = metadata
        head = packet_head(
            self._index, frame.seq, round(frame.pts * 1e6), KEYFRAME if encoded.keyframe else 0,
            origin.command, origin.step, meta, encoded.payload,
        )  # fmt: skip
        return CodedFrame(
            info, head, encoded.payload, encoded.keyframe, frame.seq, frame.due, origin, queued, encoding, frame.made,
            len(head) + encoded.payload.nbytes,
        )  # fmt: skip

    def _rested_at(self, frame: DueFrame) -> float:
        """From when on a frame may be due at the quality's frame rate; half a frame early, since due times swing."""
        divisor = self.quality.divisor
        return -math.inf if divisor == 1 else self._last_due + (divisor - 0.5) * frame.duration

    def _close_if_alone(self) -> None:
        if not self.members and not self._busy:
            self._close()

    def _close(self) -> None:
        if not self.closed:
            self._state = "closed"
            self._owner.context.codec_pool.close(self._encoder)
            self._owner.closed(self)
            self._frame = self._last = None
            self._expected.clear()
