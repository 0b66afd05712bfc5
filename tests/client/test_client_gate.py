"""A gate in front of servers that need tickets: the client follows it, and the program need not know."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import parse_qs, urlsplit

import anyio
import numpy as np
import pytest
import trio
from tests.support.client_doubles import BACKENDS, ScriptedTransport
from tests.support.models import Picture
from tests.support.stand_in_gate import KEY, Place, StandInGate, gate_in_a_thread

from reactor_trio import RuntimeHost
from reactor_trio.cli import watching as headless
from reactor_trio.client import Client, connect, handshake, http_request, running
from reactor_trio.client.session_view import internals
from reactor_trio.client.urls import replica_url, session_url
from reactor_trio.configuration.settings import AuthSettings, Settings
from reactor_trio.errors import ConnectionRefused, SessionEnded
from reactor_trio.interface import InputState, ReactorPipeline, UploadedFile, event
from reactor_trio.testing import open_server
from reactor_trio.testing.memory_connection import Stall, StallableStream
from reactor_trio.transport import serve_http

GATE = "ws://gate.test:8080"
ONE, TWO = "ws://one.test:20001/ws", "ws://two.test:20002/ws"
HOSTS = ("one.test", "two.test")
AUTH = {"ticket_keys": [KEY]}


class Total(InputState):
    total: int = 0


class Adder(ReactorPipeline):
    state: Total
    fps = 20

    @event
    async def add(self, amount: int) -> int:
        self.state.total += amount
        return self.state.total

    @event
    async def size(self, file: UploadedFile) -> int:
        return file.size

    def inference(self):
        while True:
            yield Picture(main_video=np.full((4, 4, 3), self.state.total % 256, np.uint8))


class Network:
    """The network of the client: hosts by name, in memory and in virtual time.

    Attributes:
        called: each connection that was made, by host.
        dead: hosts that are down; with True they swallow data instead of refusing the connection.
    """

    def __init__(self, gate: StandInGate, **servers) -> None:
        self.gate = gate
        self.servers = servers
        self.called: list[str] = []
        self.dead: dict[str, bool] = {}

    async def connect(self, url, ssl_context):
        await anyio.lowlevel.checkpoint()
        host, port = url.hostname, url.port or 80
        self.called.append(host)
        name = host.partition(".")[0]
        if host in self.dead:
            if self.dead[host]:
                await trio.sleep_forever()
            raise ConnectionError(f"cannot connect to {host}:{port}: nobody there")
        if name in self.servers:
            return await self.servers[name]._open_stream()
        theirs, ours = trio.testing.lockstep_stream_pair()
        serve = partial(serve_http, theirs, self.gate.serve, self.gate.rules, closing=trio.Event())
        self.nursery.start_soon(serve)
        return StallableStream(ours, Stall())


@asynccontextmanager
async def network(monkeypatch, *places: Place, **runtime):
    """Run a gate that gives these places, and two replicas with `runtime` settings."""
    gate = StandInGate(list(places))
    settings = {"auth": AUTH, "hosts": HOSTS, "resume_window": 20, **runtime}
    async with trio.open_nursery() as nursery:
        async with (
            open_server(Adder, step_cost=0.05, websocket=True, **settings) as one,
            open_server(Adder, step_cost=0.05, websocket=True, **settings) as two,
        ):
            net = Network(gate, one=one, two=two)
            net.nursery = nursery
            for module in (handshake, http_request):
                monkeypatch.setattr(module, "connect_stream", net.connect)
            yield net
        nursery.cancel_scope.cancel()


async def test_the_replica_has_the_session_its_uploads_and_its_reconnects(autojump_clock, monkeypatch):
    queued, admitted, resumed = [], [], []
    async with network(monkeypatch, Place(ONE, positions=(2, 1))) as net:
        options = {"on_queued": lambda *at: queued.append(at), "on_admitted": admitted.append}
        url = "http://gate.test:8080/?token=for-the-gate&video=raw"
        async with connect(url, on_resumed=resumed.append, **options) as client:
            assert (queued, admitted) == ([(2, 2), (1, 2)], [ONE])
            [(_, asked)] = net.gate.came
            assert asked.header("authorization") == "Bearer for-the-gate"
            assert asked.query == {"video": "raw", "role": "control", "feedback": "1", "follow": "1", "worlds": "1"}
            [session] = net.servers["one"].sessions
            assert client.session_id == session.id
            assert await client.command("add", amount=2) == 2
            assert (await anext(client.frames())).data.shape == (4, 4, 3)

            cat = await client.upload(b"meow", name="cat.txt")
            assert await client.command("size", file=cat) == 4

            await anyio.aclose_forcefully(internals(client).connection.transport._stream)
            assert await client.command("add", amount=3) == 5
            assert client.session_id == session.id
            assert len(resumed) == 1
        assert net.called == ["gate.test", "one.test", "one.test", "one.test"]
        await net.servers["one"].settle()
        assert net.servers["two"].sessions == []


async def test_the_gate_is_asked_again_if_its_replica_cannot_be_reached(autojump_clock, monkeypatch):
    admitted = []
    places = [Place(ONE), Place(ONE, ticket="stale-ticket"), Place(ONE, claim_within=3), Place(TWO)]
    async with network(monkeypatch, *places) as net:
        net.dead["one.test"] = False
        began = trio.current_time()

        async def revive():
            await trio.sleep(0.3)
            del net.dead["one.test"]  # refuses the ticket that is not good
            await trio.sleep(1)
            net.dead["one.test"] = True  # takes the third and says nothing

        net.nursery.start_soon(revive)
        async with connect(GATE, on_admitted=admitted.append) as client:
            assert admitted == [TWO]
            assert [session.id for session in net.servers["two"].sessions] == [client.session_id]
        # at once, after half a second, after another second, and after 3 s of silence and another 1.5 s
        assert [at - began for at, _ in net.gate.came] == pytest.approx([0, 0.5, 1.5, 6.0])
        assert net.called == ["gate.test", "one.test"] * 3 + ["gate.test", "two.test"]


async def test_after_three_more_tries_the_last_error_is_raised(autojump_clock, monkeypatch):
    async with network(monkeypatch, Place(ONE, ticket="stale-ticket")) as net:
        with pytest.raises(ConnectionRefused, match="this token or ticket is not one that this server knows") as caught:
            async with connect(GATE):
                pytest.fail("entered")
        assert caught.value.status == 401
        assert net.called == ["gate.test", "one.test"] * 4
    async with network(monkeypatch, Place(ONE)) as net:
        net.dead["one.test"] = False
        with pytest.raises(ConnectionError, match=r"cannot connect to one\.test:20001: nobody there"):
            async with connect(GATE):
                pytest.fail("entered")
        assert len(net.gate.came) == 4


async def test_a_refusal_that_holds_for_every_replica_is_raised_at_once(autojump_clock, monkeypatch):
    async with network(monkeypatch, Place(ONE)) as net:
        with pytest.raises(ConnectionRefused, match="this server serves Adder, not other") as caught:
            async with connect(GATE, model="other"):
                pytest.fail("entered")
        assert caught.value.status == 404
        assert net.called == ["gate.test", "one.test"]


async def test_a_bye_of_the_gate_ends_the_session(autojump_clock, monkeypatch):
    async with network(monkeypatch, Place(positions=(1,), bye="draining")) as net:
        with pytest.raises(SessionEnded, match="draining"):
            async with connect(GATE):
                pytest.fail("entered")
        assert net.called == ["gate.test"]


async def test_a_replica_must_not_redirect_its_clients(autojump_clock, monkeypatch):
    async with network(monkeypatch, Place("ws://other-gate.test/ws")) as net:
        net.gate.whoever = True
        with pytest.raises(SessionEnded, match="a replica redirects its clients, which only a gate may do") as caught:
            async with connect(GATE):
                pytest.fail("entered")
        assert caught.value.reason == "protocol_error"
        assert net.called == ["gate.test", "other-gate.test"]


@pytest.mark.parametrize(
    "place", [*map(Place, ("ftp://one.test/ws", "ws://", "ws://one.test\n/ws", "ws://[/ws")), Place(ONE, ticket="a b")]
)
async def test_a_malformed_place_is_a_protocol_error(autojump_clock, monkeypatch, place):
    async with network(monkeypatch, place) as net:
        with pytest.raises(SessionEnded, match=r"the server broke the protocol: reactor\.admitted: ") as caught:
            async with connect(GATE):
                pytest.fail("entered")
        assert caught.value.reason == "protocol_error"
        assert net.called == ["gate.test"]


async def test_a_dead_replica_ends_the_session(autojump_clock, monkeypatch):
    async with network(monkeypatch, Place(ONE), resume_window=2) as net, connect(GATE) as client:
        net.dead["one.test"] = False
        await anyio.aclose_forcefully(internals(client).connection.transport._stream)
        with pytest.raises(SessionEnded, match="the link did not come back within 2 s") as caught:
            await client.command("add", amount=1)
        assert caught.value.reason == "lost"
        assert net.called.count("gate.test") == 1


async def test_leaving_while_the_gate_is_asked_again_leaves_nothing_open(autojump_clock, monkeypatch):
    async with network(monkeypatch, Place(ONE)) as net:
        net.dead["one.test"] = False
        with trio.move_on_after(0.7) as patience:
            async with connect(GATE):
                pytest.fail("entered")
        assert patience.cancelled_caught
        assert len(net.gate.came) == 2


async def test_a_client_that_does_not_follow_refuses_a_redirect(autojump_clock):
    for before in (False, True):
        server = ScriptedTransport()
        if before:
            server.welcome()
        server.say("reactor.admitted", {"url": ONE, "ticket": "t", "session_id": "s", "claim_within": 5})
        with pytest.raises(SessionEnded, match=r"reactor\.admitted"):
            async with running(Client(server)) as client:
                await client.command("add", amount=1)
        server.let_go()


def test_the_replicas_url_has_the_sessions_query_without_follow():
    called = session_url("wss://gate/some/ws?x=1", video=["raw"], model="my model", follow=True)
    assert parse_qs(urlsplit(called).query)["follow"] == ["1"]
    url = replica_url("https://edge/r/10.0.0.7/20003/ws", called)
    assert url == "wss://edge/r/10.0.0.7/20003/ws?x=1&video=raw&role=control&model=my+model&worlds=1"


@pytest.mark.parametrize("backend", BACKENDS)
def test_over_real_sockets(backend):
    lines = []
    settings = Settings(port=0, auth=AuthSettings(ticket_keys=(KEY,)))

    async def main(port):
        async with connect(f"ws://127.0.0.1:{port}", video=["raw"]) as client:
            cat = await client.upload(b"meow", name="cat.txt")
            assert await client.command("size", file=cat) == 4
            assert (await anext(client.frames())).data.shape == (4, 4, 3)

    async def leave(_client):
        await trio.lowlevel.checkpoint()

    with RuntimeHost(Adder, settings=settings) as host:
        url = host.url.replace("http", "ws") + "ws"
        gate = StandInGate([Place(url, positions=(1,))])
        with gate_in_a_thread(gate) as port:
            anyio.run(main, port, backend=backend)
            add_one = partial(headless.watch, send=[("add", {"amount": 1})], watching=leave, report=lines.append)
            trio.run(add_one, f"ws://127.0.0.1:{port}")
    assert lines[:2] == ["queued: 1 of 1: someone else has the session; see max_sessions", f"admitted: {url}"]
    assert lines[-1] == "add: 1"
