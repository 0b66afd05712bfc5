"""A test double of a gate (`docs/reference/protocol.md`): the test decides what it sends to each client that follows."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import trio

from reactor_trio.edge.common_responses import page_response
from reactor_trio.edge.router import READS
from reactor_trio.edge.tickets import issue_ticket
from reactor_trio.protocol import close_code
from reactor_trio.transport import (
    Conversation,
    Exchange,
    Limits,
    MessageChannel,
    PortRules,
    Refusal,
    Refused,
    Request,
    Response,
    serve_http,
)
from reactor_trio.transport.upgrade import check_handshake
from tests.support.transport_peers import plain

KEY = "k" * 32


@dataclass
class Place:
    """What one client is told: its positions in the queue, then where its session is, or a goodbye.

    Attributes:
        ticket: None: a good one.
    """

    url: str = ""
    positions: tuple[int, ...] = ()
    ticket: str | None = None
    claim_within: float = 30.0
    bye: str | None = None

    def words(self) -> Iterator[tuple[str, dict[str, Any]]]:
        for position in self.positions:
            yield "reactor.queued", {"position": position, "total": max(self.positions)}
        if self.bye is not None:
            yield "reactor.bye", {"reason": self.bye}
            return
        ticket = issue_ticket(KEY) if self.ticket is None else self.ticket
        yield "reactor.admitted", {
            "url": self.url, "ticket": ticket, "session_id": "reserved", "claim_within": self.claim_within,
        }  # fmt: skip


@dataclass
class StandInGate:
    """The page, `/health`, `/schema`, and `/ws` for clients that follow.

    Attributes:
        places: one for each client that comes, in order; the last one holds for all further ones.
        whoever: also those who do not follow.
        came: the requests for `/ws`, with the time of each.
    """

    places: list[Place]
    limits: Limits = field(default_factory=Limits)
    whoever: bool = False
    came: list[tuple[float, Request]] = field(default_factory=list)

    @property
    def rules(self) -> PortRules:
        return PortRules(self.limits)

    async def serve(self, exchange: Exchange) -> Response | Conversation:
        request = exchange.request
        if request.method not in READS:
            raise Refused(Refusal("method_not_allowed", "nothing is sent here"))
        await exchange.read_body()
        if request.path == "/ws":
            return self.admit(exchange)
        if request.path == "/health":
            return Response(200, "application/json", b'{"status": "ok", "model": "gate"}')
        if request.path == "/schema":
            return Response(200, "application/json", b'{"name": "gate", "tracks": [], "commands": [], "messages": []}')
        return page_response(request)

    def admit(self, exchange: Exchange) -> Response | Conversation:
        request = exchange.request
        exchange.upgrade(check_handshake(request), nullcontext())
        self.came.append((trio.current_time(), request))
        if request.query.get("follow") != "1" and not self.whoever:
            return plain(400, "this stand-in knows clients that follow only")
        place = self.places.pop(0) if len(self.places) > 1 else self.places[0]
        return partial(self._converse, place)

    async def _converse(self, place: Place, messages: MessageChannel) -> None:
        for type_, data in place.words():
            await messages.send_text(json.dumps({"type": type_, "data": data}))
        await messages.aclose(1000 if place.bye is None else close_code(place.bye), "")


@asynccontextmanager
async def gate_on_a_port(gate: StandInGate) -> AsyncIterator[int]:
    """Serve over TCP on the loopback; yield the port."""
    async with trio.open_nursery() as nursery:
        serve = partial(serve_http, serve=gate.serve, rules=gate.rules, closing=trio.Event())
        listeners = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        yield listeners[0].socket.getsockname()[1]
        nursery.cancel_scope.cancel()


@contextmanager
def gate_in_a_thread(gate: StandInGate) -> Iterator[int]:
    """As `listening`, in a thread, for tests that block or run on another loop."""
    ready: queue.SimpleQueue[tuple[int, trio.lowlevel.TrioToken, trio.CancelScope]] = queue.SimpleQueue()

    async def main() -> None:
        with trio.CancelScope() as scope:
            async with gate_on_a_port(gate) as port:
                ready.put((port, trio.lowlevel.current_trio_token(), scope))
                await trio.sleep_forever()

    thread = threading.Thread(target=trio.run, args=(main,), name="gate")
    thread.start()
    port, token, scope = ready.get()
    try:
        yield port
    finally:
        trio.from_thread.run_sync(scope.cancel, trio_token=token)
        thread.join()
