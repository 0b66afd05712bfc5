"""What goes out to one client: messages in order and never dropped, and of the frames the newest only.

One task sends. Before each frame it sends every message that waits, so a message said before a frame arrives before it. It
takes a frame from the lane when it can send one, and encodes it then: what was replaced in the lane until that moment is
dropped unencoded and counted, so an encoder that refers to the frame before refers to the last frame sent. Audio waits in a
short queue of its own and is not dropped with a picture.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import trio

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import Bundle, Encoded, Encoder, FrameHandle, Worker, open_encoder
from reactor_trio.protocol import (
    KEYFRAME,
    EndReason,
    Packet,
    ServerText,
    TrackInfo,
    close_code,
    encode_server_text,
    packet_head,
)
from reactor_trio.session.bell import Bell
from reactor_trio.transport import MessageStream

#: blocks of audio that may wait for a slow socket, some seconds of it
AUDIO_BLOCKS = 128


@dataclass(frozen=True, slots=True)
class _Close:
    code: int
    reason: str


@dataclass(slots=True)
class _Waiting:
    """A frame in the lane."""

    frame: FrameHandle
    seq: int
    pts: float
    step: int
    command: int | None
    meta: dict[str, Any]


@dataclass(slots=True)
class _OutTrack:
    index: int
    spec: TrackSpec
    encoder: Encoder
    info: TrackInfo


class Outbound:
    """The way out to one client; an `Attachment` of its session.

    Args:
        number, joined_at: the client's number in the server's life and when it joined.
        tracks: the model's tracks; their places are the indices on the wire.
        codec: for video; None for control only.
        audio: whether sound is sent too.
        worker: runs an encoder away from the loop.
        dropped: counts frames dropped: place, reason, number.
        sent: counts what was sent: frames, bytes.
        message_limit: messages that may wait; more means that the client does not read.
    """

    def __init__(
        self,
        number: int,
        joined_at: float,
        tracks: tuple[TrackSpec, ...],
        codec: str | None,
        jpeg_quality: int,
        worker: Worker,
        dropped: Callable[[str, str, int], None],
        sent: Callable[[int, int], None],
        message_limit: int,
        audio: bool = True,
    ) -> None:
        self.number = number
        self.joined_at = joined_at
        self.end_reason: EndReason | None = None
        #: set when the end has been said
        self.ended = trio.Event()
        self._worker = worker
        self._dropped = dropped
        self._sent = sent
        self._message_limit = message_limit
        self._texts: deque[str | _Close] = deque()
        self._said = 0
        self._welcomed = False
        self._video: dict[str, _Waiting] = {}
        self._audio: deque[tuple[str, _Waiting]] = deque()
        self._bell = Bell()
        self._free = Bell()
        self._tracks: dict[str, _OutTrack] = {}
        self._inputs = [_describe_input(i, spec) for i, spec in enumerate(tracks) if spec.direction == "in"]
        if codec is not None:
            for index, spec in enumerate(tracks):
                if spec.direction == "in" or (spec.kind == "audio" and not audio):
                    continue
                encoder = open_encoder(spec, codec, jpeg_quality)
                self._tracks[spec.name] = _OutTrack(index, spec, encoder, encoder.describe(index, spec, None))

    @property
    def track_infos(self) -> list[TrackInfo]:
        """What the client is told of its tracks."""
        return [track.info for track in self._tracks.values()] + self._inputs

    # ---- Attachment ---------------------------------------------------------------------------------------------------

    def offer(self, bundle: Bundle, pts: float) -> None:
        """A bundle is shown now."""
        meta = {} if bundle.input_pts_us is None else {"input_pts_us": bundle.input_pts_us}
        for name, frame in bundle.tracks.items():
            track = self._tracks.get(name)
            if track is None:
                continue
            waiting = _Waiting(frame, bundle.seqs[name], pts, bundle.step, bundle.command, meta)
            if track.spec.kind == "audio":
                if len(self._audio) >= AUDIO_BLOCKS:
                    self._audio.popleft()
                    self._dropped("lane", "audio_overflow", 1)
                self._audio.append((name, waiting))
            else:
                if name in self._video:
                    self._dropped("lane", "superseded", 1)
                self._video[name] = waiting
        self._bell.ring()

    def say(self, type: str, data: Any, id: int | None = None) -> None:  # noqa: A002 - the wire's words
        """Queue a text message, numbered from the welcome on."""
        if self.end_reason is not None:
            return
        self._welcomed = self._welcomed or type == "reactor.welcome"
        self._said += self._welcomed
        text = encode_server_text(ServerText(type, data, id, self._said if self._welcomed else None))
        self._texts.append(text)
        if len(self._texts) > self._message_limit:
            self._texts.clear()  # a client that reads nothing would not read them either; it is told by the close code
            self.end("flood" if type in ("reactor.ack", "reactor.error") else "too_slow")
        self._bell.ring()

    def end(self, reason: EndReason, message: str = "") -> None:
        """Say `reactor.bye` after all that was said before, then close; what comes later is not said."""
        if self.end_reason is not None:
            return
        self.say("reactor.bye", {"reason": reason} | ({"message": message} if message else {}))
        self.end_reason = reason
        self._texts.append(_Close(close_code(reason), reason))
        self.ended.set()
        self._bell.ring()

    def close(self) -> None:
        """The connection is over: frames that still wait are dropped and counted."""
        if left := len(self._video) + len(self._audio):
            self._dropped("lane", "client_left", left)
        self._video.clear()
        self._audio.clear()
        self._free.ring()

    async def wait_free(self) -> None:
        """Return when no frame waits in the lane."""
        while self._video and self.end_reason is None:
            await self._free.wait()

    # ---- the sending task ---------------------------------------------------------------------------------------------

    def request_keyframe(self, index: int) -> None:
        """The client cannot go on without a frame that stands alone."""
        for track in self._tracks.values():
            if track.index == index:
                track.encoder.request_keyframe()

    async def send(self, stream: MessageStream) -> None:
        """Send until `end` has been said and the socket closed. Raises PeerGone when the client has left.

        Cancelled in the middle of a message, the transport closes the socket: nothing follows half a message.
        """
        open_ = True
        while open_:
            if self._texts:
                open_ = await self._send_texts(stream)
            elif self._audio:
                name, waiting = self._audio.popleft()
                open_ = await self._send_frame(stream, self._tracks[name], waiting)
            elif self._video:
                name = next(iter(self._video))
                waiting = self._video.pop(name)
                self._free.ring()
                open_ = await self._send_frame(stream, self._tracks[name], waiting)
            else:
                await self._bell.wait()

    async def _send_texts(self, stream: MessageStream) -> bool:
        while self._texts:
            text = self._texts.popleft()
            if isinstance(text, _Close):
                await stream.aclose(text.code, text.reason)
                return False
            await stream.send_text(text)
        return True

    async def _send_frame(self, stream: MessageStream, track: _OutTrack, waiting: _Waiting) -> bool:
        sent = False
        try:
            encoded = await self._encode(track.encoder, waiting.frame)
            info = track.encoder.describe(track.index, track.spec, encoded.size)
            if info != track.info:
                track.info = info
                self.say("reactor.track", info)
            if not await self._send_texts(stream):
                return False
            packet = Packet(
                track.index, waiting.seq, round(waiting.pts * 1e6), KEYFRAME if encoded.keyframe else 0,
                waiting.command, waiting.step, waiting.meta, encoded.payload,
            )  # fmt: skip
            head = packet_head(packet)
            await stream.send_packet(head, encoded.payload)
            self._sent(1, len(head) + encoded.payload.nbytes)
            sent = True
        finally:
            if not sent:
                self._dropped("lane", "client_left", 1)
        return True

    async def _encode(self, encoder: Encoder, frame: FrameHandle) -> Encoded:
        if encoder.blocking or not isinstance(frame, np.ndarray):  # a tensor may have to come from its device
            return await self._worker(encoder.encode, frame)
        return encoder.encode(frame)


def _describe_input(index: int, spec: TrackSpec) -> TrackInfo:
    """Each packet of an input track names its own codec and size."""
    return TrackInfo(index, spec.name, spec.kind, "in", None, sample_rate=spec.sample_rate)
