"""The life of a server: loading, a second client, viewers, a drain, and a slow viewer. The manifest and the command line
have their own tests."""

from __future__ import annotations

import gc
import json
import weakref

import numpy as np
import pytest
import trio

from reactor_trio.concurrency import open_model_host
from reactor_trio.configuration.settings import Settings
from reactor_trio.errors import ConnectionRefused, ModelFailed, SessionEnded
from reactor_trio.interface import ReactorModel, ReactorPipeline, connected, disconnected, event
from reactor_trio.media import CodecSettings, encoders
from reactor_trio.server.reactor_site import reactor_site
from reactor_trio.server.runtime import Runtime
from reactor_trio.server.runtime_parts import ProcessParts
from reactor_trio.testing import open_server
from reactor_trio.testing.memory_exchange import admit, answer_to
from reactor_trio.testing.virtual_time import InlineTime
from reactor_trio.transport import Request
from tests.support.behaviour_models import in_all_placements, picture, raw_session, shown
from tests.support.loaded_here import load_here
from tests.support.models import Picture


class Logging(ReactorPipeline):
    """Endless pictures of 200, and a log of what happened to the session, with times."""

    output: Picture
    fps = 10

    def load(self, config):
        self.log = []

    def note(self, what):
        self.log.append((what, trio.current_time()))

    @connected
    def request(self):
        self.note("connected")

    @disconnected
    def goodbye(self):
        self.note("disconnected")

    @event
    def ping(self) -> str:
        return "pong"

    def inference(self):
        try:
            while True:
                yield picture(200)
        finally:
            self.note("closed")

    def names(self):
        return [what for what, _ in self.log]


class Quiet(Logging):
    """Shows nothing."""

    def inference(self):
        while True:
            yield None


# ---- before the model is there ---------------------------------------------------------------------------------------


async def never(encode, frame):
    raise AssertionError("nothing is encoded here")


async def at_once(function, argument):
    await trio.lowlevel.checkpoint()
    return function(argument)


def ask(site, path):
    return answer_to(site, request(path))


def request(path, **query):
    return Request(
        method="GET", path=path, query=query, host="127.0.0.1", authority="127.0.0.1", headers=(), peer="test"
    )


async def test_while_load_runs_a_client_is_refused_with_the_time_to_come_back(autojump_clock):
    class Heavy(ReactorModel):
        async def load(self, config):
            await trio.sleep(30)

    async with open_model_host(InlineTime(None)) as host, trio.open_nursery() as nursery:
        place = load_here(host, Heavy)
        runtime = Runtime(place, name="heavy", settings=Settings(), parts=ProcessParts(at_once))
        site = reactor_site(runtime, "127.0.0.1")
        nursery.start_soon(runtime.load, {})
        await trio.sleep(29)
        refusal = await admit(site, request("/ws"))
        assert refusal.status == 503
        assert refusal.headers["retry-after"] == "1"
        assert b"loading" in refusal.body
        assert ask(site, "/health").status == 503
        assert json.loads(ask(site, "/health").body)["status"] == "loading"
        await trio.sleep(2)
        await runtime.admit_clients()
        await runtime.prepare()
        assert callable(await admit(site, request("/ws")))
        assert ask(site, "/health").status == 200
        assert json.loads(ask(site, "/health").body)["encoders"] == encoders(CodecSettings())


async def test_a_server_whose_load_raises_is_never_ready(autojump_clock):
    class Broken(ReactorModel):
        def load(self, config):
            raise OSError("weights.bin is missing")

    async with open_model_host(InlineTime(None)) as host:
        place = load_here(host, Broken)
        runtime = Runtime(place, name="broken", settings=Settings(), parts=ProcessParts(never))
        site = reactor_site(runtime, "127.0.0.1")
        with pytest.raises(ModelFailed, match=r"weights\.bin is missing") as failed:
            await runtime.load({})
        assert isinstance(failed.value.__cause__, OSError)
        assert ask(site, "/health").status == 503
        assert json.loads(ask(site, "/health").body)["status"] == "failed"
        assert (await admit(site, request("/ws"))).status == 503
        assert "ready" not in [entry.phase for entry in runtime.journal.after(0)]

    with pytest.raises(ModelFailed, match=r"weights\.bin is missing"):
        async with open_server(Broken):
            raise AssertionError("not reached")


# ---- what a client may say -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    ["not json", "[1, 2]", '"text"', "{}", '{"type": 7, "data": {}}', "[" * 10_000, b"\1\2",
     '{"type": "reactor.nonsense", "data": {}}', '{"type": "reactor.welcome", "data": {}}'],
)  # fmt: skip
async def test_text_that_is_no_message_is_answered_and_the_session_goes_on(autojump_clock, wrong):
    async with open_server(Logging) as server:
        async with raw_session(server) as peer:
            await peer.say(wrong)
            answer = await peer.hear()
            assert answer["type"] == "reactor.error"
            assert answer["data"]["code"] == "protocol_error"
            await peer.command("ping", 1)
            answer = await peer.hear()
            answer["data"].pop("step")
            assert answer == {"type": "reactor.ack", "id": 1, "data": {"reply": "pong"}}
        assert len(server.sessions) == 1


async def test_a_client_that_falls_silent_is_gone_after_twenty_seconds(autojump_clock):
    async with open_server(Quiet, websocket=True) as server, server.connect() as client:
        await trio.sleep(60)
        assert server.model.names() == ["connected"], "one that answers pings is there, however little it says"
        client.stall()
        await server.sessions[0].ended.wait()
        # Its last answer was to the ping at 60 or just before it.
        assert server.model.log[1:] == [("disconnected", pytest.approx(80, abs=10.01))]
        assert 70 <= trio.current_time() <= 80


# ---- more than one client --------------------------------------------------------------------------------------------


@in_all_placements
async def test_a_second_client_waits_and_learns_its_place(autojump_clock, placement):
    told = []
    async with open_server(Logging, **placement) as server, trio.open_nursery() as nursery:

        async def wait_for_a_place(name):
            async with server.connect(on_queued=lambda *place: told.append((name, *place, trio.current_time()))) as client:
                await client.take(1)
                told.append((name, "served", trio.current_time()))

        async with server.connect() as first:
            await first.take(1)
            nursery.start_soon(wait_for_a_place, "second")
            await trio.sleep(1)
            nursery.start_soon(wait_for_a_place, "third")
            await trio.sleep_until(5)
    moves = [entry for entry in told if entry[0] == "second"]
    assert moves[0] == ("second", 1, 1, 0.0)
    assert moves[-1] == ("second", "served", 5.0)
    places = [entry[1:3] for entry in told if entry[0] == "third" and len(entry) == 4]
    assert places[0] == (2, 2)
    assert places[-1] == (1, 1)


async def test_without_a_queue_the_second_client_is_refused(autojump_clock):
    async with open_server(Logging, queue=0) as server, server.connect():
        with pytest.raises(ConnectionRefused) as refused:
            async with server.connect():
                pass
        assert refused.value.status == 503
        assert refused.value.retry_after == 1


async def test_a_second_client_may_watch_as_a_viewer(autojump_clock):
    async with open_server(Logging, queue=0) as server, server.connect() as client:
        async with server.connect(role="viewer") as viewer:
            assert (client.role, viewer.role) == ("control", "viewer")
            assert viewer.session_id == client.session_id
            assert shown(await viewer.take(2)) == [200, 200]


class Recorder:
    """An attachment that writes down what it is given."""

    def __init__(self, number):
        self.number = number
        self.joined_at = 0.0
        self.offered = []
        self.said = []
        self.over = None

    def offer(self, bundle, pts):
        self.offered.append((bundle.seqs["main_video"], pts))

    def say(self, type, data, id=None):  # noqa: A002
        self.said.append(type)

    def end(self, reason, message=""):
        self.over = reason

    async def wait_free(self):
        await trio.lowlevel.checkpoint()


@in_all_placements
async def test_of_two_viewers_one_leaves_and_the_generator_goes_on(autojump_clock, placement):
    async with open_server(Logging, **placement) as server, server.connect() as client:
        async with server.connect(role="viewer") as viewer:
            await viewer.take(3)
        await client.take(20)
        assert server.model.connected.is_set()
        assert server.model.names() == ["connected"]
        assert len(server.sessions) == 1


async def test_attachments_start_and_end_and_a_session_does_not_depend_on_them(autojump_clock):
    async with open_server(Logging) as server:
        async with server.connect() as client:
            (session,) = server.sessions
            first, second = Recorder(101), Recorder(102)
            await trio.sleep_until(0.05)
            session.attach(first)
            assert first.offered == [(0, 0.0)], "the last picture at once"
            assert len(session._attachments) == 2
            await trio.sleep_until(0.25)
            session.attach(second)
            session.detach(first)
            await trio.sleep_until(0.45)
            session.attach(first)
            session.detach(second)
            await trio.sleep_until(0.55)
            assert [seq for seq, _ in first.offered] == [0, 1, 2, 4, 5]
            assert [seq for seq, _ in second.offered] == [2, 3, 4]
            assert [pts for _, pts in second.offered] == pytest.approx([0.2, 0.3, 0.4])
            assert [frame.seq for frame in await client.take(6)] == list(range(6))
            session.detach(second)  # one that is not there: nothing happens
            assert len(session._attachments) == 2
            await client.close()
        assert (first.over, second.over) == ("client_left", None)
        assert server.model.names() == ["connected", "disconnected", "closed"]


# ---- the end of the server -------------------------------------------------------------------------------------------


@in_all_placements
async def test_a_drain_ends_the_session_in_order_and_says_goodbye(autojump_clock, placement):
    async with open_server(Logging, step_cost=0.01, **placement) as server:
        async with server.connect() as client, server.connect(role="viewer") as viewer:
            await client.take(3)
            began = trio.current_time()
            await server.drain()
            assert server.model.names() == ["connected", "disconnected", "closed"]
            assert trio.current_time() - began <= 2
            for one in (client, viewer):
                with pytest.raises(SessionEnded) as ended:
                    while True:
                        await one.take(1)
                assert ended.value.reason == "draining"
        assert server.http("/health").status == 503


async def test_a_draining_server_takes_no_new_client(autojump_clock):
    async with open_server(Logging) as server:
        await server.drain()
        for role in ("control", "viewer"):
            with pytest.raises(ConnectionRefused) as refused:
                async with server.connect(role=role):
                    pass
            assert refused.value.status == 503


async def test_the_grace_bounds_a_step_that_does_not_end(autojump_clock):
    async with open_server(Logging, step_cost=100, drain_grace=2) as server, server.connect() as client:
        await trio.sleep(1)
        await server.drain()
        assert trio.current_time() <= 3
        assert client.ended == "draining"
        assert not server.sessions[0].ended.is_set(), "the step still computes"
        await server.sessions[0].ended.wait()
        assert server.model.log == [("connected", 0), ("disconnected", 1), ("closed", 100)]


@pytest.mark.parametrize("reason", ["draining", "model_restarting"])
async def test_a_drain_says_goodbye_to_waiting_clients_too(autojump_clock, reason):
    async with open_server(Logging) as server, server.connect(), trio.open_nursery() as nursery:
        reasons = []

        async def wait_for_a_place():
            with pytest.raises(SessionEnded) as ended:
                async with server.connect():
                    pass
            reasons.append(ended.value.reason)

        nursery.start_soon(wait_for_a_place)
        await trio.sleep(1)
        await server.runtime.drain(reason)
        await trio.sleep(1)
        assert reasons == [reason]


# ---- a slow viewer ---------------------------------------------------------------------------------------------------


async def test_a_slow_viewer_costs_a_few_frames_of_memory(autojump_clock):
    """A read-only frame is not copied, so its life shows who still holds it."""
    alive = []

    class Promises(Logging):
        def inference(self):
            while True:
                frame = np.full((64, 64, 3), 200, np.uint8)
                frame.flags.writeable = False
                alive.append(weakref.ref(frame))
                yield frame
                del frame

    async with open_server(Promises) as server, server.connect() as client:
        async with server.connect(role="viewer") as viewer:
            await viewer.take(1)
            viewer.stall()
            for _ in range(14):  # less than the 15 s after which it would be closed
                await client.take(10)
            gc.collect()
            held = sum(ref() is not None for ref in alive)
            assert len(alive) >= 140
            # on screen, queued, being made; in the lane, on its way
            assert held <= 6
            assert server.runtime.metrics.drops()["lane", "superseded"] >= 130


async def test_a_newcomer_during_a_drain_is_answered_503_over_real_framing(autojump_clock):
    async with open_server(Logging, websocket=True) as server:
        await server.drain()
        with pytest.raises(ConnectionRefused) as refused:
            async with server.connect():
                pass
        assert (refused.value.status, refused.value.retry_after) == (503, 1)
