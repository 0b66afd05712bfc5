"""Several sessions on one model: turns in exact virtual time, and what is whose."""

from __future__ import annotations

from contextlib import AsyncExitStack

import numpy as np
import pytest
import trio

from reactor_trio.errors import ModelFailed, OutputError
from reactor_trio.execution.current_session import current_session
from reactor_trio.interface import (
    InputField,
    InputState,
    ReactorModel,
    ReactorPipeline,
    VideoModel,
    event,
)
from reactor_trio.testing import open_server
from tests.support.behaviour_models import picture
from tests.support.models import Picture, Said

INLINE_AND_THREAD = pytest.mark.parametrize("placement", [{}, {"thread": True}], ids=["inline", "thread"])


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


def at(times):
    return [round(time, 6) for time in times]


def steps_of(log, client):
    return at([time for session, time in log if session == client.session_id])


async def connect_all(server, stack, count, **options):
    return [await stack.enter_async_context(server.connect(**options)) for _ in range(count)]


class Undeclared(ReactorPipeline):
    output: Picture
    max_sessions = 2

    def inference(self):
        while True:
            yield picture(1)


async def test_a_wait_for_a_turn_counts_once_in_the_rate_at_which_pictures_are_shown(autojump_clock):
    async with open_server(Undeclared, step_cost=0.1) as server, server.connect() as one, server.connect() as other:
        for client in one, other:
            frames = await client.take(40)
            assert np.diff([frame.pts for frame in frames[-10:]]) == pytest.approx(0.2, rel=0.05)


# ---- how many ---------------------------------------------------------------------------------------------------------


async def test_as_many_as_the_class_says_and_the_next_one_waits(autojump_clock):
    places, admitted = [], []
    async with open_server(Shared, step_cost=0.25) as server, trio.open_nursery() as nursery, AsyncExitStack() as stack:
        clients = await connect_all(server, stack, 4)

        async def fifth():
            async with server.connect(on_queued=lambda *place: places.append(place)) as client:
                await client.take(1)
                admitted.append(len(server.runtime.sessions))

        nursery.start_soon(fifth)
        await trio.sleep(1)
        assert places == [(1, 1)]
        await clients[2].close()
        await trio.sleep(2)
        assert admitted == [4]
    assert len(server.sessions) == 5


async def test_the_manifest_says_more_than_the_class(autojump_clock):
    async with open_server(Shared, max_sessions=1, queue=1) as server, server.connect():
        assert server.runtime.waiting_room.admission.free == 0
        assert server.runtime.placement._instances.turns is None
    async with open_server(Shared, max_sessions=7) as server, server.connect():
        assert server.runtime.waiting_room.admission.free == 6


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
    """A step takes as many seconds as its client said."""

    output: Picture
    fps = 60
    max_sessions = 8

    def load(self, config):
        self.used = {}
        self.cost = 0.0

    @event
    def takes(self, cost: float):
        self.cost = cost

    @event
    def rate(self, fps: float):
        self.output_buffer.set_fps(fps)

    def inference(self):
        while True:
            Slow.next_cost = self.cost
            self.used[self.cost] = self.used.get(self.cost, 0) + 1
            yield picture(0)


@INLINE_AND_THREAD
async def test_unequal_steps_get_the_same_time(autojump_clock, placement):
    costs = (0.03, 0.1, 0.05)
    async with open_server(
        Slow, step_cost=lambda _step: Slow.next_cost, **placement
    ) as server, AsyncExitStack() as stack:
        clients = await connect_all(server, stack, 3)
        for client, cost in zip(clients, costs, strict=True):
            await client.command("takes", cost=cost)
        await trio.sleep(40)
        shares = {cost: cost * steps / 40 for cost, steps in server.model.used.items()}
        assert all(abs(share - 1 / 3) < 0.02 for share in shares.values()), shares
        for client, cost in zip(clients, costs, strict=True):
            frames = [frame.pts for frame in await client.take(120)]
            assert abs(np.diff(frames)[60:].mean() - 3 * cost) < 0.1 * cost


@INLINE_AND_THREAD
async def test_a_new_session_is_served_at_once_and_a_session_that_ends_leaves_its_time_to_the_others(
    autojump_clock, placement
):
    async with open_server(Shared, step_cost=0.1, **placement) as server, server.connect() as resumables:
        await trio.sleep(9.95)
        async with server.connect() as comes:
            (frame,) = await comes.take(1)
            assert frame.pts == pytest.approx(0.15)  # what is left of the other's step, and its own
            await trio.sleep_until(20)
        await trio.sleep_until(30)
        times = np.array(steps_of(server.model.log, resumables))
        gaps = np.diff(times)
        assert np.allclose(gaps[times[:-1] < 9.85], 0.1)
        assert np.allclose(gaps[(times[:-1] > 10.2) & (times[1:] < 19.9)], 0.2)
        assert np.allclose(gaps[times[:-1] > 25], 0.1, rtol=0.02)  # the rate follows as that of a model that became faster


@INLINE_AND_THREAD
async def test_a_session_that_rests_keeps_its_rate_beside_one_that_never_does(autojump_clock, placement):
    async with open_server(
        Slow, step_cost=lambda _step: Slow.next_cost, fps=10, **placement
    ) as server, AsyncExitStack() as stack:
        light, heavy = await connect_all(server, stack, 2)
        await light.command("takes", cost=0.01)
        await heavy.command("takes", cost=0.04)
        await heavy.command("rate", fps=60)
        await trio.sleep(60)
        assert server.model.used[0.01] == pytest.approx(600, abs=12)
        assert server.model.used[0.04] == pytest.approx((60 - 6) / 0.04, rel=0.02)  # all that the other leaves
        frames = [frame.pts for frame in await light.take(500)]
        assert np.allclose(np.diff(frames)[50:], 0.1)


class Emitters(ReactorModel):
    """The first copy emits in one task, the second in three."""

    output: Picture
    fps = 60
    max_sessions = 2

    def load(self, config):
        self.log = []
        self.copies = []

    async def run(self):
        self.copies.append(self)
        async with trio.open_nursery() as nursery:
            for _ in range(2 if len(self.copies) == 2 else 0):
                nursery.start_soon(self.work)
            await self.work()

    async def work(self):
        while True:
            await self.connected.wait()
            await self.emit(picture(1), compute_time=0.1)
            self.log.append((current_session(), trio.current_time()))


async def test_the_tasks_of_a_run_that_emit_share_the_turns_of_their_session(autojump_clock):
    async with open_server(Emitters, step_cost=0.1) as server, AsyncExitStack() as stack:
        clients = await connect_all(server, stack, 2)
        await trio.sleep_until(15.05)
        one, three = (len(steps_of(server.model.log, client)) for client in clients)
        assert one + three == pytest.approx(150, abs=5)  # the thread computes one step at a time
        assert one == pytest.approx(three, rel=0.3)  # not three times as many; Trio chooses who of one instant goes first
        await clients[1].close()
        await trio.sleep_until(25.05)
        assert len(steps_of(server.model.log, clients[0])) - one > 80  # nothing holds the turns of who left


class Impatient(Emitters):
    async def work(self):
        while True:
            await self.connected.wait()
            with trio.move_on_after(0.15):
                await self.emit(picture(1), compute_time=0.1)
                self.log.append((current_session(), trio.current_time()))


async def test_a_task_that_waits_for_its_turn_no_longer_takes_it_from_no_other(autojump_clock):
    async with open_server(Impatient, step_cost=0.1) as server, AsyncExitStack() as stack:
        clients = await connect_all(server, stack, 2)
        await trio.sleep_until(10)
        frames = [client.statistics().tracks["main_video"].frames for client in clients]
        assert min(frames) > 30
        assert sum(frames) == pytest.approx(100, abs=10)  # each step was shown, also one whose task then waited too long


class Farewell(Emitters):
    """The `run()` of the first copy fails, in its turn. That of the other emits a last picture as it ends."""

    async def run(self):
        self.copies.append(self)
        first = len(self.copies) == 1
        try:
            while True:
                await self.connected.wait()
                await self.emit(picture(1), compute_time=0.1)
                if first and trio.current_time() > 3:
                    raise ValueError("the first copy fails")
        finally:
            with trio.CancelScope(shield=not first):
                await self.emit(picture(2), compute_time=0.1)
                self.log.append("emitted")


@INLINE_AND_THREAD
async def test_turns_are_granted_until_the_last_run_has_ended(autojump_clock, placement):
    with pytest.raises(ModelFailed, match="the first copy fails"), trio.fail_after(60):
        async with open_server(Farewell, step_cost=0.1, **placement) as server, AsyncExitStack() as stack:
            await connect_all(server, stack, 2)
            await trio.sleep(30)
    assert server.model.log[-1] == "emitted"


# ---- who waits for something stops nobody -------------------------------------------------------------------------------


class Awaiting(Shared):
    """The session of level 9 waits for ever in its step, and in its handler when asked to."""

    @event
    async def stall(self):
        await trio.sleep_forever()

    @event
    async def spin(self):
        while True:
            await trio.lowlevel.checkpoint()

    async def inference(self):
        while True:
            if self.state.level == 9:
                await trio.sleep_forever()
            await self.send(Said("step"))
            self.log.append((current_session(), trio.current_time()))
            yield picture(self.state.level)


@INLINE_AND_THREAD
@pytest.mark.parametrize("way", ["set_level", "stall"])
async def test_a_session_that_waits_for_ever_stops_no_other_session(autojump_clock, placement, way):
    async with open_server(Awaiting, step_cost=0.1, **placement) as server, AsyncExitStack() as stack:
        stalled, goes_on = await connect_all(server, stack, 2)
        await trio.sleep(5)
        with trio.move_on_after(1):
            await stalled.command(way, **({"level": 9} if way == "set_level" else {}))
        await trio.sleep_until(20)
        times = np.array(steps_of(server.model.log, goes_on))
        assert np.allclose(np.diff(times[times > 10]), 0.1, rtol=0.05)
        assert max(steps_of(server.model.log, stalled)) < 5.5
        await stalled.close()
        async with server.connect() as newcomer:
            await newcomer.take(5)




# ---- who leaves while it is its turn, or waits for one -------------------------------------------------------------------


@INLINE_AND_THREAD
@pytest.mark.parametrize("cost", [0.0, 0.1])
async def test_a_session_that_leaves_at_any_moment_leaves_the_turns_to_the_others(autojump_clock, placement, cost):
    """In steps, between them, waiting for a turn, in a handler: each of fifty leaves at another moment."""
    async with open_server(Awaiting, step_cost=cost or None, fps=30, **placement) as server, server.connect() as resumables:
        for number in range(50):
            async with server.connect() as leaves:
                way = number % 5
                if way == 1:
                    await leaves.take(1)
                elif way == 2:
                    with trio.move_on_after(0):
                        await leaves.command("stall")
                elif way == 3:
                    with trio.move_on_after(0.01):
                        await leaves.command("set_level", level=9)
                await trio.sleep(number * 0.0137)
                await (leaves.vanish() if number % 2 else leaves.close())
        await trio.sleep(1)
        turns = server.runtime.placement._instances.turns
        before = len(steps_of(server.model.log, resumables))
        await trio.sleep(10)
        rate = (len(steps_of(server.model.log, resumables)) - before) / 10
        assert rate == pytest.approx(10 if cost else 30, rel=0.03)
        assert len(turns._robin._accounts) == 1


async def test_the_copies_turn_is_given_back_when_its_batch_finds_no_room(autojump_clock):
    """A batch of more frames than the buffer holds waits for room; meanwhile the others step."""

    class Batched(Shared):
        buffer_size = 2
        fps = 10

        def inference(self):
            while True:
                self.log.append((current_session(), trio.current_time()))
                yield np.stack([picture(self.state.level)] * (20 if self.state.level else 1))

    async with open_server(Batched, step_cost=0.01) as server, AsyncExitStack() as stack:
        batches, single = await connect_all(server, stack, 2)
        await batches.command("set_level", level=1)
        await trio.sleep(20)
        assert len(steps_of(server.model.log, single)) == pytest.approx(200, abs=4)


async def test_a_generator_that_closes_slowly_holds_no_other_session_up(autojump_clock):
    """Its last yield was wrong, so its turn was not over."""

    class Lingers(Shared):
        async def inference(self):
            try:
                while True:
                    self.log.append((current_session(), trio.current_time()))
                    yield picture(0) if self.state.level != 9 else np.zeros(3)
            finally:
                await trio.sleep(3)

    async with open_server(Lingers, step_cost=0.1) as server, AsyncExitStack() as stack:
        wrong, goes_on = await connect_all(server, stack, 2)
        await trio.sleep(5)
        with pytest.raises(OutputError):
            await wrong.command("set_level", level=9)
            await wrong.take(1000)
        assert trio.current_time() > 8
        times = np.array([*steps_of(server.model.log, goes_on), trio.current_time()])
        assert np.diff(times[times > 4]).max() < 0.21
