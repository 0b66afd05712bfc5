"""Several sessions on one model: turns in exact virtual time, and what is whose."""

from __future__ import annotations

import copy
import gc
import weakref
from contextlib import AsyncExitStack

import numpy as np
import pytest
import trio
from row_models import Picture, in_all_placements, picture, raw_session, shown

from reactor_trio.errors import CommandError, DeclarationError, ModelFailed, SessionEnded
from reactor_trio.interface import (
    Input,
    InputField,
    InputState,
    ModelMessage,
    ReactorModel,
    ReactorPipeline,
    Video,
    VideoModel,
    connected,
    disconnected,
    event,
)
from reactor_trio.server.seats import own_copy
from reactor_trio.session.identity import current_session
from reactor_trio.testing import assert_nothing_left, open_server

INLINE_AND_THREAD = pytest.mark.parametrize("placement", [{}, {"thread": True}], ids=["inline", "thread"])


class Said(ModelMessage):
    text: str


class Level(InputState):
    level: int = InputField(default=0, ge=0, le=255)


class Shared(ReactorPipeline):
    """Pictures of its level; what each session's own code did is in `log`, which all copies share."""

    state: Level
    output: Picture
    fps = 60
    max_sessions = 4

    def load(self, config):
        self.config = config
        self.log = []
        self.mark = "loaded"

    def inference(self):
        while True:
            self.log.append((current_session(), trio.current_time()))
            yield picture(self.state.level)


class Costly(Shared):
    """Steps that take their session's time: as many hundredths of a second as its level says."""

    async def inference(self):
        while True:
            self.log.append((current_session(), trio.current_time()))
            yield picture(self.state.level)


def at(times):
    return [round(time, 6) for time in times]


def steps_of(log, client):
    return at([time for session, time in log if session == client.session_id])


async def connect_all(server, stack, count, **options):
    return [await stack.enter_async_context(server.connect(**options)) for _ in range(count)]


# ---- how many ---------------------------------------------------------------------------------------------------------


async def test_as_many_as_the_class_says_and_the_next_one_waits(autojump_clock):
    places = []
    async with open_server(Shared, step_cost=0.25) as server, trio.open_nursery() as nursery, AsyncExitStack() as stack:
        clients = await connect_all(server, stack, 4)

        async def fifth():
            async with server.connect(on_queued=lambda *place: places.append(place)) as client:
                await client.take(1)
                assert len({s.id for s in server.runtime.sessions}) == 4

        nursery.start_soon(fifth)
        await trio.sleep(1)
        assert places == [(1, 1)]
        await clients[2].close()
    assert len(server.sessions) == 5


async def test_the_manifest_says_more_than_the_class(autojump_clock):
    async with open_server(Shared, max_sessions=1, queue=1) as server, server.connect():
        assert server.runtime.room.admission.free == 0
        assert server.runtime.loaded.seats.turns is None
    async with open_server(Shared, max_sessions=7) as server, server.connect():
        assert server.runtime.room.admission.free == 6


@pytest.mark.parametrize("number", [0, "4", True, 1.5])
async def test_a_class_with_a_number_that_is_none_is_not_served(autojump_clock, number):
    class Odd(Shared):
        max_sessions = number

    with pytest.raises(ModelFailed, match=r"Odd\.max_sessions must be a whole number above 0"):
        async with open_server(Odd):
            pass


async def test_a_blocking_model_serves_one_and_says_so(autojump_clock):
    made = []

    class Blocking(VideoModel):
        def __init__(self):
            made.append(self)

    with pytest.raises(ModelFailed, match=r"Blocking: a VideoModel serves one session at a time, .* 2 were asked for"):
        async with open_server(Blocking, max_sessions=2):
            pass
    assert not made


# ---- turns ------------------------------------------------------------------------------------------------------------


@INLINE_AND_THREAD
async def test_equal_steps_take_turns_and_each_is_shown_evenly(autojump_clock, placement):
    async with open_server(Shared, step_cost=0.1, **placement) as server, AsyncExitStack() as stack:
        first, second, third = await connect_all(server, stack, 3)
        await trio.sleep(30)
        begins = [steps_of(server.model.log, client) for client in (first, second, third)]
        for number, times in enumerate(begins):
            assert np.allclose(times[:90], [0.1 * number + 0.3 * step for step in range(90)]), number
        for client in (first, second, third):
            frames = await client.take(90)
            assert np.allclose(np.diff([frame.pts for frame in frames])[10:], 0.3)
            assert [frame.seq for frame in frames] == list(range(90))


class Slow(ReactorPipeline):
    """A step takes `config["costs"]` seconds, by the order of the sessions."""

    output: Picture
    fps = 60
    max_sessions = 8

    def load(self, config):
        self.costs = iter(config["costs"])
        self.used = {}

    @connected
    def arrive(self):
        self.cost = next(self.costs)

    def inference(self):
        while True:
            Slow.next_cost = self.cost
            self.used[self.cost] = self.used.get(self.cost, 0) + 1
            yield picture(0)


@INLINE_AND_THREAD
async def test_unequal_steps_get_the_same_time(autojump_clock, placement):
    costs = (0.03, 0.1, 0.05)
    async with open_server(
        Slow, config={"costs": costs}, step_cost=lambda _step: Slow.next_cost, **placement
    ) as server, AsyncExitStack() as stack:
        clients = await connect_all(server, stack, 3)
        await trio.sleep(120)
        shares = {cost: cost * steps / 120 for cost, steps in server.model.used.items()}
        assert all(abs(share - 1 / 3) < 0.01 for share in shares.values()), shares
        for client, cost in zip(clients, costs, strict=True):
            frames = [frame.pts for frame in await client.take(300)]
            assert abs(np.diff(frames)[150:].mean() - 3 * cost) < 0.1 * cost


@INLINE_AND_THREAD
async def test_who_comes_is_served_at_once_and_who_leaves_leaves_the_time_to_the_others(autojump_clock, placement):
    async with open_server(Shared, step_cost=0.1, **placement) as server, server.connect() as stays:
        await trio.sleep(9.95)
        async with server.connect() as comes:
            (frame,) = await comes.take(1)
            assert frame.pts == pytest.approx(0.15)  # what is left of the other's step, and its own
            await trio.sleep_until(20)
        await trio.sleep_until(30)
        times = np.array(steps_of(server.model.log, stays))
        gaps = np.diff(times)
        assert np.allclose(gaps[times[:-1] < 9.85], 0.1)
        assert np.allclose(gaps[(times[:-1] > 10.2) & (times[1:] < 19.9)], 0.2)
        assert np.allclose(gaps[times[:-1] > 20.3], 0.1)


@INLINE_AND_THREAD
async def test_a_session_that_rests_keeps_its_rate_beside_one_that_never_does(autojump_clock, placement):
    async with open_server(
        Slow, config={"costs": [0.01, 0.04]}, step_cost=lambda _step: Slow.next_cost, fps=10, **placement
    ) as server, AsyncExitStack() as stack:
        light, heavy = await connect_all(server, stack, 2)
        await heavy.server.runtime.host.run(_set_fps, server, heavy, 60)
        await trio.sleep(60)
        assert server.model.used[0.01] == pytest.approx(600, abs=12)
        assert server.model.used[0.04] == pytest.approx((60 - 6) / 0.04, rel=0.02)  # all that the other leaves
        frames = [frame.pts for frame in await light.take(500)]
        assert np.allclose(np.diff(frames)[50:], 0.1)


async def _set_fps(server, client, fps):
    half = next(s for s in server.sessions if s.id == client.session_id)._half._half
    half.port.set_fps(fps)
    await trio.lowlevel.checkpoint()
