"""`/ready` says whether a client that came now would be let in; `/health` whether the server is alive."""

from __future__ import annotations

import json

import numpy as np
import pytest
import trio
import trio.testing

from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import ConnectionRefused
from reactor_trio.interface import Output, ReactorPipeline, Video
from reactor_trio.server.runtime import Runtime
from reactor_trio.server.standby import standby_site
from reactor_trio.testing import open_server
from reactor_trio.testing.memory_exchange import answer_to
from reactor_trio.transport import Request


class Picture(Output):
    picture: Video


class Model(ReactorPipeline):
    output: Picture

    def inference(self):
        while True:
            yield np.zeros((4, 6, 3), np.uint8)


def answers(server):
    """What /ready says, and the status of /health."""
    ready = server.http("/ready")
    body = json.loads(ready.body)
    assert (ready.status == 200) == (body["status"] == "ready") == ("retry-after" not in ready.headers)
    return ready.status, body["status"], server.http("/health").status


async def lets_in(server) -> bool:
    try:
        async with server.connect():
            return True
    except ConnectionRefused:
        return False


async def test_a_full_queue_is_healthy_and_not_ready_and_ready_tells_who_would_be_let_in(autojump_clock):
    async with open_server(Model, step_cost=0.25, queue=1) as server:
        assert answers(server) == (200, "ready", 200)
        async with server.connect(), trio.open_nursery() as nursery:
            assert answers(server) == (200, "ready", 200)  # the next one waits
            nursery.start_soon(lets_in, server)
            await trio.testing.wait_all_tasks_blocked()
            assert answers(server) == (503, "full", 200)
            assert not await lets_in(server)
            nursery.cancel_scope.cancel()
        await server.settle()
        assert answers(server) == (200, "ready", 200)
        assert await lets_in(server)


async def test_going_down_and_stuck_are_neither(autojump_clock):
    async with open_server(Model, step_cost=0.25) as server:
        server.runtime.metrics.step_stuck("s1", True)
        assert answers(server) == (503, "stuck", 200)  # it may compile
        server.runtime.metrics.stepped()
        assert answers(server) == (503, "stuck", 503)
        assert "session s1" in json.loads(server.http("/ready").body)["reason"]
        server.runtime.metrics.step_stuck("s1", False)
        assert answers(server) == (200, "ready", 200)
        await server.drain()
        assert answers(server) == (503, "draining", 503)
        assert not await lets_in(server)


class Slow(Model):
    seen: list[tuple[int, str]]

    async def load(self, config):
        ready = config["ask"]()
        config["seen"].append((ready.status, json.loads(ready.body)["status"]))
        if config["fails"]:
            raise OSError("no weights here")


@pytest.mark.parametrize("fails", [False, True])
async def test_loading_and_failed(autojump_clock, monkeypatch, fails):
    from reactor_trio.server.readiness import readiness

    runtimes, seen = [], []
    made = Runtime.__init__

    def init(self, *arguments, **named):
        runtimes.append(self)
        made(self, *arguments, **named)

    monkeypatch.setattr(Runtime, "__init__", init)
    config = {"ask": lambda: readiness(runtimes[0].facts), "seen": seen, "fails": fails}
    try:
        async with open_server(Slow, config=config):
            assert not fails
    except Exception:
        assert fails
    assert seen == [(503, "loading")]
    after = json.loads(readiness(runtimes[0].facts).body)
    if fails:
        assert (after["status"], after["reason"]) == ("failed", "load() raised OSError: no weights here")


def test_what_stands_in_for_a_model_that_does_not_load_is_not_ready():
    site = standby_site(Settings(), "mine", "SyntaxError in pipeline.py")
    ready = answer_to(site, Request(method="GET", path="/ready"))
    assert (ready.status, ready.headers["retry-after"]) == (503, "1")
    assert json.loads(ready.body) == {"status": "failed", "reason": "SyntaxError in pipeline.py"}
