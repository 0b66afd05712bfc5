"""What the server sends to one client: messages in order and none dropped, and the newest frame of each video track.

One task sends. Before each frame it sends every message that waits, so a message said before a frame arrives before it. When
it can send a frame of a video track, it encodes the frame, unless another viewer's task does (`rendition`). That task writes
the packet to this client's socket, too, while this one sleeps (`send_now`). If something goes before the packet, it waits in
the down track's queue for this task. Frames that were replaced until they could be encoded are dropped, and counted. Sound
waits in a short queue of its own (`sound_queue`) and is not dropped with a picture.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import trio

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.connection.connect_request import ConnectRequest
from reactor_trio.connection.down_track import DownTrack
from reactor_trio.connection.message_log import MessageLog
from reactor_trio.connection.outgoing_frames import CodedFrame, DueFrame
from reactor_trio.connection.rendition import Rendition
from reactor_trio.connection.rendition_set import RenditionSet
from reactor_trio.connection.sender_context import SenderContext
from reactor_trio.connection.sound_queue import SoundQueue, SoundTrack
from reactor_trio.connection.text_queue import TextQueue
from reactor_trio.errors import ProtocolError
from reactor_trio.media import Bundle, choose_codecs
from reactor_trio.pacing import EncoderPace
from reactor_trio.protocol import BEAT, EndReason, TrackInfo, Welcome, close_code
from reactor_trio.transport import MessageChannel


@dataclass(eq=False)
class ClientSender:
    """Queues and sends what goes to one client; an `Attachment` of its session.

    Args:
        number, joined_at: the client's number in the server's life and when it joined.
        request: the client's connect request.
        message_log: numbers the messages; a client that comes back goes on with the log of its session.
        watches: whether a person sees what is sent; not so for a recorder.
    """

    number: int
    joined_at: float
    request: ConnectRequest
    context: SenderContext
    message_log: MessageLog = field(default_factory=MessageLog)
    watches: bool = True

    def __post_init__(self) -> None:
        request, context = self.request, self.context
        self.follows_worlds = request.worlds
        self.end_reason: EndReason | None = None
        #: set when the end has been said
        self.ended = trio.Event()
        self._texts = TextQueue(context.message_limit)
        self._wakeup = RepeatedEvent()
        #: whether the task waits for `_wakeup`; and the packet that `send_now` began and the task is to finish
        self._waits = False
        self._begun: CodedFrame | None = None
        self._stream: MessageChannel | None = None
        self._free = trio.Event()  # while `wait_free` waits
        #: when `reactor.beat` is due, if nothing else is sent before; never for a client that does not want it
        self._beat_at, self._pause = math.inf, context.heartbeat if request.beat else math.inf
        #: those of the session, from `join` on; and the one of each down track
        self._renditions: RenditionSet | None = None
        self._placed: Mapping[DownTrack, Rendition] = {}
        self._down_tracks: dict[str, DownTrack] = {}
        #: the same down tracks; the one that was served last comes last
        self._turns: deque[DownTrack] = deque()
        self._shown: dict[str, DueFrame] = {}  # the newest frame of each video track
        self._sound = SoundQueue(context)
        self._inputs: list[TrackInfo] = []
        for index, spec in enumerate(context.tracks):
            if spec.direction == "in":  # each packet of an input track names its own codec and size
                self._inputs.append(TrackInfo(index, spec.name, spec.kind, "in", None, sample_rate=spec.sample_rate))
            elif request.control_only:
                continue
            elif spec.kind == "video":
                self._down_tracks[spec.name] = DownTrack(index, spec, request, context, self)
                self._turns.append(self._down_tracks[spec.name])
            elif request.audio:
                changed = partial(self.say, "reactor.track")
                self._sound.tracks[spec.name] = SoundTrack(index, spec, request.audio, context, changed, self.forsaken)

    def join(self, renditions: RenditionSet) -> None:
        """Use the renditions of a session from now on; called before this is attached to the session."""
        self._renditions, self._placed = renditions, renditions.placed
        for down_track in self._down_tracks.values():
            if down_track.codecs:
                renditions.join(down_track)
            if (rendition := self._placed.get(down_track)) is not None:
                down_track.info = rendition.info

    @property
    def track_infos(self) -> list[TrackInfo]:
        """What the client knows of its tracks, in the order of their indices."""
        tracks: Iterable[DownTrack | SoundTrack] = chain(self._turns, self._sound.tracks.values())
        return sorted([*self._inputs, *(track.info for track in tracks)], key=lambda info: info.index)

    # ---- Attachment ---------------------------------------------------------------------------------------------------

    def offer(self, bundle: Bundle, pts: float) -> EncoderPace:
        """See `Attachment.offer`."""
        now, origin = trio.current_time(), bundle.origin
        paces: set[EncoderPace] = set()
        for name, frame in bundle.tracks.items():
            due = DueFrame(frame, bundle.seqs[name], pts, now, bundle.duration, origin, bundle.made)
            if (down_track := self._down_tracks.get(name)) is None:
                self._sound.put(name, due)
                self._wakeup.set()
                continue
            self._shown[name] = due
            assert self._renditions is not None
            rendition = self._renditions.review(down_track, due, now)
            paces.add("unknown" if rendition is None else rendition.offer(down_track, due, now))
        return "outpaced" if "outpaced" in paces else "kept_up" if "kept_up" in paces else "unknown"

    def say(self, type: str, data: Any, id: int | None = None) -> None:  # noqa: A002 - the wire's words
        """Queue a text message, numbered from the welcome on; after this connection's end keep it for the next, if any."""
        if self.end_reason is not None:
            if self.message_log.keeps:
                self.message_log.add(type, data, id)
            return
        self._texts.put(self.message_log.add(type, data, id))
        if self._texts.overfull:
            self._texts.clear()  # a client that reads nothing would not read these either; the close code says why
            if type in ("reactor.ack", "reactor.error"):
                self.end("flood")
            else:
                self.hang_up("too_slow")
        self._wakeup.set()

    def say_values(self, values: dict[str, Any], sent: Callable[[], object]) -> None:
        """Queue the values of settings. They are not kept for the next connection, whose welcome has the newest."""
        if self.end_reason is None:
            self._texts.put(self.message_log.add("reactor.state", values, keep=False), sent)
            self._wakeup.set()

    def say_again(self, welcome: Welcome, after: int) -> None:
        """Welcome a client that comes back, and send it again all messages after number `after` that are kept."""
        again = self.message_log.after(after)
        self._texts.put(self.message_log.welcome_again(welcome))
        self._texts.put_again(text for _type, text in again)
        if any(type_ == "reactor.track" for type_, _text in again):  # these spoke of an earlier connection's codecs
            for info in self.track_infos:
                self.say("reactor.track", info)
        if any(type_ == "reactor.ack" for type_, _text in again) and welcome.state:  # what they set may have changed since
            self._texts.put(self.message_log.add("reactor.state", welcome.state, keep=False))
        self._wakeup.set()

    def beat(self) -> None:
        """Queue a beat, if the client wants any. After the welcome it shows the client that silence will be a lost link."""
        if self.request.beat:
            self._texts.put(BEAT)

    def end(self, reason: EndReason, message: str = "") -> None:
        """Say `reactor.bye` after all that was said before, then close; later messages are not sent."""
        self._end(reason, self.message_log, {"message": message} if message else {})

    def hang_up(self, reason: EndReason) -> None:
        """As `end`, but for this connection alone: the goodbye is not among the messages that are kept for a client."""
        self._end(reason, MessageLog() if self.message_log.keeps else self.message_log, {})

    def _end(self, reason: EndReason, log: MessageLog, why: dict[str, str]) -> None:
        if self.end_reason is None:
            self.end_reason = reason
            self._texts.put(log.add("reactor.bye", {"reason": reason} | why))
            self.ended.set()
            self._wakeup.set()

    def close(self) -> None:
        """Drop and count the frames that still wait, and let go of the encoders: the connection is over."""
        self._stream, begun, self._begun = None, self._begun, None
        if begun is not None:
            self.context.telemetry.dropped("lane", "client_left", 1)
        for down_track in self._down_tracks.values():
            down_track.drop_queue("client_left")
            if (rendition := self._placed.get(down_track)) is not None and (lost := rendition.frames):
                self.context.telemetry.dropped("lane", "client_left", lost)
            if self._renditions is not None:
                self._renditions.leave(down_track)
        self._texts.close()
        self._sound.close()
        self._down_tracks, self._shown = {}, {}  # a down track has this object as its owner
        self._turns.clear()
        self._free.set()

    async def wait_free(self) -> None:
        """See `Attachment.wait_free`."""
        while self.end_reason is None and (any(map(len, self._turns)) or any(each.waits for _, each in self._served())):
            self._free = trio.Event()
            await self._free.wait()

    def _served(self) -> Iterator[tuple[DownTrack, Rendition]]:
        """The down tracks that have a rendition; the one that was served last comes last."""
        for down_track in self._turns:
            if (rendition := self._placed.get(down_track)) is not None:
                yield down_track, rendition

    # ---- what the client asks ----------------------------------------------------------------------------------------

    def request_keyframe(self, index: int) -> None:
        """Send a keyframe of a track as soon as the floor allows: the client cannot decode what follows."""
        for down_track, rendition in self._served():
            if down_track.index == index:
                rendition.refresh(down_track, trio.current_time())

    def acknowledge(self, index: int, seq: int, held: float | None) -> None:
        """Register that the client has dealt with frame `seq` of a track and all before it; it held `seq` for `held` s."""
        for down_track in self._turns:
            if down_track.index == index:
                down_track.acknowledged(seq, held, trio.current_time())
                if (cadence := down_track.link.cadence) != down_track.told_cadence:
                    down_track.told_cadence = cadence
                    self.say("reactor.cadence", {"track": index, "every_us": round(cadence * 1e6)})
                if (rendition := self._placed.get(down_track)) is not None:
                    rendition.acknowledged(down_track)

    def choose_video(self, wanted: Sequence[str], tracks: Mapping[str, Sequence[str]] = {}) -> None:
        """Send video in one of the codecs `wanted`, best first; `["none"]` is no video. `tracks` has other lists by track.

        Before `join` the choice is kept for it. The same choice again changes nothing. Raises ProtocolError, and changes
        nothing, if `tracks` names a track that the client does not get, or if this server can encode none of a list.
        """
        for name in tracks:
            if name not in self._down_tracks:
                gets = ", ".join(self._down_tracks) or "none"
                raise ProtocolError(f"{name} is not a video track that this client gets; it gets: {gets}")
        self._chosen(wanted)  # also if no track uses it
        chosen = {name: self._chosen(tracks.get(name, wanted), name) for name in self._down_tracks}
        renditions = self._renditions
        for name, codecs in chosen.items():
            down_track = self._down_tracks[name]
            if down_track.codecs == codecs:
                continue
            down_track.codecs = codecs
            down_track.enter("renewed")
            if renditions is None:
                continue
            renditions.leave(down_track)
            if not codecs:
                continue
            renditions.join(down_track)
            shown, now = self._shown.get(name), trio.current_time()
            if shown is not None and (rendition := renditions.review(down_track, shown, now)) is not None:
                rendition.offer(down_track, shown, now)
        self._wakeup.set()

    def _chosen(self, wanted: Sequence[str], track: str | None = None) -> tuple[str, ...]:
        """The codecs among `wanted`; none for `["none"]`. Raises ProtocolError if no encoder is left for any of them."""
        if list(wanted) == ["none"]:
            return ()
        codecs = usable = choose_codecs(wanted)
        if track is not None and self._renditions is not None:
            usable = self._renditions.usable(track, codecs)
        if not usable:
            raise ProtocolError(f"this server encodes none of {', '.join(wanted)}{'' if track is None else f' for {track}'}")
        return codecs

    def forsaken(self) -> None:
        """See `DownTrackOwner.forsaken`."""
        self.end("replica_failed", "the server can encode none of the codecs that this client decodes")

    # ---- DownTrackOwner -----------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """See `DownTrackOwner.idle`."""
        return self._waits and not self._texts.count and not self._sound.count

    def wake(self) -> None:
        """See `DownTrackOwner.wake`."""
        self._wakeup.set()

    def send_now(self, down_track: DownTrack, coded: CodedFrame) -> bool:
        """See `DownTrackOwner.send_now`."""
        if self._stream is None or self._begun is not None or coded.info != down_track.info:
            return False
        how = self._stream.send_packet_now(coded.head, coded.payload)
        if how == "refused":
            return False
        self._take_turn(down_track)
        now = trio.current_time()
        down_track.sent(coded, now)
        if how == "sent":
            self._has_sent_video(coded)
        else:
            self._begun, down_track.sending = coded, True
        if how == "begun" or not down_track.link.open(now):  # the link opens at some time even without an acknowledgement
            self._wakeup.set()
        return True

    # ---- the sending task ---------------------------------------------------------------------------------------------

    async def send(self, stream: MessageChannel) -> None:
        """Send until `end` has been said and the socket closed. Raises PeerGone when the client has left.

        Cancelled in the middle of a message, the transport closes the socket: nothing follows half a message.
        """
        open_, self._stream = True, stream
        self._has_sent()
        while open_:
            now = trio.current_time()
            if self._begun is not None:
                self._decline()
                await self._finish(stream, self._begun)
            elif self._texts.count:
                self._decline()
                open_ = await self._send_texts(stream)
            elif self._sound.count:
                self._decline()
                open_ = await self._send_sound(stream)
            elif (down_track := self._track_with_packet(now)) is not None:
                self._decline()
                open_ = await self._send_video(stream, down_track, down_track.take())
            else:
                ready, turn = self._next_to_encode(now)
                if ready is not None:
                    if len(self._turns) > 1:
                        self._decline(but=ready)
                    open_ = await self._encode(stream, ready)
                elif now >= self._beat_at:
                    self.beat()
                else:
                    self._waits = True
                    await self._wakeup.wait(min(turn, self._beat_at))
                    self._waits = False

    def _decline(self, but: DownTrack | None = None) -> None:
        """Let other viewers' tasks encode what waits, except for `but`: this one does something else first."""
        for down_track, rendition in self._served():
            if down_track is not but:
                rendition.decline(down_track)

    def _has_sent(self) -> None:
        self._beat_at = math.inf if self._pause == math.inf else trio.current_time() + self._pause

    def _track_with_packet(self, now: float) -> DownTrack | None:
        for down_track in self._turns:
            if down_track.has_packet(now):
                return down_track
            if down_track.late and (rendition := self._placed.get(down_track)) is not None:
                down_track.enter("asked")
                rendition.refresh(down_track, now)
        return None

    def _next_to_encode(self, now: float) -> tuple[DownTrack | None, float]:
        """The down track whose frame may be encoded now; None: when one may be, if nothing happens until then."""
        turn = math.inf
        for down_track in self._turns:
            rendition = self._placed.get(down_track)
            if rendition is not None and down_track.ready(now):
                turn = min(turn, rendition.may_encode_at(down_track, now))
                if turn <= now:
                    return down_track, now
            elif not down_track.link.open(now):
                turn = min(turn, down_track.link.reopens_at())
                if rendition is not None:
                    rendition.decline(down_track)
        return None, turn

    async def _encode(self, stream: MessageChannel, down_track: DownTrack) -> bool:
        coded = await self._placed[down_track].encode(down_track)
        if coded is None:
            return True
        now = trio.current_time()
        if self._texts.count or self._sound.count or not down_track.link.open(now):  # these go first
            down_track.put(coded, now)
            return True
        return await self._send_video(stream, down_track, coded)

    async def _send_texts(self, stream: MessageChannel) -> bool:
        while self._texts.count:
            text, sent = self._texts.take()
            await stream.send_text(text)
            if sent is not None:
                sent()
            self._has_sent()
        if self.end_reason is not None:  # the goodbye was the last text
            await stream.aclose(close_code(self.end_reason), self.end_reason)
        return self.end_reason is None

    async def _send_video(self, stream: MessageChannel, down_track: DownTrack, coded: CodedFrame) -> bool:
        down_track.sending, sent = True, False
        self._take_turn(down_track)
        try:
            if coded.info != down_track.info:
                down_track.info = coded.info
                self.say("reactor.track", coded.info)
            if self._texts.count and not await self._send_texts(stream):
                return False
            down_track.sent(coded, trio.current_time())
            await stream.send_packet(coded.head, coded.payload)
            sent = True
            self._has_sent_video(coded)
        finally:
            down_track.sending = False
            if not sent:
                self.context.telemetry.dropped("lane", "client_left", 1)
        return True

    async def _finish(self, stream: MessageChannel, coded: CodedFrame) -> None:
        """Write the rest of the packet that `send_now` has begun."""
        await stream.finish()
        self._begun = None
        for down_track in self._turns:
            down_track.sending = False
        self._has_sent_video(coded)

    def _take_turn(self, down_track: DownTrack) -> None:
        if len(self._turns) > 1:
            self._turns.remove(down_track)
            self._turns.append(down_track)
        self._free.set()

    def _has_sent_video(self, coded: CodedFrame) -> None:
        self._has_sent()
        self.context.telemetry.sent(1, coded.size)
        self.context.telemetry.pictured(self.number, coded)

    async def _send_sound(self, stream: MessageChannel) -> bool:
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
            self._has_sent()
            self.context.telemetry.sent(1, len(head) + payload.nbytes)
            sent = True
        finally:
            if not sent:
                self.context.telemetry.dropped("lane", reason, 1)
        return True
