"""Where the progress of a load is seen: /health, /ready, the refusal of a client, the log, the queue; in virtual time."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
import trio
from tests.support.loaded_here import load_here

from reactor_trio.concurrency import open_model_host
from reactor_trio.configuration.introduction import NOT_INTRODUCED, Introduction, IntroductionKeys
from reactor_trio.configuration.settings import AuthSettings, Settings
from reactor_trio.interface import (
    DistributedPipeline,
    Output,
    ReactorModel,
    ReactorPipeline,
    Video,
    VideoModel,
    VideoOut,
    model,
    progress,
)
from reactor_trio.server.reactor_site import reactor_site
from reactor_trio.server.runtime import Runtime
from reactor_trio.server.runtime_parts import ProcessParts
from reactor_trio.testing import open_server
from reactor_trio.testing.memory_exchange import admit, answer_to
from reactor_trio.testing.virtual_time import InlineTime
from reactor_trio.transport import Request

TOKEN = "a-token-of-the-tests"


class Picture(Output):
    main_video: Video


class Slow(ReactorModel):
    """Loads for ten seconds and says so in the first two of them."""

    output: Picture

    async def load(self, config):
        await trio.sleep(1)
        progress(0.25, "reading weights")
        await trio.sleep(1)
        progress(None, "compiling")
        await trio.sleep(8)


def request(path, token=None, query=None):
    headers = () if token is None else (("authorization", f"Bearer {token}"),)
    host = "127.0.0.1"
    return Request(method="GET", path=path, host=host, authority=host, peer="test", headers=headers, query=query or {})


async def at_once(function, argument):
    await trio.lowlevel.checkpoint()
    return {}


def site_of(host, model=Slow, introduction=NOT_INTRODUCED, **settings):
    given, parts = Settings(**settings), ProcessParts(at_once)
    place = load_here(host, model, given)
    runtime = Runtime(place, name="slow", settings=given, introduction=introduction, parts=parts)
    return runtime, reactor_site(runtime, "127.0.0.1")


async def seen(site, token=None):
    """What /health, /ready and the refusal of a client say."""
    health = answer_to(site, request("/health", token))
    ready = json.loads(answer_to(site, request("/ready", token)).body)["reason"]
    refused = await admit(site, request("/ws", token))
    assert (health.status, refused.status) == (503, 503)
    return json.loads(health.body).get("progress"), ready, refused.body.decode().strip()


async def test_who_asks_while_the_model_loads_learns_how_far_it_is(autojump_clock):
    async with open_model_host(InlineTime(None)) as host, trio.open_nursery() as nursery:
        runtime, site = site_of(host)
        nursery.start_soon(runtime.run, {})
        await trio.sleep(0.5)
        plain = "the model is still loading"
        assert await seen(site) == ({"fraction": None, "text": ""}, plain, plain)
        await trio.sleep(1)
        words = f"{plain} (25%, reading weights)"
        assert await seen(site) == ({"fraction": 0.25, "text": "reading weights"}, words, words)
        await trio.sleep(1)
        words = f"{plain} (compiling)"
        assert await seen(site) == ({"fraction": None, "text": "compiling"}, words, words)
        await trio.sleep(8)
        health = answer_to(site, request("/health"))
        assert health.status == 200
        assert "progress" not in json.loads(health.body)
        nursery.cancel_scope.cancel()


async def test_the_introduction_is_there_before_the_model_is(autojump_clock):
    keys = IntroductionKeys(title="A lamp", links={"Source": "https://example.org"})
    async with open_model_host(InlineTime(None)) as host, trio.open_nursery() as nursery:
        runtime, site = site_of(host, introduction=Introduction(keys))
        nursery.start_soon(runtime.run, {})
        await trio.sleep(1.5)
        assert answer_to(site, request("/schema")).status == 503
        early = answer_to(site, request("/schema", query={"format": "about"}))
        assert early.status == 200
        about = json.loads(early.body)
        assert about.keys() == {"name", "about"}
        assert (about["name"], about["about"]["title"], about["about"]["description"]) == ("slow", "A lamp", None)
        await trio.sleep(9)
        loaded = json.loads(answer_to(site, request("/schema", query={"format": "about"})).body)
        assert loaded["about"] == json.loads(answer_to(site, request("/schema")).body)["about"]
        assert loaded["about"] == about["about"] | {"description": Slow.__doc__}
        nursery.cancel_scope.cancel()


async def test_only_who_may_come_in_learns_it(autojump_clock):
    async with open_model_host(InlineTime(None)) as host, trio.open_nursery() as nursery:
        runtime, site = site_of(host, auth=AuthSettings(TOKEN))
        nursery.start_soon(runtime.run, {})
        await trio.sleep(1.5)
        assert await seen(site) == (None, "only clients with a token see the reason", "the model is still loading")
        words = "the model is still loading (25%, reading weights)"
        assert await seen(site, TOKEN) == ({"fraction": 0.25, "text": "reading weights"}, words, words)
        nursery.cancel_scope.cancel()


async def test_the_log_has_a_line_at_once_and_then_one_in_five_seconds(autojump_clock, caplog):
    class Chatty(Slow):
        async def load(self, config):
            await trio.sleep(1)
            for number in range(101):
                progress(number / 100, f"part {number}")
                await trio.sleep(0.1)
            await trio.sleep(60)

    caplog.set_level(logging.INFO, "reactor_trio.server")
    async with open_model_host(InlineTime(None)) as host, trio.open_nursery() as nursery:
        runtime, _site = site_of(host, Chatty)
        nursery.start_soon(runtime.run, {})
        await trio.sleep(100)
        nursery.cancel_scope.cancel()
    lines = [one.getMessage() for one in caplog.records if one.getMessage().startswith("loading")]
    assert lines == ["loading: 0%, part 0", "loading: 50%, part 50", "loading: 100%, part 100"]


class World(ReactorPipeline):
    output: Picture
    fps = 10

    async def load(self, config):
        progress(0.5, "half")
        await trio.sleep(3)
        progress(1)

    def inference(self):
        while True:
            yield np.zeros((4, 6, 3), np.uint8)


@pytest.mark.parametrize("isolation", ["thread", "process"])
async def test_it_crosses_to_the_server_wherever_the_model_runs(autojump_clock, isolation):
    reports = []
    note = lambda fraction, text: reports.append((trio.current_time(), fraction, text))
    async with open_server(World, isolation=isolation, on_progress=note):
        assert reports == [(0.0, 0.5, "half"), (3.0, 1.0, "")]


async def test_of_several_ranks_the_one_that_is_furthest_behind_counts(autojump_clock):
    class Ranked(DistributedPipeline):
        output: Picture
        ranks = 2

        async def load(self, config):
            await trio.sleep(1 + self.rank)
            progress(0.5, f"rank {self.rank}")  # at 1 s and at 2 s
            await trio.sleep(2)
            progress(0.9, f"rank {self.rank}")  # at 3 s and at 4 s

        def inference(self):
            while True:
                yield np.zeros((4, 6, 3), np.uint8)

    reports = []
    note = lambda fraction, text: reports.append((trio.current_time(), fraction, text))
    async with open_server(Ranked, on_progress=note):
        assert reports == [(1.0, 0.5, "rank 0"), (2.0, 0.5, "rank 0"), (3.0, 0.5, "rank 1"), (4.0, 0.9, "rank 0")]


async def test_a_video_model_reports_while_it_is_made(autojump_clock):
    @model
    class Blocking(VideoModel):
        main_video = VideoOut()

        def __init__(self, config=None):
            progress(0.3, "on its thread")

        def start_session(self):
            pass

    reports = []
    async with open_server(Blocking, on_progress=lambda *report: reports.append(report)):
        assert reports == [(0.3, "on its thread")]


async def test_who_waits_while_the_model_is_loaded_again_is_told(autojump_clock):
    told = []
    async with open_server(World, isolation="process", max_sessions=1) as server, trio.open_nursery() as nursery:

        async def wait() -> None:
            note = lambda reason: told.append((trio.current_time(), reason))
            async with server.connect(on_waiting=note):
                nursery.cancel_scope.cancel()

        with pytest.raises(Exception, match="model_restarting"):
            async with server.connect() as client:
                nursery.start_soon(wait)
                await trio.sleep(2)
                server.runtime.placement.process.kill()
                await client.take(1000)
    assert told == [
        (3.0, "someone else has the session; see max_sessions"),
        (5.0, "the model is still loading"),
        (5.0, "the model is still loading (50%, half)"),
    ]
