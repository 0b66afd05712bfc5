"""The input frames of one session on their way to the model's process.

That process may stand still for as long as it likes, so a track has a window of frames under way (`flow_window`). The others
wait here. The frames of a track have the bounds of an `InputQueue`, and beyond them the oldest that waits is dropped.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from reactor_trio.crossing.flow_window import FlowLimits, FlowWindow
from reactor_trio.interface.input_buffer import InputBuffer, InputFrame

#: of a track's frames
FRAMES: Final = FlowLimits(items=8, size=32 * 1024 * 1024, reported=4, reported_size=4 * 1024 * 1024)


@dataclass(eq=False)
class _Lane:
    window: FlowWindow
    waiting: deque[InputFrame] = field(default_factory=deque)
    #: bytes of the frames that wait
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
        size = min(max(self._most_bytes, 2 * FRAMES.reported_size), FRAMES.size)
        self._limits = msgspec.structs.replace(FRAMES, size=size)
        self._lanes: dict[str, _Lane] = {}
        #: of the session, as the model's process knows it; frames are sent only while it is known
        self._session: Literal["unknown", "known", "over"] = "unknown"

    def open(self) -> None:
        """Send frames from now on: the model's process knows the session."""
        self._session = "known"
        for track, lane in self._lanes.items():
            self._send_on(track, lane)

    def put(self, track: str, frame: InputFrame) -> None:
        """Send a frame, or keep it for later; drop the oldest that waits beyond the bounds."""
        if self._session == "over":
            self._dropped("unread", 1)
            return
        if (lane := self._lanes.get(track)) is None:
            lane = self._lanes[track] = _Lane(FlowWindow(self._limits))
        lane.waiting.append(frame)
        lane.size += frame.data.nbytes
        self._send_on(track, lane)
        evicted = 0
        while len(lane.waiting) > 1 and (
            len(lane.waiting) + lane.window.items > InputBuffer.capacity or lane.size + lane.window.size > self._most_bytes
        ):
            lane.size -= lane.waiting.popleft().data.nbytes
            evicted += 1
        if evicted:
            self._dropped("evicted", evicted)

    def taken(self, track: str, frames: int, size: int) -> None:
        """Note that the model's process has taken the oldest `frames` of a track, which have so many bytes."""
        lane = self._lanes.get(track)
        if lane is None:  # the session is over
            return
        lane.window.taken(frames, size)
        self._send_on(track, lane)

    def close(self) -> None:
        """End the session: drop what waits, and count it. What `send` belongs to refers to this object."""
        self._session = "over"
        self._send = _nowhere
        waiting = sum(len(lane.waiting) for lane in self._lanes.values())
        self._lanes.clear()
        if waiting:
            self._dropped("unread", waiting)

    def _send_on(self, track: str, lane: _Lane) -> None:
        while self._session == "known" and lane.waiting and lane.window.has_room:
            frame = lane.waiting.popleft()
            lane.size -= frame.data.nbytes
            lane.window.sent(frame.data.nbytes)
            self._send(track, frame)


def _nowhere(_track: str, _frame: InputFrame) -> None:
    """Of a session that is over: nothing is sent."""
