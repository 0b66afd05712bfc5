"""The receiving side of a client's session: what arrived, and how the session ended.

One task (`line.py`) hands over what comes, and nothing here waits for a consumer: answers wake their callers, frames and
messages go to bounded queues (`broadcast.py`), still encoded; they are decoded where they are taken (`streams.py`).

A session ends once, for one reason: our own close, the server's `reactor.bye`, or what the transport says. After a
polite end the iterators simply stop; after any other they raise SessionEnded, once what had arrived is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import anyio

from reactor_trio.client.broadcast import Broadcast
from reactor_trio.client.feedback_sender import Teller
from reactor_trio.client.outbox import Outbox
from reactor_trio.client.session_protocol import (
    Answered,
    Bye,
    Commanded,
    Conversation,
    Ending,
    KeyframeWanted,
    Message,
    Queued,
    Received,
    Returned,
    TextEvent,
    TrackChanged,
    Welcomed,
)
from reactor_trio.errors import CommandError, ProtocolError, SessionEnded
from reactor_trio.protocol import Admitted, TrackInfo

MESSAGES_QUEUED = 1024

#: Why a client waits, unless the server gives another reason.
TAKEN = "someone else has the session; see max_sessions"

_POLITE = ("client_left", "done")
#: Ends of a connection only, where the server keeps the session.
_CONNECTIONS = ("too_slow",)


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
        outbox: is told of each answer, and of the end.
        teller: is told what the server should know.
        on_queued: called with `(position, total)` while there is no room.
        on_ending: called with `(reason, seconds)` when an end is in sight, or with None for seconds when it no longer is.
        on_waiting: called with the reason for which there is no room, before `on_queued`, and when that changes.
        frames_queued: frames that a consumer's queue holds.
        feedback: whether the server is told of each video frame.
        on_keyframe: called with the index of the input track of which the server wants a keyframe.
    """

    def __init__(
        self,
        conversation: Conversation,
        outbox: Outbox,
        teller: Teller,
        on_queued: Callable[[int, int], object] | None,
        frames_queued: int,
        feedback: bool = False,
        on_keyframe: Callable[[int], object] = lambda _: None,
        on_ending: Callable[[str, float | None], object] | None = None,
        on_waiting: Callable[[str], object] | None = None,
    ) -> None:
        self._outbox = outbox
        self._teller = teller
        self._on_queued = on_queued
        self._frames_queued = frames_queued
        self._feedback = feedback
        self._on_keyframe = on_keyframe
        self._on_ending = on_ending
        self._on_waiting = on_waiting
        self._waits_for: str | None = None
        self._end_message = ""
        #: what the session's texts and packets mean
        self.conversation = conversation
        #: place in the server's queue, from 1; None if there is none or no more
        self.position: int | None = None
        #: where the session is to begin, if that is elsewhere; for who goes there
        self.admitted: Admitted | None = None
        #: why and when the server will end the session, None if no end is in sight
        self.ending: tuple[str, float] | None = None
        #: who waits for an answer, by the command's number
        self.answers: dict[int, Answer] = {}
        #: frames by track index
        self.frames: dict[int, Broadcast[Received]] = {}
        self.messages: Broadcast[Message] = Broadcast(MESSAGES_QUEUED)
        #: the command that was applied last; frames made with it or a later one carry at least its number
        self.last_command: int | None = None
        #: why the session ended, None while it goes on
        self.ended: str | None = None
        #: set when it has
        self.over = anyio.Event()
        #: whether somebody was told so by an exception
        self.told = False
        #: told of all that comes and each command that goes; must neither wait nor raise
        self.tap: Callable[[TextEvent | Received | Commanded], None] | None = None

    @property
    def begun(self) -> bool:
        """Whether the session has begun."""
        return self.conversation.welcome is not None

    @property
    def resumable(self) -> bool:
        """Whether the server keeps the session for a while when its link is lost."""
        welcome = self.conversation.welcome
        return welcome is not None and welcome.resume_token is not None

    def take(self, data: str | bytes | bytearray | memoryview) -> None:
        """A message has come. Raises ProtocolError."""
        if isinstance(data, str):
            self._take_text(data)
        else:
            self._take_packet(data)

    def resume(self, returned: Returned) -> None:
        """The session goes on over another connection."""
        if returned.missed:
            self._doubt(returned)
        for track in returned.changed:
            self._open_track(track)
            if self.tap is not None:
                self.tap(TrackChanged(track))

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
        self._outbox.clear()

    def check_alive(self) -> None:
        """Raise SessionEnded if the session is over."""
        if self.ended is not None:
            raise self._session_ended()

    def _doubt(self, returned: Returned) -> None:
        """Answers may be among the messages that are lost."""
        lost = f"whether it was applied is not known: {returned.missed} messages were lost while the link was away"
        for number, answer in self.answers.items():
            if number <= returned.received:
                self._outbox.answered(number)
                answer.give(error=CommandError("answer_lost", lost))

    def _take_text(self, text: str) -> None:
        event = self.conversation.receive_text(text, anyio.current_time())
        if self.tap is not None and event is not None:
            self.tap(event)
        match event:
            case Queued() as queued:
                self._take_place(queued)
            case Admitted() as admitted:
                self.admitted, self.position = admitted, None
            case Welcomed():
                self.position = None
                for track in self.conversation.tracks.values():
                    self._open_track(track)
            case TrackChanged(track):
                self._open_track(track)
            case KeyframeWanted(index):
                self._on_keyframe(index)
            case Answered(number, reply, error):
                self.last_command = number if error is None else self.last_command
                self._outbox.answered(number)
                # None: its caller was cancelled.
                if (answer := self.answers.get(number)) is not None:
                    answer.give(reply, error)
            case Message() as message:
                self.messages.put(message)
            case Ending(reason, seconds):
                self._take_ending(reason, seconds)
            case Bye(reason, message):
                self._take_bye(reason, message)

    def _take_place(self, queued: Queued) -> None:
        self.position = queued.position
        before, self._waits_for = self._waits_for, queued.reason or TAKEN
        if self._on_waiting is not None and self._waits_for != before:
            self._on_waiting(self._waits_for)
        if self._on_queued is not None:
            self._on_queued(queued.position, queued.total)

    def _take_bye(self, reason: str, message: str) -> None:
        # Of a connection only: the close follows, and tells that it is lost.
        if not (self.resumable and reason in _CONNECTIONS):
            self.finish(reason, message)

    def _take_ending(self, reason: str, seconds: float | None) -> None:
        self.ending = None if seconds is None else (reason, anyio.current_time() + seconds)
        if self._on_ending is not None:
            self._on_ending(reason, seconds)

    def _take_packet(self, data: bytes | bytearray | memoryview) -> None:
        received = self.conversation.receive_packet(data, anyio.current_time())
        if received.track.direction != "out":
            raise ProtocolError(f"a packet of the input track {received.track.name}")
        if self.tap is not None:
            self.tap(received)
        index = received.track.index
        self.frames[index].put(received)
        if self._feedback and received.track.kind == "video":
            self._teller.arrived(index, received.packet.seq)

    def _open_track(self, track: TrackInfo) -> None:
        if track.index not in self.frames:
            ask = partial(self._teller.ask_keyframe, track.index)
            self.frames[track.index] = Broadcast(self._frames_queued, lambda received: received.packet.keyframe, ask)

    def _session_ended(self) -> SessionEnded:
        assert self.ended is not None
        self.told = True
        return SessionEnded(self.ended, f"{self.ended}: {self._end_message}" if self._end_message else "")

    def _stop(self) -> Exception:
        """What an iterator raises at the end."""
        return StopAsyncIteration() if self.ended in _POLITE else self._session_ended()
