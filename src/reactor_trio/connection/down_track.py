"""A down track: one viewer's copy of a video track, with the packets that wait for its socket and its congestion window.

A packet that the system has taken can no longer be replaced by a newer one. Without a *window*, each buffer between the
server and a slow viewer fills with old pictures. `pacing.CongestionWindow` bounds what is under way. While the window is
closed, the frame waits unencoded in the rendition, where a newer frame takes its place.

Packets wait here only if sound or messages go first, if the socket takes nothing, or if another viewer that shares the
encoder could take the frame earlier. A packet that refers to an earlier one is useless without it. So if a packet misses its
deadline, all that waits with it is dropped, and the down track takes nothing more until the next keyframe. Deadlines also
count when a new packet comes, so the queue stays short while the socket is stuck in the middle of a message. The down track
asks for a keyframe only when its socket takes messages again, because a keyframe costs every viewer of the rendition.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass
from typing import Literal, Protocol

from reactor_trio.connection.connect_request import ConnectRequest
from reactor_trio.connection.outgoing_frames import CodedFrame
from reactor_trio.connection.sender_context import SenderContext
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.pacing import CongestionWindow
from reactor_trio.protocol import TrackInfo

#: bits per second at full quality until the first frame says how large the pictures are
_GUESS = 2_000_000.0


#: Which packet the viewer can decode next: "whole" any, the others a keyframe. "new": the down track has not been offered a
#: frame since its rendition or codec was chosen. "late": packets were too old, and no keyframe has been asked for yet.
_Chain = Literal["new", "gated", "late", "whole"]

#: what changes it: another codec or rendition follows, a frame is offered, a keyframe comes, a packet is dropped (because it
#: is too old), the rendition has been asked for a keyframe
ChainEvent = Literal["renewed", "offered", "keyframe", "dropped", "late", "asked"]

#: event -> state before -> state after; a state that is not named stays
_NEXT: dict[ChainEvent, dict[_Chain, _Chain]] = {
    "renewed": {"gated": "new", "late": "new", "whole": "new"},
    "offered": {"new": "gated"},
    "keyframe": {"new": "whole", "gated": "whole", "late": "whole"},
    "dropped": {"whole": "gated"},
    "late": {"whole": "late"},
    "asked": {"late": "gated"},
}


class DownTrackOwner(Protocol):
    """The `ClientSender` that a down track belongs to."""

    @property
    def idle(self) -> bool:
        """Whether its task waits for something to do."""

    def wake(self) -> None:
        """There is something to send, or room for it."""

    def send_now(self, down_track: DownTrack, coded: CodedFrame) -> bool:
        """Send a packet in place of the task, if nothing goes before it and the socket takes bytes; whether that was so."""

    def forsaken(self) -> None:
        """No encoder is left for any codec that the viewer decodes."""


@dataclass(eq=False)
class DownTrack:
    """One viewer's copy of the video track `spec`, with `index` on the wire.

    Args:
        request: says which codecs the viewer decodes, and whether it will acknowledge frames.
    """

    index: int
    spec: TrackSpec
    request: ConnectRequest
    context: SenderContext
    owner: DownTrackOwner

    def __post_init__(self) -> None:
        #: what the viewer decodes, best first, nothing if it wants no video; and what it gets, empty before the first
        self.codecs = self.request.tracks.get(self.spec.name, self.request.video)
        self.codec = self.codecs[0] if self.codecs else ""
        #: the newest `reactor.track` that the viewer has
        self.info = TrackInfo(self.index, self.spec.name, "video", "out", self.codec or None)
        self.link = CongestionWindow(_GUESS, 30.0, expected=self.request.feedback, relaxes=self.request.cadence)
        #: seconds between two acknowledgements that the viewer was told
        self.told_cadence = 0.0
        #: size and frame rate for which the link knows full quality
        self.shape: tuple[tuple[int, int], float] | None = None
        #: number of the newest frame that began to be sent
        self.newest_seq = -1
        #: when it last got, or is to get, a picture that it asked for
        self.refreshed_at = -math.inf
        #: whether a packet is being written
        self.sending = False
        self._chain: _Chain = "new"
        self._queue: deque[CodedFrame] = deque()
        self._newest_command: int | None = None
        #: the first packet made with the newest command, until the viewer acknowledges it; and when its writing began
        self._unconfirmed: CodedFrame | None = None
        self._unconfirmed_at = 0.0

    # ---- which packet can follow ---------------------------------------------------------------------------------------

    @property
    def gated(self) -> bool:
        """Whether only a keyframe can follow."""
        return self._chain != "whole"

    @property
    def late(self) -> bool:
        """Whether packets were too old, and the rendition has not been asked for a keyframe yet."""
        return self._chain == "late"

    def enter(self, event: ChainEvent) -> bool:
        """Change the state by an event; whether that changed it."""
        before = self._chain
        self._chain = _NEXT[event].get(before, before)
        return self._chain != before

    # ---- the packets that wait -----------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._queue)

    def ready(self, now: float) -> bool:
        """Whether it could send the next frame at once."""
        return not self._queue and not self.sending and self.link.open(now)

    def has_packet(self, now: float) -> bool:
        """Whether a packet may be sent now, if the socket takes one; drops packets that are too old first."""
        if not self._queue:
            return False
        self._drop_late(now)
        return bool(self._queue) and self.link.open(now)

    def accepts(self, coded: CodedFrame) -> bool:
        """Whether the viewer can decode a new packet of the rendition; counts it as dropped if not."""
        if coded.keyframe:
            if self._queue:
                self.drop_queue("superseded")
            self.enter("keyframe")
        elif self.gated:
            self.lose("gated")
            return False
        return True

    def idle(self, now: float) -> bool:
        """Whether it could send the next frame, and its task waits for something to do."""
        return self.owner.idle and self.ready(now)

    def put(self, coded: CodedFrame, now: float) -> None:
        """Send a packet that it accepts, or queue it if it cannot be sent at once."""
        if self.idle(now) and self.owner.send_now(self, coded):
            return
        self._queue.append(coded)
        self._drop_late(now)
        self.owner.wake()

    def _drop_late(self, now: float) -> None:
        if len(self._queue) > 1 and now > self._queue[0].due + self.context.max_age:
            self.enter("late")
            self.drop_queue("late")
            self.link.skipped(now)

    def take(self) -> CodedFrame:
        """Remove and return the packet to send next."""
        return self._queue.popleft()

    def drop_queue(self, reason: str) -> None:
        """Drop the packets that wait; only a keyframe can follow."""
        if self._queue:
            self.context.telemetry.dropped("lane", reason, len(self._queue))
            self._queue.clear()
        self.enter("dropped")

    def lose(self, reason: str) -> None:
        """Count a frame that this viewer does not get."""
        self.context.telemetry.dropped("lane", reason, 1)

    def passed_over(self, reason: str, now: float) -> None:
        """Count a frame that a newer one replaced before it was encoded."""
        self.lose(reason)
        if not self.ready(now):
            self.link.skipped(now)

    # ---- packets under way ---------------------------------------------------------------------------------------------

    def sent(self, coded: CodedFrame, now: float) -> None:
        """Register a packet whose writing begins."""
        self.link.sent(coded.seq, coded.size, now)
        self.newest_seq = max(self.newest_seq, coded.seq)
        origin = coded.origin
        if origin.command is None or origin.command == self._newest_command or origin.waited is None:
            return
        self._newest_command = origin.command
        self._unconfirmed, self._unconfirmed_at = coded, now
        for part, seconds in zip(("wait", "step", "queue", "encode"), _parts(coded), strict=True):
            self.context.telemetry.latency(part, seconds)

    def acknowledged(self, seq: int, held: float | None, now: float) -> None:
        """Register that the viewer has dealt with frame `seq` and all before it; it held the frame for `held` seconds."""
        self.link.acknowledged(seq, now, self.context.lag())
        first = self._unconfirmed
        if first is not None and first.seq <= seq <= self.newest_seq:
            self._unconfirmed = None
            if self.told_cadence:  # the viewer may have acknowledged a later frame: the time is not this one's
                return
            way = now - self._unconfirmed_at
            decode = min(held or 0.0, way)
            self.context.telemetry.latency("network", way - decode)
            self.context.telemetry.latency("decode", decode)
            self.context.telemetry.latency("total", sum(_parts(first)) + way)


def _parts(coded: CodedFrame) -> tuple[float, float, float, float]:
    return coded.origin.waited or 0.0, coded.origin.seconds, coded.queued, coded.encoding
