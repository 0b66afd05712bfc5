"""WebSocket conversations over a memory stream in virtual time: messages, closes, and errors of clients."""

from __future__ import annotations

import math

import pytest
import trio
import trio.testing
from tests.support.transport_peers import (
    Peer,
    TinySite,
    conversing,
    endless_limits,
    frame,
    opening,
    read_all,
    serving,
    until_gone,
)
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Ping,
    Pong,
    RejectConnection,
    TextMessage,
)

from reactor_trio.concurrency.loop_lag import LoopLag
from reactor_trio.transport import Limits, MessageChannel, PeerGone, PeerTooSlow, serve_http

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10


async def echo(messages: MessageChannel) -> PeerGone:
    try:
        while True:
            message = await messages.receive()
            if isinstance(message, str):
                await messages.send_text(message)
            else:
                await messages.send_packet(message[:3], memoryview(message)[3:])
    except PeerGone as gone:
        return gone


# Opening


async def test_an_opening_without_subprotocol(autojump_clock):
    async with serving() as stream:
        accepted = await Peer(stream).open()
        assert isinstance(accepted, AcceptConnection)
        assert accepted.subprotocol is None


async def test_an_opening_with_subprotocol_and_origin(autojump_clock):
    async with serving() as stream:
        headers = [(b"origin", b"http://localhost")]
        accepted = await Peer(stream).open(subprotocols=["chat", "reactor.v1"], extra_headers=headers)
        assert isinstance(accepted, AcceptConnection)
        assert accepted.subprotocol == "reactor.v1"


async def test_a_refusal_is_an_http_answer(autojump_clock):
    async with serving() as stream:
        refused = await Peer(stream).open("/ws?full=1")
        assert isinstance(refused, RejectConnection)
        assert refused.status_code == 503


@pytest.mark.parametrize(
    "head",
    [
        opening("UPGRADE: WebSocket", "connection: keep-alive, UPGRADE", drop="Upgrade").replace(
            b"Connection: Upgrade\r\n", b""
        ),
        opening("Connection: keep-alive"),
        opening("Upgrade: h2c"),
        opening("Sec-WebSocket-Protocol: chat", "Sec-WebSocket-Protocol: reactor.v1"),
        opening("Sec-WebSocket-Extensions: permessage-deflate"),
        opening(path="http://localhost/ws?model=a"),
        opening("Content-Length: 2") + b"{}",
        b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" + opening(),
    ],
    ids=["case", "two_connections", "two_upgrades", "two_protocols", "deflate", "absolute", "body", "after_a_get"],
)
@pytest.mark.parametrize("pieces", ["at once", "byte by byte"])
async def test_the_first_frame_may_come_with_the_opening(head, pieces, autojump_clock):
    site = TinySite(echo)
    async with serving(site) as stream:
        raw = head + frame(TEXT, b"first") + frame(TEXT, b"second")
        for piece in [raw] if pieces == "at once" else [raw[i : i + 1] for i in range(len(raw))]:
            await stream.send_all(piece)
            await trio.testing.wait_all_tasks_blocked()
        data = bytes(await stream.receive_some())
        assert b"HTTP/1.1 101" in data
        assert data.endswith(b"\x81\x05first\x81\x06second")
        assert b"permessage-deflate" not in data


async def test_the_conversation_gets_the_request(autojump_clock):
    site = TinySite()
    async with serving(site) as stream:
        await Peer(stream).open("/ws?video=raw&video=jpeg&model=m")
    (request,) = site.requests
    assert (request.path, request.query) == ("/ws", {"video": "raw", "model": "m"})
    assert request.header("sec-websocket-version") == "13"


async def test_a_client_that_does_not_read_the_answer_to_its_opening_is_dropped_after_ten_seconds(autojump_clock):
    ours, theirs = trio.testing.lockstep_stream_pair()
    site = TinySite()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_it, ours, site)
        await trio.sleep(4)
        await theirs.send_all(opening())
        await theirs.receive_some(1)
    assert trio.current_time() == 4 + 10
    assert site.conversations == 0


async def serve_it(stream: trio.abc.Stream, site: TinySite, limits: Limits | None = None) -> None:
    site.limits = limits or site.limits
    await serve_http(stream, site.serve, site.rules, closing=trio.Event())


async def test_a_client_that_leaves_before_the_answer_starts_no_conversation(autojump_clock):
    ours, theirs = trio.testing.lockstep_stream_pair()
    site = TinySite()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_it, ours, site)
        await theirs.send_all(opening())
        await theirs.aclose()
    assert site.conversations == 0


# Messages


@pytest.mark.parametrize("size", [0, 1, 125, 126, 65535, 65536, 200_000])
async def test_messages_of_every_length_form_go_both_ways(size, autojump_clock):
    async with conversing(echo) as (peer, _site):
        await peer.send(TextMessage(data="x" * size))
        assert await peer.event() == TextMessage(data="x" * size)
        payload = bytes(i % 251 for i in range(size))
        await peer.send(BytesMessage(data=payload))
        assert await peer.event() == BytesMessage(data=payload)


async def test_a_fragmented_message_with_a_ping_inside(autojump_clock):
    async with conversing(echo) as (peer, _site):
        await peer.write(frame(TEXT, b"a\xc3", fin=False) + frame(PING, b"!") + frame(0, b"\xa4b"))
        assert await peer.event() == Pong(payload=b"!")
        assert await peer.event() == TextMessage(data="aäb")


async def test_text_is_utf8(autojump_clock):
    async with conversing(echo) as (peer, _site):
        await peer.send(TextMessage(data="grüße 🎬"))
        assert await peer.event() == TextMessage(data="grüße 🎬")


# The end, from the client


@pytest.mark.parametrize(
    ("body", "code", "reason"),
    [(b"", 1005, ""), (b"\x03\xe8", 1000, ""), (b"\x0f\xa0done", 4000, "done"), (b"\x03\xe9gr\xc3\xbcn", 1001, "grün")],
)
async def test_a_close_is_answered_and_reported(body, code, reason, autojump_clock):
    async with conversing() as (peer, site):
        await peer.write(frame(CLOSE, body))
        data = await read_all(peer.stream)
        assert data == bytes([0x88, len(body)]) + body
        assert trio.current_time() == 0
    assert isinstance(site.result, PeerGone)
    assert (site.result.code, site.result.reason) == (code, reason)


async def test_messages_before_a_close_are_received(autojump_clock):
    received = []

    async def talk(messages: MessageChannel) -> PeerGone:
        try:
            while True:
                received.append(await messages.receive())
                await trio.sleep(0.1)
        except PeerGone as gone:
            return gone

    async with conversing(talk) as (peer, site):
        await peer.write(frame(TEXT, b"1") + frame(TEXT, b"2") + frame(TEXT, b"3") + frame(CLOSE, b"\x03\xe8"))
        await read_all(peer.stream)
    assert received == ["1", "2", "3"]
    assert site.result.code == 1000


async def test_a_client_that_vanishes(autojump_clock):
    async with conversing() as (peer, site):
        await peer.stream.aclose()
    assert (site.result.code, site.result.reason) == (1006, "the connection was lost")


async def test_sending_to_a_client_that_has_gone(autojump_clock):
    async def talk(messages: MessageChannel) -> list[int]:
        codes = [(await until_gone(messages)).code]
        for send in (lambda: messages.send_text("x"), lambda: messages.send_packet(b"x", memoryview(b"y"))):
            with pytest.raises(PeerGone) as gone:
                await send()
            codes.append(gone.value.code)
        await messages.aclose(1000, "bye")
        return codes

    async with conversing(talk) as (peer, site):
        await peer.write(frame(CLOSE, b"\x0f\xa1"))
        assert await read_all(peer.stream) == b"\x88\x02\x0f\xa1"
    assert site.result == [4001, 4001, 4001]


# The end, from us


async def test_a_polite_close_and_its_answer(autojump_clock):
    async def talk(messages: MessageChannel) -> tuple[float, int]:
        await messages.send_text("bye")
        await messages.aclose(1013, "no_room")
        return trio.current_time(), (await until_gone(messages)).code

    async with conversing(talk) as (peer, site):
        assert await peer.event() == TextMessage(data="bye")
        assert await peer.event() == CloseConnection(code=1013, reason="no_room")
        await trio.sleep(0.3)
        await peer.write(frame(TEXT, b"crossing") * 5 + frame(PING, b"") + frame(CLOSE, b"\x03\xe8"))
        assert await read_all(peer.stream) == b""
        await peer.stream.aclose()
    assert site.result == (0.3, 1013)


async def test_a_polite_close_waits_one_second_for_a_silent_client(autojump_clock):
    async def talk(messages: MessageChannel) -> PeerGone:
        await messages.aclose(1001, "draining")
        assert trio.current_time() == 1
        return await until_gone(messages)

    async with conversing(talk) as (peer, site):
        assert await peer.event() == CloseConnection(code=1001, reason="draining")
        await trio.sleep(1)
        assert await peer.event() is None
    assert (site.result.code, site.result.reason) == (1001, "draining")


async def test_a_polite_close_waits_one_second_for_a_client_that_never_stops_talking(autojump_clock):
    async def talk(messages: MessageChannel) -> float:
        await messages.aclose(1001, "draining")
        return trio.current_time()

    async with conversing(talk) as (peer, site):
        with pytest.raises(trio.BrokenResourceError):
            while True:
                await peer.write(frame(TEXT, b"and another thing"))
                await trio.sleep(0.3)
    assert site.result == 1


async def test_a_polite_close_behind_a_stalled_packet_is_bounded_too(autojump_clock):
    ended = None

    async def talk(messages: MessageChannel) -> None:
        nonlocal ended
        async with trio.open_nursery() as nursery:

            async def send() -> None:
                nonlocal ended
                with pytest.raises(PeerGone) as gone:
                    await messages.send_packet(b"", memoryview(bytes(1000)))
                ended = gone.value.code

            nursery.start_soon(send)
            await trio.testing.wait_all_tasks_blocked()
            await messages.aclose(1001, "")
            assert trio.current_time() == 1

    ours, theirs = trio.testing.lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_it, ours, TinySite(talk))
        await Peer(theirs).open()
    assert ended == 1001


async def test_a_pending_receive_ends_with_our_close(autojump_clock):
    async def talk(messages: MessageChannel) -> PeerGone:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(messages.aclose, 4002, "mine")
            return await until_gone(messages)

    async with conversing(talk) as (peer, site):
        await peer.event()
        await trio.sleep(1)
    assert site.result.code == 4002


async def test_reasons_are_cut_at_123_bytes_between_characters(autojump_clock):
    async def talk(messages: MessageChannel) -> None:
        await messages.aclose(1001, "ä" * 100)

    async with conversing(talk) as (peer, _site):
        assert await peer.event() == CloseConnection(code=1001, reason="ä" * 61)


async def test_abort_sends_no_close_frame(autojump_clock):
    async def talk(messages: MessageChannel) -> int:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(messages.abort)
            return (await until_gone(messages)).code

    async with conversing(talk) as (peer, site):
        assert await read_all(peer.stream) == b""
        assert trio.current_time() == 0
    assert site.result == 1006


async def test_a_conversation_that_returns_is_closed_as_normal(autojump_clock):
    async def talk(messages: MessageChannel) -> str | bytes:
        return await messages.receive()

    async with conversing(talk) as (peer, site):
        await peer.send(TextMessage(data="x"))
        assert await peer.event() == CloseConnection(code=1000, reason="")
        await peer.stream.aclose()
    assert site.result == "x"


@pytest.mark.parametrize("grouped", [False, True])
async def test_a_conversation_may_end_with_peer_gone(grouped, autojump_clock):
    async def talk(messages: MessageChannel) -> None:
        if not grouped:
            await messages.receive()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(messages.receive)

    async with conversing(talk) as (peer, _site):
        await peer.write(frame(CLOSE, b"\x03\xe8"))
        assert await read_all(peer.stream) == b"\x88\x02\x03\xe8"


async def test_a_bug_in_the_conversation_closes_with_1011_and_is_raised(autojump_clock):
    async def talk(messages: MessageChannel) -> None:
        raise ZeroDivisionError

    with pytest.raises(ExceptionGroup) as raised:
        async with conversing(talk) as (peer, _site):
            assert await peer.event() == CloseConnection(code=1011, reason="internal error")
            await peer.stream.aclose()
    assert raised.group_contains(ZeroDivisionError)


async def test_cancelling_the_server_drops_the_connection(autojump_clock):
    ours, theirs = trio.testing.memory_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_it, ours, TinySite())
        await Peer(theirs).open()
        nursery.cancel_scope.cancel()
    assert await theirs.receive_some() == b""
    assert trio.current_time() == 0


# What a client may do wrong


@pytest.mark.parametrize(
    ("raw", "code"),
    [
        (frame(TEXT, b"x", masked=False), 1002),
        (frame(3, b"x"), 1002),
        (frame(PING, b"", fin=False), 1002),
        (frame(0, b"x"), 1002),
        (frame(TEXT, b"a", fin=False) + frame(TEXT, b"b"), 1002),
        (bytes([0xC1, 0x80]) + bytes(4), 1002),
        (frame(CLOSE, b"\x03"), 1002),
        (frame(CLOSE, b"\x03\xed"), 1002),
        (frame(TEXT, b"\xff"), 1007),
        (frame(TEXT, b"\xc3"), 1007),
        (frame(CLOSE, b"\x03\xe8\xff"), 1007),
    ],
    ids=[
        "unmasked", "opcode", "fragmented_ping", "continues_nothing", "interleaved", "reserved_bit", "close_of_1_byte",
        "close_1005", "not_utf8", "half_a_character", "reason_not_utf8",
    ],
)  # fmt: skip
@pytest.mark.parametrize("more", [b"", frame(PING, b"") * 3, frame(TEXT, b"more")], ids=["alone", "pings", "text"])
async def test_broken_frames_close_with_their_code_and_are_reported(raw, code, more, autojump_clock):
    async with conversing() as (peer, site):
        await peer.write(raw + more)
        event = await peer.event()
        assert isinstance(event, CloseConnection)
        assert event.code == code
        assert await peer.event() is None
        await peer.stream.aclose()
    assert site.result.code == code
    assert trio.current_time() == 0


@pytest.mark.parametrize("more", [b"", frame(PING, b"") * 3, frame(CLOSE, b"\x03\xe8"), frame(TEXT, b"more")])
@pytest.mark.parametrize(
    ("raw", "end"),  # over its own limit, the client is waited for; over both, what it still sends is not looked at
    [
        (frame(TEXT, b"x" * 101), 1),
        (frame(TEXT, "ä".encode() * 51), 1),
        (frame(TEXT, b"x" * 300), 0),
        (frame(BINARY, b"x" * 201), 0),
        (frame(BINARY, b"x" * 201, fin=False), 0),
        (frame(BINARY, b"x" * 150, fin=False) + frame(0, b"x" * 51), 0),
        (frame(TEXT, b"x" * 150, fin=False) + frame(0, b"x" * 51) + frame(TEXT, b"x" * 300), 0),
    ],
)
async def test_messages_over_their_limit_close_with_1009(raw, more, end, autojump_clock):
    async with conversing(limits=Limits(text_message=100, binary_message=200)) as (peer, site):
        await peer.write(raw + more)
        event = await peer.event()
        assert isinstance(event, CloseConnection)
        assert event.code == 1009 or (event.code == 1000 and more[:1] == b"\x88")  # it had closed by itself
        assert await peer.event() is None
        assert trio.current_time() == (0 if more[:1] == b"\x88" else end)
        await peer.stream.aclose()
    assert site.result.code == 1009


async def test_messages_of_exactly_their_limit_pass(autojump_clock):
    async with conversing(echo, Limits(text_message=200, binary_message=100)) as (peer, site):
        await peer.write(frame(TEXT, "ä".encode() * 100) + frame(BINARY, b"x" * 100) + frame(BINARY, b"x" * 101))
        assert await peer.event() == TextMessage(data="ä" * 100)
        assert await peer.event() == BytesMessage(data=b"x" * 100)
        assert (await peer.event()).code == 1009
    assert site.result.code == 1009


# Slow, silent and busy clients


async def test_a_ping_during_a_large_packet_is_answered_after_it(autojump_clock):
    payload = memoryview(bytes(range(256)) * 10_800)  # a raw 720p frame

    async def talk(messages: MessageChannel) -> PeerGone:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(messages.send_packet, b"head", payload)
            return await until_gone(messages)

    ours, theirs = trio.testing.lockstep_stream_pair()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_it, ours, TinySite(talk))
        peer = Peer(theirs)
        await peer.open()
        peer.ws.receive_data(bytes(await theirs.receive_some(1000)))
        await peer.send(Ping(payload=b"are you there"))
        await trio.testing.wait_all_tasks_blocked()
        assert await peer.event() == BytesMessage(data=b"head" + payload)
        assert await peer.event() == Pong(payload=b"are you there")
        await peer.send(CloseConnection(code=1000))
        assert isinstance(await peer.event(), CloseConnection)


async def test_a_client_that_takes_nothing_is_too_slow_after_15_seconds(autojump_clock):
    async def talk(messages: MessageChannel) -> tuple[PeerGone, PeerGone, float]:
        with pytest.raises(PeerTooSlow) as gone:
            await messages.send_packet(b"", memoryview(bytes(1_000_000)))
        return gone.value, await until_gone(messages), trio.current_time()

    ours, theirs = trio.testing.lockstep_stream_pair()
    site = TinySite(talk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_it, ours, site, endless_limits())
        await Peer(theirs).open()
    sent, received, at = site.result
    assert (sent.code, sent.reason, at) == (1006, "took no byte for 15 s", 15)
    assert isinstance(received, PeerTooSlow)


async def test_a_send_cancelled_half_way_ends_the_conversation(autojump_clock):
    async def talk(messages: MessageChannel) -> PeerGone:
        with trio.move_on_after(1):
            await messages.send_packet(b"", memoryview(bytes(1_000_000)))
        with pytest.raises(PeerGone) as gone:
            await messages.send_text("never")
        assert (await until_gone(messages)).code == 1006
        return gone.value

    ours, theirs = trio.testing.lockstep_stream_pair()
    site = TinySite(talk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_it, ours, site)
        await Peer(theirs).open()
        await trio.sleep(2)
        assert b"never" not in await read_all(theirs)
    assert (site.result.code, site.result.reason) == (1006, "a write was cancelled half-way")


async def test_a_silent_client_is_lost_after_20_seconds(autojump_clock):
    async def talk(messages: MessageChannel) -> tuple[PeerGone, float]:
        return await until_gone(messages), trio.current_time()

    async with conversing(talk) as (peer, site):
        assert [await peer.event(), trio.current_time()] == [Ping(payload=b""), 10]
        assert await peer.event() in (Ping(payload=b""), None)
        await trio.sleep(0.1)
    gone, at = site.result
    assert (gone.code, gone.reason, at) == (1006, "silent for 20 s", 20)


class PausedIn(trio.abc.Instrument):
    """The process is stopped for some seconds in a turn of the loop, just before a task of this name goes on."""

    def __init__(self, clock, name: str, at: float, seconds: float) -> None:
        self._clock, self._name, self._at, self._seconds = clock, name, at, seconds

    def before_task_step(self, task) -> None:
        if self._seconds and task.name.endswith(self._name) and trio.current_time() >= self._at:
            self._clock.jump(self._seconds)
            self._seconds = 0


async def test_a_pause_in_the_very_turn_of_the_heartbeat_is_not_the_clients_silence(autojump_clock):
    """The loop notices that it has lost time when its next turn begins."""
    paused = PausedIn(autojump_clock, "heartbeat", at=10, seconds=30)
    trio.lowlevel.add_instrument(paused)
    try:
        async with trio.open_nursery() as nursery, conversing() as (peer, site):
            with LoopLag().watched() as lag:
                nursery.start_soon(lag.tick)
                assert [await peer.event(), trio.current_time()] == [Ping(payload=b""), 40]
                await trio.sleep(19)
                assert site.result is None
                nursery.cancel_scope.cancel()
    finally:
        trio.lowlevel.remove_instrument(paused)


async def test_a_client_that_answers_pings_lives(autojump_clock):
    async with conversing() as (peer, site):
        for round_ in range(1, 51):
            assert await peer.event() == Ping(payload=b"")
            assert trio.current_time() == 10 * round_
            await peer.send(Pong(payload=b""))
        assert site.result is None


async def test_any_byte_counts_as_life(autojump_clock):
    async with conversing() as (peer, site):
        for byte in frame(TEXT, b"slow typist"):
            await trio.sleep(19)
            await peer.write(bytes([byte]))
        await trio.sleep(19.9)
        assert site.result is None
        await trio.sleep(0.2)
        assert site.result.reason == "silent for 20 s"


async def trickle(speaks_until: float) -> tuple[str, float]:
    """A client reads a piece of a large packet every 4 s, and sends pongs for a while. Return how that ended, and when."""

    async def talk(messages: MessageChannel) -> tuple[str, float]:
        try:
            await messages.send_packet(b"", memoryview(bytes(4 * 1024 * 1024)))
        except PeerGone as gone:
            return str(gone), trio.current_time()
        return "the packet was taken", trio.current_time()

    ours, theirs = trio.testing.lockstep_stream_pair()
    site = TinySite(talk)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_it, ours, site)
        peer = Peer(theirs)
        await peer.open()
        while site.result is None and trio.current_time() < 1000:
            await theirs.receive_some(65536)
            if trio.current_time() <= speaks_until:
                await peer.write(frame(PONG, b""))
            await trio.sleep(4)
        nursery.cancel_scope.cancel()
    return site.result


@pytest.mark.parametrize("spoke_at", [0, 4, 8, 12])
async def test_who_trickles_reads_and_says_nothing_is_silent(autojump_clock, spoke_at):
    """The packet delays our pings. The heartbeat must not take that for a pause of this process."""
    assert await trickle(spoke_at) == ("1006 silent for 20 s", spoke_at + 20)


async def test_a_client_that_reads_slowly_and_sends_is_kept(autojump_clock):
    how, at = await trickle(math.inf)
    assert (how, at > 200) == ("the packet was taken", True)


async def test_the_heartbeat_ends_with_the_conversation(autojump_clock):
    async with conversing(limits=Limits(silence=math.inf)) as (peer, _site):
        await peer.stream.aclose()
    assert trio.current_time() == 0
