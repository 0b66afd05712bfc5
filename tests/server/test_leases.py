"""Places promised to a gate: counted at the server, claimed with a ticket, ended by the session's end."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import msgspec
import numpy as np
import pytest
import trio

from reactor_trio import ConnectionRefused, Output, ReactorPipeline, SessionEnded, Video
from reactor_trio.admission import Refused
from reactor_trio.server.leases import Beat, Claimed, Ended, leased
from reactor_trio.server.load_report import LoadReport
from reactor_trio.server.metrics import Buckets
from reactor_trio.server.settings import Settings, address_of
from reactor_trio.server.tickets import issue_ticket
from reactor_trio.testing import TestServer, open_server


class Picture(Output):
    picture: Video


class Still(ReactorPipeline):
    output: Picture
    fps = 10

    def inference(self) -> Any:
        while True:
            yield np.full((4, 6, 3), 7, np.uint8)


class Told:
    """What who has a lease was told, and when."""

    def __init__(self) -> None:
        self.began = trio.current_time()
        self.words: list[tuple[float, Any]] = []

    def __call__(self, word: Any) -> None:
        self.words.append((round(trio.current_time() - self.began, 6), word))

    @property
    def kinds(self) -> list[tuple[float, type]]:
        return [(at, type(word)) for at, word in self.words]

    @property
    def reason(self) -> str:
        word = self.words[-1][1]
        assert isinstance(word, Ended)
        return word.reason

    @property
    def loads(self) -> list[LoadReport]:
        return [word.load for _at, word in self.words if isinstance(word, Beat)]


def promised(**changes: Any) -> tuple[Settings, str]:
    return leased(msgspec.structs.replace(Settings(), **changes))


def slots(server: TestServer) -> tuple[int, int, int]:
    admission = server.runtime.room.admission
    return admission.reserved, admission.live, admission.free


async def test_a_lease_lasts_as_long_as_its_session(autojump_clock):
    settings, key = promised()
    async with open_server(Still, settings=settings) as server:
        told = Told()
        server.runtime.leases.open("one", told)
        assert slots(server) == (1, 0, 0)
        with pytest.raises(Refused, match="full"):
            server.runtime.leases.open("two", told)
        await trio.sleep(0.5)
        async with server.connect(token=issue_ticket(key, session="one")) as client:
            assert client.session_id == "one"
            assert slots(server) == (0, 1, 0)
            await trio.sleep(2)
        await server.wait_left(client)
        assert told.kinds == [(0.5, Claimed), (1.0, Beat), (2.0, Beat), (2.5, Ended)]
        assert told.reason == "client_left"
        assert slots(server) == (0, 0, 1)
        first, second = told.loads
        assert (first.seq, second.seq) == (1, 2)
        assert (first.boot_id, first.phase, first.slots, first.live) == (second.boot_id, "ready", 1, 1)
        assert second.fps == pytest.approx(10, abs=1)
        assert (second.step, second.gpu_memory, second.late) == (None, None, 0.0)
        assert (second.model, len(second.digest), second.digest == first.digest) == ("Still", 16, True)
        await trio.sleep(3)
        assert len(told.words) == 4


async def test_a_place_that_nobody_claims_is_free_again(autojump_clock):
    settings, key = promised(claim_within=3.0)
    async with open_server(Still, settings=settings) as server:
        told = Told()
        server.runtime.leases.open("one", told)
        await trio.sleep(3.5)
        assert told.kinds[-1] == (3.0, Ended)
        assert told.reason == "unclaimed"
        assert slots(server) == (0, 0, 1)
        with pytest.raises(ConnectionRefused, match="not reserved any more") as refused:
            async with server.connect(token=issue_ticket(key, session="one")):
                pass
        assert refused.value.status == 401


async def test_without_a_ticket_there_is_no_session(autojump_clock):
    settings, key = promised()
    async with open_server(Still, settings=settings) as server:
        for token in (None, issue_ticket("another key, of thirty-two bytes"), issue_ticket(key, session="one")):
            with pytest.raises(ConnectionRefused) as refused:
                async with server.connect(token=token):
                    pass
            assert refused.value.status == 401
        server.runtime.leases.open("one", Told())
        ticket = issue_ticket(key, session="one")
        async with server.connect(token=ticket):
            with pytest.raises(ConnectionRefused, match="has been used"):
                async with server.connect(token=ticket):
                    pass
            with pytest.raises(ConnectionRefused, match="not reserved any more"):
                async with server.connect(token=issue_ticket(key, session="one")):
                    pass


async def test_who_has_no_client_for_it_gives_it_back(autojump_clock):
    settings, key = promised()
    async with open_server(Still, settings=settings) as server:
        told = Told()
        server.runtime.leases.open("one", told)
        server.runtime.leases.cancel("one")
        server.runtime.leases.cancel("one")
        assert told.kinds == [(0.0, Ended)]
        assert slots(server) == (0, 0, 1)
        claimed = Told()
        server.runtime.leases.open("two", claimed)
        async with server.connect(token=issue_ticket(key, session="two")) as client:
            server.runtime.leases.cancel("two")
            await trio.sleep(0.5)
            assert not client.ended
            assert claimed.kinds == [(0.0, Claimed)]  # not yet a second


@pytest.mark.parametrize("reason", ["revoked", "expired", "draining"])
async def test_why_a_session_ended_is_why_its_lease_did(autojump_clock, reason):
    settings, key = promised()
    async with open_server(Still, settings=settings) as server:
        told = Told()
        server.runtime.leases.open("one", told)
        ticket = issue_ticket(key, session="one", max_session=2.0 if reason == "expired" else None)
        with pytest.raises(SessionEnded) as ended:
            async with server.connect(token=ticket) as client:
                if reason == "revoked":
                    assert server.runtime.revoke("one")
                elif reason == "draining":
                    await server.drain()
                async for _ in client.frames():
                    pass
        await server.settle()
        assert (ended.value.reason, told.reason) == (reason, reason)


async def test_a_drain_ends_what_nobody_has_claimed(autojump_clock):
    settings, _key = promised()
    async with open_server(Still, settings=settings) as server:
        told = Told()
        server.runtime.leases.open("one", told)
        await server.drain()
        assert told.reason == "draining"
        with pytest.raises(Refused, match="draining"):
            server.runtime.leases.open("two", told)


async def test_a_report_says_how_long_steps_take(autojump_clock):
    async with open_server(Still, step_cost=0.004) as server, server.connect(video=["raw"]):
        await trio.sleep(1)
        assert server.runtime.leases.report().step == 0.005  # the bucket from 2 to 5 ms
        assert server.runtime.leases.report().step is None


async def test_what_differs_in_its_config_has_another_digest(autojump_clock):
    digests = set()
    for config in ({"size": 1}, {"size": 2}, {"size": 1}, {"size": object()}):
        async with open_server(Still, config=config) as server:
            digests.add(server.runtime.leases.report().digest)
    assert len(digests) == 3


async def test_memory_of_a_card_is_told_where_one_is_used(autojump_clock, monkeypatch):
    class Cuda:
        initialized = False

        @classmethod
        def is_initialized(cls):
            return cls.initialized

        @staticmethod
        def mem_get_info():
            return 3, 10

    async with open_server(Still) as server:
        monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=Cuda))
        assert server.runtime.leases.report().gpu_memory is None
        Cuda.initialized = True
        assert server.runtime.leases.report().gpu_memory == 7
        monkeypatch.undo()


def test_a_percentile_is_that_of_what_came_since():
    buckets = Buckets((1.0, 2.0, 4.0))
    for value in (0.5, 3.0):
        buckets.add(value)
    before = buckets.counts
    assert buckets.percentile(0.95, since=before) is None
    for value in [1.5] * 19 + [9.0]:
        buckets.add(value)
    assert buckets.percentile(0.95, since=before) == 2.0
    assert buckets.percentile(0.96, since=before) == 4.0


def test_what_is_advertised():
    assert address_of("wss://edge.example/r/{ip}/{port}", "10.0.0.7", 20003) == "wss://edge.example/r/10.0.0.7/20003"
    assert address_of("ws://{ip}:{port}", "::1", 80) == "ws://[::1]:80"
    for wrong in ("edge.example", "wss://{name}", "wss://edge/{ip.x}", "ftp://{ip}", "wss://{ip}?x={port}", "wss://{", "wss:///x"):
        with pytest.raises(Exception, match=r"runtime\.advertise"):
            Settings(advertise=wrong)
