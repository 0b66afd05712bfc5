"""The input frames of one session on their way to the model's process.

That process may stand still for as long as it likes. So only some frames of each track are *under way*: sent, and not yet
reported as taken (`InputTaken`). The others wait here. The frames of a track have the bounds of an `InputQueue`, and
beyond them the oldest that waits is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from reactor_trio.interface.input_buffer import InputBuffer, InputFrame

#: frames of a track that may be under way, and their bytes; the frame that reaches the bytes may exceed them
MOST_UNDER_WAY, MOST_BYTES_UNDER_WAY = 8, 32 * 1024 * 1024
#: how many frames of a track, or how many bytes, the model's process takes before it reports them; less than these
REPORTED, REPORTED_BYTES = 4, 4 * 1024 * 1024


@dataclass(eq=False)
class _Lane:
    waiting: deque[InputFrame] = field(default_factory=deque)
    #: the sizes of the frames under way
    under_way: deque[int] = field(default_factory=deque)
    #: bytes of both
    size: int = 0


class InputLanes:
    """The lanes of a session's input tracks, on the loop of the link. No method waits.

    Args:
        send: sends a frame of a track.
        dropped: called with a reason and a number of frames.
        most_bytes: `runtime.limits.input_bytes`; half of it bounds a track here. In the model's process
            `InputQueue` and `InputBuffer` have the same half each, as without that process.
    """

    def __init__(
        self, send: Callable[[str, InputFrame], object], dropped: Callable[[str, int], object], most_bytes: int
    ) -> None:
        self._send = send
        self._dropped = dropped
        self._most_bytes = most_bytes // 2
        self._most_under_way = min(max(self._most_bytes, 2 * REPORTED_BYTES), MOST_BYTES_UNDER_WAY)
        self._lanes: dict[str, _Lane] = {}
        #: whether frames may be sent; None when the session is over
        self._open: bool | None = False

    def open(self) -> None:
        """Send frames from now on: the model's process knows the session."""
        self._open = True
        for track, lane in self._lanes.items():
            self._send_on(track, lane)

    def put(self, track: str, frame: InputFrame) -> None:
        """Send a frame, or keep it for later; drop the oldest that waits beyond the bounds."""
        if self._open is None:
            self._dropped("unread", 1)
            return
        lane = self._lanes.setdefault(track, _Lane())
        lane.waiting.append(frame)
        lane.size += frame.data.nbytes
        self._send_on(track, lane)
        evicted = 0
        while len(lane.waiting) > 1 and (
            len(lane.waiting) + len(lane.under_way) > InputBuffer.capacity or lane.size > self._most_bytes
        ):
            lane.size -= lane.waiting.popleft().data.nbytes
            evicted += 1
        if evicted:
            self._dropped("evicted", evicted)

    def taken(self, track: str, frames: int) -> None:
        """Note that the model's process has taken the oldest `frames` of a track."""
        lane = self._lanes.get(track)
        if lane is None:  # the session is over
            return
        for _ in range(frames):
            lane.size -= lane.under_way.popleft()
        self._send_on(track, lane)

    def close(self) -> None:
        """End the session: drop what waits, and count it. What `send` belongs to refers to this object."""
        self._open = None
        self._send = _nowhere
        waiting = sum(len(lane.waiting) for lane in self._lanes.values())
        self._lanes.clear()
        if waiting:
            self._dropped("unread", waiting)

    def _send_on(self, track: str, lane: _Lane) -> None:
        while (
            self._open and lane.waiting and len(lane.under_way) < MOST_UNDER_WAY
            and sum(lane.under_way) < self._most_under_way
        ):  # fmt: skip
            frame = lane.waiting.popleft()
            lane.under_way.append(frame.data.nbytes)
            self._send(track, frame)


def _nowhere(_track: str, _frame: InputFrame) -> None:
    """Of a session that is over: nothing is sent."""


class InputReports:
    """What the model's process has taken of a session's input frames and not yet reported."""

    def __init__(self) -> None:
        self._taken: dict[str, tuple[int, int]] = {}

    def took(self, track: str, size: int) -> int:
        """Note a frame of `size` bytes. Returns how many frames of the track are to be reported now."""
        frames, taken = self._taken.get(track, (0, 0))
        frames, taken = frames + 1, taken + size
        if frames >= REPORTED or taken >= REPORTED_BYTES:
            self._taken[track] = 0, 0
            return frames
        self._taken[track] = frames, taken
        return 0
