"""The receiving side of a client's session: what arrived, and how the session ended.

One task receives and never waits for a consumer: answers wake their callers, frames and messages go to bounded queues
(`broadcast.py`), still encoded; they are decoded where they are taken (`streams.py`).

A session ends once, for one reason: our own close, the server's `reactor.bye`, or what the transport says. After a
polite end the iterators simply stop; after any other they raise SessionEnded, once what had arrived is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anyio

from reactor_trio.client.broadcast import Broadcast
from reactor_trio.client.conversation import (
    Answered,
    Bye,
    Commanded,
    Conversation,
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
        frames_queued: frames that a consumer's queue holds.
    """

    def __init__(
        self,
        transport: Transport,
        conversation: Conversation,
        on_queued: Callable[[int, int], object] | None,
        frames_queued: int,
    ) -> None:
        self._transport = transport
        self._conversation = conversation
        self._on_queued = on_queued
        self._frames_queued = frames_queued
        self._end_message = ""
        #: place in the server's queue, from 1; None if there is none or no more
        self.position: int | None = None
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
            case Answered(number, reply, error):
                # None: its caller was cancelled.
                if (answer := self.answers.get(number)) is not None:
                    answer.give(reply, error)
            case Message() as message:
                self.messages.put(message)
            case Bye(reason, message):
                self.finish(reason, message)

    def _take_packet(self, data: bytes | bytearray | memoryview) -> None:
        received = self._conversation.receive_packet(data, anyio.current_time())
        if received.track.direction != "out":
            raise ProtocolError(f"a packet of the input track {received.track.name}")
        if self.tap is not None:
            self.tap(received)
        self.frames[received.track.index].put(received)

    def _open_track(self, track: TrackInfo) -> None:
        if track.index not in self.frames:
            self.frames[track.index] = Broadcast(self._frames_queued)

    def _session_ended(self) -> SessionEnded:
        assert self.ended is not None
        return SessionEnded(self.ended, f"{self.ended}: {self._end_message}" if self._end_message else "")

    def _stop(self) -> Exception:
        """What an iterator raises at the end."""
        return StopAsyncIteration() if self.ended in _POLITE else self._session_ended()
