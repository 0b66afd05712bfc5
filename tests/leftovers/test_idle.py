"""An idle server has each process of its model free what only a collection can."""

from __future__ import annotations

import numpy as np
import pytest

from reactor_trio.concurrency.free_memory import MemoryReclaimer
from reactor_trio.interface import DistributedPipeline, ReactorPipeline
from reactor_trio.testing import open_server
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


async def at_once(function):
    function()


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
