"""The session's connection to the server: one transport after another, until the session ends.

    begin     receive until reactor.welcome; if a gate sends reactor.admitted instead, connect to that replica
    run -+- while there is a link: receive  -> the receiver
         |                         send     commands of the outbox
         |                         tell     feedback, keyframe requests
         '- link lost: reconnect with the session's resume token

One task runs it, and only this task knows how a connection ended. A caller whose send fails waits until this task has
decided whether the session continues.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from reactor_trio.client.client_transport import Transport, TransportClosed
from reactor_trio.client.feedback_sender import FeedbackSender
from reactor_trio.client.outbox import Outbox
from reactor_trio.client.receiver import Receiver
from reactor_trio.client.reconnecting import Reopen, SessionLost, reconnect
from reactor_trio.client.session_protocol import SessionResumed
from reactor_trio.errors import ProtocolError
from reactor_trio.protocol import Admitted

#: The end reason of a close frame without a `reactor.bye`; any other code is a lost link.
_REASONS = {1000: "done", 1002: "protocol_error", 1007: "protocol_error", 1009: "too_big"}


#: Connects to the replica of `reactor.admitted`. Raises as `connect` does, and ProtocolError.
Follow = Callable[[Admitted], Awaitable[Transport]]


class _Connection:
    """A transport. `over` is set when the receiving task knows that the connection ended, or this side has left."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.over = anyio.Event()


class PersistentConnection:
    """The connections of one session.

    Args:
        transport: the first connection. This object closes it and all later ones.
        receiver: takes the incoming messages, and knows how the session ended.
        outbox, feedback_sender: the outgoing messages.
        follow: connects to the replica to which a gate sends this client. Without it a gate is a protocol error.
        reopen: makes another connection. Without it a lost link ends the session.
        on_lost: called with the reason when the link is lost and the client starts to reconnect.
        on_resumed: called with the seconds without a link when the session continues.
        returned: called on a new connection before anything is received or sent on it.
    """

    def __init__(
        self,
        transport: Transport,
        receiver: Receiver,
        outbox: Outbox,
        feedback_sender: FeedbackSender,
        *,
        follow: Follow | None = None,
        reopen: Reopen | None = None,
        on_lost: Callable[[str], object] | None = None,
        on_resumed: Callable[[float], object] | None = None,
        returned: Callable[[], object] = lambda: None,
    ) -> None:
        self._connection = _Connection(transport)
        self._receiver = receiver
        self._outbox = outbox
        self._feedback_sender = feedback_sender
        self._follow = follow
        self._reopen = reopen
        self._on_lost = on_lost
        self._on_resumed = on_resumed
        self._returned = returned
        self._available = anyio.Event()
        self._available.set()
        self._reconnecting = anyio.CancelScope()
        self._lost_at: float | None = None
        self._lost_before = 0.0
        #: how often the session continued over another connection
        self.comebacks = 0

    @property
    def transport(self) -> Transport:
        """The current connection, or the last one."""
        return self._connection.transport

    @property
    def connected(self) -> bool:
        """Whether there is a link, as far as this client knows."""
        return self._lost_at is None and self._receiver.ended is None

    @property
    def seconds_lost(self) -> float:
        """How many seconds the session has been without a link."""
        return self._lost_before + (0.0 if self._lost_at is None else anyio.current_time() - self._lost_at)

    async def begin(self) -> None:
        """Receive until the session has begun, here or at the replica to which a gate sends this client.

        Raises SessionEnded if it ends before that, and what `follow` raises.
        """
        while not self._receiver.begun:
            if (closed := await self._receive()) is not None:
                self._finish(closed)
            if (admitted := self._receiver.admitted) is not None:
                self._receiver.admitted = None
                await self._go_to(admitted)
            self._receiver.check_alive()

    async def run(self) -> None:
        """Receive and send until the session has ended."""
        while True:
            await self._run_transport(self._connection)
            if self._receiver.ended is None:
                await self._reconnect()
            if self._receiver.ended is not None:
                return

    def request_keyframe(self, track: int) -> None:
        """Ask for a keyframe of an output track."""
        self._feedback_sender.request_keyframe(track)

    async def send(self, text: str) -> None:
        """Send a text that concerns only the current connection. If that connection breaks, the text is not sent again.

        The session may be over when this returns.
        """
        connection = self._connection
        try:
            await connection.transport.send(text)
        except TransportClosed:
            await connection.over.wait()

    async def send_bytes(self, data: bytes) -> bool:
        """Wait for a link and send a packet. Returns False if the link broke before it took the packet, or the session is
        over.
        """
        await self.wait_available()
        connection = self._connection
        try:
            await connection.transport.send_bytes(data)
        except TransportClosed:
            await connection.over.wait()
            return False
        return True

    async def wait_available(self) -> None:
        """Wait until there is a link, or the session is over."""
        await self._available.wait()

    async def aclose(self, code: int = 1000) -> None:
        """Leave the session, within 1 s and also under cancellation; with `NO_CLOSE` without a close frame."""
        self._receiver.finish("client_left")
        self._connection.over.set()
        self._available.set()
        self._reconnecting.cancel()
        await self._connection.transport.aclose(code)

    async def _go_to(self, admitted: Admitted) -> None:
        await self._connection.transport.aclose()
        try:
            if self._follow is None:
                raise ProtocolError("reactor.admitted: this client does not follow a gate")
            self._connection = _Connection(await self._follow(admitted))
        except ProtocolError as error:
            self._finish_broken(error)

    # ---- one connection -----------------------------------------------------------------------------------------------

    async def _run_transport(self, connection: _Connection) -> None:
        """Use a connection until it ends. Afterwards either the session has ended or the link is lost."""
        transport = connection.transport

        async def say() -> None:
            try:
                await self._outbox.send_all(transport.send)
            except TransportClosed:  # the receiving task sees why
                return

        async def tell() -> None:
            try:
                await self._feedback_sender.send_all(transport.send)
            except TransportClosed:
                return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say)
            tasks.start_soon(tell)
            while (closed := await self._receive()) is None:
                pass
            if self._may_reconnect(closed):
                self._mark_lost(closed)
                connection.over.set()
                await transport.aclose(1001)  # a writer may be stuck in it
            else:
                self._finish(closed)
                connection.over.set()
            tasks.cancel_scope.cancel()

    async def _receive(self) -> TransportClosed | None:
        """Receive one message. Returns how the connection ended if there are no more."""
        transport = self._connection.transport
        try:
            self._receiver.take(await transport.receive())
        except TransportClosed as closed:
            return closed
        except ProtocolError as error:
            self._finish_broken(error)
            await transport.aclose(1002, str(error))
            return TransportClosed(1002, str(error))
        return None

    def _finish(self, closed: TransportClosed) -> None:
        self._receiver.finish(_reason(closed), f"{closed.reason or 'the connection closed'} (code {closed.code})")

    def _finish_broken(self, error: ProtocolError) -> None:
        self._receiver.finish("protocol_error", f"the server broke the protocol: {error}")

    # ---- between two --------------------------------------------------------------------------------------------------

    def _may_reconnect(self, closed: TransportClosed) -> bool:
        return (
            self._reopen is not None
            and self._receiver.ended is None
            and self._receiver.resumable
            and _reason(closed) == "lost"
        )

    def _mark_lost(self, closed: TransportClosed) -> None:
        self._lost_at = anyio.current_time()
        self._available = anyio.Event()
        if self._on_lost is not None:
            self._on_lost(closed.reason or f"the connection closed (code {closed.code})")

    async def _reconnect(self) -> None:
        """Reconnect, or finish the session."""
        assert self._reopen is not None
        try:
            with anyio.CancelScope() as self._reconnecting:
                transport, returned = await reconnect(self._reopen, self._receiver.protocol)
                self._connection = _Connection(transport)
                self._resume(returned)
        except SessionLost as gone:
            self._receiver.finish(gone.reason, str(gone))
        except ProtocolError as error:
            self._finish_broken(error)
            await self._connection.transport.aclose(1002, str(error))
        self._count_lost()
        self._available.set()
        if self._receiver.ended is not None:  # also where this side left just as the link came back
            await self._connection.transport.aclose()

    def _resume(self, returned: SessionResumed) -> None:
        """The session goes on. Raises ProtocolError."""
        self._outbox.resume(returned.received)
        self._feedback_sender.clear()
        self._receiver.resume(returned)
        self._returned()
        away = self._count_lost()
        self.comebacks += 1
        if self._on_resumed is not None:
            self._on_resumed(away)

    def _count_lost(self) -> float:
        """The link is back: return how many seconds it was lost."""
        if self._lost_at is None:
            return 0.0
        away = anyio.current_time() - self._lost_at
        self._lost_before += away
        self._lost_at = None
        return away


def _reason(closed: TransportClosed) -> str:
    return _REASONS.get(closed.code, "lost")
