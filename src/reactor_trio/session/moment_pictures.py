"""The pictures of one session's moments, on the I/O loop: JPEG files of what was shown, a few a second.

The playout runs in the server's process, wherever the model is, so the pictures are kept here. A moment has the newest one
that was shown at or before its step, and since the rewind before that, if there was one. After a rewind that picture is
shown again, also in a pause: it says where the session is before the model has made a frame.

The pictures have a part of the memory of the moments. Over it, the one goes whose removal leaves the smallest gap for its
age, as among the moments.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections import deque
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import Final

import msgspec
import trio

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.crossing.messages import Rewound
from reactor_trio.media import Bundle, Origin, Worker
from reactor_trio.media.jpeg import kept_jpeg, narrowed, picture_of

log = logging.getLogger("reactor_trio.session")

#: seconds between two pictures that are kept
INTERVAL: Final = 0.25
#: pictures that are kept at most, however small they are; and rewinds that are known
MOST_PICTURES, MOST_REWINDS = 1200, 1024


class _Picture(msgspec.Struct, frozen=True):
    """What was shown of a step: when, and the JPEG file of each video track."""

    step: int
    at: float
    tracks: dict[str, bytes]

    @property
    def size(self) -> int:
        return sum(len(jpeg) for jpeg in self.tracks.values())


class MomentPictures:
    """Keeps the pictures of one session, and shows one again.

    Args:
        worker: encodes and decodes them.
        most_bytes: that they have together.
        show: shows a bundle to all clients, unless a newer frame is on screen.

    Attributes:
        bytes: what they have.
        most_bytes: what they may have.
        token: what the controlling client must show to get one.
    """

    def __init__(self, worker: Worker, most_bytes: int, show: Callable[[Bundle], object]) -> None:
        self.bytes = 0
        self.token = secrets.token_urlsafe()
        self._worker = worker
        self.most_bytes = most_bytes
        self._show = show
        self._pictures: list[_Picture] = []  # the oldest first
        #: the first step after each rewind
        self._begun: deque[int] = deque(maxlen=MOST_REWINDS)
        #: steps after which the world is that of another session, of which there is no picture
        self._unseen: deque[int] = deque(maxlen=MOST_REWINDS)
        self._next_at = -math.inf
        self._newest: tuple[Bundle, float] | None = None
        self._wanted: Rewound | None = None
        self._duration = 0.1  # of the newest frame
        self._news = RepeatedEvent()

    async def run(self) -> None:
        """Task: encode what is kept and show what is wanted, until cancelled."""
        while True:
            if self._newest is not None:
                newest, self._newest = self._newest, None
                await self._keep(*newest)
            elif self._wanted is not None:
                wanted, self._wanted = self._wanted, None
                await self._show_again(wanted)
            else:
                await self._news.wait()

    def close(self) -> None:
        """Let go of what shows them, which refers to this object: the session is over."""
        self._show = _nowhere

    def shown(self, bundle: Bundle, at: float) -> None:
        """Keep the picture of a bundle that is shown now, unless that of another one is as new."""
        self._duration = bundle.duration
        if at >= self._next_at - 1e-6:  # times are sums
            self._next_at = at + INTERVAL
            self._newest = bundle, at
            self._news.set()

    def rewound(self, message: Rewound) -> None:
        """Show the picture of the moment that the session goes on from, in place of one that is still wanted."""
        self._begun.append(message.step)
        self._next_at = -math.inf  # of what comes now the first picture is kept
        if message.why == "rewind":
            self._wanted = message
        else:
            self._wanted = None
            self._unseen.append(message.step - 1)
        self._news.set()

    def has(self, step: int) -> bool:
        """Whether there is a picture of the moment after this step."""
        return self._of(step) is not None

    async def jpeg(self, step: int, width: int) -> bytes | None:
        """Return the picture of the moment after this step as a JPEG file of at most this width; None if no picture is kept.

        It is that of the first video track.
        """
        if (picture := self._of(step)) is None:
            return None
        return await self._worker(partial(narrowed, width), next(iter(picture.tracks.values())))

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _of(self, step: int) -> _Picture | None:
        if step in self._unseen:
            return None
        since = max((begun for begun in self._begun if begun <= step), default=0)
        return next((each for each in reversed(self._pictures) if since <= each.step <= step), None)

    async def _keep(self, bundle: Bundle, at: float) -> None:
        try:
            frames = {name: frame for name, frame in bundle.tracks.items() if frame.ndim == 3}
            tracks = {name: await self._worker(kept_jpeg, frame) for name, frame in frames.items()}
        except Exception as error:  # whatever a device or the memory says: the session goes on without it
            log.warning("no picture of step %d is kept: %s", bundle.origin.step, error)
            return
        if tracks:
            self._pictures.append(picture := _Picture(bundle.origin.step, at, tracks))
            self.bytes += picture.size
            while self._pictures and (self.bytes > self.most_bytes or len(self._pictures) > MOST_PICTURES):
                self.bytes -= self._pictures.pop(self._least_missed()).size

    def _least_missed(self) -> int:
        """The index of the picture whose removal leaves the smallest gap for its age; not an end, if there are others."""
        pictures = self._pictures
        newest = pictures[-1].at + 1e-9
        three = zip(count(1), pictures, pictures[2:], strict=False)
        gaps = [((after.at - before.at) / (newest - before.at), index) for index, before, after in three]
        return min(gaps)[1] if gaps else 0

    async def _show_again(self, message: Rewound) -> None:
        if (picture := self._of(message.moment)) is None:
            return
        try:
            frames = {
                name: await self._worker(picture_of, jpeg)
                for name, jpeg in picture.tracks.items() if name in message.seqs
            }  # fmt: skip
        except Exception as error:
            log.warning("the picture of step %d cannot be shown again: %s", message.moment, error)
            return
        if frames and self._wanted is None:
            seqs = {name: message.seqs[name] for name in frames}
            origin = Origin(message.step - 1, again=True)
            self._show(Bundle(frames, seqs, self._duration, True, origin, trio.current_time()))


def _nowhere(_bundle: Bundle) -> None:
    """Of a session that is over: nothing is shown."""
