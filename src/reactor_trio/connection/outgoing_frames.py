"""The two records in which a frame passes through a connection: before it is encoded, and after.

They cannot be part of a reference cycle, so the garbage collector need not track them (`interpreter`).
"""

from __future__ import annotations

import msgspec

from reactor_trio.media import FrameHandle, Origin
from reactor_trio.protocol import TrackInfo

#: seconds after which a picture counts as the standing one, however slow the model is
STANDS_AFTER = 0.5


class DueFrame(msgspec.Struct, frozen=True, gc=False):
    """A frame or block of sound that is shown now and not yet encoded.

    It is shown from `due` on for `duration`; `made` is when its step had ended, all in `trio.current_time()` seconds; `pts`
    is in seconds since the session began.
    """

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

    @property
    def stands_at(self) -> float:
        """From when on the viewers should see this frame as the standing picture, because no newer one is to be expected."""
        return self.due + min(1.5 * self.duration, STANDS_AFTER)


class CodedFrame(msgspec.Struct, frozen=True, gc=False):
    """A packet, the same for every member of a rendition.

    Attributes:
        info: what a viewer needs to decode it.
        head, payload: the message, of `size` bytes.
        queued, encoding: seconds from the end of its step until encoding began, and for which it was encoded.
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
    size: int
