"""A model that fails while its server drains: its clients get their goodbye, and the server ends with that failure."""

from __future__ import annotations

import numpy as np
import pytest
import trio

from reactor_trio import (
    DistributedPipeline,
    InputState,
    Output,
    ReactorModel,
    ReactorPipeline,
    Video,
    disconnected,
    event,
)
from reactor_trio.errors import ModelFailed
from reactor_trio.testing import TestServer, open_server


class Picture(Output):
    main_video: Video


class State(InputState):
    falls: bool = False


class Steps(ReactorPipeline):
    state: State
    output: Picture
    fps = 10

    def inference(self):
        while True:
            if self.state.falls:
                raise SystemExit(3)
            yield np.zeros((2, 2, 3), np.uint8)


class Ranks(Steps, DistributedPipeline):
    ranks = 2


class Loop(ReactorModel):
    output: Picture
    fails = False

    @event
    def set_falls(self, falls: bool):
        self.fails = falls

    async def run(self):
        while not self.fails:
            await self.emit(np.zeros((2, 2, 3), np.uint8))
        raise OSError("the device is lost")


class SlowToLeave(Loop):
    @disconnected
    async def gone(self):
        await trio.sleep(1)


async def fall(_server, client):
    await client.command("set_falls", falls=True)


async def die(server, _client):
    server.runtime.placement.process.kill()


async def die_as_a_rank(server, _client):
    server.runtime.placement.process.ranks[1].kill()


CASES = [
    (Steps, {}, fall, "model_error", "SystemExit"),
    (Steps, {"thread": True}, fall, "model_error", "SystemExit"),
    (Loop, {}, fall, "model_error", "the device is lost"),
    (Loop, {"isolation": "process"}, fall, "model_error", "the device is lost"),
    (Steps, {"isolation": "process"}, fall, "draining", "SystemExit"),
    (Steps, {"isolation": "process"}, die, "draining", "its process was killed"),
    (Steps, {"isolation": "process", "websocket": True}, die, "draining", "its process was killed"),
    (Ranks, {}, die_as_a_rank, "draining", "its process of rank 1 was killed"),
]
NAMES = ["step", "thread", "loop", "loop's process", "step's process", "process", "process, websocket", "rank"]


@pytest.mark.parametrize(("model", "options", "fails", "reason", "why"), CASES, ids=NAMES)
async def test_a_model_that_fails_in_a_drain(autojump_clock, monkeypatch, caplog, model, options, fails, reason, why):
    # As under `serve`: the failure ends all connections that are still there.
    monkeypatch.setattr(TestServer, "_watch", lambda _server, runtime: runtime.watch_model())
    drains = []

    async def drain():
        try:
            await server.drain()
        except Exception as error:
            drains.append(error)

    with pytest.raises(ModelFailed, match=why):
        async with open_server(model, drain_notice=60, **options) as server, trio.open_nursery() as nursery:
            async with server.connect() as client, server.connect(role="viewer") as viewer:
                await client.take(2)
                nursery.start_soon(drain)
                await trio.sleep(5)
                await fails(server, client)
                await trio.sleep_forever()
    assert drains == []
    assert [client.ended, viewer.ended] == [reason] * 2
    phases = [entry.phase for entry in server.runtime.journal.after(0)]
    assert phases == ["loading", "ready", "draining", "failed"]
    assert "loaded again" not in caplog.text
    assert b"reactor_model_restarts_total 0.0" in server.runtime.metrics.exposition()


async def test_a_drain_after_the_failure_waits_for_the_goodbyes(autojump_clock):
    with pytest.raises(ModelFailed, match="the device is lost"):
        async with open_server(SlowToLeave) as server, server.connect() as client:
            await client.take(2)
            await client.command("set_falls", falls=True)
            await trio.sleep(0.5)
            assert server.runtime.journal.phase == "failed"
            await server.drain()  # the server cancels its connections after it
            assert client.ended == "model_error"
            assert (server.runtime.session_manager.clients, server.runtime.sessions) == ([], [])
