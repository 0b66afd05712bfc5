"""HTTP/1.1 on one connection, up to the WebSocket that most connections become.

h11 parses and keeps the protocol's state. This module has the loop over the requests of a connection:

    wait for a byte (idle) -> next_exchange -> the site: its answer, a refusal, or a conversation
                           -> Exchange.answer, .refuse or .open

A request that cannot be served is answered with one line of text, and the connection is closed unless the request was read
to its end. So no byte of a request that we did not understand is taken for the next one.
"""

from __future__ import annotations

import logging
import math
import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache

import trio

from reactor_trio.concurrency.lost_time import patient_until, run_time
from reactor_trio.protocol.refusals import Refusal, RefusalCode, Refused
from reactor_trio.transport.exchange import Exchange, PortRules, next_exchange
from reactor_trio.transport.open_requests import OpenRequests
from reactor_trio.transport.request import Conversation, Response
from reactor_trio.transport.request_reader import RequestReader
from reactor_trio.transport.response_head import head_bytes, response_headers
from reactor_trio.transport.wire_stream import WireStream

log = logging.getLogger("reactor_trio.transport")

#: Answers one request: it may read the body, and returns the response, or the conversation of a WebSocket. Raises Refused.
#: Another exception is logged, and answered 500.
Serve = Callable[[Exchange], Awaitable[Response | Conversation]]

_LINGER, _PIECE = 1.0, 4096
_CORK = getattr(socket, "TCP_CORK", None)  # of Linux; elsewhere they are two packets


async def serve_http(
    stream: trio.abc.Stream,
    serve: Serve,
    rules: PortRules,
    *,
    closing: trio.Event,
    first_head: float | None = None,
    single: bool = False,
    requests: OpenRequests | None = None,
) -> None:
    """Serve one connection until it ends. This function owns `stream` and closes it, also when cancelled.

    Args:
        stream: a connected byte stream, TCP or any other.
        serve: answers each request.
        rules: those of the port.
        closing: set when the server stops. Idle connections are then closed at once, others after their response. A
            WebSocket goes on until its conversation ends.
        first_head: seconds for the head of the first request, from now on; None: those of `limits.handshake`.
        single: whether the connection ends with its first response.
        requests: counts its requests with those of other connections.

    Client errors are never raised. An exception of a conversation closes the WebSocket with 1011 and is raised in a group.
    """
    limits = rules.limits
    wire = WireStream(stream, stall=limits.stall)
    first_head = limits.handshake if first_head is None else first_head
    reader = RequestReader(wire, limits)
    connection = _Connection(reader, serve, rules, closing, first_head, single, requests or OpenRequests())
    try:
        with ExitStack() as begun, ExitStack() as counted:
            exchange = await connection.run(begun, counted)
            if exchange is not None:
                from reactor_trio.transport.websocket import serve_websocket  # late, so that the server listens sooner

                assert exchange.handshake is not None, "only a WebSocket opens a conversation"
                await serve_websocket(wire, exchange.handshake, exchange.converse, limits)
    finally:
        await wire.abandon()


async def turn_away(stream: trio.abc.Stream, refusal: Refusal) -> None:
    """Refuse a connection without reading its request, and close it. Takes at most 1 s."""
    answer = _whole_answer(refusal.code, refusal.message, refusal.retry_after)
    with trio.move_on_after(_LINGER), suppress(trio.BrokenResourceError, trio.ClosedResourceError, OSError):
        if isinstance(stream, trio.SocketStream):
            with stream.socket as plain:  # without a `WireStream`, because a flood may come this way
                if _CORK is not None:
                    with suppress(OSError):  # a Unix socket has none
                        plain.setsockopt(socket.IPPROTO_TCP, _CORK, 1)  # the answer and our end go in one packet
                os.write(plain.fileno(), answer)  # the first bytes of a connection always fit
                plain.shutdown(socket.SHUT_WR)
                while await plain.recv(_PIECE):
                    pass
            return
        wire = WireStream(stream)
        await wire.send_all(answer)
        await wire.linger(_LINGER)
    await trio.aclose_forcefully(stream)


@lru_cache(16)
def _whole_answer(code: RefusalCode, message: str, after: int | None) -> bytes:
    response = Response.refusing(Refusal(code, message, after=after))
    return head_bytes(response.status, response_headers(response) | {"connection": "close"}) + response.body


@dataclass(eq=False)
class _Connection:
    """The loop over the requests of one connection. It keeps nothing of a request that is answered."""

    reader: RequestReader
    serve: Serve
    rules: PortRules
    closing: trio.Event
    first_head: float
    single: bool
    requests: OpenRequests
    kept_alive: bool = False  # the first request of a connection is answered even while the server stops

    async def run(self, begun: ExitStack, counted: ExitStack) -> Exchange | None:
        """Answer requests until the connection ends (None) or becomes a WebSocket.

        Args:
            begun: lasts as long as the newest request: until its connection waits for the next one, or ends.
            counted: see `Exchange`.
        """
        wire, http, limits = self.reader.wire, self.reader.http, self.rules.limits
        idle_until = complete_by = run_time() + self.first_head
        head_time = self.first_head
        try:
            while await self._wait_for_bytes(idle_until):
                begun.enter_context(self.requests.one())
                until = min(complete_by, run_time() + head_time)
                exchange = await next_exchange(self.reader, self.rules, counted, self._is_last, until, head_time)
                if exchange is None:
                    break
                await self._answer(exchange)
                if exchange.conversation is not None:
                    wire.push_back(http.trailing_data[0])
                    return exchange
                if not self.reader.goes_on:
                    await exchange.linger()
                    break
                http.start_next_cycle()
                begun.close()
                self.kept_alive, head_time = True, limits.handshake
                idle_until, complete_by = run_time() + limits.idle, math.inf
        except* (trio.BrokenResourceError, trio.ClosedResourceError) as group:
            error = group.exceptions[0]
            log.debug("%s: %s", wire.peer, str(error) or error.__cause__ or "the connection broke")
        return None

    def _is_last(self) -> bool:
        return self.single or self.closing.is_set()

    async def _wait_for_bytes(self, until: float) -> bool:
        """Wait until a request begins. Return False if the connection ends, idles too long, or the server stops."""
        if self.reader.http.trailing_data[0]:
            await self._let_others_run()
            return True
        data = b""
        with patient_until(until):
            async with trio.open_nursery() as nursery:
                if self.kept_alive:
                    nursery.start_soon(self._stop_idling, nursery.cancel_scope)
                data = await self.reader.wire.receive_some(self.rules.limits.http_head)
                nursery.cancel_scope.cancel()
        self.reader.http.receive_data(data)
        return bool(data)

    async def _let_others_run(self) -> None:
        """Give other tasks a turn: a client that pipelines its requests would keep the loop."""
        await trio.lowlevel.checkpoint()

    async def _stop_idling(self, idling: trio.CancelScope) -> None:
        """Task: when the server stops, end the wait for a next request."""
        await self.closing.wait()
        idling.cancel()

    async def _answer(self, exchange: Exchange) -> None:
        try:
            result: Response | Conversation | Refusal = await self.serve(exchange)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise
        except Refused as refused:
            result = refused.refusal
        except Exception:
            log.exception("%s: %s %s failed", exchange.peer, exchange.request.method, exchange.request.path)
            result = Refusal("internal")
        if isinstance(result, Refusal):
            await exchange.refuse(result)
        elif isinstance(result, Response):
            await exchange.answer(result)
        else:
            exchange.open(result)
