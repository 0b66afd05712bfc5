"""One viewer's way for one video track: what waits for its socket, and how much may be under way.

A *window* bounds what is under way (`pacing.CongestionWindow`): a frame that is encoded and handed to the system can no
longer be replaced by a newer one, so without it every buffer between here and a slow viewer fills with old pictures. While
the window is closed the frame waits unencoded in the tier, where a newer one takes its place.

Packets wait here only where an encoder is shared and another viewer could take the frame earlier. A packet that refers to
one before it is worth nothing without it, so what misses its deadline takes all that waits with it, and the lane is *gated*:
it gets nothing until the next packet that stands alone. Deadlines hold as each packet comes, so that a socket that is stuck
in the middle of a message does not pile up what it will never take. Only when that socket takes one again does the lane ask
for a packet that stands alone, which costs every viewer of the tier.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import FrameHandle, Origin
from reactor_trio.pacing import CongestionWindow
from reactor_trio.protocol import TrackInfo
from reactor_trio.telemetry import Telemetry

if TYPE_CHECKING:
    from reactor_trio.connection.rendition import Rendition


#: bits per second at full quality until the first frame says how large the pictures are
_GUESS = 2_000_000.0


class Level(msgspec.Struct, frozen=True):
    """A quality, whatever the pictures are: which share of full quality's bitrate, one of `divisor` frames, and the scale of
    width and height.
    """

    share: float = 1.0
    divisor: int = 1
    scale: float = 1.0


class DueFrame(msgspec.Struct, frozen=True):
    """A frame that is shown now, not yet encoded: since `due` and for `duration`, in `trio.current_time()` seconds."""

    frame: FrameHandle
    seq: int
    pts: float
    due: float
    duration: float
    origin: Origin
    made: float

    @property
    def size(self) -> tuple[int, int]:
        """(width, height)."""
        height, width = self.frame.shape[-3:-1]
        return int(width), int(height)


class CodedFrame(msgspec.Struct, frozen=True):
    """A packet, the same for every member of its tier.

    Attributes:
        info: what is needed to decode it.
        head, payload: the message.
        queued, encoding: seconds from the end of its step until encoding began, and until it had ended.
        made: when its step had ended, in `trio.current_time()` seconds.
    """

    info: TrackInfo
    head: bytes
    payload: memoryview
    keyframe: bool
    seq: int
    due: float
    origin: Origin
    queued: float
    encoding: float
    made: float

    @property
    def size(self) -> int:
        """Bytes of the message."""
        return len(self.head) + self.payload.nbytes


class _Unconfirmed(msgspec.Struct, frozen=True):
    """The first frame made with a command, on its way."""

    coded: CodedFrame
    at: float


class DownTrack:
    """A viewer's way for the video track `spec`, with `index` on the wire.

    Args:
        codecs: what the viewer decodes, best first.
        feedback: whether the viewer has said that it will acknowledge frames.
        wake: called when there is something to send, or room for it.
        telemetry: counts and traces what happens.
        max_age: seconds after its due time from which a packet is too old to be sent.
        forsaken: called when nothing that the viewer decodes can be encoded any more.
    """

    def __init__(
        self,
        index: int,
        spec: TrackSpec,
        codecs: tuple[str, ...],
        feedback: bool,
        wake: Callable[[], None],
        telemetry: Telemetry,
        max_age: float,
        forsaken: Callable[[], None],
    ) -> None:
        self.index = index
        self.spec = spec
        self.codecs = codecs
        self.codec = codecs[0]
        self.wake = wake
        self.forsaken = forsaken
        #: None: the viewer wants no video now, or none of its codecs can be encoded
        self.rendition: Rendition | None = None
        #: what the viewer has been told of the track
        self.info = TrackInfo(index, spec.name, "video", "out", self.codec)
        self.link = CongestionWindow(_GUESS, 30.0, expected=feedback)
        self._full = _GUESS
        #: whether it has been offered a frame
        self.fresh = True
        #: number of the newest frame that began to be sent
        self.newest_seq = -1
        #: when it was last given, or is to be given, a picture at its own wish
        self.refreshed_at = -math.inf
        self.gated = True
        self.sending = False
        #: whether it is gated because packets were too old, and has not asked for one that stands alone since
        self._cut_off = False
        self._telemetry = telemetry
        self._max_age = max_age
        self._queue: deque[CodedFrame] = deque()
        self._newest_command: int | None = None
        self._unconfirmed: _Unconfirmed | None = None

    def describe(self, full: float, fps: float, size: tuple[int, int], now: float) -> None:
        """Full quality of the track is from now on `full` bits per second, for `fps` pictures of `size` (width, height)."""
        self._full = full
        self.link.describe(full, fps, self.codec, *size, now)

    @property
    def wanted(self) -> Level:
        """What its link carries."""
        quality = self.link.quality
        return Level(min(1.0, quality.bitrate / self._full), quality.divisor, quality.scale)

    def __len__(self) -> int:
        return len(self._queue)

    @property
    def waits(self) -> bool:
        """Whether a frame waits for this viewer, encoded or not."""
        return bool(self._queue) or (self.rendition is not None and self.rendition.waits)

    def ready(self, now: float) -> bool:
        """Whether it could send the next frame at once."""
        return not self._queue and not self.sending and self.link.open(now)

    def has_packet(self, now: float) -> bool:
        """Whether there is a packet that may be sent now, for who could send it; what is too old is dropped first."""
        self._drop_late(now)
        if self._cut_off and self.rendition is not None:
            self._cut_off = False
            self.rendition.refresh(self, now)
        return bool(self._queue) and self.link.open(now)

    def put(self, coded: CodedFrame, now: float) -> None:
        """Its tier has made a packet."""
        if coded.keyframe:
            self.drop_queue("superseded")
            self.gated = self._cut_off = False
        elif self.gated:
            self._telemetry.dropped("lane", "gated", 1)
            return
        self._queue.append(coded)
        self._drop_late(now)
        self.wake()

    def _drop_late(self, now: float) -> None:
        if len(self._queue) > 1 and now > self._queue[0].due + self._max_age:
            self.drop_queue("late")
            self._cut_off = True
            self.link.skipped(now)

    def take(self) -> CodedFrame:
        """The packet to send next."""
        return self._queue.popleft()

    def drop_queue(self, reason: str) -> None:
        """Drop what waits; only a packet that stands alone can follow."""
        if self._queue:
            self._telemetry.dropped("lane", reason, len(self._queue))
            self._queue.clear()
        self.gated = True

    def lose(self, reason: str) -> None:
        """A frame will not be encoded."""
        self._telemetry.dropped("lane", reason, 1)

    def passed_over(self, reason: str, now: float) -> None:
        """A frame was replaced before it was encoded."""
        self.lose(reason)
        if not self.ready(now):
            self.link.skipped(now)

    def sent(self, coded: CodedFrame, now: float) -> None:
        """The packet is being written."""
        self.link.sent(coded.seq, coded.size, now)
        self.newest_seq = max(self.newest_seq, coded.seq)
        origin = coded.origin
        if origin.command is None or origin.command == self._newest_command or origin.waited is None:
            return
        self._newest_command = origin.command
        self._unconfirmed = _Unconfirmed(coded, now)
        for part, seconds in zip(("wait", "step", "queue", "encode"), _parts(coded), strict=True):
            self._telemetry.latency(part, seconds)

    def acknowledged(self, seq: int, held: float | None, now: float) -> None:
        """The viewer has dealt with frame `seq` and all before it, and had it for `held` seconds until it was decoded."""
        self.link.acknowledged(seq, now)
        first = self._unconfirmed
        if first is not None and first.coded.seq <= seq <= self.newest_seq:
            self._unconfirmed = None
            way = now - first.at
            decode = min(held or 0.0, way)
            self._telemetry.latency("network", way - decode)
            self._telemetry.latency("decode", decode)
            self._telemetry.latency("total", sum(_parts(first.coded)) + way)
        self.wake()


def _parts(coded: CodedFrame) -> tuple[float, float, float, float]:
    return coded.origin.waited or 0.0, coded.origin.seconds, coded.queued, coded.encoding
