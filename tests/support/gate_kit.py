"""A gate over servers in memory, in virtual time."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import numpy as np
import trio
import trio.testing

from reactor_trio import Output, ReactorPipeline, Video
from reactor_trio.admission import NotAdmitted
from reactor_trio.client.client_transport import TransportClosed, WebSocketTransport
from reactor_trio.client.handshake import open_websocket
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.configuration.settings import Settings
from reactor_trio.edge.site import Site
from reactor_trio.gate.allocation import Allocation
from reactor_trio.gate.gate_metrics import GateMetrics
from reactor_trio.gate.gate_site import gate_site
from reactor_trio.leases.holder import LeaseLost
from reactor_trio.leases.leased_settings import leased_settings
from reactor_trio.leases.messages import Ended, Granted, LeaseMessage
from reactor_trio.testing import TestServer, open_server
from reactor_trio.testing.memory_connection import Stall, StallableStream
from reactor_trio.transport import serve_http

HOST = "127.0.0.1"


class Picture(Output):
    picture: Video


class Still(ReactorPipeline):
    output: Picture
    fps = 10

    def inference(self) -> Any:
        while True:
            yield np.full((4, 6, 3), 7, np.uint8)


class Replicas:
    """A `Lessor` over servers in this process: it takes the first server with a free slot. Tests set the failures.

    Attributes:
        asked, cancelled: leases asked for, and given up before they were granted.
        slots: if set, no more than so many leases in all are granted.
        mute: servers that send no more messages, by their place.
        dead: servers that are gone.
        takes: seconds that a grant takes.
    """

    def __init__(self, servers: Sequence[tuple[TestServer, str]], claim_within: float) -> None:
        self._servers = servers
        self._claim_within = claim_within
        self._changed = RepeatedEvent()
        self.asked = self.cancelled = 0
        self.takes = 0.0
        self.failures: list[LeaseLost] = []
        self.mute: set[int] = set()
        self.dead: set[int] = set()
        self._alive: list[tuple[int, trio.CancelScope]] = []
        self.looked_after: list[str] = []

    async def lease(self, session_id: str, tell: Callable[[LeaseMessage], None]) -> None:
        self.asked += 1
        if self.failures:
            raise self.failures.pop(0)
        if self.takes:
            await trio.sleep(self.takes)
        over = trio.Event()
        place = -1

        def told(word: Any) -> None:
            if place not in self.mute:
                tell(word)
            if isinstance(word, Ended):
                over.set()
                self._changed.set()

        while True:
            found = self._open(session_id, told)
            if found is not None:
                break
            try:
                await self._changed.wait()
            except trio.Cancelled:
                self.cancelled += 1
                raise
        place = found
        server, key = self._servers[place]
        tell(Granted(session_id, f"ws://{HOST}:{place}/ws", key, self._claim_within, f"replica {place}"))
        try:
            with trio.CancelScope() as alive:
                self._alive.append((place, alive))
                await over.wait()
        except trio.Cancelled:
            server.runtime.leases.cancel(session_id)
            raise
        if not over.is_set():
            raise LeaseLost(f"replica {place} is gone")

    def _open(self, session_id: str, told: Callable[[Any], None]) -> int | None:
        for place, (server, _key) in enumerate(self._servers):
            try:
                if place not in self.dead:
                    server.runtime.leases.open(session_id, told)
                    return place
            except NotAdmitted:
                continue
        return None

    def kill(self, place: int) -> None:
        self.dead.add(place)
        for at, scope in self._alive:
            if at == place:
                scope.cancel()

    async def silent(self, granted: Granted) -> None:
        await trio.lowlevel.checkpoint()
        self.looked_after.append(granted.replica)


class Caller:
    """One client's socket at the gate."""

    def __init__(self, transport: WebSocketTransport) -> None:
        self.transport = transport
        self.heard: list[tuple[float, str, Any]] = []
        self.began = trio.current_time()

    async def hear(self) -> tuple[str, Any]:
        text = json.loads(await self.transport.receive())
        self.heard.append((round(trio.current_time() - self.began, 6), text["type"], text["data"]))
        return text["type"], text["data"]

    async def until(self, kind: str) -> Any:
        while True:
            heard, data = await self.hear()
            if heard == kind:
                return data

    async def closed(self) -> int:
        try:
            while True:
                await self.hear()
        except TransportClosed as closed:
            return closed.code

    @property
    def positions(self) -> list[tuple[float, int, int]]:
        return [(at, data["position"], data["total"]) for at, kind, data in self.heard if kind == "reactor.queued"]


class TestGate:
    __test__ = False

    def __init__(self, site: Site, allocation: Allocation, replicas: Replicas, servers: list[TestServer],
                 metrics: GateMetrics, draining: trio.Event, nursery: trio.Nursery,
                 scope: trio.CancelScope) -> None:  # fmt: skip
        self.scope = scope
        self.site, self.allocation, self.replicas, self.servers = site, allocation, replicas, servers
        self.metrics, self.draining, self._nursery = metrics, draining, nursery

    def stream(self) -> StallableStream:
        theirs, ours = trio.testing.lockstep_stream_pair()

        async def serve() -> None:
            await serve_http(theirs, self.site.serve, self.site.rules, closing=self.draining)

        self._nursery.start_soon(serve)
        return StallableStream(ours, Stall())

    async def call(self, path: str = "/v1/queue", token: str | None = None) -> Caller:
        return Caller(await open_websocket(f"ws://{HOST}{path}", stream=self.stream(), token=token))

    async def http(self, method: str, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        stream = self.stream()
        lines = [f"{method} {path} HTTP/1.1", f"host: {HOST}", "connection: close"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await stream.send("\r\n".join([*lines, "", ""]).encode())
        answer = b""
        try:
            while True:
                answer += await stream.receive()
        except Exception:  # its end
            pass
        await stream.aclose()
        head, _, body = answer.partition(b"\r\n\r\n")
        first, *rest = head.decode().split("\r\n")
        return int(first.split()[1]), dict(line.split(": ", 1) for line in rest), body

    async def upgrade(self, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """The answer to a WebSocket handshake of a client that knows nothing of gates."""
        return await self.http("GET", path, upgrade="websocket", connection="upgrade", sec_websocket_version="13",
                               sec_websocket_key="dGhlIHNhbXBsZSBub25jZQ==", **headers)  # fmt: skip

    def free(self) -> list[int]:
        return [server.runtime.waiting_room.admission.free for server in self.servers]


async def _running(allocation: Allocation, task_status: trio.TaskStatus[trio.CancelScope]) -> None:
    async with trio.open_nursery() as nursery:
        await nursery.start(allocation.run)
        task_status.started(nursery.cancel_scope)


@asynccontextmanager
async def open_gate(
    replicas: int = 1, *, slots: int = 1, most: int = 16, claim_within: float = 10.0, settings: Settings | None = None,
    pictures: Any = None,
) -> AsyncIterator[TestGate]:
    """A gate in front of servers of `Still`. At the end neither has a session left."""
    async with AsyncExitStack() as stack:
        servers = []
        for _ in range(replicas):
            given, key = leased_settings(Settings(max_sessions=slots, claim_within=claim_within))
            servers.append((await stack.enter_async_context(open_server(Still, settings=given)), key))
        draining = trio.Event()
        lessor = Replicas(servers, claim_within)
        allocation = Allocation(lessor, most, (settings or Settings()).limits.waiting_per_address)
        schema = servers[0][0].runtime.session_manager.loaded.described.schema
        site = gate_site(allocation, settings or Settings(), schema, draining, pictures=pictures)
        async with trio.open_nursery() as nursery:
            scope = await nursery.start(_running, allocation)
            in_memory = [server for server, _key in servers]
            test = TestGate(site, allocation, lessor, in_memory, allocation.metrics, draining, nursery, scope)
            try:
                yield test
            finally:
                nursery.cancel_scope.cancel()
        for server, _key in servers:
            await server.settle()
        assert test.free() == [slots] * replicas, "a slot is still taken"


def place_of(data: Any) -> tuple[int, str]:
    """The number of the replica, and the ticket for it."""
    return int(data["url"].rpartition(":")[2].partition("/")[0]), data["ticket"]


def decoded(body: bytes) -> Any:
    return msgspec.json.decode(body)
