from __future__ import annotations

import anyio
import pytest
import trio
from tests.support.client_doubles import BACKENDS, WsServer, memory_pipe
from trio.testing import MockClock
from wsproto.events import BytesMessage, CloseConnection, Ping, Pong, RejectConnection, RejectData, TextMessage

from reactor_trio.client import TransportClosed, WebSocketTransport, open_websocket
from reactor_trio.errors import ConnectionRefused

every_backend = pytest.mark.parametrize("backend", BACKENDS)
URL = "ws://example.org:8080/ws?role=control"


async def opened(*more, most=2**20, unread=float("inf"), **options):
    """A transport and its server on one pipe; the server said `more` with its acceptance."""
    ours, theirs = memory_pipe(most=most, unread=unread)
    server = WsServer(theirs)
    transport: list[WebSocketTransport] = []

    async def connect():
        transport.append(await open_websocket(URL, stream=ours, **options))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(connect)
        await server.accept(*more)
    return transport[0], server, ours, theirs


async def let_go(*streams):
    for stream in streams:
        await stream.aclose()


@every_backend
def test_messages_in_both_directions(backend):
    async def main():
        transport, server, ours, theirs = await opened()
        assert server.request.target == "/ws?role=control"
        assert server.request.host == "example.org:8080"
        assert server.request.subprotocols == ["reactor.v1"]
        await transport.send("hällo")
        assert await server.message() == "hällo"
        big = bytes(range(256)) * 1000
        await transport.send_bytes(big)
        assert await server.message() == big
        await server.send(TextMessage(data="wörld"), BytesMessage(data=b"\x00"))
        assert [await transport.receive(), await transport.receive()] == ["wörld", b"\x00"]
        await let_go(ours, theirs)

    anyio.run(main, backend=backend)


@every_backend
def test_messages_in_the_same_piece_as_the_acceptance_are_not_lost(backend):
    async def main():
        transport, server, ours, theirs = await opened(TextMessage(data="first"), Ping(payload=b"p"))
        assert await transport.receive() == "first"
        await transport.send("second")
        assert await server.event() == Pong(payload=b"p")
        assert await server.message() == "second"
        await let_go(ours, theirs)

    anyio.run(main, backend=backend)


@every_backend
def test_fragments_read_byte_by_byte_with_a_ping_between_them(backend):
    async def main():
        transport, server, ours, theirs = await opened(most=1)
        await server.send(
            TextMessage(data="one, ü", message_finished=False),
            Ping(payload=b"now"),
            TextMessage(data="", message_finished=False),
            TextMessage(data="two", message_finished=True),
            BytesMessage(data=b"ab", message_finished=False),
            BytesMessage(data=b"c"),
        )
        assert await transport.receive() == "one, ütwo"
        assert await transport.receive() == b"abc"
        assert await server.event() == Pong(payload=b"now")
        await let_go(ours, theirs)

    anyio.run(main, backend=backend)


@every_backend
def test_a_raw_picture_of_2_7_megabytes(backend):
    async def main():
        transport, server, ours, theirs = await opened()
        picture = bytes(range(256)) * (1280 * 720 * 3 // 256)
        await server.send(BytesMessage(data=picture))
        assert await transport.receive() == picture
        await let_go(ours, theirs)

    anyio.run(main, backend=backend)


@every_backend
def test_a_message_over_the_cap_closes_with_1009(backend):
    async def main():
        transport, server, ours, theirs = await opened(max_message_size=10)
        await server.send(
            BytesMessage(data=b"0123456789"),
            BytesMessage(data=b"01234567", message_finished=False),
            BytesMessage(data=b"890"),
        )
        assert await transport.receive() == b"0123456789"
        with pytest.raises(TransportClosed, match="larger than 10 bytes") as caught:
            await transport.receive()
        assert caught.value.code == 1009
        assert (await server.event()).code == 1009
        with pytest.raises(TransportClosed):
            await transport.send("too late")
        await transport.aclose()
        assert ours.closed
        await theirs.aclose()

    anyio.run(main, backend=backend)


@every_backend
def test_the_servers_close_comes_after_its_last_message_and_is_answered(backend):
    async def main():
        transport, server, ours, theirs = await opened()
        await server.send(TextMessage(data="last"), CloseConnection(code=1001, reason="draining"))
        assert await transport.receive() == "last"
        for _ in range(2):
            with pytest.raises(TransportClosed) as caught:
                await transport.receive()
            assert (caught.value.code, caught.value.reason) == (1001, "draining")
        assert (await server.event()).code == 1001
        with pytest.raises(TransportClosed):
            await transport.send("too late")
        await transport.aclose()
        await transport.aclose()
        assert ours.closed
        await theirs.aclose()

    anyio.run(main, backend=backend)


@every_backend
@pytest.mark.parametrize(("frame", "code"), [(b"\x83\x00", 1002), (b"\x81\x01\xff", 1007)])
def test_broken_framing_is_answered_and_ends(backend, frame, code):
    async def main():
        transport, server, ours, theirs = await opened()
        await server.send_raw(frame)
        with pytest.raises(TransportClosed) as caught:
            await transport.receive()
        assert caught.value.code == code
        assert (await server.event()).code == code
        await let_go(ours, theirs)

    anyio.run(main, backend=backend)


@every_backend
def test_a_broken_link_is_1006(backend):
    async def main():
        transport, _server, ours, theirs = await opened()
        await theirs.aclose()
        with pytest.raises(TransportClosed) as caught:
            await transport.receive()
        assert caught.value.code == 1006
        with pytest.raises(TransportClosed):
            await transport.send("to nobody")
        await transport.aclose()
        assert ours.closed

    anyio.run(main, backend=backend)


@every_backend
def test_a_failed_send_leaves_received_messages_readable(backend):
    async def main():
        transport, server, ours, theirs = await opened()
        await server.send(TextMessage(data="why"), CloseConnection(code=1011))
        await theirs.aclose()
        with pytest.raises(TransportClosed):
            await transport.send("to nobody")
        assert await transport.receive() == "why"
        with pytest.raises(TransportClosed) as caught:
            await transport.receive()
        assert caught.value.code == 1011
        await ours.aclose()

    anyio.run(main, backend=backend)


@every_backend
def test_closing_waits_for_the_peers_close_also_while_another_task_receives(backend):
    async def main():
        transport, server, ours, theirs = await opened()
        ends = []

        async def receive():
            with pytest.raises(TransportClosed) as caught:
                await transport.receive()
            ends.append(caught.value.code)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(receive)
            await anyio.wait_all_tasks_blocked()
            tasks.start_soon(server.answer_close)
            await transport.aclose(1000, "enough")
        assert ends == [1000]
        assert ours.closed
        await theirs.aclose()

    anyio.run(main, backend=backend)


@every_backend
def test_closing_within_a_cancelled_scope_still_says_goodbye(backend):
    async def main():
        transport, server, _ours, theirs = await opened()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.answer_close)
            with anyio.CancelScope() as scope:
                scope.cancel()
                await transport.aclose()
        await theirs.aclose()

    anyio.run(main, backend=backend)


async def test_a_peer_that_does_not_answer_the_close_costs_one_second(autojump_clock):
    transport, server, ours, theirs = await opened()
    await transport.aclose(1000, "enough")
    assert trio.current_time() == 1.0
    assert ours.closed
    assert (await server.event()).reason == "enough"
    await theirs.aclose()


async def test_closing_is_bounded_also_when_the_peer_takes_nothing(autojump_clock):
    transport, _server, ours, theirs = await opened(unread=1)
    await transport.send("fills the pipe")
    await transport.aclose()
    assert trio.current_time() == 1.0
    assert ours.closed
    await theirs.aclose()


async def test_closing_is_bounded_also_when_a_sender_is_stuck(autojump_clock):
    transport, _server, ours, theirs = await opened(unread=1)
    await transport.send("fills the pipe")
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def send():
            with pytest.raises(TransportClosed):
                await transport.send("stuck")

        await trio.testing.wait_all_tasks_blocked()
        await transport.aclose()
        assert trio.current_time() == 1.0
    assert ours.closed
    await theirs.aclose()


async def test_a_peer_that_takes_nothing_is_dropped(autojump_clock):
    transport, _server, ours, theirs = await opened(unread=1)
    await transport.send("fills the pipe")
    with pytest.raises(TransportClosed, match="the peer took nothing for 5 s"):
        await transport.send("stuck")
    assert trio.current_time() == 5.0
    assert ours.closed
    with pytest.raises(TransportClosed):
        await transport.send("again")
    await theirs.aclose()


async def test_a_peer_is_lost_when_it_is_silent_for_longer_than_expected(autojump_clock):
    transport, server, ours, theirs = await opened()
    async with trio.open_nursery() as nursery:

        @nursery.start_soon
        async def receive():
            assert await transport.receive() == "just in time"
            with pytest.raises(TransportClosed, match="closed with code 1006: the peer was silent for 20 s"):
                await transport.receive()
            assert trio.current_time() == 19.5 + 20

        await trio.sleep(0.5)
        transport.expect_byte_every(20)  # also of a read that waits already
        await trio.sleep(19)
        await server.send(TextMessage(data="just in time"))
    await transport.aclose()
    assert ours.closed
    await theirs.aclose()


async def test_a_small_message_goes_out_whole_although_its_sender_is_cancelled(autojump_clock):
    transport, server, ours, theirs = await opened(unread=1)
    await transport.send("first")
    with trio.move_on_after(1):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.send, "second")

            @nursery.start_soon
            async def read_late():
                with trio.CancelScope(shield=True):
                    await trio.sleep(2)
                    assert await server.message() == "first"

    assert trio.current_time() == 2.0
    assert await server.message() == "second"
    await transport.send("third")
    assert await server.message() == "third"
    await let_go(ours, theirs)


async def test_nothing_follows_an_incomplete_message(autojump_clock):
    transport, _server, ours, theirs = await opened(unread=1)
    with trio.move_on_after(1) as scope:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(transport.send_bytes, bytes(1_000_000))

            @nursery.start_soon
            async def take_one_chunk_late():
                with trio.CancelScope(shield=True):
                    await trio.sleep(2)
                    await theirs.receive()

    assert scope.cancelled_caught
    assert trio.current_time() == 2.0
    assert ours.closed
    with pytest.raises(TransportClosed):
        await transport.send("after it")
    await theirs.aclose()


async def test_only_the_newest_of_many_pings_is_answered_so_they_cost_no_memory(autojump_clock):
    transport, server, ours, theirs = await opened(unread=1)
    await transport.send("fills the pipe")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.send, "stuck")
        await trio.testing.wait_all_tasks_blocked()
        for number in range(100):
            await server.send(Ping(payload=b"%d" % number))
        await server.send(TextMessage(data="heard"))
        assert await transport.receive() == "heard"
        assert [await server.message(), await server.message()] == ["fills the pipe", "stuck"]
        assert await server.event() == Pong(payload=b"99")
        await transport.send("next")
        assert await server.message() == "next"
    await let_go(ours, theirs)


async def test_a_pong_does_not_make_the_reader_wait_for_anothers_message(autojump_clock):
    transport, server, ours, theirs = await opened(unread=1)
    await transport.send("fills the pipe")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(transport.send, "stuck")
        await trio.testing.wait_all_tasks_blocked()
        await server.send(Ping(payload=b"1"), TextMessage(data="still heard"))
        assert await transport.receive() == "still heard"
        assert trio.current_time() == 0.0
        assert await server.message() == "fills the pipe"
        assert await server.message() == "stuck"
        assert await server.event() == Pong(payload=b"1")
    await let_go(ours, theirs)


@every_backend
def test_two_senders_do_not_mix(backend):
    async def main():
        transport, server, ours, theirs = await opened(unread=1)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(transport.send_bytes, b"a" * 200_000)
            tasks.start_soon(transport.send_bytes, b"b" * 200_000)
            messages = [await server.message(), await server.message()]
        assert sorted(messages) == [b"a" * 200_000, b"b" * 200_000]
        await let_go(ours, theirs)

    anyio.run(main, backend=backend)


def refused(backend, *events, end=False):
    async def main():
        ours, theirs = memory_pipe()
        server = WsServer(theirs)
        async with anyio.create_task_group() as tasks:

            async def refuse():
                await server.refuse(*events)
                if end:
                    await theirs.aclose()

            tasks.start_soon(refuse)
            with pytest.raises(ConnectionRefused) as caught:
                await open_websocket(URL, stream=ours)
        assert ours.closed
        await theirs.aclose()
        return caught.value

    return anyio.run(main, backend=backend)


@every_backend
def test_a_refusal_tells_status_words_and_when_to_come_again(backend):
    body = b"no room: 1 session runs and 0 wait\n"
    headers = [(b"Content-Length", b"%d" % len(body)), (b"Retry-After", b"7")]
    error = refused(
        backend, RejectConnection(status_code=503, headers=headers, has_body=True), RejectData(data=body)
    )
    assert (error.status, error.retry_after) == (503, 7.0)
    assert str(error) == "refused with HTTP 503: no room: 1 session runs and 0 wait"


@every_backend
def test_a_refusal_without_words_or_without_a_length(backend):
    bare = refused(backend, RejectConnection(status_code=403, headers=[(b"Content-Length", b"0")]))
    words = "refused with HTTP 403: a proxy in front of the server forbids this request"
    assert (bare.status, bare.retry_after, str(bare)) == (403, None, words)
    until_end = refused(
        backend,
        RejectConnection(status_code=404, headers=[(b"Connection", b"close")], has_body=True),
        RejectData(data=b"the model is glow", body_finished=False),
        end=True,
    )
    assert str(until_end) == "refused with HTTP 404: the model is glow"


@every_backend
def test_a_long_refusal_is_cut(backend):
    error = refused(
        backend,
        RejectConnection(status_code=500, headers=[(b"Connection", b"close")], has_body=True),
        RejectData(data=b"x" * 100_000, body_finished=False),
    )
    assert str(error) == "refused with HTTP 500: " + "x" * 1000


@every_backend
@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\n\r\n", "example.org:8080 does not answer as a WebSocket server does"),
        (b"", "example.org:8080 closed the connection without an answer"),
    ],
)
def test_an_answer_that_is_not_http_is_a_connection_error(backend, answer, says):
    async def main():
        ours, theirs = memory_pipe()
        if answer:
            await theirs.send(answer)
        await theirs.send_eof()
        with pytest.raises(ConnectionError, match=says):
            await open_websocket(URL, stream=ours)
        assert ours.closed
        await theirs.aclose()

    anyio.run(main, backend=backend)


async def test_a_handshake_without_an_answer_ends_in_time(autojump_clock):
    ours, theirs = memory_pipe()
    with pytest.raises(TimeoutError, match=r"no answer from example\.org:8080 within 10 s"):
        await open_websocket(URL, stream=ours)
    assert trio.current_time() == 10.0
    assert ours.closed
    await theirs.aclose()


@every_backend
@pytest.mark.parametrize("url", ["127.0.0.1:8080/ws", "http://127.0.0.1/ws", "ws:///ws"])
def test_an_invalid_websocket_url(backend, url):
    with pytest.raises(ValueError, match="expected a URL like ws://"):
        anyio.run(open_websocket, url, backend=backend)


@every_backend
@pytest.mark.parametrize("url", ["ws://h/a b", "ws://h/ä", "ws://hä/", "ws://h/?q=a b", "ws://h/a\x00b", "ws://h h/"])
def test_an_invalid_character_in_a_url_is_named(backend, url):
    with pytest.raises(ValueError, match="visible ASCII characters only; write a space as %20"):
        anyio.run(open_websocket, url, backend=backend)


@pytest.mark.parametrize(
    ("errors", "why"),
    [
        ([ConnectionRefusedError(111, "x"), ConnectionRefusedError(111, "y")], "Connection refused"),
        ([ConnectionRefusedError(111, "x"), OSError(101, "y")], "Connection refused; Network is unreachable"),
    ],
)
async def test_a_host_of_several_addresses_is_refused_in_plain_words(monkeypatch, errors, why):
    async def connect_tcp(*_):  # as anyio's
        raise OSError("All connection attempts failed") from ExceptionGroup("multiple connection attempts failed", errors)

    monkeypatch.setattr(anyio, "connect_tcp", connect_tcp)
    with pytest.raises(ConnectionError) as caught:
        await open_websocket(URL)
    assert str(caught.value) == f"cannot connect to example.org:8080: {why}"


def test_anyio_uses_the_virtual_clock():
    async def main():
        return anyio.current_time()

    assert trio.run(main, clock=MockClock()) == 0.0
