"""One client's connection from the upgrade to the closed socket.

    control -+- its scope: this one, or the server's -+- ServedSession.run   ends when the model has let go of the session
             '- wire nursery -+- event intake     socket -> commands, media; never waits for the model
                              +- input decoding   media, decoded in order -> session, if the model takes any
                              +- transport        messages and frames -> socket; the only writer
                              '- farewell         cancels the wire if the client does not take the goodbye in time

The task that learns first that the client is gone cancels the wire. Leaving the wire closes the socket at once and informs
the `ServedSession`. That ends the session when the step that runs has ended, or waits for the client to come back. A
connection ends in no other way.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec
import trio

from reactor_trio.admission import NotAdmitted, RefusalReason
from reactor_trio.connection.client_sender import ClientSender
from reactor_trio.connection.connect_request import ConnectRequest
from reactor_trio.connection.media_receiver import MediaReceiver
from reactor_trio.connection.served_session import Entry, ServedSession
from reactor_trio.errors import CommandError, ProtocolError
from reactor_trio.execution.current_session import serve_connection
from reactor_trio.protocol import (
    PLAYBACK,
    ClientText,
    Feedback,
    Keyframe,
    NotFiniteError,
    VideoChoice,
    Welcome,
    decode_client_text,
    presentable,
    readable,
)
from reactor_trio.session import Flood
from reactor_trio.transport import MessageChannel, PeerGone, PeerTooSlow, Refusal, Refused

if TYPE_CHECKING:  # a model that saves no worlds imports none of it
    from reactor_trio.execution.landing import LoadedWorld

log = logging.getLogger("reactor_trio.connection")


_DATA: dict[str, msgspec.json.Decoder[Keyframe | Feedback | VideoChoice]] = {
    "reactor.keyframe": msgspec.json.Decoder(Keyframe),
    "reactor.feedback": msgspec.json.Decoder(Feedback),
    "reactor.video": msgspec.json.Decoder(VideoChoice),
}


class SessionProvider(Protocol):
    """What a connection uses of its server."""

    farewell_timeout: float

    def sender(self, request: ConnectRequest, back_in: ServedSession | None = None) -> ClientSender:
        """The sender for a new client, or for one that comes back to the session `back_in`."""

    def enter(self, sender: ClientSender) -> Entry:
        """An entry in the waiting room for a controlling client. Raises NotAdmitted."""

    def leave(self, sender: ClientSender) -> None:
        """Forget a client whose connection is over."""

    async def load_world(self, request: ConnectRequest) -> LoadedWorld | None:
        """The world at which the client's session begins; None without one. Raises CommandError."""

    def open_session(self, entry: Entry, sender: ClientSender, begins_at: LoadedWorld | None) -> ServedSession:
        """A new session for an admitted client; the caller starts its `run` in `session_scope` at once."""

    def session_scope(self) -> AbstractAsyncContextManager[Callable[[Callable[[], Awaitable[None]]], None]]:
        """The scope in which a session runs; gives the function that starts it."""

    def welcome(self, served: ServedSession, sender: ClientSender, *, resumed: bool = False) -> Welcome:
        """The first message to a client; `resumed` if it has come back to its session."""


async def serve_client(
    provider: SessionProvider,
    request: ConnectRequest,
    joins: ServedSession | None,
    refusal: Callable[[RefusalReason], Refusal],
    messages: MessageChannel,
) -> None:
    """Serve one connected client until its socket is closed and its session has unwound.

    Args:
        joins: the session that the client watches or comes back to, which may be over meanwhile; None: it gets a new one.

    A fault of the client closes the connection; it is never raised. If there is neither a slot nor a position in the queue,
    raises `refusal` of the reason before it sends anything.
    """
    connection = _ClientConnection(provider, request, joins, messages)
    number = connection.sender.number
    log.info("client %d connects from %s as %s", number, messages.peer, request.role)
    why: str = "client_left"
    try:
        await connection.serve()
    except NotAdmitted as refused:
        why = refused.reason
        raise Refused(refusal(refused.reason)) from None
    finally:
        provider.leave(connection.sender)
        log.info("client %d has left: %s", number, connection.sender.end_reason or why)


class _ClientConnection:
    def __init__(
        self, provider: SessionProvider, request: ConnectRequest, joins: ServedSession | None, messages: MessageChannel
    ) -> None:
        self._controls = request.role == "control"
        self._joins = joins
        comes_back = joins is not None and self._controls and joins.resumable
        self.sender = provider.sender(request, joins if comes_back else None)
        self._receiver = MediaReceiver(self.sender.context, self.sender.say)
        self._provider = provider
        self._messages = messages
        #: the session that the client controls or watches; None while it waits for one
        self._joined: ServedSession | None = None
        self._current = serve_connection()
        #: the close code of a client that is gone; its exception would keep this object, by the frames of its traceback
        self._gone: int | None = None

    async def serve(self) -> None:
        if self._joins is None:
            await self._wait_for_session()
        elif self._joins.resumable if self._controls else self._joins.running:
            await self._exchange(self._joins)
        else:
            await self._exchange(None)

    async def _wait_for_session(self) -> None:
        entry = self._provider.enter(self.sender)
        async with self._provider.session_scope() as start:
            try:
                async with trio.open_nursery() as wire:
                    self._start_wire(wire)
                    await entry.admitted.wait()
                    await self._begin(start, entry)
            finally:
                if self._joined is None:
                    entry.release()
                await self._lose()

    async def _exchange(self, served: ServedSession | None) -> None:
        """Join a session, then send and receive until the socket is gone; without one just the goodbye."""
        try:
            async with trio.open_nursery() as wire:
                if served is None:
                    self.sender.end("client_left" if self._controls else "done")
                else:
                    self._join(served)
                self._start_wire(wire)
        finally:
            await self._lose()

    async def _begin(self, start: Callable[[Callable[[], Awaitable[None]]], None], entry: Entry) -> None:
        begins_at = None
        try:
            if self.sender.request.begins_at is not None:
                begins_at = await self._provider.load_world(self.sender.request)
            entry.claim()
        except NotAdmitted:
            self.sender.end("unclaimed")
            return
        except CommandError as error:  # it was there when the client came
            self.sender.end("unclaimed", error.message)
            return
        served = self._joined = self._provider.open_session(entry, self.sender, begins_at)
        start(served.run)  # before what may fail: then this connection ends the session as any other
        self._join(served)

    def _join(self, served: ServedSession) -> None:
        """Let the client control or watch a session from now on, and welcome it."""
        self._joined, self._current.session_id = served, served.session.id
        resumed = self._controls and self._joins is not None
        if resumed:
            served.take_over(self.sender)
        self.sender.join(served.renditions)
        welcome = self._provider.welcome(served, self.sender, resumed=resumed)
        if resumed:
            self.sender.say_again(welcome, self.sender.request.after)
        else:
            self.sender.say("reactor.welcome", welcome)
        self.sender.beat()
        served.session.attach(self.sender)

    async def _lose(self) -> None:
        """Tell the session that this client is gone, then close the socket: the model learns it no later than the client."""
        if self._joined is not None and self._controls:
            self._joined.lost(self.sender, self._gone)
        elif self._joined is not None:
            self._joined.session.detach(self.sender)
        with trio.CancelScope(shield=True):
            await self._messages.abort()

    # ---- the wire -----------------------------------------------------------------------------------------------------

    def _start_wire(self, wire: trio.Nursery) -> None:
        send = partial(self.sender.send, self._messages)
        wire.start_soon(self._until_gone, self._receive, wire.cancel_scope, name="event intake")
        wire.start_soon(self._until_gone, send, wire.cancel_scope, name="transport")
        wire.start_soon(self._bound_farewell, wire.cancel_scope, name="farewell")
        if self._receiver.open:
            wire.start_soon(self._receiver.run, name="input decoding")

    async def _until_gone(self, exchange: Callable[[], Awaitable[None]], wire: trio.CancelScope) -> None:
        """Receive or send. The task that learns first that the client is gone keeps the reason."""
        try:
            await exchange()
        except PeerGone as gone:
            if self._gone is None:
                self._gone = gone.code
                if isinstance(gone, PeerTooSlow):
                    self.sender.hang_up("too_slow")
                    log.warning("%s took no byte for too long and was closed", self._messages.peer)
                else:
                    log.debug("%s left: %s", self._messages.peer, gone)
        wire.cancel()

    async def _receive(self) -> None:
        while True:
            self._take(await self._messages.receive())

    async def _bound_farewell(self, wire: trio.CancelScope) -> None:
        await self.sender.ended.wait()
        await trio.sleep(self._provider.farewell_timeout)
        wire.cancel()

    # ---- what the client says -----------------------------------------------------------------------------------------

    def _take(self, message: str | bytes) -> None:
        served = self._joined
        if served is not None and self._controls and served.sender is not self.sender:
            return  # the client has come back on another connection, whose welcome counted the commands until then
        if served is not None and served.session.ended.is_set():
            return  # its goodbye is on the way, and nothing is left that could answer
        if not isinstance(message, str):
            self._media(message)
            return
        try:
            text = decode_client_text(message)
        except ProtocolError as error:
            self._count_command()
            if isinstance(error, NotFiniteError):
                self._refuse("invalid_command", str(error), error.id)
            else:
                self._refuse("protocol_error", str(error), None)
            return
        if text.type.startswith("reactor.") and text.type not in PLAYBACK:
            self._runtime_message(text)
            return
        self._count_command()
        if not self._controls:
            self._refuse("not_allowed", "a viewer watches; only the controlling client may command", text.id)
        elif served is None:
            self._refuse("not_admitted", "this client waits in the queue; commands are taken after the welcome", text.id)
        else:
            try:
                served.session.submit(text.type, bytes(text.data), text.id, text.trace)
            except CommandError as error:
                self._refuse(error.code, error.message, text.id)
            except Flood:
                self.sender.end("flood")

    def _count_command(self) -> None:
        """Count also a command that is refused or cannot be read: the next welcome says how many have come."""
        if self._joined is not None and self._controls:
            self._joined.received += 1

    def _media(self, message: bytes) -> None:
        if not self._receiver.open:
            self._refuse("protocol_error", "a binary message: this model has no input tracks", None)
        elif not self._controls:
            self._receiver.not_taken("not_allowed", "a viewer watches; only the controlling client may send media")
        elif self._joined is None:
            self._receiver.not_taken("not_admitted", "this client waits in the queue; media is taken after the welcome")
        else:
            self._receiver.take(message, self._joined.session.take_input)

    def _runtime_message(self, text: ClientText) -> None:
        decoder = _DATA.get(text.type)
        if decoder is None:
            self._refuse("protocol_error", f"{text.type} is not a message that a client sends", text.id)
            return
        try:
            data = decoder.decode(text.data)
        except (msgspec.MsgspecError, RecursionError) as error:
            self._refuse("protocol_error", f"{text.type}: {readable(error)}", text.id)
            return
        match data:
            case Keyframe(track):
                self.sender.request_keyframe(track)
            case Feedback(track, seq, held_us):
                self.sender.acknowledge(track, seq, None if held_us is None else held_us / 1e6)
            case VideoChoice(video, tracks):
                try:
                    self.sender.choose_video(video, tracks)
                except ProtocolError as error:
                    self._refuse("protocol_error", f"reactor.video: {error}", text.id)

    def _refuse(self, code: str, message: str, id: int | None) -> None:  # noqa: A002 - the wire's word
        self.sender.say("reactor.error", {"code": code, "message": presentable(message)}, id)
