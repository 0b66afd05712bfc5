"""Places promised to a gate: counted at the server, claimed with a ticket, ended by the session's end."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
import trio

from reactor_trio import ConnectionRefused, Output, ReactorPipeline, SessionEnded, Video
from reactor_trio.admission import NotAdmitted
from reactor_trio.configuration.settings import Settings, address_of
from reactor_trio.edge.tickets import issue_ticket
from reactor_trio.leases.leased_settings import leased_settings
from reactor_trio.leases.messages import Beat, Claimed, Ended, Granted, Unavailable
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


def promised(**changes: Any) -> tuple[Settings, str]:
    return leased_settings(msgspec.structs.replace(Settings(), **changes))


def slots(server: TestServer) -> tuple[int, int, int]:
    admission = server.runtime.waiting_room.admission
    return len(admission._reserved), admission.live, admission.free


async def test_a_lease_lasts_as_long_as_its_session(autojump_clock):
    settings, key = promised()
    async with open_server(Still, settings=settings) as server:
        told = Told()
        server.runtime.leases.open("one", told)
        assert slots(server) == (1, 0, 0)
        with pytest.raises(NotAdmitted, match="full"):
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
        await trio.sleep(3)
        assert len(told.words) == 4


async def test_a_lease_begins_with_its_grant_and_the_only_message_of_another_is_why_there_is_none(autojump_clock):
    settings, _key = promised()
    async with open_server(Still, settings=settings) as server:
        first, second = Told(), Told()
        granted = Granted("one", "ws://replica/ws", "k", 10.0, "1@node")
        server.runtime.leases.grant(granted, first)
        server.runtime.leases.grant(msgspec.structs.replace(granted, session_id="two"), second)
        await trio.sleep(1.5)
        assert first.words == [(0.0, granted), (1.0, Beat())]
        assert second.words == [(0.0, Unavailable("full"))]
        assert slots(server) == (1, 0, 0)


async def test_an_unclaimed_place_is_free_again(autojump_clock):
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


async def test_a_holder_without_a_client_returns_the_lease(autojump_clock):
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


async def test_a_drain_ends_unclaimed_leases(autojump_clock):
    settings, _key = promised()
    async with open_server(Still, settings=settings) as server:
        told = Told()
        server.runtime.leases.open("one", told)
        await server.drain()
        assert told.reason == "draining"
        with pytest.raises(NotAdmitted, match="draining"):
            server.runtime.leases.open("two", told)


def test_the_advertised_address_is_made_of_host_and_port():
    assert address_of("wss://edge.example/r/{ip}/{port}", "10.0.0.7", 20003) == "wss://edge.example/r/10.0.0.7/20003"
    assert address_of("ws://{ip}:{port}", "::1", 80) == "ws://[::1]:80"
    for wrong in ("edge.example", "wss://{name}", "wss://edge/{ip.x}", "ftp://{ip}", "wss://{ip}?x={port}", "wss://{", "wss:///x"):
        with pytest.raises(Exception, match=r"runtime\.advertise"):
            Settings(advertise=wrong)
