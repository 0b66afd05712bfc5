"""The session's connection to the server: one transport after another, until the session ends.

    begin     receive until reactor.welcome; if a gate sends reactor.admitted instead, connect to that replica
    run -+- while there is a link: receive -> the receiver
         |                         send commands of the outbox
         |                         send feedback and keyframe requests
         |                         send the messages of callers
         '- link lost: reconnect with the session's resume token

One task runs it, and only this task knows how a connection ended. A caller whose message is not sent waits until this task
has decided whether the session continues.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import anyio

from reactor_trio.client.client_transport import Transport, TransportClosed
from reactor_trio.client.message_sender import MessageSender
from reactor_trio.client.receiver import Receiver
from reactor_trio.client.reconnecting import Reopen, SessionLost, reconnect
from reactor_trio.errors import ProtocolError
from reactor_trio.protocol import Admitted
from reactor_trio.protocol.close_codes import GOING_AWAY, INVALID_TEXT, NORMAL, PROTOCOL_ERROR, TOO_BIG

#: The end reason of a close frame without a `reactor.bye`; any other code is a lost link.
_REASONS = {NORMAL: "done", PROTOCOL_ERROR: "protocol_error", INVALID_TEXT: "protocol_error", TOO_BIG: "too_big"}

#: Connects to the replica of `reactor.admitted`. Raises as `connect` does, and ProtocolError.
Follow = Callable[[Admitted], Awaitable[Transport]]


class PersistentConnection:
    """The connections of one session.

    Args:
        transport: the first connection. This object closes it and all later ones.
        receiver: the session's state. It takes the incoming messages and has the outgoing ones.
        follow: connects to the replica to which a gate sends this client. Without it a gate is a protocol error.
        reopen: makes another connection. Without it a lost link ends the session.
    """

    def __init__(self, transport: Transport, receiver: Receiver, follow: Follow | None, reopen: Reopen | None) -> None:
        self._receiver = receiver
        self._follow = follow
        self._reopen = reopen
        self._use(transport)
        self._available = anyio.Event()
        self._available.set()
        self._reconnecting = anyio.CancelScope()
        self._lost_at: float | None = None
        self._lost_before = 0.0
        #: how often the session continued over another connection
        self.comebacks = 0

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
        while self._receiver.protocol.welcome is None:
            if (closed := await self._receive()) is not None:
                self._finish(closed)
            if (admitted := self._receiver.admitted) is not None:
                self._receiver.admitted = None
                await self._follow_to(admitted)
            self._receiver.check_alive()

    async def run(self) -> None:
        """Receive and send until the session has ended."""
        while self._receiver.ended is None:
            await self._run_transport()
            if self._receiver.ended is None:
                await self._reconnect()

    async def send(self, text: str) -> None:
        """Send a text that concerns only the current connection. If that connection breaks, the text is not sent again.

        Raises SessionEnded. Cancelled, it leaves the connection usable, as `send_bytes` does.
        """
        self._receiver.check_alive()
        await self._sender.send(text)
        self._receiver.check_alive()

    async def send_bytes(self, data: bytes) -> bool:
        """Wait for a link and send a packet. Returns False if the link broke before it took the packet.

        Raises SessionEnded. Cancelled before the packet has begun, it sends nothing; later, the packet is sent whole.
        """
        await self.wait_available()
        sent = await self._sender.send(data)
        self._receiver.check_alive()
        return sent

    async def wait_available(self) -> None:
        """Wait until there is a link, or the session is over."""
        await self._available.wait()

    async def aclose(self, code: int = NORMAL) -> None:
        """Leave the session, within 1 s and also under cancellation; with `ABNORMAL` without a close frame."""
        self._receiver.finish("client_left")
        self._sender.end()
        self._available.set()
        self._reconnecting.cancel()
        await self.transport.aclose(code)

    def _use(self, transport: Transport) -> None:
        #: the current connection, or the last one
        self.transport = transport
        # Ends when the receiving task knows that the current connection ended, or this side has left.
        self._sender = MessageSender()

    async def _follow_to(self, admitted: Admitted) -> None:
        await self.transport.aclose()
        try:
            if self._follow is None:
                raise ProtocolError("reactor.admitted: this client does not follow a gate")
            self._use(await self._follow(admitted))
        except ProtocolError as error:
            await self._break_off(error)

    # ---- one connection -----------------------------------------------------------------------------------------------

    async def _run_transport(self) -> None:
        """Use the current connection until it ends. Afterwards either the session has ended or the link is lost."""
        transport, sender, receiver = self.transport, self._sender, self._receiver

        async def send(send_all: Callable[[], Awaitable[None]]) -> None:
            with suppress(TransportClosed):  # the receiving task sees why
                await send_all()

        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(send, partial(receiver.outbox.send_all, transport.send))
            tasks.start_soon(send, partial(receiver.feedback_sender.send_all, transport.send))
            tasks.start_soon(send, partial(sender.send_all, transport))
            try:
                await self._receive_all()
            except Exception as error:  # of the program's function: it leaves without a group around it
                failure = error
            sender.end()
            if self._lost_at is not None:
                await transport.aclose(GOING_AWAY)  # a writer may be stuck in it
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure

    async def _receive_all(self) -> None:
        """Receive until the connection ends, and decide whether the session has ended or the link is lost."""
        while (closed := await self._receive()) is None:
            pass
        receiver = self._receiver
        if self._reopen is not None and receiver.ended is None and receiver.resumable and _reason(closed) == "lost":
            self._lost_at = anyio.current_time()
            self._available = anyio.Event()
            receiver.callbacks.on_lost(closed.reason or f"the connection closed (code {closed.code})")
        else:
            self._finish(closed)

    async def _receive(self) -> TransportClosed | None:
        """Receive one message. Returns how the connection ended if there are no more."""
        try:
            self._receiver.take(await self.transport.receive())
        except TransportClosed as closed:
            return closed
        except ProtocolError as error:
            await self._break_off(error)
            return TransportClosed(PROTOCOL_ERROR, str(error))
        return None

    def _finish(self, closed: TransportClosed) -> None:
        self._receiver.finish(_reason(closed), f"{closed.reason or 'the connection closed'} (code {closed.code})")

    async def _break_off(self, error: ProtocolError) -> None:
        self._receiver.finish("protocol_error", f"the server broke the protocol: {error}")
        await self.transport.aclose(PROTOCOL_ERROR, str(error))

    # ---- between two connections --------------------------------------------------------------------------------------

    async def _reconnect(self) -> None:
        """Reconnect, or finish the session."""
        assert self._reopen is not None
        try:
            with anyio.CancelScope() as self._reconnecting:
                transport, welcome = await reconnect(self._reopen, self._receiver.protocol)
                self._use(transport)
                self._receiver.resume(welcome)
                self.comebacks += 1
                self._receiver.callbacks.on_resumed(self._count_lost())
        except SessionLost as lost:
            self._receiver.finish(lost.reason, str(lost))
        except ProtocolError as error:
            await self._break_off(error)
        self._count_lost()
        self._available.set()
        if self._receiver.ended is not None:  # also where this side left just as the link came back
            await self.transport.aclose()

    def _count_lost(self) -> float:
        """The link is back: return how many seconds it was lost."""
        before, self._lost_before = self._lost_before, self.seconds_lost
        self._lost_at = None
        return self._lost_before - before


def _reason(closed: TransportClosed) -> str:
    return _REASONS.get(closed.code, "lost")
