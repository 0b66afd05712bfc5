"""The line to the server: one connection after another, while the session goes on.

    begin     receive until the welcome; a gate says in its place where the session is, and the line goes there
    run -+- a connection stands: receive  -> the receiver
         |                       send     commands of the outbox
         |                       tell     feedback, keyframes
         '- it was lost: come back, with the session's resume token

One task runs it and alone knows how a connection ended. Who sends into one that is over waits for what that task says: that
the session goes on, or why not.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import anyio

from reactor_trio.client.client_transport import Transport, TransportClosed
from reactor_trio.client.feedback_sender import Teller
from reactor_trio.client.outbox import Outbox
from reactor_trio.client.receiver import Receiver
from reactor_trio.client.reconnecting import Gone, Reopen, come_back
from reactor_trio.client.session_protocol import Returned
from reactor_trio.errors import ProtocolError
from reactor_trio.protocol import Admitted

#: What a close without a `reactor.bye` means; any other code is a lost link.
_REASONS = {1000: "done", 1002: "protocol_error", 1007: "protocol_error", 1009: "too_big"}


#: Another connection for a client that was told `reactor.admitted`. Raises as `connect` does, and ProtocolError.
Follow = Callable[[Admitted], Awaitable[Transport]]


class _Connection:
    """A transport; `over` once the task that receives from it knows that it is, or this side has left."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.over = anyio.Event()


class Line:
    """The connections of one session.

    Args:
        transport: the first; this object closes it, and those that follow.
        receiver: takes what comes, and knows how the session ended.
        outbox, teller: what goes.
        follow: makes the connection to where a gate sends this client; without it none may.
        reopen: makes another connection; without it a lost link ends the session.
        on_lost: called with the reason when the link is lost, and is tried again.
        on_resumed: called with the seconds that it was away when the session goes on.
        returned: called before anything is taken from, or sent on, another connection.
    """

    def __init__(
        self,
        transport: Transport,
        receiver: Receiver,
        outbox: Outbox,
        teller: Teller,
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
        self._teller = teller
        self._follow = follow
        self._reopen = reopen
        self._on_lost = on_lost
        self._on_resumed = on_resumed
        self._returned = returned
        self._usable = anyio.Event()
        self._usable.set()
        self._trying = anyio.CancelScope()
        self._lost_at: float | None = None
        self._lost_before = 0.0
        #: how often the session went on over another connection
        self.comebacks = 0

    @property
    def transport(self) -> Transport:
        """The connection that stands, or the last that did."""
        return self._connection.transport

    @property
    def stands(self) -> bool:
        """Whether there is a connection, as far as is known here."""
        return self._lost_at is None and self._receiver.ended is None

    @property
    def seconds_lost(self) -> float:
        """How long there was none, while the session went on or might have."""
        return self._lost_before + (0.0 if self._lost_at is None else anyio.current_time() - self._lost_at)

    async def begin(self) -> None:
        """Receive until the session has begun, here or where that leads.

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
            await self._serve(self._connection)
            if self._receiver.ended is None:
                await self._come_back()
            if self._receiver.ended is not None:
                return

    def ask_keyframe(self, track: int) -> None:
        """Ask for a keyframe of an output track."""
        self._teller.ask_keyframe(track)

    async def send(self, text: str) -> None:
        """Send what only this connection is told; what finds it over is not sent. The session may be over then."""
        connection = self._connection
        try:
            await connection.transport.send(text)
        except TransportClosed:
            await connection.over.wait()

    async def send_bytes(self, data: bytes) -> bool:
        """Send a packet when there is a connection; False if that broke before it took it, or the session is over."""
        await self.wait_usable()
        connection = self._connection
        try:
            await connection.transport.send_bytes(data)
        except TransportClosed:
            await connection.over.wait()
            return False
        return True

    async def wait_usable(self) -> None:
        """Return when there is a connection, or never will be again."""
        await self._usable.wait()

    async def aclose(self, code: int = 1000) -> None:
        """Leave the session, within 1 s and also under cancellation: politely, or with `NO_CLOSE` without a word."""
        self._receiver.finish("client_left")
        self._connection.over.set()
        self._usable.set()
        self._trying.cancel()
        await self._connection.transport.aclose(code)

    async def _go_to(self, admitted: Admitted) -> None:
        await self._connection.transport.aclose()
        try:
            if self._follow is None:
                raise ProtocolError("reactor.admitted: this client did not ask a gate")
            self._connection = _Connection(await self._follow(admitted))
        except ProtocolError as error:
            self._finish_broken(error)

    # ---- one connection -----------------------------------------------------------------------------------------------

    async def _serve(self, connection: _Connection) -> None:
        """Use a connection until it is over; then the session has ended, or the line is lost."""
        transport = connection.transport

        async def say() -> None:
            try:
                await self._outbox.send_all(transport.send)
            except TransportClosed:  # the receiving task learns why
                return

        async def tell() -> None:
            try:
                await self._teller.tell_all(transport.send)
            except TransportClosed:
                return

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(say)
            tasks.start_soon(tell)
            while (closed := await self._receive()) is None:
                pass
            if self._may_return(closed):
                self._lose(closed)
                connection.over.set()
                await transport.aclose(1001)  # it may hold who writes
            else:
                self._finish(closed)
                connection.over.set()
            tasks.cancel_scope.cancel()

    async def _receive(self) -> TransportClosed | None:
        """Take one message; or how the connection ended, if there are no more."""
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

    def _may_return(self, closed: TransportClosed) -> bool:
        return (
            self._reopen is not None
            and self._receiver.ended is None
            and self._receiver.resumable
            and _reason(closed) == "lost"
        )

    def _lose(self, closed: TransportClosed) -> None:
        self._lost_at = anyio.current_time()
        self._usable = anyio.Event()
        if self._on_lost is not None:
            self._on_lost(closed.reason or f"the connection closed (code {closed.code})")

    async def _come_back(self) -> None:
        """Have another connection, or finish the session."""
        assert self._reopen is not None
        try:
            with anyio.CancelScope() as self._trying:
                transport, returned = await come_back(self._reopen, self._receiver.conversation)
                self._connection = _Connection(transport)
                self._resume(returned)
        except Gone as gone:
            self._receiver.finish(gone.reason, str(gone))
        except ProtocolError as error:
            self._finish_broken(error)
            await self._connection.transport.aclose(1002, str(error))
        self._count_lost()
        self._usable.set()
        if self._receiver.ended is not None:  # also where this side left just as the link came back
            await self._connection.transport.aclose()

    def _resume(self, returned: Returned) -> None:
        """The session goes on. Raises ProtocolError."""
        self._outbox.resume(returned.received)
        self._teller.clear()
        self._receiver.resume(returned)
        self._returned()
        away = self._count_lost()
        self.comebacks += 1
        if self._on_resumed is not None:
            self._on_resumed(away)

    def _count_lost(self) -> float:
        """It is not lost any more; how long it was."""
        if self._lost_at is None:
            return 0.0
        away = anyio.current_time() - self._lost_at
        self._lost_before += away
        self._lost_at = None
        return away


def _reason(closed: TransportClosed) -> str:
    return _REASONS.get(closed.code, "lost")
