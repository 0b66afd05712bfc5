"""The rate of texts holds for every client, whatever it may do, and no text loses its answer by it."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
import trio
import trio.testing
from tests.support.gate_kit import Caller, open_gate

from reactor_trio.client.handshake import open_websocket
from reactor_trio.configuration.settings import LimitSettings, Settings
from reactor_trio.interface import InputState, Output, ReactorPipeline, Video, event
from reactor_trio.testing import open_server
from reactor_trio.testing.memory_exchange import HOST
from reactor_trio.testing.memory_server import TestServer

RATE = 8192
MANY = 24


class Main(Output):
    main: Video


class State(InputState):
    text: str = ""


class Painter(ReactorPipeline):
    state: State
    output: Main

    def inference(self):
        while True:
            yield Main(main=np.zeros((2, 2, 3), np.uint8))

    @event
    def mark(self, number: int) -> int:
        return number


async def call(server: TestServer, query: str) -> Caller:
    return Caller(await open_websocket(f"ws://{HOST}/ws?{query}", stream=await server._open_stream()))


async def answers(caller: Caller, began: float) -> list[tuple[int, float]]:
    """Send texts of a second's eighth at once; the ids that were answered, and when."""
    filler = "x" * (RATE // 8 - len(json.dumps({"type": "set_text", "data": {"text": ""}, "id": 10})))
    async with trio.open_nursery() as nursery:

        async def send() -> None:
            for number in range(10, 10 + MANY):
                await caller.transport.send(json.dumps({"type": "set_text", "data": {"text": filler}, "id": number}))

        nursery.start_soon(send)
        found = []
        while len(found) < MANY:
            text = json.loads(await caller.transport.receive())
            if text["type"] in ("reactor.ack", "reactor.error"):
                found.append((text["id"], round(trio.current_time() - began, 6)))
    return found


def at_their_rate(found: list[tuple[int, float]]) -> bool:
    """Each text has one answer, in order: nine at once, then one each eighth of a second."""
    return found == [(10 + number, max(0, number - 8) / 8) for number in range(MANY)]


@pytest.mark.parametrize("role", ["control", "viewer", "share link", "waiting"])
async def test_each_role_is_read_at_the_rate_and_each_text_is_answered_once(role, autojump_clock):
    limits = LimitSettings(text_per_second=RATE)
    async with open_server(Painter, websocket=True, limits=limits, step_cost=lambda _: 0.001) as server:
        query = "video=none&role=viewer" if role == "viewer" else "video=none"
        if role == "control":
            caller = await call(server, query)
            await caller.until("reactor.welcome")
            found = await answers(caller, trio.current_time())
            await caller.transport.aclose()
        else:
            async with server.connect(video=["none"]):
                if role == "share link":
                    share = server.runtime.session_manager.running[0].share_token
                    query = f"video=none&role=viewer&token={share}"
                caller = await call(server, query)
                await caller.until("reactor.queued" if role == "waiting" else "reactor.welcome")
                found = await answers(caller, trio.current_time())
                await caller.transport.aclose()
    assert [number for number, _ in found] == list(range(10, 10 + MANY))
    if role != "control":  # its answers come with the next step
        assert at_their_rate(found)
    else:
        assert 1.875 <= found[-1][1] <= 2


async def test_a_client_that_waits_at_the_gate_is_read_at_the_rate(autojump_clock):
    settings = Settings(limits=LimitSettings(text_per_second=RATE))
    async with open_gate(settings=settings) as gate:
        await (await gate.call()).until("reactor.admitted")
        early = await gate.call()
        await early.until("reactor.queued")
        assert at_their_rate(await answers(early, trio.current_time()))
        await early.transport.aclose()


async def test_what_a_busy_client_may_send_is_never_held_back(autojump_clock, caplog):
    """By the default limits: 200 commands in a burst each second, feedback for four tracks at 60 a second, pings."""
    caplog.set_level(logging.WARNING)
    async with open_server(Painter, websocket=True) as server:
        caller = await call(server, "video=none")
        await caller.until("reactor.welcome")

        async def listen() -> None:
            while True:
                await caller.hear()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(listen)
            for second in range(2):
                await trio.sleep_until(1.01 * second)
                for number in range(200):
                    text = {"type": "mark", "data": {"number": number}, "id": 1000 * second + number}
                    await caller.transport.send(json.dumps(text))
                for _ in range(60):
                    for track in range(4):
                        feedback = {"track": track, "seq": second, "held_us": 1200}
                        await caller.transport.send(json.dumps({"type": "reactor.feedback", "data": feedback}))
                    await trio.sleep(1 / 60)
            await trio.sleep(0.1)
            nursery.cancel_scope.cancel()
        acks = [at for at, kind, _ in caller.heard if kind == "reactor.ack"]
        assert len(acks) == 400
        await caller.transport.aclose()
    assert not caplog.records
