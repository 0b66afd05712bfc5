"""`beat=1`: a text after the welcome, and at each heartbeat in which nothing else was sent, for clients that ask for it."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import numpy as np
import pytest
import trio
import trio.testing
from tests.support.gate_kit import open_gate
from tests.support.models import Picture

from reactor_trio.client import running
from reactor_trio.client.client_transport import TransportClosed
from reactor_trio.configuration import settings
from reactor_trio.interface import InputState, ReactorPipeline
from reactor_trio.protocol import BEAT
from reactor_trio.testing import open_server
from reactor_trio.testing.memory_connection import Stall
from reactor_trio.testing.session_client import SessionClient


class Settings(InputState):
    level: float = 0.0


class Model(ReactorPipeline):
    state: Settings
    fps = 0.02  # a frame in 50 s

    def inference(self):
        while True:
            yield Picture(main_video=np.zeros((2, 2, 3), np.uint8))


class Raw:
    """A client that keeps all that it gets: the time, and the type and number of a text, or "frame"."""

    def __init__(self, transport, nursery, stall):
        self.transport, self.stall = transport, stall
        self.got = []
        self.texts = []
        self.began = trio.current_time()
        nursery.start_soon(self._listen)

    async def _listen(self):
        try:
            while True:
                message = await self.transport.receive()
                at = round(trio.current_time() - self.began, 6)
                if isinstance(message, str):
                    self.texts.append(json.loads(message))
                    self.got.append((at, self.texts[-1]["type"], self.texts[-1].get("n")))
                else:
                    self.got.append((at, "frame", None))
        except TransportClosed:
            pass

    @property
    def beats(self):
        return [at for at, kind, _ in self.got if kind == "reactor.beat"]


@asynccontextmanager
async def connected(server, query):
    stall = Stall()
    async with trio.open_nursery() as nursery:
        client = Raw(await server._open_memory(f"ws://127.0.0.1/ws?{query}", stall), nursery, stall)
        await trio.testing.wait_all_tasks_blocked()
        yield client
        await client.transport.aclose(1000)


def test_the_text_of_a_beat():
    assert json.loads(BEAT) == {"type": "reactor.beat", "data": {}}


async def test_a_beat_comes_at_each_heartbeat_in_which_nothing_else_was_sent(autojump_clock):
    async with open_server(Model) as server, connected(server, "video=none&audio=none&beat=1") as client:
        await trio.sleep(14)
        await client.transport.send('{"type": "set_level", "data": {"level": 1}, "id": 1}')
        await trio.sleep(21)
        assert client.got == [
            (0, "reactor.welcome", 1), (0, "reactor.beat", None), (10, "reactor.beat", None), (14, "reactor.ack", 2),
            (24, "reactor.beat", None), (34, "reactor.beat", None),
        ]  # fmt: skip


async def test_frames_are_something_that_was_sent(autojump_clock):
    async with open_server(Model, limits={"ping_interval": 8}) as server:
        async with connected(server, "video=raw&audio=none&beat=1") as client:
            await trio.sleep(95)
            frames = [at for at, kind, _ in client.got if kind == "frame"]
            assert frames == [0, 50]
            assert client.beats == [0, 8, 16, 24, 32, 40, 48, 58, 66, 74, 82, 90]


@pytest.mark.parametrize("query", ["", "&beat=0", "&beat=yes", "&beat="])
async def test_a_client_that_does_not_request_beats_gets_none(autojump_clock, query):
    async with open_server(Model) as server, connected(server, f"video=none&audio=none{query}") as client:
        await trio.sleep(100)
        assert client.got == [(0, "reactor.welcome", 1)]


async def test_a_client_in_the_queue_and_a_viewer_get_beats(autojump_clock):
    async with open_server(Model) as server, connected(server, "video=none&audio=none"):
        async with connected(server, "video=none&audio=none&beat=1") as waiting:
            async with connected(server, "video=none&audio=none&beat=1&role=viewer") as viewer:
                await trio.sleep(25)
                assert waiting.got == [
                    (0, "reactor.queued", None), (10, "reactor.beat", None), (20, "reactor.beat", None),
                ]  # fmt: skip
                assert viewer.got == [
                    (0, "reactor.welcome", 1), *((at, "reactor.beat", None) for at in (0, 10, 20)),
                ]  # fmt: skip


async def test_the_queue_names_the_heartbeat(autojump_clock):
    limits = {"ping_interval": 4}
    async with open_server(Model, limits=limits) as server, connected(server, "video=none&audio=none"):
        async with connected(server, "video=none&audio=none&beat=1") as waiting:
            await trio.sleep(9)
            assert waiting.texts[0]["data"] == {"position": 1, "total": 1, "wait": None, "heartbeat": 4}
            assert waiting.beats == [4, 8]
    async with open_gate(settings=settings.Settings(limits=settings.LimitSettings(**limits))) as gate:
        gate.replicas.dead.add(0)
        waiting = await gate.call("/ws?follow=1")
        assert await waiting.until("reactor.queued") == {"position": 1, "total": 1, "wait": None, "heartbeat": 4}
        await waiting.transport.aclose()


async def test_beats_follow_the_heartbeat_that_the_welcome_names(autojump_clock):
    async with open_server(Model, limits={"ping_interval": 4}) as server:
        async with connected(server, "video=none&audio=none&beat=1") as client:
            await trio.sleep(13)
            assert client.texts[0]["data"]["heartbeat"] == 4
            assert client.beats == [0, 4, 8, 12]


async def test_no_beats_pile_up_for_a_client_that_does_not_read(autojump_clock):
    async with open_server(Model, limits={"stall": 1000}) as server:
        async with connected(server, "video=none&audio=none&beat=1") as client:
            await trio.sleep(1)
            client.stall.stall()
            await trio.sleep(100)
            client.stall.resume()
            await trio.testing.wait_all_tasks_blocked()
            assert len(client.beats) <= 4, "what the socket had taken, and one more"


async def test_beats_have_no_number_and_do_not_come_again(autojump_clock):
    async with open_server(Model, resume_window=60) as server:
        async with connected(server, "video=none&audio=none&beat=1") as client:
            await trio.sleep(25)
            await client.transport.send('{"type": "set_level", "data": {"level": 1}, "id": 1}')
            await trio.sleep(1)
            token = client.texts[0]["data"]["resume_token"]
            assert [(text["type"], text.get("n")) for text in client.texts] == [
                ("reactor.welcome", 1), *3 * [("reactor.beat", None)], ("reactor.ack", 2),
            ]  # fmt: skip
            await client.transport.aclose(1006)
            await trio.sleep(30)
            async with connected(server, f"video=none&audio=none&beat=1&resume={token}&after=1") as back:
                await trio.sleep(11)
                assert back.texts[0]["data"]["missed"] == 0
                assert [(at, kind, n) for at, kind, n in back.got if kind != "reactor.state"] == [
                    (0, "reactor.welcome", 1), (0, "reactor.ack", 2), (0, "reactor.beat", None), (10, "reactor.beat", None),
                ]  # fmt: skip


async def test_a_client_that_waits_at_a_gate_gets_beats(autojump_clock):
    async with open_gate() as gate:
        gate.replicas.dead.add(0)
        for query, kinds in (("&beat=1", ["reactor.queued", "reactor.beat", "reactor.beat"]), ("", ["reactor.queued"])):
            caller = await gate.call(f"/ws?follow=1{query}")
            with trio.move_on_after(25):
                await caller.closed()
            assert [kind for _at, kind, _data in caller.heard] == kinds
            await caller.transport.aclose()


async def test_the_python_client_passes_over_beats_also_in_the_queue(autojump_clock):
    async with open_server(Model) as server, server.connect() as first, trio.open_nursery() as nursery:
        stall, entered = Stall(), []

        async def second():
            transport = await server._open_memory("ws://127.0.0.1/ws?video=none&audio=none&beat=1", stall)
            async with running(SessionClient(transport, server, stall, None)) as client:
                entered.append(trio.current_time())
                await trio.sleep(25)
                await client.command("set_level", level=1.0)

        nursery.start_soon(second)
        await trio.sleep(25)
        await first.close()
    assert len(entered) == 1
