"""What waits to be sent to the server: a session's commands in order, kept until the server answers them, and the feedback.

A server counts the commands that it reads in a session, as the client counts the commands that it gives. After a reconnect
the server says how many it has read; the client sends the later ones again, before any newer one. So no command is lost and
none is read twice.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import anyio

from reactor_trio.client.session_protocol import SessionProtocol
from reactor_trio.errors import ProtocolError
from reactor_trio.protocol import KEYFRAME_REQUEST_FLOOR, encode_client_text

#: most unanswered commands, and most characters in their texts together; at either limit a new command waits
MOST_KEPT = 1024
MOST_CHARACTERS = 16 * 1024 * 1024
#: Commands sent at once after a reconnect, and then each second: half of what a server accepts by default.
CATCH_UP = 100

Send = Callable[[str], Awaitable[None]]


class Outbox:
    """The unanswered commands of one session. Their numbers count from 1."""

    def __init__(self) -> None:
        self._texts: dict[int, str] = {}
        self._characters = 0
        self._newest = 0
        self._sent = 0
        self._put = anyio.Event()
        self._answered = anyio.Event()

    def __len__(self) -> int:
        """The number of unanswered commands."""
        return len(self._texts)

    async def wait_room(self) -> None:
        """Wait until there is room for one more command."""
        while len(self._texts) >= MOST_KEPT or self._characters >= MOST_CHARACTERS:
            self._answered = anyio.Event() if self._answered.is_set() else self._answered
            await self._answered.wait()

    def put(self, number: int, text: str) -> None:
        """Queue command `number`, which is one more than the last."""
        assert number == self._newest + 1, (number, self._newest)
        self._newest = number
        self._texts[number] = text
        self._characters += len(text)
        self._put.set()

    def unanswered(self, up_to: int) -> list[int]:
        """The numbers of the unanswered commands, `up_to` that number."""
        return [number for number in self._texts if number <= up_to]

    def answered(self, number: int) -> None:
        """Forget command `number`, which the server has answered. An unknown number is ignored."""
        text = self._texts.pop(number, None)
        if text is not None:
            self._characters -= len(text)
            self._answered.set()

    def clear(self) -> None:
        """The session is over: send nothing more, and let no caller wait for room."""
        self._texts.clear()
        self._characters = 0
        self._sent = self._newest
        self._answered.set()

    def resume(self, received: int) -> None:
        """After a reconnect, continue behind the `received` commands that the server has read.

        Raises ProtocolError if that number is impossible.
        """
        unread = range(received + 1, self._newest + 1)
        if not 0 <= received <= self._newest or not all(number in self._texts for number in unread):
            raise ProtocolError(f"it claims to have read {received} of {self._newest} commands, {len(self)} unanswered")
        self._sent = received

    async def send_all(self, send: Send) -> None:
        """Send all commands in order, now and later, until cancelled. Raises what `send` raises.

        The commands that wait when this starts, as after a reconnect, are sent slowly, because a server limits commands per
        second.
        """
        at_once: float = CATCH_UP
        while True:
            while self._sent < self._newest:
                if at_once == 0:
                    await anyio.sleep(1 / CATCH_UP)
                at_once -= at_once > 0
                number = self._sent + 1
                if (text := self._texts.get(number)) is not None:  # None: the server answered it before it was sent
                    await send(text)
                self._sent = max(self._sent, number)  # `answered` or `clear` may run while `send` waits
            at_once = math.inf
            self._put = anyio.Event()
            await self._put.wait()


#: after how many cadences a frame is acknowledged though no newer one has come
_LAST_FRAME = 1.5


class FeedbackSender:
    """Feedback and keyframe requests from the client to the server.

    For each track and kind only the newest unsent text is kept, so a slow link never holds up the receiving side.

    The server may allow a track to be acknowledged less often (`set_cadence`). A frame that comes when that time is over is
    acknowledged at once, so that the server sees how long it took; the last frame before a pause half that time later.
    """

    def __init__(self) -> None:
        self._unsent: dict[tuple[str, int], str] = {}
        self._asked: dict[int, float] = {}
        #: by track: seconds between two acknowledgements, when the last one was given, and the newest frame without one
        self._cadences: dict[int, float] = {}
        self._acknowledged: dict[int, float] = {}
        self._open: dict[int, int] = {}
        self._changed = anyio.Event()

    def acknowledge(self, track: int, seq: int) -> None:
        """Acknowledge frame `seq` of an output track, now or with a later one."""
        now = anyio.current_time()
        if now - self._acknowledged.get(track, -math.inf) >= self._cadences.get(track, 0.0):
            self._tell(track, seq, now)
        else:
            if track not in self._open:
                self._changed.set()  # `send_all` waits for the time at which it is acknowledged at the latest
            self._open[track] = seq

    def set_cadence(self, track: int, seconds: float) -> None:
        """Acknowledge a track only so often from now on; 0: each frame."""
        self._cadences[track] = seconds
        self._changed.set()

    def _tell(self, track: int, seq: int, now: float) -> None:
        self._acknowledged[track] = now
        self._open.pop(track, None)
        self._put("feedback", track, SessionProtocol.feedback(track, seq))

    def _tell_last_frames(self) -> float:
        """Acknowledge the frames whose time is over; when the next one's is."""
        now, next_ = anyio.current_time(), math.inf
        for track, seq in list(self._open.items()):
            at = self._acknowledged[track] + _LAST_FRAME * self._cadences[track]
            if at <= now:
                self._tell(track, seq, now)
            else:
                next_ = min(next_, at)
        return next_

    def request_keyframe(self, track: int) -> None:
        """Ask for a keyframe of an output track, at most every `KEYFRAME_REQUEST_FLOOR` seconds."""
        now = anyio.current_time()
        if now - self._asked.get(track, -KEYFRAME_REQUEST_FLOOR) >= KEYFRAME_REQUEST_FLOOR:
            self._asked[track] = now
            self._put("keyframe", track, encode_client_text("reactor.keyframe", {"track": track}))

    def clear(self) -> None:
        """Drop the unsent texts and the cadences, which mean nothing on another connection."""
        self._unsent.clear()
        self._cadences.clear()
        self._open.clear()

    async def send_all(self, send: Send) -> None:
        """Send the texts, now and later, until cancelled. Raises what `send` raises."""
        while True:
            if not self._unsent:
                with anyio.CancelScope(deadline=self._tell_last_frames()):
                    await self._changed.wait()
            self._changed = anyio.Event()
            self._tell_last_frames()
            while self._unsent:
                await send(self._unsent.pop(next(iter(self._unsent))))

    def _put(self, kind: str, track: int, text: str) -> None:
        """Queue `text` in place of an unsent one of the same kind and track."""
        self._unsent[kind, track] = text
        self._changed.set()
