"""A link that stops carrying bytes without an end, behind a proxy for instance: the client does not wait for it for ever."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import numpy as np
import pytest
import trio
from tests.support.client_doubles import MemoryStream, WsServer, memory_pipe, packet, welcome
from tests.support.models import Picture
from wsproto.events import BytesMessage, CloseConnection, Ping, TextMessage

import reactor_trio.client.route as route
from reactor_trio.cli import watching as headless
from reactor_trio.client import connect, open_websocket
from reactor_trio.errors import SessionEnded
from reactor_trio.interface import ReactorPipeline
from reactor_trio.testing import open_server


@asynccontextmanager
async def proxy(monkeypatch, **more):
    """A server behind a proxy: a picture in each tenth of 3 s, then nothing passes, and nobody else is let in.

    `more` of the welcome's data; the block gets a URL for `connect`.
    """
    gates: list[MemoryStream] = []

    async def open_one(url, *, max_message_size, **_options):
        if gates:
            raise OSError("the proxy takes nobody")
        ours, theirs = memory_pipe()
        gates.append(theirs)
        nursery.start_soon(serve, WsServer(theirs))
        return await open_websocket(url, stream=ours, max_message_size=max_message_size)

    async def serve(server):
        text = json.dumps({"type": "reactor.welcome", "data": welcome() | more, "n": 1})
        await server.accept(TextMessage(data=text))
        for seq in range(31):
            await trio.sleep_until(seq / 10)
            await server.send(BytesMessage(data=packet(seq)))

    monkeypatch.setattr(route, "open_websocket", open_one)
    async with trio.open_nursery() as nursery:
        yield "ws://127.0.0.1:1/ws"
        await gates[0].aclose()


async def test_a_dead_link_ends_a_session_that_is_not_kept_two_heartbeats_after_the_last_byte(autojump_clock, monkeypatch):
    async with proxy(monkeypatch) as url, connect(url) as client:
        with pytest.raises(SessionEnded, match=r"^lost: the peer was silent for 20 s \(code 1006\)$"):
            async for _ in client.frames():
                pass
        assert trio.current_time() == pytest.approx(3 + 20)


async def test_a_dead_link_of_a_session_that_is_kept_is_lost_at_the_same_time(autojump_clock, monkeypatch):
    lost = []
    async with proxy(monkeypatch, resume_token="r", resume_window=5) as url:
        async with connect(url, on_lost=lambda why: lost.append((trio.current_time(), why))) as client:
            with pytest.raises(SessionEnded, match=r"^lost: the link did not come back within 5 s"):
                async for _ in client.frames():
                    pass
    assert lost == [(pytest.approx(3 + 20), "the peer was silent for 20 s")]


async def test_the_command_line_says_after_3_s_that_nothing_comes(autojump_clock, monkeypatch):
    lines = []
    async with proxy(monkeypatch) as url:
        with pytest.raises(SessionEnded):
            await headless.watch(url, video=["raw"], report=lambda line: lines.append((trio.current_time(), line)))
    said = [(at, end) for at, _, end in ((at, *line.rpartition(" | ")[1:]) for at, line in lines) if end.startswith("no ")]
    assert said == [(pytest.approx(3 + n), f"no main_video for {n} s") for n in range(3, 21)]


def text(kind, **data):
    return TextMessage(data=json.dumps({"type": kind, "data": data} | ({"n": 1} if kind == "reactor.welcome" else {})))


@asynccontextmanager
async def dialled(monkeypatch, *servers):
    """Each connection is served by the next of `servers`."""
    left, streams = list(servers), []

    async def open_one(_url, *, max_message_size, **_options):
        ours, theirs = memory_pipe()
        streams.append(theirs)
        nursery.start_soon(left.pop(0), WsServer(theirs))
        return await open_websocket("ws://127.0.0.1:1/ws", stream=ours, max_message_size=max_message_size)

    monkeypatch.setattr(route, "open_websocket", open_one)
    async with trio.open_nursery() as nursery:
        yield "ws://127.0.0.1:1/ws"
        assert left == []
        for stream in streams:
            await stream.aclose()
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("heartbeat", [10, 4])
async def test_a_dead_link_ends_the_wait_in_a_queue_two_heartbeats_after_the_last_byte(
    autojump_clock, monkeypatch, heartbeat
):
    async def queue(server):
        for position in 3, 2:
            told = text("reactor.queued", position=position, total=3, wait=None, heartbeat=heartbeat)
            await (server.accept(told) if position == 3 else server.send(told))
            await trio.sleep(3)
        await trio.sleep_forever()

    places = []
    async with dialled(monkeypatch, queue) as url:
        with pytest.raises(SessionEnded, match=rf"^lost: the peer was silent for {2 * heartbeat} s \(code 1006\)$"):
            async with connect(url, on_queued=lambda *place: places.append((trio.current_time(), *place))):
                pass
        assert trio.current_time() == pytest.approx(3 + 2 * heartbeat)
    assert places == [(0, 3, 3), (3, 2, 3)]


async def test_pings_keep_the_wait_in_a_queue_and_a_server_without_heartbeat_may_be_silent(autojump_clock, monkeypatch):
    def queue(pings, **more):
        async def serve(server):
            await server.accept(text("reactor.queued", position=1, total=1, **more))
            for _ in range(10):
                await trio.sleep(10)
                if pings:
                    await server.send(Ping())
            await server.send(text("reactor.welcome", **welcome()))
            await trio.sleep_forever()

        return serve

    for server in queue(pings=True, heartbeat=10), queue(pings=False), queue(pings=False, heartbeat=None):
        async with dialled(monkeypatch, server) as url:
            began = trio.current_time()
            async with connect(url):
                assert trio.current_time() == pytest.approx(began + 100)


async def test_a_replica_is_not_measured_by_the_heartbeat_of_its_gate(autojump_clock, monkeypatch):
    async def gate(server):
        await server.accept(text("reactor.queued", position=1, total=1, heartbeat=1))
        await trio.sleep(1)
        admitted = {"url": "ws://127.0.0.1:2/ws", "ticket": "t", "session_id": "s1", "claim_within": 60}
        await server.send(text("reactor.admitted", **admitted))
        await server.answer_close()

    async def replica(server):
        await server.accept()
        await trio.sleep(9)
        await server.send(text("reactor.welcome", **welcome()))
        await trio.sleep_forever()

    async with dialled(monkeypatch, gate, replica) as url, connect(url) as client:
        assert trio.current_time() == pytest.approx(10)
        with pytest.raises(SessionEnded, match="silent for 20 s"):
            async for _ in client.frames():
                pass
        assert trio.current_time() == pytest.approx(30)


class Stuck(ReactorPipeline):
    def inference(self):
        while True:
            yield Picture(main_video=np.zeros((2, 2, 3), np.uint8))


@pytest.mark.parametrize("how", [{}, {"isolation": "process"}], ids=["inline", "process"])
async def test_client_and_viewer_learn_which_step_takes_long(autojump_clock, how):
    """The reason that `/health` has after `stuck_after`; a viewer that comes later learns it, too."""
    async with open_server(Stuck, step_cost=lambda step: 12.0 if step == 2 else 0.5, buffer_size=1, **how) as server:
        async with server.connect() as client, server.connect(role="viewer") as viewer:
            await client.take(2)
            began = trio.current_time()
            await trio.sleep_until(began + 4.9)
            assert client.late is viewer.late is None
            await trio.sleep_until(began + 7)
            for each in client, viewer:
                assert each.late.what == "step 2 has run"
                assert each.late.seconds == pytest.approx(7, abs=0.6)
            async with server.connect(role="viewer") as late:
                await trio.sleep(0.5)
                assert late.late.what == "step 2 has run"
                assert late.late.seconds == pytest.approx(client.late.seconds)
            await client.take(3)
            assert client.late is viewer.late is None


async def says_nothing(server):
    await server.accept()
    await trio.sleep_forever()


async def test_a_server_that_opens_the_websocket_and_says_nothing_is_a_timeout(autojump_clock, monkeypatch):
    async with dialled(monkeypatch, says_nothing) as url:
        with pytest.raises(TimeoutError, match=r"^no answer from 127\.0\.0\.1:1 within 4 s$"):
            async with connect(url, timeout=4):
                pytest.fail("entered")
        assert trio.current_time() == pytest.approx(4 + 1)  # the silent peer does not answer the close, either


async def falls_silent(server):
    """A replica whose link ends before it says anything."""
    await server.accept(CloseConnection(code=1011))


@pytest.mark.parametrize(("replica", "takes"), [(says_nothing, 4 + 1), (falls_silent, 0)])
async def test_a_gate_is_asked_again_if_its_replica_says_nothing(autojump_clock, monkeypatch, replica, takes):
    async def gate(server):
        place = {"url": "ws://127.0.0.1:2/ws", "ticket": "t", "session_id": "s", "claim_within": 30}
        await server.accept(text("reactor.admitted", **place))
        await server.answer_close()

    async def welcoming(server):
        await server.accept(text("reactor.welcome", **welcome()))
        await server.answer_close()

    async with dialled(monkeypatch, gate, replica, gate, welcoming) as url:
        async with connect(url, timeout=4):
            assert trio.current_time() == pytest.approx(takes + route.RETRY_PAUSE)
