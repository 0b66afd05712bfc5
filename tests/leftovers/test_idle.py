"""An idle server has each process of its model free what only a collection can."""

from __future__ import annotations

import numpy as np
import pytest
import trio

from reactor_trio.concurrency import open_model_host
from reactor_trio.concurrency.free_memory import IDLE, MemoryReclaimer
from reactor_trio.configuration.settings import Settings
from reactor_trio.interface import DistributedPipeline, ReactorPipeline
from reactor_trio.server.runtime import Runtime
from reactor_trio.server.runtime_parts import ProcessParts
from reactor_trio.testing import open_server
from reactor_trio.testing.virtual_time import InlineTime
from tests.support.loaded_here import load_here
from tests.support.models import Picture


class Alone(ReactorPipeline):
    output: Picture
    fps = 10

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


class Together(DistributedPipeline):
    output: Picture
    fps = 10

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


async def at_once(function, *arguments):
    return function(*arguments)


@pytest.mark.parametrize(
    ("model", "settings", "processes"),
    [(Alone, {}, 0), (Alone, {"isolation": "process"}, 1), (Together, {"ranks": 2}, 2)],
    ids=["thread", "process", "two ranks"],
)
async def test_each_process_of_the_model_is_asked_once_and_collects(autojump_clock, monkeypatch, model, settings, processes):
    collected = []
    monkeypatch.setattr("trio.to_thread.run_sync", at_once)
    monkeypatch.setattr(MemoryReclaimer, "collect_and_return", lambda _self: collected.append(1))
    async with open_server(model, **settings) as server:
        server.runtime.placement.idle()
        await server.settle()
        async with server.connect() as client:
            await client.take(1)
    assert len(collected) == processes


async def test_a_server_collects_when_no_session_has_run_for_a_while(autojump_clock):
    collected = []
    free_memory = MemoryReclaimer(at_once, None, lambda: collected.append(trio.current_time()) or 0)
    async with open_model_host(InlineTime(None)) as host, trio.open_nursery() as nursery:
        parts = ProcessParts(at_once, free_memory=free_memory)
        runtime = Runtime(load_here(host, Alone, None), name="alone", settings=Settings(), parts=parts)
        await nursery.start(runtime.run, {})
        await trio.sleep(100)
        await free_memory.after_session()
        await trio.sleep(100)
        nursery.cancel_scope.cancel()
    assert collected == [100 + IDLE]
