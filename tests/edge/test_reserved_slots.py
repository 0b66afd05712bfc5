"""A port with all its connections lets probes and owners in and refuses others; and the port of `runtime.management`."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from types import SimpleNamespace

import msgspec
import pytest
import trio
import trio.testing
from tests.support.black import Black
from tests.support.transport_peers import read_all

from reactor_trio.client import connect
from reactor_trio.configuration.checked_struct import parse_struct
from reactor_trio.configuration.settings import Settings
from reactor_trio.edge import acceptor
from reactor_trio.edge.reserved_slots import OF_ONE_ADDRESS, RESERVED, ReservedSlot, ReservedSlots
from reactor_trio.errors import ConnectionRefused, ManifestError
from reactor_trio.interface import UploadedFile, event
from reactor_trio.server.serve import serve
from reactor_trio.server.standby import serve_standby
from reactor_trio.testing import open_server
from reactor_trio.transport import Refused, serve_http

TOKEN = "a-token-that-nobody-guesses"


class Taker(Black):
    """Black pictures, and files."""

    @event
    def show(self, file: UploadedFile) -> int:
        return file.size


# ---- the slots --------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def all_taken(slots: ReservedSlots, *, probes: bool = False):
    """Every slot, taken from as many addresses as that needs."""
    with ExitStack() as there:
        taken = [there.enter_context(slots.slot(f"192.0.2.{number // OF_ONE_ADDRESS}")) for number in range(RESERVED)]
        for slot in taken if probes else []:
            probe(slot)
        yield taken


def probe(slot: ReservedSlot) -> SimpleNamespace:
    """The exchange of a probe in this slot, whose answer is not written."""
    exchange = SimpleNamespace(answered=False)
    slot.read(exchange)
    slot.take(owner=False, probe=True)
    return exchange


async def test_a_newcomer_gets_the_slot_of_the_oldest_that_says_nothing(autojump_clock):
    slots = ReservedSlots()
    async with all_taken(slots) as taken:
        probe(taken[0])
        with slots.slot("198.51.100.1") as newcomer:
            assert newcomer is not None
            assert [slot.scope.cancel_called for slot in taken] == [False, True] + [False] * (RESERVED - 2)
            assert len(slots) == RESERVED
    assert len(slots) == 0


async def test_an_address_takes_slots_from_itself_alone_while_it_has_its_share(autojump_clock):
    slots = ReservedSlots()
    async with all_taken(slots) as taken:
        with slots.slot(taken[2].address):
            assert [number for number, slot in enumerate(taken) if slot.scope.cancel_called] == [2]


async def test_there_is_no_slot_while_all_wait_for_their_answer(autojump_clock):
    slots = ReservedSlots()
    async with all_taken(slots, probes=True) as taken:
        with slots.slot("198.51.100.1") as newcomer:
            assert newcomer is None
        assert not any(slot.scope.cancel_called for slot in taken)
        taken[5].exchange.answered = True  # its connection only lingers
        with slots.slot("198.51.100.1") as newcomer:
            assert newcomer is not None
        assert [number for number, slot in enumerate(taken) if slot.scope.cancel_called] == [5]


async def test_the_address_with_the_most_slots_gives_one(autojump_clock):
    slots = ReservedSlots()
    with ExitStack() as there:
        addresses = [*(f"192.0.2.{number}" for number in range(RESERVED - 2)), "192.0.2.77", "192.0.2.77"]
        taken = [there.enter_context(slots.slot(address)) for address in addresses]
        there.enter_context(slots.slot("198.51.100.1"))
        assert [slot.address for slot in taken if slot.scope.cancel_called] == ["192.0.2.77"]


async def test_clients_that_share_an_address_have_all_slots(autojump_clock):
    slots = ReservedSlots()
    with ExitStack() as there:
        taken = [there.enter_context(slots.slot(None)) for _ in range(RESERVED)]
        assert not any(slot.scope.cancel_called for slot in taken), "loopback, or a proxy"


async def test_a_connection_whose_slot_is_taken_ends(autojump_clock):
    slots, ended = ReservedSlots(), []

    async def silent() -> None:
        with slots.slot("192.0.2.1"):
            await trio.sleep_forever()
        ended.append(trio.current_time())

    async with trio.open_nursery() as nursery:
        for _ in range(OF_ONE_ADDRESS + 1):
            nursery.start_soon(silent)
        await trio.testing.wait_all_tasks_blocked()
        assert (len(ended), len(slots)) == (1, OF_ONE_ADDRESS)
        nursery.cancel_scope.cancel()
    assert len(slots) == 0


async def test_the_slot_of_an_owner_is_free_at_once_and_a_refused_request_keeps_it_until_its_answer(autojump_clock):
    slots = ReservedSlots()
    with slots.slot("192.0.2.1") as slot:
        slot.read(SimpleNamespace(answered=False))
        slot.take(owner=True, probe=False)
        assert len(slots) == 0
    with slots.slot("192.0.2.1") as slot:
        slot.read(SimpleNamespace(answered=False))
        with pytest.raises(Refused):
            slot.take(owner=False, probe=False)
        assert (len(slots), slot.takeable) == (1, False)
        slot.exchange.answered = True
        assert slot.takeable


async def test_a_probe_keeps_its_slot_until_its_answer_is_written(autojump_clock):
    """The client here takes the answer byte by byte, as one behind TLS may."""
    async with open_server(Black) as server:
        site, slots, answered = server._site, ReservedSlots(), []

        async def probe_slowly(nursery) -> None:
            ours, theirs = trio.testing.lockstep_stream_pair()
            with slots.slot("192.0.2.1") as slot:
                nursery.start_soon(read_it, theirs)
                await serve_http(ours, partial(site.serve, slot=slot), site.rules, closing=trio.Event(), single=True)

        async def read_it(stream) -> None:
            await stream.send_all(b"GET /health HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
            await trio.sleep(1)
            answered.append(await read_all(stream))

        async with trio.open_nursery() as nursery:
            for _ in range(OF_ONE_ADDRESS):
                nursery.start_soon(probe_slowly, nursery)
            await trio.sleep(0.5)
            with slots.slot("192.0.2.1") as newcomer:
                assert newcomer is None
        assert [answer.startswith(b"HTTP/1.1 200 OK") and answer.endswith(b"}") for answer in answered] == [True, True]


# ---- through sockets --------------------------------------------------------------------------------------------------


@asynccontextmanager
async def full(**settings):
    """A server with the two connections that it may have, which say nothing."""
    given = parse_struct({"port": 0, "limits": {"connections": 2}, **settings}, Settings, "runtime")
    async with trio.open_nursery() as nursery, AsyncExitStack() as there:
        server = await nursery.start(lambda task_status: serve(Taker, settings=given, task_status=task_status))
        for number in range(2):
            await silent(there, server, number + 1)
        yield server, there
        nursery.cancel_scope.cancel()


async def silent(there: AsyncExitStack, server, until: int = 0) -> trio.SocketStream:
    """A connection that says nothing; returns when the server has `until` connections."""
    stream = await there.enter_async_context(await trio.open_tcp_stream(server.host, server.port))
    while server.runtime.metrics.connections < until:
        await trio.lowlevel.checkpoint()
    return stream


async def ask(port: int, path: str, *headers: str, host: str = "127.0.0.1", method: str = "GET") -> tuple[int, str]:
    """Status and head of the answer on a connection of its own; 0 if the connection ends without one."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all("\r\n".join([f"{method} {path} HTTP/1.1", f"host: {host}", *headers, "", ""]).encode())
        answer = b""
        while b"\r\n\r\n" not in answer and (data := await stream.receive_some(4096)):
            answer += data
        head = answer.decode().partition("\r\n\r\n")[0].lower()
        return int(head.split()[1]) if head else 0, head


UPGRADE = (
    "connection: upgrade", "upgrade: websocket", "sec-websocket-version: 13", "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
)  # fmt: skip


async def test_a_full_port_answers_probes_and_refuses_others():
    async with full() as (server, there):
        for _ in range(20):
            await silent(there, server)
        for path in ("/health", "/ready", "/metrics"):
            status, head = await ask(server.port, path)
            assert (status, "connection: close" in head) == (200, True), path
        for path, headers in (("/schema", ()), ("/", ()), ("/ws", UPGRADE)):
            status, head = await ask(server.port, path, *headers)
            assert (status, "retry-after: 1" in head) == (503, True), path
        assert (await ask(server.port, "/health", method="POST"))[0] == 503
        assert (await ask(server.port, "/health", "content-length: 9"))[0] == 503, "a probe has no body to wait for"
        assert (await ask(server.port, "/health", "content-length: 0"))[0] == 200, "which this says"
        assert server.runtime.metrics._limited["connections"] >= 5


async def test_every_refusal_is_counted_by_its_status():
    async with full(limits={"connections": 64}) as (server, _):
        for path, headers, method in (("/nothing", (), "GET"), ("/uploads", (), "GET"), ("/ws?role=king", UPGRADE, "GET")):
            await ask(server.port, path, *headers, method=method)
        counted = server.runtime.metrics._refusals
        assert {status: number for status, number in counted.items() if number} == {"404": 1, "405": 1, "400": 1}


HEADS = {
    "a bad head": (b"GET /health\r\n\r\n", "400", {}),
    "half a head": (b"GET /hea", "408", {}),
    "a stranger's": (b"GET /schema HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n", "503", {"connections": 1}),
    "none": (b"", "", {"connections": 1}),
}


@pytest.mark.parametrize("case", HEADS)
async def test_a_connection_in_a_reserved_slot_is_counted_once(monkeypatch, case):
    """A head that is refused is not also a client that sent no request."""
    monkeypatch.setattr(acceptor, "FIRST_REQUEST", 0.2)
    head, status, limited = HEADS[case]
    async with full() as (server, there):
        stream = await silent(there, server, 3)
        await stream.send_all(head)
        answer = await read_all(stream)
        while server.runtime.metrics.connections > 2:
            await trio.lowlevel.checkpoint()
        assert answer.split(b" ")[1:2] == ([status.encode()] if status else [])
        assert limits_used_up(server) == limited


async def test_a_request_above_a_limit_of_its_address_in_a_reserved_slot_is_counted_once():
    async with full(proxies=["127.0.0.1"], limits={"connections": 2, "http_per_minute": 1}) as (server, _):
        answers = [await ask(server.port, "/schema", "x-forwarded-for: 192.0.2.7") for _ in range(2)]
        assert [status for status, _head in answers] == [503, 429]
        assert limits_used_up(server) == {"connections": 1, "address_requests": 1}


def limits_used_up(server) -> dict[str, int]:
    return {kind: number for kind, number in server.runtime.metrics._limited.items() if number}


async def test_what_says_nothing_on_a_full_port_is_closed(monkeypatch):
    monkeypatch.setattr(acceptor, "FIRST_REQUEST", 0.05)
    async with full() as (server, there):
        third = await silent(there, server)
        assert await third.receive_some() == b""
        assert server.runtime.metrics.connections == 2


async def picture(client) -> None:
    async for _ in client.frames():
        return


async def test_the_owner_of_a_session_gets_in():
    async with full(limits={"connections": 3}, resume_window=30) as (server, there):
        async with connect(server.session_url("127.0.0.1")) as client:
            await picture(client)
            upload = await client.upload(b"four", name="a.txt", mime_type="text/plain")
            assert await client.command("show", file=upload) == 4
            with pytest.raises(ConnectionRefused, match="503"):
                async with connect(server.session_url("127.0.0.1")):
                    raise AssertionError("there is no room for another")
            token = client.welcome.resume_token
            await client.vanish()
            while server.runtime.metrics.connections > 2:
                await trio.lowlevel.checkpoint()
            await silent(there, server, 3)
            for query in (f"/ws?resume={token}&role=viewer", f"/health2?resume={token}"):
                assert (await ask(server.port, query, *UPGRADE))[0] == 503, "the token is good for its session alone"
            assert (await ask(server.port, f"/ws?resume={token}"))[0] == 503, "no handshake"
            assert (await ask(server.port, f"/ws?resume={token}", *UPGRADE))[0] == 101


async def test_a_token_that_opens_nothing_gets_nobody_in():
    async with full() as (server, _):
        assert (await ask(server.port, "/ws?resume=wrong", *UPGRADE))[0] == 503
        assert (await ask(server.port, "/uploads?token=wrong", "content-length: 4", method="POST"))[0] == 503


async def test_a_standby_answers_probes_too():
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listeners[0].socket.getsockname()[1]
    settings = msgspec.convert({"limits": {"connections": 1}}, Settings)
    async with trio.open_nursery() as nursery, AsyncExitStack() as there:
        nursery.start_soon(serve_standby, listeners, settings, "mine", "SyntaxError in pipeline.py")
        await there.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
        status, head = await ask(port, "/health")
        assert (status, "connection: close" in head) == (503, True)
        nursery.cancel_scope.cancel()
    for listener in listeners:
        await listener.aclose()


# ---- the port of runtime.management -----------------------------------------------------------------------------------


async def test_the_management_port_answers_whatever_happens_to_the_other():
    async with full(management={"port": 0}, auth={"token": TOKEN}) as (server, there):
        port = server.management_port
        for _ in range(20):
            await silent(there, server)
        bearer = f"authorization: Bearer {TOKEN}"
        assert (await ask(port, "/health"))[0] == 200
        assert (await ask(port, "/ready"))[0] == 200
        assert (await ask(port, "/metrics"))[0] == 401
        assert (await ask(port, "/metrics", bearer))[0] == 200
        assert (await ask(port, "/health", host="rebound.example"))[0] == 421
        for path in ("/", "/schema", "/uploads"):
            assert (await ask(port, path, bearer))[0] == 404
        assert (await ask(port, "/health", method="POST"))[0] == 405
        assert (await ask(port, "/ws", bearer, *UPGRADE))[0] == 404


async def test_the_management_port_answers_while_the_server_drains():
    async with full(management={"port": 0}, limits={"connections": 3}, drain_notice=600) as (server, _), connect(server.url):
        server.runtime.begin_drain()
        assert (await ask(server.management_port, "/ready"))[0] == 503


async def test_without_the_setting_there_is_no_management_port():
    async with full() as (server, _):
        assert server.management_port is None


def test_the_management_port_is_not_that_of_the_clients():
    with pytest.raises(ManifestError, match=r"runtime\.management\.port: 8080 is the port of the clients"):
        parse_struct({"port": 8080, "management": {"port": 8080}}, Settings, "runtime")
    assert parse_struct({"management": {}}, Settings, "runtime").management.host == "127.0.0.1"
