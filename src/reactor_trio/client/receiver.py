"""The receiving side of a client's session: what arrived, and how the session ended.

One task receives and never waits for a consumer: answers wake their callers, frames and messages go to bounded queues
(`broadcast.py`), still encoded; they are decoded where they are taken (`streams.py`).

What it has to tell the server by itself, that frames have come or that a keyframe is missing, is sent by a second task, the
newest for each track alone: a link that takes nothing does not hold up what comes.

A session ends once, for one reason: our own close, the server's `reactor.bye`, or what the transport says. After a
polite end the iterators simply stop; after any other they raise SessionEnded, once what had arrived is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio

from reactor_trio.client.broadcast import Broadcast
from reactor_trio.client.conversation import (
    Answered,
    Bye,
    Commanded,
    Conversation,
    Ending,
    KeyframeWanted,
    Message,
    Queued,
    Received,
    TextEvent,
    TrackChanged,
    Welcomed,
)
from reactor_trio.client.transport import Transport, TransportClosed
from reactor_trio.errors import ProtocolError, SessionEnded
from reactor_trio.protocol import TrackInfo

MESSAGES_QUEUED = 1024

#: seconds between two requests for a keyframe of a track
KEYFRAME_FLOOR = 0.5

_POLITE = ("client_left", "done")
#: What a close without a `reactor.bye` means; any other code is a lost link.
_REASONS = {1000: "done", 1002: "protocol_error", 1007: "protocol_error", 1009: "too_big"}


class Answer:
    """A command's caller waits here."""

    def __init__(self) -> None:
        self.given = anyio.Event()
        self.reply: Any = None
        self.error: Exception | None = None

    def give(self, reply: Any = None, error: Exception | None = None) -> None:
        """Wake the caller, with a reply or an error; only the first counts."""
        # The session may end before the caller of an answered command runs again.
        if not self.given.is_set():
            self.reply, self.error = reply, error
            self.given.set()


class Receiver:
    """Takes what the server says, until the session ends.

    Args:
        conversation: reads it; whoever sends uses the same one.
        on_queued: called with `(position, total)` while there is no room.
        on_ending: called with `(reason, seconds)` when an end is in sight, or with None for seconds when it no longer is.
        frames_queued: frames that a consumer's queue holds.
        feedback: whether the server is told of each video frame.
        on_keyframe: called with the index of the input track of which the server wants a keyframe.
    """

    def __init__(
        self,
        transport: Transport,
        conversation: Conversation,
        on_queued: Callable[[int, int], object] | None,
        frames_queued: int,
        feedback: bool = False,
        on_keyframe: Callable[[int], object] = lambda _: None,
        on_ending: Callable[[str, float | None], object] | None = None,
    ) -> None:
        self._transport = transport
        self._conversation = conversation
        self._on_queued = on_queued
        self._frames_queued = frames_queued
        self._feedback = feedback
        self._on_keyframe = on_keyframe
        self._on_ending = on_ending
        self._end_message = ""
        self._to_tell: dict[tuple[str, int], str] = {}
        self._asked: dict[int, float] = {}
        self._something_to_tell = anyio.Event()
        #: place in the server's queue, from 1; None if there is none or no more
        self.position: int | None = None
        #: why and when the server will end the session, None if no end is in sight
        self.ending: tuple[str, float] | None = None
        #: who waits for an answer, by the command's number
        self.answers: dict[int, Answer] = {}
        #: frames by track index
        self.frames: dict[int, Broadcast[Received]] = {}
        self.messages: Broadcast[Message] = Broadcast(MESSAGES_QUEUED)
        #: why the session ended, None while it goes on
        self.ended: str | None = None
        #: set when it has
        self.over = anyio.Event()
        #: told of all that comes and each command that goes; must neither wait nor raise
        self.tap: Callable[[TextEvent | Received | Commanded], None] | None = None

    async def wait_welcome(self) -> None:
        """Receive until the session has begun. Raises SessionEnded if it ends before that."""
        while self._conversation.welcome is None:
            await self._receive()
            if self.ended is not None:
                raise self._session_ended()

    async def receive_all(self) -> None:
        """Receive until the session has ended."""
        while await self._receive():
            pass

    async def tell_all(self) -> None:
        """Send what this side has to say by itself, until the connection takes no more."""
        try:
            while True:
                await self._something_to_tell.wait()
                self._something_to_tell = anyio.Event()
                while self._to_tell:
                    await self._transport.send(self._to_tell.pop(next(iter(self._to_tell))))
        except TransportClosed:  # the receiving task learns why
            return

    def ask_keyframe(self, track: int) -> None:
        """Ask for a keyframe of an output track, unless that was done just now."""
        now = anyio.current_time()
        if now - self._asked.get(track, -KEYFRAME_FLOOR) >= KEYFRAME_FLOOR:
            self._asked[track] = now
            self._tell("keyframe", track, self._conversation.request_keyframe(track))

    def finish(self, reason: str, message: str = "") -> None:
        """The session is over; only the first reason counts."""
        if self.ended is not None:
            return
        self.ended, self._end_message = reason, message
        self.over.set()
        for answer in self.answers.values():
            answer.give(error=self._session_ended())
        for frames in self.frames.values():
            frames.end(self._stop)
        self.messages.end(self._stop)

    def check_alive(self) -> None:
        """Raise SessionEnded if the session is over."""
        if self.ended is not None:
            raise self._session_ended()

    async def _receive(self) -> bool:
        """Take one message; False if there are no more."""
        try:
            data = await self._transport.receive()
            if isinstance(data, str):
                self._take_text(data)
            else:
                self._take_packet(data)
        except TransportClosed as closed:
            words = f"{closed.reason or 'the connection closed'} (code {closed.code})"
            self.finish(_REASONS.get(closed.code, "lost"), words)
            return False
        except ProtocolError as error:
            self.finish("protocol_error", f"the server broke the protocol: {error}")
            await self._transport.aclose(1002, str(error))
            return False
        return True

    def _take_text(self, text: str) -> None:
        event = self._conversation.receive_text(text, anyio.current_time())
        if self.tap is not None and event is not None:
            self.tap(event)
        match event:
            case Queued(position, total):
                self.position = position
                if self._on_queued is not None:
                    self._on_queued(position, total)
            case Welcomed():
                self.position = None
                for track in self._conversation.tracks.values():
                    self._open_track(track)
            case TrackChanged(track):
                self._open_track(track)
            case KeyframeWanted(index):
                self._on_keyframe(index)
            case Answered(number, reply, error):
                # None: its caller was cancelled.
                if (answer := self.answers.get(number)) is not None:
                    answer.give(reply, error)
            case Message() as message:
                self.messages.put(message)
            case Ending(reason, seconds):
                self._take_ending(reason, seconds)
            case Bye(reason, message):
                self.finish(reason, message)

    def _take_ending(self, reason: str, seconds: float | None) -> None:
        self.ending = None if seconds is None else (reason, anyio.current_time() + seconds)
        if self._on_ending is not None:
            self._on_ending(reason, seconds)

    def _take_packet(self, data: bytes | bytearray | memoryview) -> None:
        received = self._conversation.receive_packet(data, anyio.current_time())
        if received.track.direction != "out":
            raise ProtocolError(f"a packet of the input track {received.track.name}")
        if self.tap is not None:
            self.tap(received)
        index = received.track.index
        self.frames[index].put(received)
        if self._feedback and received.track.kind == "video":
            self._tell("feedback", index, self._conversation.feedback(index, received.packet.seq))

    def _open_track(self, track: TrackInfo) -> None:
        if track.index not in self.frames:
            self.frames[track.index] = Broadcast(
                self._frames_queued, lambda received: received.packet.keyframe, partial(self.ask_keyframe, track.index)
            )

    def _tell(self, what: str, track: int, text: str) -> None:
        """Have `text` sent, in place of what was not yet said of the same."""
        self._to_tell[what, track] = text
        self._something_to_tell.set()

    def _session_ended(self) -> SessionEnded:
        assert self.ended is not None
        return SessionEnded(self.ended, f"{self.ended}: {self._end_message}" if self._end_message else "")

    def _stop(self) -> Exception:
        """What an iterator raises at the end."""
        return StopAsyncIteration() if self.ended in _POLITE else self._session_ended()
