"""A load test against a server in virtual time, so that its figures are exact."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial

import numpy as np
import pytest
import trio
from tests.support.models import Picture

from reactor_trio.interface import InputField, InputState, ReactorPipeline, event
from reactor_trio.loadtest import Bars, Load, Shape, summarise, visits
from reactor_trio.loadtest.plan import moments
from reactor_trio.loadtest.samples import Distribution
from reactor_trio.loadtest.summary import Refusal
from reactor_trio.testing import open_server


class Settings(InputState):
    level: int = InputField(default=3, ge=0, le=9)


class Model(ReactorPipeline):
    state: Settings
    output: Picture

    @event
    def jump(self, x: float = InputField(ge=0.0, le=1.0)):
        pass

    def inference(self):
        while True:
            yield np.zeros((4, 4, 3), np.uint8)


class Ends(Model):
    def inference(self):
        for _ in range(4):
            yield np.zeros((4, 4, 3), np.uint8)
        raise ValueError("no more")


def shape(**changed):
    return Shape(**{"sessions": 3, "arrival": "all-at-once", "length": 2.1, "lengths": "fixed", **changed})


async def figures_of(server, shape, *, address=None, **options):
    load = Load(shape, partial(server.connect, feedback=True, address=address), **options)
    began = trio.current_time()
    await load.run()
    return summarise(load.ledger, shape, trio.current_time() - began)


def even(value, n):
    return Distribution(n, *[pytest.approx(value)] * 4)


async def test_three_at_once_for_one_slot(autojump_clock):
    async with open_server(Model, step_cost=0.25, queue=8) as server:
        found = await figures_of(server, shape())
    # a slot is free when the step is over that its session was in
    assert found.seconds == pytest.approx(6.6)
    assert found.outcomes == {"left": 3}
    assert [visit["admitted"] for visit in found.visits] == pytest.approx([0.0, 2.25, 4.5])
    assert [visit["position"] for visit in found.visits] == [0, 1, 2]
    assert found.last_position == 2
    assert found.figures["admission"] == Distribution(3, *map(pytest.approx, (2.25, 4.275, 4.455, 4.5)))
    assert found.figures["first picture"] == even(0.25, 3)
    assert found.figures["between pictures"] == even(0.25, 3 * 7)  # at 0.25, 0.5, ... 2.0
    assert found.figures["fps"] == even(4.0, 3)
    assert found.figures["last picture to end"] == even(0.1, 3)
    assert found.counts["sessions"] == 3
    assert found.counts["pictures"] == 3 * 8
    assert found.counts.get("late", 0) == found.counts.get("missing", 0) == 0
    assert found.errors == {}
    assert found.refusals == []


async def test_sessions_start_and_end_as_the_plan_says(autojump_clock):
    asked = shape(sessions=20, arrival="poisson", rate=2.0, length=1.0, lengths="exponential")
    async with open_server(Model, step_cost=0.25, max_sessions=20) as server:
        found = await figures_of(server, asked)
    plan = list(visits(asked))
    assert [visit["planned_at"] for visit in found.visits] == [visit.at for visit in plan]
    assert [visit["ended"] for visit in found.visits] == pytest.approx([visit.length for visit in plan])
    assert found.figures["arrival delay"].max == pytest.approx(0.0)
    assert found.seconds == pytest.approx(max(visit.at + visit.length for visit in plan))


async def test_commands_are_acked_and_seen(autojump_clock):
    asked = shape(sessions=1, length=10.1, commands=3.0)
    async with open_server(Model, step_cost=0.25) as server:
        found = await figures_of(server, asked)
    planned = list(moments(asked, next(visits(asked))))
    assert found.commands["sent"] == len(planned) > 15
    # the last step that sees any begins at 10
    assert found.figures["command to ack"].n == found.commands["applied"] == sum(moment < 10 for moment in planned)
    assert 0 < found.figures["command to ack"].max <= 0.25
    assert 0.25 < found.figures["command to picture"].max <= 0.5
    assert found.left_out == {}
    assert found.errors == {}


async def test_a_refused_command_is_an_error_of_its_code(autojump_clock):
    class Refuses(Model):
        @event
        def jump(self, x: float = InputField(ge=0.0, le=1.0)):
            raise ValueError("no")

    asked = shape(sessions=1, length=10.0, commands=3.0)
    async with open_server(Refuses, step_cost=0.25) as server:
        found = await figures_of(server, asked, only=["jump", "fly"])
    assert found.errors == {"command internal_error": found.commands["refused"]}
    assert found.commands["refused"] > 15
    assert found.left_out == {"fly": "the server has no such command"}
    assert found.missed(Bars(max_errors=15)) == [f"{found.error_count} errors, at most 15 were allowed"]


async def test_commands_beyond_the_unanswered_are_counted_not_sent(autojump_clock):
    asked = shape(sessions=1, length=10.0, commands=10.0)
    async with open_server(Model, step_cost=100.0) as server:
        found = await figures_of(server, asked)
    planned = len(list(moments(asked, next(visits(asked)))))
    assert found.commands == {"sent": 32, "not sent": planned - 32}


async def test_a_client_over_the_handshake_limit_asks_again_when_the_server_says(autojump_clock):
    limits = {"handshakes_per_minute": 2}
    async with open_server(Model, step_cost=0.25, max_sessions=3, limits=limits) as server:
        found = await figures_of(server, shape(), address="192.0.2.7:1")
    assert [visit["admitted"] for visit in found.visits] == [0.0, 0.0, 30.0]  # one is granted every 30 s
    assert [refusal.limit for refusal in found.refusals] == ["runtime.limits.handshakes_per_minute"]


async def test_a_vanished_client_holds_its_slot_until_the_server_notices(autojump_clock):
    async with open_server(Model, step_cost=0.25, queue=8, resume_window=3.0) as server:
        found = await figures_of(server, shape(sessions=2, vanish=1.0))
    assert found.outcomes == {"vanished": 2}
    assert [visit["admitted"] for visit in found.visits] == pytest.approx([0.0, 5.1])


async def test_a_refused_client_asks_again_after_retry_after(autojump_clock):
    async with open_server(Model, step_cost=0.25, queue=0) as server:
        found = await figures_of(server, shape(sessions=2, length=1.5))
    assert [visit["admitted"] for visit in found.visits] == pytest.approx([0.0, 2.0])
    assert [visit["refusals"] for visit in found.visits] == [0, 2]
    assert found.refusals == [Refusal(503, "the server is full", 2, "runtime.queue", "full")]
    assert found.outcomes == {"left": 2}


async def test_patience_ends_in_the_queue_and_among_the_refused(autojump_clock):
    async with open_server(Model, step_cost=0.25, queue=1) as server:
        found = await figures_of(server, shape(length=60.0), patience=10.5)
    assert found.outcomes == {"left": 1, "gave_up": 2}
    assert [visit["ended"] for visit in found.visits] == pytest.approx([60.0, 10.5, 10.0])
    assert found.figures["admission"].n == 1
    assert found.errors == {}


async def test_limits_of_an_address_are_named(autojump_clock):
    async with open_server(Model, step_cost=0.25, queue=8, limits={"waiting_per_address": 1}) as server:
        found = await figures_of(server, shape(), address="192.0.2.7:1")
    assert found.outcomes == {"left": 3}
    (line,) = found.advice()
    assert "429" in line
    assert "raise runtime.limits.waiting_per_address in its reactor.yaml (all clients of a load test come from one" in line


async def test_a_model_that_fails_is_an_error_of_every_session(autojump_clock):
    async with open_server(Ends, step_cost=0.25, queue=8) as server:
        found = await figures_of(server, shape(sessions=2))
    assert found.outcomes == {"ended": 2}
    assert found.ends == found.errors == {"model_error": 2}
    assert found.counts["pictures"] == 8


async def test_viewers_watch_each_session(autojump_clock):
    async with open_server(Model, step_cost=0.25, max_sessions=2) as server:
        found = await figures_of(server, shape(sessions=2, viewers=2))
    assert found.counts["viewers"] == 4
    assert found.counts["viewers' pictures"] == 2 * found.counts["pictures"] == 16  # the two sessions take turns
    assert found.figures["fps"] == even(2.0, 2)
    assert found.figures["viewers' fps"] == even(2.0, 4)
    assert found.outcomes == {"left": 2}


async def test_decoding_clients_have_the_same_figures(autojump_clock):
    async with open_server(Model, step_cost=0.25, queue=8) as server:
        found = await figures_of(server, shape(), decode=True)
    assert found.counts["pictures"] == 3 * 8
    assert found.errors == {}


async def test_no_more_at_once_than_allowed_and_the_delay_is_a_figure(autojump_clock):
    async with open_server(Model, step_cost=0.25, max_sessions=3) as server:
        found = await figures_of(server, shape(), at_once=2)
    assert found.figures["arrival delay"].max == pytest.approx(2.1)
    assert found.seconds == pytest.approx(4.2)
    with pytest.raises(ValueError, match="a session with its viewers is 3 clients, more than 2"):
        Load(shape(viewers=2), server.connect, at_once=2)


async def test_interrupted_it_has_the_figures_so_far(autojump_clock):
    asked = shape(length=60.0)
    async with open_server(Model, step_cost=0.25, queue=8) as server:
        load = Load(asked, partial(server.connect, feedback=True))
        with trio.move_on_after(5.1):
            await load.run()
        found = summarise(load.ledger, asked, 5.1)
    assert found.outcomes == {"interrupted": 3}
    assert found.counts["pictures"] == 20
    assert found.figures["admission"].n == 1
    assert found.visits[0]["ended"] == pytest.approx(5.1)


async def test_a_picture_that_comes_late_is_a_gap(autojump_clock):
    """The client reads nothing for 2 s: one interval is that long, and the pictures made meanwhile are missing."""
    asked, clients = shape(sessions=1, length=6.05), []

    @asynccontextmanager
    async def connect(**options):
        async with server.connect(feedback=True, **options) as client:
            clients.append(client)
            yield client

    async with open_server(Model, step_cost=0.25) as server:
        load = Load(asked, connect)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(load.run)
            await trio.sleep(2.1)
            clients[0].stall()
            await trio.sleep(2.0)
            clients[0].resume()
        found = summarise(load.ledger, asked, 6.0)
    assert found.counts["late"] == 1
    assert found.visits[0]["worst_gap"] == found.figures["between pictures"].max == pytest.approx(2.1)
    assert found.counts["missing"] + found.counts["pictures"] == 24


async def test_a_missing_server_is_a_connection_error(autojump_clock):
    def connect(**_):
        raise ConnectionRefusedError("nobody listens")

    load = Load(shape(), connect)
    await load.run()
    found = summarise(load.ledger, load.shape, 0.0)
    assert found.outcomes == {"failed": 3}
    assert found.errors == {"no connection": 3}
    assert found.missed(Bars(p99_first_picture=1.0)) == ["first picture: no samples; its p99 must be at most 1 s"]
