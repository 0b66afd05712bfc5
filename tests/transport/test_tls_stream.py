"""A connection by TLS: progress, stalls, polite and impolite closes, and bytes that are not TLS.

Over real sockets in virtual time, which moves only when every task is blocked.
"""

from __future__ import annotations

import logging
import socket
import ssl
from contextlib import asynccontextmanager, suppress
from functools import partial
from types import SimpleNamespace

import pytest
import trio
import trio.testing
import trustme
from tests.support.transport_peers import PAGE, TinySite, answers

from reactor_trio.transport import Limits, Refusal, StreamStalled, WireStream, secured, serve_http, turn_away

PIECE = 64 * 1024


@pytest.fixture(scope="module")
def contexts():
    """The TLS contexts of the server and the client."""
    authority = trustme.CA()
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(server)
    client = ssl.create_default_context()
    authority.configure_trust(client)
    return server, client


@pytest.fixture
def slow_clock():
    """Virtual time that waits long enough for the kernel to move bytes over the loopback interface."""
    return trio.testing.MockClock(autojump_threshold=0.05)


async def tcp_pair() -> tuple[trio.SocketStream, trio.SocketStream]:
    listener, *_ = await trio.open_tcp_listeners(0, host="127.0.0.1")
    async with listener:
        client = await trio.open_tcp_stream("127.0.0.1", listener.socket.getsockname()[1])
        return await listener.accept(), client


def client_end(stream, contexts) -> trio.SSLStream:
    return trio.SSLStream(stream, contexts[1], server_hostname="127.0.0.1")


@asynccontextmanager
async def joined(contexts, **options):
    """A WireStream by TLS and its client, after the handshake."""
    ours, tcp = await tcp_pair()
    theirs = client_end(tcp, contexts)
    wire = WireStream(secured(ours, contexts[0]), **options)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wire.receive_some, 1)
        await theirs.send_all(b"x")
    try:
        yield wire, theirs, tcp
    finally:
        await trio.aclose_forcefully(wire)
        await trio.aclose_forcefully(theirs)


@asynccontextmanager
async def served(contexts, **limits):
    """The client's TCP stream to a server of HTTP by TLS, which must have ended when the block is left."""
    ours, tcp = await tcp_pair()
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            site = TinySite(limits=Limits(**limits))
            serve = partial(serve_http, serve=site.serve, rules=site.rules, closing=trio.Event())
            nursery.start_soon(serve, secured(ours, contexts[0]))
            yield tcp
            await trio.aclose_forcefully(tcp)


def get(connection: str = "keep-alive") -> bytes:
    return f"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: {connection}\r\n\r\n".encode()


async def read_to_end(stream) -> bytes:
    received = b""
    while piece := await stream.receive_some():
        received += piece
    return received


# Writing


async def test_a_large_packet_by_tls_arrives_whole(contexts):
    async with joined(contexts) as (wire, theirs, tcp):
        assert wire.peer == "{}:{}".format(*tcp.socket.getsockname())
        payload = memoryview(bytes(range(256)) * 12_000).cast("B", (1000, 1024, 3))
        received = bytearray()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.send_parts, b"head", payload)
            while len(received) < 4 + payload.nbytes:
                received += await theirs.receive_some()
        assert received == b"head" + bytes(range(256)) * 12_000


async def test_small_parts_travel_in_one_record(contexts):
    async with joined(contexts) as (wire, _theirs, _tcp):
        sizes, real = [], wire._stream.send_all

        async def send_all(data):
            sizes.append(len(data))
            await real(data)

        wire._stream.send_all = send_all
        await wire.send_parts(b"header", b"head", memoryview(bytes(1000)))
        await wire.send_parts(b"header", bytes(PIECE), b"tail")
        assert sizes == [1010, PIECE, 10]


@pytest.mark.parametrize(("pause", "done"), [(14.9, True), (15.1, False)])
async def test_under_tls_each_byte_that_the_system_takes_is_progress(slow_clock, contexts, pause, done):
    class ThinLink:
        async def send(self, data):
            await trio.sleep(pause)
            return min(len(data), 5000)

    async with joined(contexts, stall=15) as (wire, _theirs, _tcp):
        real = wire._under_tls.stream
        wire._under_tls.stream = SimpleNamespace(socket=ThinLink(), aclose=real.aclose)
        try:
            await wire.send_all(bytes(100_000))
        except StreamStalled:
            assert not done
            assert trio.current_time() == 15
        else:
            assert done
            assert trio.current_time() > 20 * pause


async def test_a_stall_by_tls_ends_at_exactly_the_limit(slow_clock, contexts):
    async with joined(contexts, stall=15) as (wire, _theirs, _tcp):
        with pytest.raises(StreamStalled):
            await wire.send_all(bytes(100_000_000))
        assert trio.current_time() == 15


async def test_a_write_by_tls_that_is_cancelled_half_way_tears_the_stream(slow_clock, contexts):
    async with joined(contexts) as (wire, theirs, _tcp):
        with trio.move_on_after(1):
            await wire.send_all(bytes(100_000_000))
        assert wire.torn == "a write was cancelled half-way"
        with pytest.raises(trio.BrokenResourceError):
            await wire.send_all(b"x")
        with pytest.raises(trio.BrokenResourceError):  # no close_notify: what came is known to be incomplete
            await read_to_end(theirs)


async def test_a_reset_by_tls_is_broken_not_oserror(contexts):
    async with joined(contexts) as (wire, _theirs, tcp):
        tcp.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        await tcp.aclose()
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await wire.send_all(bytes(PIECE))
        assert wire.torn is not None
        assert not wire.stalled


async def test_the_sockets_options_are_those_without_tls(contexts):
    async with joined(contexts) as (wire, _theirs, _tcp):
        tcp = wire._under_tls.stream.socket
        assert tcp.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert tcp.getsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF) == 1024 * 1024


# Ends


async def test_a_polite_close_by_tls_sends_close_notify_and_waits_until_all_is_read(slow_clock, contexts):
    async with joined(contexts) as (wire, theirs, tcp):
        await wire.send_all(b"last words")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(wire.linger, 1)
            await theirs.send_all(b"late" * 1000)  # unread input would reset the connection
            await trio.sleep(0.5)
            assert await read_to_end(theirs) == b"last words"  # its end is a close_notify, or this would raise
            await tcp.aclose()
        assert trio.current_time() == 0.5


async def test_a_polite_close_by_tls_is_bounded(slow_clock, contexts):
    async with joined(contexts) as (wire, _theirs, _tcp):
        await wire.linger(1)
        assert trio.current_time() == 1


async def test_a_cancelled_linger_by_tls_closes_at_once(slow_clock, contexts):
    async with joined(contexts) as (wire, _theirs, tcp):
        with trio.move_on_after(0.25):
            await wire.linger(1)
        assert trio.current_time() == 0.25
        assert wire._under_tls.stream.socket.fileno() == -1
        await tcp.aclose()


async def test_an_impolite_close_by_tls_does_not_wait(slow_clock, contexts):
    async with joined(contexts) as (wire, theirs, _tcp):
        await trio.aclose_forcefully(wire)
        assert trio.current_time() == 0
        with pytest.raises(trio.BrokenResourceError):
            await theirs.receive_some()


# Requests


async def test_a_page_by_tls(contexts):
    async with served(contexts) as tcp:
        theirs = client_end(tcp, contexts)
        await theirs.send_all(get() + get(connection="close"))
        first, second = answers(await read_to_end(theirs))
        assert first.body == second.body == PAGE


async def test_a_refusal_by_tls_arrives_though_the_client_goes_on_sending(slow_clock, contexts):
    async with served(contexts) as tcp:
        theirs = client_end(tcp, contexts)
        await theirs.send_all(b"GET / HTTP/1.1\r\nx: " + b"x" * 200_000)
        (answer,) = answers(await read_to_end(theirs))
        assert answer.status == 431


@pytest.mark.parametrize("raw", [b"", b"\x16\x03\x01", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"])
async def test_a_handshake_that_does_not_end_is_closed_at_its_limit(slow_clock, contexts, raw):
    async with served(contexts, handshake=10) as tcp:
        await tcp.send_all(raw)
        assert await tcp.receive_some() == b""
        assert trio.current_time() == 10


async def test_a_handshake_just_within_the_limit_is_served(slow_clock, contexts):
    async with served(contexts, handshake=10) as tcp:
        await trio.sleep(9.75)
        theirs = client_end(tcp, contexts)
        await theirs.send_all(get(connection="close"))
        (answer,) = answers(await read_to_end(theirs))
        assert answer.status == 200
        assert trio.current_time() == 9.75


@pytest.mark.parametrize("raw", [b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n", b"\x00" * 100, b"SSH-2.0-x\r\n"])
async def test_what_is_no_tls_is_closed_at_once_with_a_line_at_debug(slow_clock, contexts, raw, caplog):
    caplog.set_level(logging.DEBUG, "reactor_trio")
    async with served(contexts) as tcp:
        await tcp.send_all(raw)
        with suppress(trio.BrokenResourceError):  # closed with input unread: reset
            await read_to_end(tcp)
        assert trio.current_time() == 0
    (record,) = caplog.records
    assert (record.levelno, record.exc_info) == (logging.DEBUG, None)
    assert "SSL" in record.getMessage()


async def test_a_client_turned_away_by_tls_reads_the_reason(slow_clock, contexts):
    ours, tcp = await tcp_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(turn_away, secured(ours, contexts[0]), Refusal("full", "no room"))
        theirs = client_end(tcp, contexts)
        await theirs.send_all(get())
        (answer,) = answers(await read_to_end(theirs))
        assert (answer.status, answer.body) == (503, b"no room\n")
        await tcp.aclose()


async def test_a_client_of_a_unix_socket_that_is_turned_away_reads_the_reason(slow_clock):
    """A proxy in front got an empty answer: the socket has no TCP_CORK."""
    ours, theirs = trio.socket.socketpair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(turn_away, trio.SocketStream(ours), Refusal("full", "no room"))
        stream = trio.SocketStream(theirs)
        (answer,) = answers(await read_to_end(stream))
        assert (answer.status, answer.body) == (503, b"no room\n")
        await stream.aclose()


async def test_a_client_turned_away_without_a_tls_handshake_is_dropped_after_a_second(slow_clock, contexts):
    ours, tcp = await tcp_pair()
    async with tcp:
        await turn_away(secured(ours, contexts[0]), Refusal("full", "no room"))
        assert trio.current_time() == 1
