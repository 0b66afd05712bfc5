"""The receiving side of a client's session: incoming messages, and how the session ended.

One task (`persistent_connection.py`) passes every message to the Receiver, which never waits for a consumer. Answers wake
their callers. Frames and messages go to bounded queues (`broadcast.py`), still encoded; the consumers decode them
(`streams.py`).

A session ends once, for one reason: this side's close, the server's `reactor.bye`, or the transport's end. After a polite
end the iterators stop; after any other they raise SessionEnded. In both cases they first give the items that had arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

import anyio

import reactor_trio.client.session_events as events
from reactor_trio.client.broadcast import Broadcast
from reactor_trio.client.hands import Hands
from reactor_trio.client.outbox import FeedbackSender, Outbox
from reactor_trio.client.push import PushTracks
from reactor_trio.client.refusals import known_code
from reactor_trio.client.session_protocol import SessionProtocol
from reactor_trio.errors import CommandError, ProtocolError, SessionEnded
from reactor_trio.protocol import Admitted, Cadence, Late, TrackInfo, Welcome

MESSAGES_QUEUED = 1024

#: Why a client waits, unless the server gives a reason.
TAKEN = "someone else has the session; see max_sessions"

_POLITE = ("client_left", "done")
#: What follows a reason for which the server gives no text.
_UNSAID = {"model_error": "the model failed; the terminal of `reactor run` shows the line, and `--debug` tells it here"}
#: `reactor.bye` reasons that end only the connection if the server keeps the session.
_CONNECTIONS = ("too_slow",)


#: worlds whose saving is followed; a session has one under way
MOST_SAVES = 64


class ReplyFuture:
    """The answer to one command, for which its caller waits."""

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.reply: Any = None
        self.error: Exception | None = None

    def set(self, reply: Any = None, error: Exception | None = None) -> None:
        """Wake the caller with a reply or an error. Only the first call counts."""
        # The session may end before the caller of an answered command has run.
        if not self.done.is_set():
            self.reply, self.error = reply, error
            self.done.set()


def ignore(*_: object) -> None:
    """Do nothing: the callback of a program that gives none."""


class Callbacks(NamedTuple):
    """The program's functions that a session calls. Their arguments are described at `Client`."""

    on_queued: Callable[[int, int], object]
    on_waiting: Callable[[str], object]
    on_ending: Callable[[str, float | None], object]
    on_lost: Callable[[str], object]
    on_resumed: Callable[[float], object]


#: what the client receives and sends, and who sees it (`observing.py`)
Observed = events.TextEvent | events.Received | events.Commanded
Observer = Callable[[Observed], None]


class Receiver:
    """The state of one session: it takes the server's messages, and owns the outgoing ones until they are sent.

    Args:
        callbacks: the program's functions.
        frames_queued: length of each frame iterator's queue.
        queued_bytes: most bytes in each iterator's queue, and of what is kept before the first iterator.
        feedback: whether to acknowledge each video frame.
    """

    def __init__(self, callbacks: Callbacks, frames_queued: int, queued_bytes: int, feedback: bool) -> None:
        self.callbacks = callbacks
        self._frames_queued, self._queued_bytes = frames_queued, queued_bytes
        self._feedback = feedback
        self._waits_for: str | None = None
        self._end_message = ""
        self._refusal: str | None = None
        self.protocol = SessionProtocol()
        self.outbox = Outbox()
        self.feedback_sender = FeedbackSender()
        self.push_tracks = PushTracks()
        self._hands = Hands()
        #: place in the server's queue, from 1; None when this client does not wait
        self.position: int | None = None
        #: when this client gets its session at the latest; None if that is not known
        self.admitted_by: float | None = None
        #: the replica to which a gate sends this client, until the connection to it is made
        self.admitted: Admitted | None = None
        self._ending: tuple[str, float] | None = None
        self._late: tuple[str, float] | None = None
        #: the callers that wait for an answer, by command number
        self.answers: dict[int, ReplyFuture] = {}
        #: by id of a world: set when the server has stored it, or has failed to
        self._saves: dict[str, ReplyFuture] = {}
        #: frames by track index
        self.frames: dict[int, Broadcast[events.Received]] = {}
        self.messages: Broadcast[events.Message] = Broadcast(MESSAGES_QUEUED, queued_bytes)
        #: number of the newest applied command; frames made with it, or a later one, carry at least this number
        self.last_command: int | None = None
        #: why the session ended, None while it goes on
        self.ended: str | None = None
        #: whether a SessionEnded has been raised to the program
        self.end_raised = False
        #: each is called with each incoming event and each outgoing command; must neither wait nor raise
        self.observers: list[Observer] = []

    @property
    def resumable(self) -> bool:
        """Whether the server keeps the session for a while when its link is lost."""
        welcome = self.protocol.welcome
        return welcome is not None and welcome.resume_token is not None

    @property
    def ending(self) -> events.Ending | None:
        """The end that the server has announced: its reason and the seconds until then; None if it has announced none."""
        if self._ending is None:
            return None
        reason, at = self._ending
        return events.Ending(reason, max(0.0, at - anyio.current_time()))

    @property
    def late(self) -> Late | None:
        """The code of the model that takes long, and its seconds until now; None if none does."""
        return None if self._late is None else Late(self._late[0], anyio.current_time() - self._late[1])

    def take(self, data: str | bytes | bytearray | memoryview) -> None:
        """Process one message. Raises ProtocolError."""
        if isinstance(data, str):
            self._take_text(data)
        else:
            self._take_packet(data)

    def resume(self, welcome: Welcome) -> None:
        """Continue the session over another connection, on which only its welcome has come. Raises ProtocolError."""
        resumed = self.protocol.resume(welcome)
        self.outbox.resume(resumed.received)
        self.feedback_sender.clear()
        if resumed.missed:
            self._fail_lost_answers(resumed)
        for track in resumed.changed:
            self._open_track(track)
            self.tell(events.TrackChanged(track))
        if resumed.values:
            self.tell(events.StateChanged(resumed.values))
        if resumed.paused is not None:
            self.tell(events.TransportChanged(resumed.paused))
        self.push_tracks.request_keyframe()

    def tell(self, event: events.TextEvent | events.Received | events.Commanded) -> None:
        """Call each observer with `event`. An observer may leave in its call."""
        for see in tuple(self.observers):
            see(event)

    def give(self, name: str, arguments: Mapping[str, Any]) -> int:
        """Send a command as soon as there is a link; returns its number. Raises as `SessionProtocol.command`."""
        number, text = self.protocol.command(name, arguments, anyio.current_time())
        self._hands.sent(name, arguments)
        self.tell(events.Commanded(number, name, arguments))
        self.outbox.put(number, text)
        return number

    def finish(self, reason: str, message: str = "", code: str | None = None) -> None:
        """End the session. Only the first reason counts."""
        if self.ended is not None:
            return
        self.ended, self._end_message, self._refusal = reason, message, code
        for answer in self.answers.values():
            answer.set(error=self._session_ended())
        for saving in self._saves.values():
            saving.set(error=self._session_ended())
        for frames in self.frames.values():
            frames.end(self._iteration_end)
        self.messages.end(self._iteration_end)
        self.outbox.clear()

    def saving(self, world: str) -> ReplyFuture:
        """Return what is set when the saving of a world has ended; of the newest 64 worlds."""
        if world not in self._saves and len(self._saves) >= MOST_SAVES:
            del self._saves[next(iter(self._saves))]
        return self._saves.setdefault(world, ReplyFuture())

    def check_alive(self) -> None:
        """Raise SessionEnded if the session is over."""
        if self.ended is not None:
            raise self._session_ended()

    def _fail_lost_answers(self, resumed: events.SessionResumed) -> None:
        """Fail the commands whose answers may be among the forgotten messages, also those for which no caller waits."""
        lost = f"whether it was applied is not known: {resumed.missed} messages were lost while the link was away"
        for number in self.outbox.unanswered(resumed.received):
            self.outbox.answered(number)
            self.protocol.commands.forget(number)
            if (answer := self.answers.get(number)) is not None:
                answer.set(error=CommandError("answer_lost", lost))

    def _take_text(self, text: str) -> None:
        event = self.protocol.receive_text(text, anyio.current_time())
        if event is not None:
            self.tell(event)
        match event:
            case events.Queued() as queued:
                self._take_place(queued)
            case Admitted() as admitted:
                self.admitted, self.position, self.admitted_by = admitted, None, None
            case Welcome():
                self.position = self.admitted_by = None
                for track in self.protocol.tracks.values():
                    self._open_track(track)
            case events.TrackChanged(track):
                self._open_track(track)
            case events.CommandAnswered(number, reply, error):
                self.last_command = number if error is None else self.last_command
                self.outbox.answered(number)
                # None if its caller was cancelled.
                if (answer := self.answers.get(number)) is not None:
                    answer.set(reply, error)
            case events.Message() as message:
                self.messages.put(message, len(text))
            case events.KeyframeWanted() | Cadence() as wish:
                self._take_wish(wish)
            case events.Ending() | Late() | events.WorldChanged() | events.WorldSaved() as notice:
                self._take_notice(notice, anyio.current_time())
            # If only the connection ends, its close frame follows and the client reconnects.
            case events.Bye(reason, why, code) if not (self.resumable and reason in _CONNECTIONS):
                self.finish(reason, why, known_code(code))

    def _tell_hands(self) -> None:
        """Tell the model which keys and pads the player holds now. A client that watches tells nothing."""
        welcome = self.protocol.welcome
        if welcome is not None and welcome.role != "viewer":
            for name, arguments in self._hands.now(welcome.schema.get("commands", ())):
                self.give(name, arguments)

    def _take_wish(self, wish: events.KeyframeWanted | Cadence) -> None:
        if isinstance(wish, Cadence):
            self.feedback_sender.set_cadence(wish.track, wish.every_us / 1e6)
        else:
            self.push_tracks.request_keyframe(wish.track)

    def _take_notice(self, notice: events.Ending | Late | events.WorldChanged | events.WorldSaved, now: float) -> None:
        match notice:
            case events.WorldSaved(world, code, why):
                self.saving(world).set(error=None if code is None else CommandError(code, why))
            case events.Ending(reason, seconds):
                self._ending = None if seconds is None else (reason, now + seconds)
                self.callbacks.on_ending(reason, seconds)
            case Late(what, seconds):
                self._late = None if what is None else (what, now - seconds)
            case events.WorldChanged():
                self._tell_hands()

    def _take_place(self, queued: events.Queued) -> None:
        self.position = queued.position
        self.admitted_by = None if queued.wait is None else anyio.current_time() + queued.wait
        before, self._waits_for = self._waits_for, queued.reason or TAKEN
        if self._waits_for != before:
            self.callbacks.on_waiting(self._waits_for)
        self.callbacks.on_queued(queued.position, queued.total)

    def _take_packet(self, data: bytes | bytearray | memoryview) -> None:
        received = self.protocol.receive_packet(data, anyio.current_time())
        if received.track.direction != "out":
            raise ProtocolError(f"a packet of the input track {received.track.name}")
        self.tell(received)
        index = received.track.index
        self.frames[index].put(received, len(data))
        if self._feedback and received.track.kind == "video":
            self.feedback_sender.acknowledge(index, received.packet.seq)

    def _open_track(self, track: TrackInfo) -> None:
        if track.index not in self.frames:
            ask = partial(self.feedback_sender.request_keyframe, track.index)
            self.frames[track.index] = Broadcast(
                self._frames_queued, self._queued_bytes, lambda received: received.packet.keyframe, ask
            )

    def _session_ended(self) -> SessionEnded:
        assert self.ended is not None
        self.end_raised = True
        message = self._end_message or _UNSAID.get(self.ended)
        return SessionEnded(self.ended, f"{self.ended}: {message}" if message else "", code=self._refusal)

    def _iteration_end(self) -> Exception:
        """The exception with which an iterator ends."""
        return StopAsyncIteration() if self.ended in _POLITE else self._session_ended()
