"""One scenario with all that can tie or race, run many times: one and the same trace, in each placement of the model.

Two sessions in a row; a command at the instant at which a step begins; a generator that returns and is made anew; idling;
a command and a vanish at one instant; a viewer that comes and goes; a viewer that stalls. Trio runs ready tasks in random
order, so whatever the order decides would show.
"""

from __future__ import annotations

import pytest
import trio
import trio.testing

from reactor_trio.client.session_view import internals
from reactor_trio.errors import CommandError, SessionEnded
from reactor_trio.interface import (
    Idle,
    InputField,
    InputState,
    ModelMessage,
    ReactorModel,
    ReactorPipeline,
    connected,
    disconnected,
    event,
)
from reactor_trio.testing import open_server
from tests.support.behaviour_models import picture
from tests.support.models import Picture


class Look(InputState):
    level: int = InputField(default=0, ge=0, le=255)
    asleep: bool = False


class Progress(ModelMessage):
    done: int


class Noting:
    """What a model writes down, with virtual times to the microsecond."""

    output: Picture
    fps = 10

    def load(self, config):
        self.events = []

    def note(self, *what):
        self.events.append((round(trio.current_time(), 6), *what))

    @connected
    def request(self):
        self.note("connected", self.connected.is_set())

    @disconnected
    async def goodbye(self):
        self.note("disconnected", self.connected.is_set())
        await trio.sleep(0.01)

    @event
    def boost(self, by: int) -> int:
        if by < 0:
            raise CommandError("backwards", "only up")
        self.note("boost", by)
        return by + 1


class Sync(Noting, ReactorPipeline):
    state: Look

    def inference(self):
        number = 0
        try:
            while self.state.asleep:
                yield Idle
            for number in range(5):
                self.note("step", number, self.state.level)
                yield picture(10 * number + self.state.level)
        finally:
            self.note("closed", number)


class Async(Noting, ReactorPipeline):
    state: Look

    async def inference(self):
        number = 0
        try:
            while self.state.asleep:
                yield Idle
            for number in range(5):
                level = self.state.level
                self.note("step", number, level)
                await trio.sleep(0.05)
                assert self.state.level == level, "handlers run between steps only"
                if number == 3:
                    await self.send(Progress(number))
                yield picture(10 * number + level)
        finally:
            self.note("closed", number)


class Loop(Noting, ReactorModel):
    """A loop of its own; commands reach it through handlers."""

    level = 0
    asleep = False

    @event
    def set_level(self, level: int):
        self.level = level
        self.note("level", level)

    @event
    def set_asleep(self, asleep: bool):
        self.asleep = asleep

    async def run(self):
        number = 0
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                if self.asleep:
                    await trio.sleep(0.02)
                    continue
                number += 1
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(trio.sleep, 0.05)
                await self.emit(picture((10 * number + self.level) % 256))


async def scenario(model, cost, placement):
    """The trace: what the clients saw with virtual times, and what the model went through."""
    seen = []

    def note(who, *what):
        seen.append((round(trio.current_time(), 6), who, *what))

    def frames(who, taken):
        for frame in taken:
            seen.append((who, frame.seq, frame.step, frame.pts, frame.command_id, int(frame.data[0, 0, 0])))

    async def command(client, name, **arguments):
        try:
            note("ack", name, await client.command(name, **arguments))
        except (CommandError, SessionEnded) as error:
            note("refused", name, str(error))

    async with open_server(model, step_cost=cost, **placement) as server:
        async with server.connect() as first:
            frames("first", await first.take(3))
            await command(first, "set_level", level=7)  # at the instant of a frame, and of the next step
            async with server.connect(role="viewer") as viewer, server.connect(role="viewer") as stalled:
                frames("viewer", await viewer.take(3))
                stalled.stall()
                await command(first, "boost", by=3)
                await command(first, "boost", by=-1)
                await command(first, "set_level")
                frames("first", await first.take(8))  # past the generator's return
                frames("viewer", await viewer.take(2))
                stalled.resume()
                late = await stalled.take(4)
                await trio.testing.wait_all_tasks_blocked()  # those who leave have what was sent to them
            await trio.sleep(0.3)
            await command(first, "set_level", level=99)
            await internals(first).connection.transport.send('{"type": "boost", "data": {"by": 5}, "id": 900}')
            await first.vanish()  # at the instant of the command before it
        note("first is over")
        async with server.connect() as second:
            note("second begins")
            await command(second, "set_asleep", asleep=True)
            await trio.sleep(1.0)
            await command(second, "set_asleep", asleep=False)
            await command(second, "set_level", level=5)
            frames("second", await second.take(6))
            await second.vanish()
        await trio.sleep(20)
        drops = server.runtime.metrics.drops()
    # How much of a stalled client's backlog is under way in its socket is a matter of the socket.
    of_the_socket = [(frame.seq, frame.pts) for frame in late], drops
    return seen, server.model.events, of_the_socket


def run_once(model, cost, placement):
    return trio.run(scenario, model, cost, placement, clock=trio.testing.MockClock(autojump_threshold=0))


PLACEMENTS = {"inline": {}, "thread": {"thread": True}, "websocket": {"websocket": True}}
models = pytest.mark.parametrize("model", [Sync, Async, Loop])
costs = pytest.mark.parametrize("cost", [0.25, 0.0])


RUNS = {"inline": 40, "thread": 15, "websocket": 15}


@pytest.mark.parametrize("part", [pytest.param(1 / 3, id="short"), pytest.param(1, id="long", marks=pytest.mark.soak)])
@costs
@pytest.mark.parametrize(
    ("model", "placement"),
    # the kit runs a model with a loop of its own in one loop only
    [(model, name) for model in (Sync, Async, Loop) for name in RUNS if (model, name) != (Loop, "thread")],
)
def test_the_trace_is_the_same_in_every_run(model, cost, placement, part):
    first = run_once(model, cost, PLACEMENTS[placement])
    for number in range(1, int(RUNS[placement] * part)):
        assert run_once(model, cost, PLACEMENTS[placement]) == first, f"run {number} differs"


@models
@costs
def test_the_trace_is_the_same_in_every_placement(model, cost):
    names = ["inline", "websocket"] if model is Loop else ["inline", "websocket", "thread"]
    (seen, events, _), *others = [run_once(model, cost, PLACEMENTS[name]) for name in names]
    for other in others:
        assert other[:2] == (seen, events)


@models
def test_the_scenario_contains_hooks_steps_commands_and_drops(model):
    """A trace that is always the same because nothing happens would prove nothing."""
    seen, events, (late, drops) = run_once(model, 0.25, {})
    whats = [entry[1] for entry in events]
    assert whats.count("connected") == whats.count("disconnected") == 2
    if model is not Loop:
        assert whats.count("closed") >= 4, "returned, made anew, closed at both ends"
        assert [entry[2:] for entry in events if entry[1] == "step"][-1][1] == 5
    assert "boost" in whats
    assert [entry[2] for entry in seen if entry[1] == "ack"] == [
        "set_level", "boost", "set_level", "set_asleep", "set_asleep", "set_level",
    ]  # fmt: skip
    assert len([entry for entry in seen if entry[1] == "refused"]) == 2
    assert drops["lane", "superseded"] > 0
    assert len(late) == 4
    second = [entry for entry in seen if entry[0] == "second"]
    assert [entry[1] for entry in second] == list(range(second[0][1], second[0][1] + 6))
    assert not [entry for entry in second if entry[5] % 10 == 9], "99 was the first session's"
