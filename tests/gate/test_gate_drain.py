"""A gate that drains keeps the places that it has promised, until their clients have come or its grace is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
import trio
from tests.support.gate_kit import HOST, Caller, Replicas, Still, decoded, place_of

from reactor_trio.client.handshake import open_websocket
from reactor_trio.configuration.settings import Settings
from reactor_trio.gate.serve_gate import serve_gate
from reactor_trio.leases.leased_settings import leased_settings
from reactor_trio.testing import TestServer, open_server

POST = f"POST /v1/sessions HTTP/1.1\r\nhost: {HOST}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


@dataclass
class Served:
    """A gate that `serve_gate` serves at a Unix socket, with one server.

    Attributes:
        ended_at: the virtual time at which `serve_gate` returned; None before.
    """

    server: TestServer
    lessor: Replicas
    path: Path
    drain: trio.Event
    ended_at: float | None = None

    async def place(self, way: str) -> tuple[int, str]:
        """The place of a client that has left the gate: the number of its server, and the ticket."""
        stream = await anyio.connect_unix(self.path)
        if way == "websocket":
            caller = Caller(await open_websocket(f"ws://{HOST}/v1/queue", stream=stream))
            place = await caller.until("reactor.admitted")
            assert await caller.closed() == 1000
            await caller.transport.aclose()
            return place_of(place)
        answer = b""
        async with stream:
            await stream.send(POST.encode())
            async for part in stream:
                answer += part
        head, _, body = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 201 ")
        return place_of(decoded(body))

    @property
    def free(self) -> int:
        return self.server.runtime.waiting_room.admission.free


@asynccontextmanager
async def serving(path: Path, claim_within: float = 10.0, **settings: Any) -> AsyncIterator[Served]:
    given, key = leased_settings(Settings(claim_within=claim_within))
    listening = trio.socket.socket(trio.socket.AF_UNIX)
    await listening.bind(str(path))
    listening.listen()
    async with open_server(Still, settings=given) as server, trio.open_nursery() as nursery:
        lessor, drain = Replicas([(server, key)], claim_within), trio.Event()
        gate = Served(server, lessor, path, drain)

        async def serve(task_status: trio.TaskStatus[Any]) -> None:
            await serve_gate(
                lessor, Settings(**settings), schema={"name": "Still"}, most=4, listeners=[trio.SocketListener(listening)],
                drain=drain, task_status=task_status,
            )  # fmt: skip
            gate.ended_at = trio.current_time()

        await nursery.start(serve)
        yield gate
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("way", ["websocket", "http"])
async def test_a_client_that_has_its_place_when_the_gate_drains_gets_its_session(way, tmp_path, autojump_clock):
    async with serving(tmp_path / "gate") as gate:
        _, ticket = await gate.place(way)
        gate.drain.set()
        drained_at = trio.current_time()
        await trio.sleep(0.05)
        async with gate.server.connect(token=ticket) as client:
            await trio.testing.wait_all_tasks_blocked()
            assert gate.ended_at == pytest.approx(drained_at + 0.05)  # the gate waits for nothing else
            await trio.sleep(20)
            assert not client.ended
        await gate.server.settle()
        assert gate.free == 1


@pytest.mark.parametrize(("claim_within", "grace"), [(1.5, 4.0), (4.0, 1.5)])
async def test_a_draining_gate_waits_for_a_client_no_longer_than_its_place_or_the_grace_lasts(
    claim_within, grace, tmp_path, autojump_clock
):
    async with serving(tmp_path / "gate", claim_within, drain_grace=grace) as gate:
        await gate.place("websocket")
        gate.drain.set()
        drained_at = trio.current_time()
        await trio.sleep(1.4)
        assert (gate.ended_at, gate.free) == (None, 0)
        await trio.sleep(0.2)
        assert gate.ended_at == pytest.approx(drained_at + 1.5, abs=0.05)
        assert gate.free == 1


async def test_a_draining_gate_waits_for_no_client_whose_server_is_gone(tmp_path, autojump_clock):
    async with serving(tmp_path / "gate", drain_grace=5.0) as gate:
        at, _ = await gate.place("websocket")
        gate.drain.set()
        await trio.sleep(0.5)
        assert gate.ended_at is None
        gate.lessor.kill(at)
        await trio.testing.wait_all_tasks_blocked()
        assert gate.ended_at == pytest.approx(trio.current_time())


async def test_a_draining_gate_without_an_unclaimed_place_ends_at_once(tmp_path, autojump_clock):
    async with serving(tmp_path / "gate") as gate:
        _, ticket = await gate.place("websocket")
        async with gate.server.connect(token=ticket):
            await trio.sleep(1)
            gate.drain.set()
            await trio.testing.wait_all_tasks_blocked()
            assert gate.ended_at == pytest.approx(trio.current_time())
