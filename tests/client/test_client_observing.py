"""An observed client that decodes nothing, and a client that breaks its connection without a close frame."""

from __future__ import annotations

import gc

import numpy as np
import pytest
import trio
from tests.support.models import Picture

from reactor_trio.client import Client, observe
from reactor_trio.client.session_events import CommandAnswered, Commanded, Received
from reactor_trio.interface import InputState, ReactorPipeline
from reactor_trio.testing import open_server


class Settings(InputState):
    level: int = 0


class Model(ReactorPipeline):
    state: Settings
    output: Picture

    def inference(self):
        while True:
            yield np.zeros((4, 4, 3), np.uint8)


async def test_an_observer_sees_all_messages_and_keeps_none(autojump_clock):
    seen = []
    async with open_server(Model, step_cost=0.25) as server, server.connect() as client:
        await trio.sleep(0.6)
        with observe(client, seen.append):
            await client.command("set_level", level=3)
            await trio.sleep(0.4)
        gc.collect()
        assert [type(event) for event in seen] == [Commanded, Received, CommandAnswered, Received]
        assert [event.packet.seq for event in seen if isinstance(event, Received)] == [2, 3]
        assert [event.received_at for event in seen if isinstance(event, Received)] == pytest.approx([0.75, 1.0])
        await trio.sleep(1.0)
        assert len(seen) == 4
        # earlier frames were not kept, and do not count as dropped
        assert (await client.take(1))[0].seq == 8  # at 2.25
        assert client.statistics().tracks["main_video"].dropped == 0


@pytest.mark.parametrize("websocket", [True, False])
async def test_vanish_sends_no_close_frame_and_the_server_keeps_the_session(autojump_clock, websocket):
    async with open_server(Model, step_cost=0.25, resume_window=5.0, websocket=websocket) as server:
        async with server.connect() as client:
            await Client.vanish(client)
            assert client.ended == "client_left"
        async with server.connect() as other:  # waits until the server gives up the one that may come back
            assert trio.current_time() >= 5.0
            assert other.session_id != client.session_id


async def test_a_second_observer_takes_nothing_from_the_first(autojump_clock):
    async with open_server(Model, step_cost=0.25) as server, server.connect() as client:
        outer, inner = [], []
        with observe(client, outer.append):
            await trio.sleep(0.3)
            with observe(client, inner.append), observe(client, inner.append):
                await trio.sleep(0.25)
            await trio.sleep(0.25)
        await trio.sleep(0.25)
    assert [event.packet.seq for event in outer if isinstance(event, Received)] == [0, 1, 2]
    assert [event.packet.seq for event in inner if isinstance(event, Received)] == [1, 1]
