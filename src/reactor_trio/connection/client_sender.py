"""What goes out to one client: messages in order and never dropped, and of the frames the newest only.

One task sends. Before each frame it sends every message that waits, so a message said before a frame arrives before it. When
it can send a frame of a video track it encodes it, or takes what another viewer's task has encoded (`renditions`): what was
replaced until that moment is dropped unencoded and counted. Sound waits in a short queue of its own (`sound`) and is not
dropped with a picture.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import trio

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.connection.connect_request import ConnectRequest
from reactor_trio.connection.down_track import CodedFrame, DownTrack, DueFrame
from reactor_trio.connection.message_log import MessageLog
from reactor_trio.connection.rendition_set import RenditionSet
from reactor_trio.connection.sender_services import SenderServices
from reactor_trio.connection.sound_tracks import SoundQueue, SoundTracks
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import Bundle, choose_codecs
from reactor_trio.protocol import EndReason, TrackInfo, Welcome, close_code
from reactor_trio.transport import MessageStream


class _Close(msgspec.Struct, frozen=True):
    code: int
    reason: str


class _Values(msgspec.Struct, frozen=True):
    text: str
    sent: Callable[[], object]


class ClientSender:
    """The way out to one client; an `Attachment` of its session.

    Args:
        number, joined_at: the client's number in the server's life and when it joined.
        hello: what the client asked for.
        transcript: numbers what it is told; the one of its session if it comes back to that.
        watches: whether somebody is there to see what is sent.
    """

    def __init__(
        self,
        number: int,
        joined_at: float,
        request: ConnectRequest,
        services: SenderServices,
        message_log: MessageLog | None = None,
        *,
        watches: bool = True,
    ) -> None:
        self.number = number
        self.joined_at = joined_at
        self.request = request
        self.message_log = message_log or MessageLog()
        self.watches = watches
        self.end_reason: EndReason | None = None
        #: set when the end has been said
        self.ended = trio.Event()
        self._services = services
        self._texts: deque[str | _Values | _Close] = deque()
        self._most_texts = services.message_limit
        self._wakeup = RepeatedEvent()
        self._free = RepeatedEvent()
        self._renditions: RenditionSet | None = None
        self._down_tracks: dict[str, DownTrack] = {}
        #: the same lanes; the one that was served last comes last
        self._turns: deque[DownTrack] = deque()
        self._standing: dict[str, DueFrame] = {}
        self._sound = SoundQueue(services.telemetry)
        self._inputs: list[TrackInfo] = []
        for index, spec in enumerate(services.tracks):
            if spec.direction == "in":
                self._inputs.append(_describe_input(index, spec))
            elif not request.video:
                continue
            elif spec.kind == "video":
                self._down_tracks[spec.name] = DownTrack(
                    index, spec, request.video, request.feedback, self._wakeup.set, services.telemetry,
                    services.max_age, self._forsaken,
                )  # fmt: skip
                self._turns.append(self._down_tracks[spec.name])
            elif request.audio:
                self._sound.add(SoundTracks(
                    index, spec, request.audio, services.codec, services.codec_pool,
                    lambda info: self.say("reactor.track", info), self._forsaken,
                ))  # fmt: skip

    def join(self, renditions: RenditionSet) -> None:
        """Be served by the tiers of a session, before it is attached to that."""
        self._renditions = renditions
        for down_track in self._down_tracks.values():
            if down_track.codecs:
                renditions.join(down_track)
            if down_track.rendition is not None:
                down_track.info = down_track.rendition.describe

    @property
    def track_infos(self) -> list[TrackInfo]:
        """What the client is told of its tracks, in the order of their indices."""
        outputs = [down_track.info for down_track in self._down_tracks.values()] + self._sound.infos
        return sorted(outputs + self._inputs, key=lambda info: info.index)

    # ---- Attachment ---------------------------------------------------------------------------------------------------

    def offer(self, bundle: Bundle, pts: float) -> bool | None:
        """A bundle is shown now; as `Attachment.offer`."""
        now, origin = trio.current_time(), bundle.origin
        outpaced: set[bool | None] = set()
        for name, frame in bundle.tracks.items():
            seq = bundle.seqs[name]
            if (down_track := self._down_tracks.get(name)) is not None:
                due = DueFrame(frame, seq, pts, now, bundle.duration, origin, bundle.made)
                self._standing[name] = due
                assert self._renditions is not None
                outpaced.add(self._renditions.offer(down_track, due))
            else:
                self._sound.put(name, frame, seq, pts, origin)
        self._wakeup.set()
        return True if True in outpaced else False if False in outpaced else None

    def say(self, type: str, data: Any, id: int | None = None) -> None:  # noqa: A002 - the wire's words
        """Queue a text message, numbered from the welcome on.

        After the end of this connection it is kept for the next one, if there may be one.
        """
        if self.end_reason is not None:
            if self.message_log.keeps:
                self.message_log.add(type, data, id)
            return
        self._texts.append(self.message_log.add(type, data, id))
        if len(self._texts) > self._most_texts:
            self._texts.clear()  # a client that reads nothing would not read them either; it is told by the close code
            if type in ("reactor.ack", "reactor.error"):
                self.end("flood")
            else:
                self.hang_up("too_slow")
        self._wakeup.set()

    def say_values(self, values: dict[str, Any], sent: Callable[[], object]) -> None:
        """Queue the values of settings. They are not kept for the next connection, whose welcome has the newest."""
        if self.end_reason is None:
            self._texts.append(_Values(self.message_log.add("reactor.state", values, keep=False), sent))
            self._wakeup.set()

    def say_again(self, welcome: Welcome, after: int) -> None:
        """The client comes back: welcome it, and tell it all that was said after message `after` and is still there."""
        again = self.message_log.after(after)
        self._texts.append(self.message_log.welcome_again(welcome))
        self._texts.extend(text for _type, text in again)
        self._most_texts += len(again)
        if any(type_ == "reactor.track" for type_, _text in again):  # these spoke of an earlier connection's codecs
            for info in self.track_infos:
                self.say("reactor.track", info)
        if any(type_ == "reactor.ack" for type_, _text in again) and welcome.state:  # what they set may have changed since
            self._texts.append(self.message_log.add("reactor.state", welcome.state, keep=False))
        self._wakeup.set()

    def end(self, reason: EndReason, message: str = "") -> None:
        """Say `reactor.bye` after all that was said before, then close; what comes later is not said."""
        if self.end_reason is None:
            why = {"message": message} if message else {}
            self._close(self.message_log.add("reactor.bye", {"reason": reason} | why), reason)

    def hang_up(self, reason: EndReason) -> None:
        """As `end`, of this connection alone: a client that may come back finds its goodbye not among its messages."""
        if not self.message_log.keeps:
            self.end(reason)
        elif self.end_reason is None:
            self._close(MessageLog().add("reactor.bye", {"reason": reason}), reason)

    def _close(self, bye: str, reason: EndReason) -> None:
        self.end_reason = reason
        self._texts += (bye, _Close(close_code(reason), reason))
        self.ended.set()
        self._wakeup.set()

    def close(self) -> None:
        """The connection is over: frames that still wait are dropped and counted, encoders let go."""
        for down_track in self._down_tracks.values():
            down_track.drop_queue("client_left")
            if down_track.rendition is not None and (lost := down_track.rendition.waits + down_track.rendition.encodes):
                self._services.telemetry.dropped("lane", "client_left", lost)
            if self._renditions is not None:
                self._renditions.leave(down_track)
        self._sound.close()
        self._standing.clear()
        self._free.set()

    async def wait_free(self) -> None:
        """Return when no frame waits for this client."""
        while self.end_reason is None and any(down_track.waits for down_track in self._down_tracks.values()):
            await self._free.wait()

    # ---- what the client asks ----------------------------------------------------------------------------------------

    def request_keyframe(self, index: int) -> None:
        """The client cannot go on without a frame that stands alone."""
        down_track = self._down_track(index)
        if down_track is not None and down_track.rendition is not None:
            down_track.rendition.refresh(down_track, trio.current_time())

    def acknowledge(self, index: int, seq: int, held: float | None) -> None:
        """The client has dealt with frame `seq` of a track and all before it, the last held for `held` seconds."""
        down_track = self._down_track(index)
        if down_track is not None:
            down_track.acknowledged(seq, held, trio.current_time())

    def choose_video(self, wanted: Sequence[str]) -> bool:
        """From now on the client decodes `wanted`, best first; `["none"]` is no video. False if none of it is encoded here.

        Before `join` it is remembered. What the client says again changes nothing.
        """
        codecs, renditions = choose_codecs(wanted), self._renditions
        if list(wanted) != ["none"]:
            usable = [codecs if renditions is None else renditions.usable(name, codecs) for name in self._down_tracks]
            if not codecs or not all(usable):
                return False
        for name, down_track in self._down_tracks.items():
            if down_track.codecs == codecs:
                continue
            down_track.codecs, down_track.fresh = codecs, True
            if renditions is None:
                continue
            renditions.leave(down_track)
            if not codecs:
                continue
            renditions.join(down_track)
            if (standing := self._standing.get(name)) is not None:
                renditions.offer(down_track, standing)
        self._wakeup.set()
        return True

    def _forsaken(self) -> None:
        self.end("replica_failed", "the server can encode none of the codecs that this client decodes")

    def _down_track(self, index: int) -> DownTrack | None:
        return next((down_track for down_track in self._down_tracks.values() if down_track.index == index), None)

    # ---- the sending task ---------------------------------------------------------------------------------------------

    async def send(self, stream: MessageStream) -> None:
        """Send until `end` has been said and the socket closed. Raises PeerGone when the client has left.

        Cancelled in the middle of a message, the transport closes the socket: nothing follows half a message.
        """
        open_ = True
        while open_:
            now = trio.current_time()
            if self._texts:
                open_ = await self._send_texts(stream)
            elif self._sound.waits:
                open_ = await self._send_sound(stream)
            elif (down_track := self._track_with_packet(now)) is not None:
                open_ = await self._send_video(stream, down_track, down_track.take())
            elif (down_track := self._track_to_encode(now)) is not None:
                assert down_track.rendition is not None
                await down_track.rendition.encode()
            else:
                await self._wakeup.wait(self._next_turn(now))

    def _track_with_packet(self, now: float) -> DownTrack | None:
        return next((down_track for down_track in self._turns if down_track.has_packet(now)), None)

    def _track_to_encode(self, now: float) -> DownTrack | None:
        for down_track in self._turns:
            if (
                down_track.rendition is not None
                and down_track.ready(now)
                and down_track.rendition.may_encode_at(down_track, now) <= now
            ):
                return down_track
        return None

    def _next_turn(self, now: float) -> float:
        """When there may be something to do although nothing happens until then."""
        turn = math.inf
        for down_track in self._down_tracks.values():
            if not down_track.link.open(now):
                turn = min(turn, down_track.link.reopens_at())
            elif down_track.rendition is not None and down_track.ready(now):
                turn = min(turn, down_track.rendition.may_encode_at(down_track, now))
        return turn

    async def _send_texts(self, stream: MessageStream) -> bool:
        while self._texts:
            text = self._texts.popleft()
            if isinstance(text, _Close):
                await stream.aclose(text.code, text.reason)
                return False
            if isinstance(text, _Values):
                await stream.send_text(text.text)
                text.sent()
            else:
                await stream.send_text(text)
        return True

    async def _send_video(self, stream: MessageStream, down_track: DownTrack, coded: CodedFrame) -> bool:
        down_track.sending = True
        self._turns.remove(down_track)
        self._turns.append(down_track)
        self._free.set()
        sent = False
        try:
            if coded.info != down_track.info:
                down_track.info = coded.info
                self.say("reactor.track", coded.info)
            if not await self._send_texts(stream):
                return False
            down_track.sent(coded, trio.current_time())
            await stream.send_packet(coded.head, coded.payload)
            self._services.telemetry.sent(1, coded.size)
            sent = True
            self._services.telemetry.pictured(self.number, coded)
        finally:
            down_track.sending = False
            if not sent:
                self._services.telemetry.dropped("lane", "client_left", 1)
        return True

    async def _send_sound(self, stream: MessageStream) -> bool:
        sent, reason = False, "client_left"
        try:
            coded = await self._sound.encode_next()
            if coded is None:
                reason = "encoder_failed"
                return True
            if not await self._send_texts(stream):
                return False
            head, payload = coded
            await stream.send_packet(head, payload)
            self._services.telemetry.sent(1, len(head) + payload.nbytes)
            sent = True
        finally:
            if not sent:
                self._services.telemetry.dropped("lane", reason, 1)
        return True


def _describe_input(index: int, spec: TrackSpec) -> TrackInfo:
    """Each packet of an input track names its own codec and size."""
    return TrackInfo(index, spec.name, spec.kind, "in", None, sample_rate=spec.sample_rate)
