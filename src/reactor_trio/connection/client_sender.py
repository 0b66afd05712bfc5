"""What goes out to one client: messages in order and never dropped, and of the frames the newest only.

One task sends. Before each frame it sends every message that waits, so a message said before a frame arrives before it. When
it can send a frame of a video track it encodes it, or takes what another viewer's task has encoded (`tiers`): what was
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

from reactor_trio.concurrency.repeated_event import Bell
from reactor_trio.connection.connect_request import Hello
from reactor_trio.connection.down_track import CodedFrame, DueFrame, Lane
from reactor_trio.connection.message_log import Transcript
from reactor_trio.connection.rendition_set import Tiers
from reactor_trio.connection.sender_services import OutboundServices
from reactor_trio.connection.sound_track import Sound, SoundQueue
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


class Outbound:
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
        hello: Hello,
        services: OutboundServices,
        transcript: Transcript | None = None,
        *,
        watches: bool = True,
    ) -> None:
        self.number = number
        self.joined_at = joined_at
        self.hello = hello
        self.transcript = transcript or Transcript()
        self.watches = watches
        self.end_reason: EndReason | None = None
        #: set when the end has been said
        self.ended = trio.Event()
        self._services = services
        self._texts: deque[str | _Values | _Close] = deque()
        self._most_texts = services.message_limit
        self._bell = Bell()
        self._free = Bell()
        self._tiers: Tiers | None = None
        self._lanes: dict[str, Lane] = {}
        #: the same lanes; the one that was served last comes last
        self._turns: deque[Lane] = deque()
        self._standing: dict[str, DueFrame] = {}
        self._sound = SoundQueue(services.dropped, services.encoded)
        self._inputs: list[TrackInfo] = []
        for index, spec in enumerate(services.tracks):
            if spec.direction == "in":
                self._inputs.append(_describe_input(index, spec))
            elif not hello.video:
                continue
            elif spec.kind == "video":
                self._lanes[spec.name] = Lane(
                    index, spec, hello.video, hello.feedback, self._bell.ring, services.dropped, services.latency,
                    services.max_age, self._forsaken,
                )  # fmt: skip
                self._turns.append(self._lanes[spec.name])
            elif hello.audio:
                self._sound.add(Sound(
                    index, spec, hello.audio, services.codec, services.coders,
                    lambda info: self.say("reactor.track", info), self._forsaken,
                ))  # fmt: skip

    def join(self, tiers: Tiers) -> None:
        """Be served by the tiers of a session, before it is attached to that."""
        self._tiers = tiers
        for lane in self._lanes.values():
            if lane.codecs:
                tiers.join(lane)
            if lane.tier is not None:
                lane.info = lane.tier.describe

    @property
    def track_infos(self) -> list[TrackInfo]:
        """What the client is told of its tracks, in the order of their indices."""
        outputs = [lane.info for lane in self._lanes.values()] + self._sound.infos
        return sorted(outputs + self._inputs, key=lambda info: info.index)

    # ---- Attachment ---------------------------------------------------------------------------------------------------

    def offer(self, bundle: Bundle, pts: float) -> bool | None:
        """A bundle is shown now; as `Attachment.offer`."""
        now, origin = trio.current_time(), bundle.origin
        outpaced: set[bool | None] = set()
        for name, frame in bundle.tracks.items():
            seq = bundle.seqs[name]
            if (lane := self._lanes.get(name)) is not None:
                due = DueFrame(frame, seq, pts, now, bundle.duration, origin, bundle.made)
                self._standing[name] = due
                assert self._tiers is not None
                outpaced.add(self._tiers.offer(lane, due))
            else:
                self._sound.put(name, frame, seq, pts, origin)
        self._bell.ring()
        return True if True in outpaced else False if False in outpaced else None

    def say(self, type: str, data: Any, id: int | None = None) -> None:  # noqa: A002 - the wire's words
        """Queue a text message, numbered from the welcome on.

        After the end of this connection it is kept for the next one, if there may be one.
        """
        if self.end_reason is not None:
            if self.transcript.keeps:
                self.transcript.add(type, data, id)
            return
        self._texts.append(self.transcript.add(type, data, id))
        if len(self._texts) > self._most_texts:
            self._texts.clear()  # a client that reads nothing would not read them either; it is told by the close code
            if type in ("reactor.ack", "reactor.error"):
                self.end("flood")
            else:
                self.hang_up("too_slow")
        self._bell.ring()

    def say_values(self, values: dict[str, Any], sent: Callable[[], object]) -> None:
        """Queue the values of settings. They are not kept for the next connection, whose welcome has the newest."""
        if self.end_reason is None:
            self._texts.append(_Values(self.transcript.add("reactor.state", values, keep=False), sent))
            self._bell.ring()

    def say_again(self, welcome: Welcome, after: int) -> None:
        """The client comes back: welcome it, and tell it all that was said after message `after` and is still there."""
        again = self.transcript.after(after)
        self._texts.append(self.transcript.welcome_again(welcome))
        self._texts.extend(text for _type, text in again)
        self._most_texts += len(again)
        if any(type_ == "reactor.track" for type_, _text in again):  # these spoke of an earlier connection's codecs
            for info in self.track_infos:
                self.say("reactor.track", info)
        if any(type_ == "reactor.ack" for type_, _text in again) and welcome.state:  # what they set may have changed since
            self._texts.append(self.transcript.add("reactor.state", welcome.state, keep=False))
        self._bell.ring()

    def end(self, reason: EndReason, message: str = "") -> None:
        """Say `reactor.bye` after all that was said before, then close; what comes later is not said."""
        if self.end_reason is None:
            why = {"message": message} if message else {}
            self._close(self.transcript.add("reactor.bye", {"reason": reason} | why), reason)

    def hang_up(self, reason: EndReason) -> None:
        """As `end`, of this connection alone: a client that may come back finds its goodbye not among its messages."""
        if not self.transcript.keeps:
            self.end(reason)
        elif self.end_reason is None:
            self._close(Transcript().add("reactor.bye", {"reason": reason}), reason)

    def _close(self, bye: str, reason: EndReason) -> None:
        self.end_reason = reason
        self._texts += (bye, _Close(close_code(reason), reason))
        self.ended.set()
        self._bell.ring()

    def close(self) -> None:
        """The connection is over: frames that still wait are dropped and counted, encoders let go."""
        for lane in self._lanes.values():
            lane.drop_queue("client_left")
            if lane.tier is not None and (lost := lane.tier.waits + lane.tier.encodes):
                self._services.dropped("lane", "client_left", lost)
            if self._tiers is not None:
                self._tiers.leave(lane)
        self._sound.close()
        self._standing.clear()
        self._free.ring()

    async def wait_free(self) -> None:
        """Return when no frame waits for this client."""
        while self.end_reason is None and any(lane.waits for lane in self._lanes.values()):
            await self._free.wait()

    # ---- what the client asks ----------------------------------------------------------------------------------------

    def request_keyframe(self, index: int) -> None:
        """The client cannot go on without a frame that stands alone."""
        lane = self._lane(index)
        if lane is not None and lane.tier is not None:
            lane.tier.refresh(lane, trio.current_time())

    def acknowledge(self, index: int, seq: int, held: float | None) -> None:
        """The client has dealt with frame `seq` of a track and all before it, the last held for `held` seconds."""
        lane = self._lane(index)
        if lane is not None:
            lane.acknowledged(seq, held, trio.current_time())

    def choose_video(self, wanted: Sequence[str]) -> bool:
        """From now on the client decodes `wanted`, best first; `["none"]` is no video. False if none of it is encoded here.

        Before `join` it is remembered. What the client says again changes nothing.
        """
        codecs, tiers = choose_codecs(wanted), self._tiers
        if list(wanted) != ["none"]:
            usable = [codecs if tiers is None else tiers.usable(name, codecs) for name in self._lanes]
            if not codecs or not all(usable):
                return False
        for name, lane in self._lanes.items():
            if lane.codecs == codecs:
                continue
            lane.codecs, lane.fresh = codecs, True
            if tiers is None:
                continue
            tiers.leave(lane)
            if not codecs:
                continue
            tiers.join(lane)
            if (standing := self._standing.get(name)) is not None:
                tiers.offer(lane, standing)
        self._bell.ring()
        return True

    def _forsaken(self) -> None:
        self.end("replica_failed", "the server can encode none of the codecs that this client decodes")

    def _lane(self, index: int) -> Lane | None:
        return next((lane for lane in self._lanes.values() if lane.index == index), None)

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
            elif (lane := self._lane_with_packet(now)) is not None:
                open_ = await self._send_video(stream, lane, lane.take())
            elif (lane := self._lane_to_encode(now)) is not None:
                assert lane.tier is not None
                await lane.tier.encode()
            else:
                await self._bell.wait(self._next_turn(now))

    def _lane_with_packet(self, now: float) -> Lane | None:
        return next((lane for lane in self._turns if lane.has_packet(now)), None)

    def _lane_to_encode(self, now: float) -> Lane | None:
        for lane in self._turns:
            if lane.tier is not None and lane.ready(now) and lane.tier.may_encode_at(lane, now) <= now:
                return lane
        return None

    def _next_turn(self, now: float) -> float:
        """When there may be something to do although nothing happens until then."""
        turn = math.inf
        for lane in self._lanes.values():
            if not lane.link.open(now):
                turn = min(turn, lane.link.reopens_at())
            elif lane.tier is not None and lane.ready(now):
                turn = min(turn, lane.tier.may_encode_at(lane, now))
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

    async def _send_video(self, stream: MessageStream, lane: Lane, coded: CodedFrame) -> bool:
        lane.sending = True
        self._turns.remove(lane)
        self._turns.append(lane)
        self._free.ring()
        sent = False
        try:
            if coded.info != lane.info:
                lane.info = coded.info
                self.say("reactor.track", coded.info)
            if not await self._send_texts(stream):
                return False
            began = trio.current_time()
            lane.sent(coded, began)
            await stream.send_packet(coded.head, coded.payload)
            self._services.sent(1, coded.size)
            sent = True
            if self._services.traced is not None:
                self._services.traced(self.number, coded, began, trio.current_time())
        finally:
            lane.sending = False
            if not sent:
                self._services.dropped("lane", "client_left", 1)
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
            self._services.sent(1, len(head) + payload.nbytes)
            sent = True
        finally:
            if not sent:
                self._services.dropped("lane", reason, 1)
        return True


def _describe_input(index: int, spec: TrackSpec) -> TrackInfo:
    """Each packet of an input track names its own codec and size."""
    return TrackInfo(index, spec.name, spec.kind, "in", None, sample_rate=spec.sample_rate)
