"""The same server over real sockets, against a client that is not ours (`websockets`) and against raw bytes."""

from __future__ import annotations

import errno
import logging
import socket
import struct
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import pytest
import trio
from tests.support.transport_peers import PAGE, TinySite, answers, frame, opening, read_all, until_gone
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from reactor_trio.transport import (
    Conversation,
    Exchange,
    Limits,
    MessageChannel,
    PatientListener,
    PeerGone,
    Response,
    serve_http,
)

PICTURE = memoryview(bytes(range(256)) * 10_800)  # as large as a raw 720p frame


@asynccontextmanager
async def tcp_server(site: TinySite, limits: Limits | None = None) -> AsyncIterator[int]:
    """A server on a free port; every connection must have ended when the block is left."""
    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    site.limits = limits or site.limits
    serve = partial(serve_http, serve=lambda exchange: site.serve(exchange), rules=site.rules, closing=trio.Event())
    with trio.fail_after(120):
        async with trio.open_nursery() as connections, trio.open_nursery() as accepting:
            accepting.start_soon(partial(trio.serve_listeners, serve, [listener], handler_nursery=connections))
            yield listener.socket.getsockname()[1]
            accepting.cancel_scope.cancel()


async def in_thread(port: int, act: Callable[[ClientConnection], None], **options: object) -> None:
    def run() -> None:
        options.setdefault("subprotocols", ["reactor.v1"])
        with connect(f"ws://127.0.0.1:{port}/ws", max_size=None, **options) as client:
            act(client)

    await trio.to_thread.run_sync(run)



async def test_pipelined_requests_leave_the_loop_to_others():
    """Each answer to a request that is here already goes out at once, with nothing to wait for."""
    site, turns, seen = TinySite(), 0, []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await trio.lowlevel.checkpoint()

    async def serve(exchange: Exchange) -> Response | Conversation:
        seen.append(turns)
        return await TinySite.serve(site, exchange)

    site.serve = serve  # type: ignore[method-assign]
    async with trio.open_nursery() as nursery, tcp_server(site) as port:
        nursery.start_soon(others)
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(b"HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50)
        async with stream:
            while len(seen) < 50:
                await stream.receive_some()
        nursery.cancel_scope.cancel()
    # Trio runs what is ready in any order, so that one task may run twice between two runs of another.
    assert max(Counter(seen).values()) <= 2


async def echo(messages: MessageChannel) -> PeerGone:
    try:
        while True:
            message = await messages.receive()
            if isinstance(message, str):
                await messages.send_text(message)
            else:
                await messages.send_packet(b"", memoryview(message))
    except PeerGone as gone:
        return gone


async def test_a_third_party_client_talks_and_closes():
    site = TinySite(echo)

    def act(client: ClientConnection) -> None:
        assert client.subprotocol == "reactor.v1"
        for message in ("grüße", b"", b"x" * 70_000, bytes(PICTURE)):
            client.send(message)
            assert client.recv() == message
        client.close(4001, "enough")

    async with tcp_server(site) as port:
        await in_thread(port, act)
    assert (site.result.code, site.result.reason) == (4001, "enough")


async def test_a_third_party_client_is_closed_politely():
    async def talk(messages: MessageChannel) -> None:
        await messages.send_text("bye")
        await messages.aclose(1013, "no_room")

    def act(client: ClientConnection) -> None:
        assert client.recv() == "bye"
        with pytest.raises(ConnectionClosedError) as closed:
            client.recv()
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1013, "no_room")

    async with tcp_server(TinySite(talk)) as port:
        await in_thread(port, act)


async def test_a_third_party_client_gets_1009():
    """Most of the message is still on its way: a plain close would reset the connection and destroy the close frame."""

    def act(client: ClientConnection) -> None:
        with pytest.raises(ConnectionClosedError) as closed:
            client.send(bytes(PICTURE))
            client.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009

    site = TinySite()
    async with tcp_server(site, Limits(binary_message=100_000)) as port:
        await in_thread(port, act)
    assert site.result.code == 1009


async def test_pings_during_a_large_packet():
    site_saw: list[PeerGone] = []

    async def talk(messages: MessageChannel) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send, messages)
            site_saw.append(await until_gone(messages))

    async def send(messages: MessageChannel) -> None:
        for _ in range(20):
            await messages.send_packet(b"head", PICTURE)

    def act(client: ClientConnection) -> None:
        pongs: list[threading.Event] = []
        for _ in range(20):
            pongs += [client.ping() for _ in range(5)]
            message = client.recv()
            assert isinstance(message, bytes)
            assert message == b"head" + PICTURE
        assert all(pong.wait(120) for pong in pongs)

    async with tcp_server(TinySite(talk)) as port:
        await in_thread(port, act)
    assert site_saw[0].code == 1000


async def test_refusals_are_statuses_to_a_third_party_client():
    async with tcp_server(TinySite()) as port:
        for options, status in (
            ({"origin": "http://evil.test"}, 403),
            ({"subprotocols": ["chat"]}, 400),
            ({"additional_headers": {"Host": "evil.test"}}, 400),  # a second Host
        ):
            with pytest.raises(InvalidStatus) as refused:
                await in_thread(port, lambda client: None, **options)
            assert refused.value.response.status_code == status


async def test_the_own_origin_is_allowed():
    async with tcp_server(TinySite()) as port:
        await in_thread(port, lambda client: None, origin=f"http://127.0.0.1:{port}")


async def test_compression_is_not_negotiated():
    async with tcp_server(TinySite(echo)) as port:
        await in_thread(port, lambda client: None, compression="deflate")


async def raw(port: int, data: bytes) -> bytes:
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(data)
        return await read_all(stream)


async def test_http_over_tcp():
    async with tcp_server(TinySite(), Limits(handshake=0.05, idle=0.05)) as port:
        get = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert [answer.body for answer in answers(await raw(port, get * 3))] == [PAGE] * 3
        for data, status in (
            (b"GET / HTTP/1.1\r\nHost: loc", 408),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
            (get[:-2] + b"X: " + b"x" * 100_000 + b"\r\n\r\n", 431),
        ):
            assert [answer.status for answer in answers(await raw(port, data))] == [status]
        assert await raw(port, b"") == b""


async def test_an_opening_with_its_first_frames_over_tcp():
    data = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + opening() + frame(1, b"first") + frame(2, b"second")
    received = b""
    async with tcp_server(TinySite(echo)) as port, await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(data)
        while not received.endswith(b"\x81\x05first\x82\x06second"):
            received += await stream.receive_some()


async def test_an_unmasked_frame_is_answered_1002_over_tcp():
    site = TinySite()
    async with tcp_server(site) as port:
        received = await raw(port, opening() + frame(1, b"x", masked=False) + bytes(300_000))
    assert b"\x03\xea" in received.partition(b"\r\n\r\n")[2][:4]
    assert site.result.code == 1002


async def test_a_reset_connection_is_gone():
    site = TinySite()
    async with tcp_server(site) as port:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(opening())
        await stream.receive_some()
        stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        await stream.aclose()
    assert site.result.code == 1006


async def test_a_client_that_returns_ok():
    def act(client: ClientConnection) -> None:
        with pytest.raises(ConnectionClosedOK):
            client.recv()

    async def talk(messages: MessageChannel) -> None:
        return

    async with tcp_server(TinySite(talk)) as port:
        await in_thread(port, act)


def reset(client: socket.socket) -> None:
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


async def test_a_connection_that_is_over_before_it_is_accepted_is_given_to_no_task():
    (listening,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    address = listening.socket.getsockname()

    def connect_and(*words: bytes) -> socket.socket:
        client = socket.create_connection(address)
        for word in words:
            client.sendall(word)
        return client

    reset(connect_and())
    reset(connect_and(b"GET / HTTP/1.1\r\n"))
    connect_and().close()
    with connect_and() as half_open:
        half_open.shutdown(socket.SHUT_WR)
        with connect_and(b"hello") as said, connect_and() as silent:
            listener = PatientListener(listening)
            said.shutdown(socket.SHUT_WR)
            with trio.fail_after(60):
                for client, words in ((said, b"hello"), (silent, None)):
                    async with await listener.accept() as stream:
                        assert stream.socket.getpeername() == client.getsockname()
                        if words is not None:
                            assert await stream.receive_some() == words
            assert half_open.recv(1) == b""
            await listener.aclose()


class Short:
    """A listener for which the system has nothing left, so many times; then it has one connection."""

    def __init__(self, times: int, ours: socket.socket) -> None:
        self.times, self.ours = times, ours

    async def accept(self) -> trio.SocketStream:
        await trio.lowlevel.checkpoint()
        if self.times:
            self.times -= 1
            raise OSError(errno.EMFILE, "Too many open files")
        return trio.SocketStream(trio.socket.from_stdlib_socket(self.ours))


async def test_the_log_says_for_how_long_no_connection_was_accepted(autojump_clock, caplog):
    caplog.set_level(logging.INFO)
    await trio.sleep(1000)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        theirs.sendall(b"hello")
        await PatientListener(Short(12, ours)).accept()
    assert [line.partition(".")[0] for line in caplog.messages] == [
        "no connection can be accepted: Too many open files", "connections are accepted again after 1"
    ]  # fmt: skip
    assert caplog.messages[1] == "connections are accepted again after 1.2 s"
