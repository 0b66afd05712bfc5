"""`runtime.first_step_timeout`, in virtual time: a first step since the load may compile, and has a limit of its own."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import trio

from reactor_trio import DistributedPipeline, Output, ReactorModel, ReactorPipeline, Video, connected, event
from reactor_trio.errors import ModelFailed, SessionEnded
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.isolation import isolated_worker as worker
from reactor_trio.testing import open_server

FIRST = "its process computed for more than 30 s in its first step since the load (runtime.first_step_timeout)"
LATER = "its process computed for more than 2 s in one step (runtime.step_timeout)"


class Picture(Output):
    main_video: Video


PICTURE = np.zeros((4, 6, 3), np.uint8)


class Busy(ReactorModel):
    """The steps of each load take the seconds that its config says, the last of them again and again."""

    output: Picture
    fps = 10

    def load(self, config):
        self.config = config
        self.costs = list(config["costs"].pop(0))
        self.busy_until = 0.0
        config["loads"].append(self)

    @connected
    async def greet(self):
        await self.compute(self.config.get("greeting", 0.0))

    @event
    async def handle(self, seconds: float):
        await self.compute(seconds)

    async def compute(self, seconds):
        self.busy_until = trio.current_time() + seconds
        await trio.sleep(seconds)

    async def step(self):
        await self.compute(self.costs.pop(0) if len(self.costs) > 1 else self.costs[0])
        return PICTURE


class Compiles(Busy, ReactorPipeline):
    async def inference(self):
        while True:
            yield await self.step()


class Emits(Busy):
    async def run(self):
        while True:
            await self.connected.wait()
            await self.emit(await self.step())


@pytest.fixture(autouse=True)
def busy(monkeypatch):
    """A model loop that computes answers no ping until it has computed; here the model loop is one with the others."""
    receive = worker._Worker.receive

    def late(self, message, session):
        if isinstance(message, ipc_messages.Ping) and isinstance(self._loaded.model, Busy):
            self.nursery.start_soon(answer, self, message)
        else:
            receive(self, message, session)

    async def answer(self, ping):
        model = self._loaded.model
        await trio.sleep_until(model.busy_until)
        if model.config.get("never rests"):
            await trio.testing.wait_all_tasks_blocked()
            await trio.sleep_until(model.busy_until)  # the next step begins first
        receive(self, ping, 0)

    monkeypatch.setattr(worker._Worker, "receive", late)


def limits(step=2.0, first=30.0):
    return {"isolation": "process", "step_timeout": step, "first_step_timeout": first}


async def taken_until_the_end(client):
    began = trio.current_time()
    with pytest.raises(SessionEnded) as ended:
        await client.take(1000, within=100_000)
    assert ended.value.reason == "model_restarting"
    return trio.current_time() - began


def said(caplog):
    return [record.getMessage() for record in caplog.records if "the model is gone" in record.getMessage()]


@pytest.mark.parametrize(
    ("settings", "costs", "greeting"),
    [
        (limits(), [29, 0.1], 0),
        (limits(), [1.9], 0),
        (limits(), [0.1], 29),
        (limits(first=0), [5000, 0.1], 0),
        (limits(step=0), [29, 5000, 0.1], 0),
        (limits(step=0, first=0), [5000], 0),
    ],
)
async def test_a_first_step_has_its_own_time(autojump_clock, settings, costs, greeting):
    config = {"costs": [costs], "greeting": greeting, "loads": []}
    async with open_server(Compiles, config=config, **settings) as server, server.connect() as client:
        await client.take(20, within=1_000_000)
        assert len(config["loads"]) == 1


async def test_a_run_loop_has_it_until_its_first_emit(autojump_clock):
    config = {"costs": [[29, 0.1]], "loads": []}
    async with open_server(Emits, config=config, **limits()) as server, server.connect() as client:
        await client.take(20, within=100)
    assert len(config["loads"]) == 1


async def test_a_first_step_has_no_more_time_because_a_later_one_has(autojump_clock):
    """Pings were as rare as the longer limit says: it was killed after up to 960 s."""
    config = {"costs": [[5000], [0.1]], "loads": []}
    async with open_server(Compiles, config=config, **limits(step=3600.0, first=60.0)) as server:
        await trio.sleep(100)
        async with server.connect() as client:
            assert 60 <= await taken_until_the_end(client) <= 76  # a ping each 15 s


@pytest.mark.parametrize("costs", [[0.1, 0.1, 5000], [29, 5000]])
async def test_a_later_step_that_is_killed_has_its_advice(autojump_clock, caplog, costs):
    """However often: another shape may have come, and the model has shown each time that it works."""
    config = {"costs": [list(costs) for _ in range(5)], "loads": []}
    async with open_server(Compiles, config=config, **limits()) as server:
        for _ in range(4):
            async with server.connect() as client:
                await client.take(len(costs) - 1, within=40)
                assert await taken_until_the_end(client) == pytest.approx(2.0, abs=0.6)  # a ping each 0.5 s
            await trio.sleep(20)  # the crash loop's own end is another matter
    lines = said(caplog)
    assert len(lines) == 4
    for line in lines:
        assert LATER in line
        assert "for a new shape" in line
        assert "warm_up() of reactor_trio.adapters" in line
        assert "runtime.step_timeout" in line


async def test_a_handler_after_the_first_frame_has_the_time_of_a_step(autojump_clock, caplog):
    config = {"costs": [[0.1]] * 2, "loads": []}
    async with open_server(Compiles, config=config, **limits()) as server, server.connect() as client:
        await client.take(3)
        with pytest.raises(SessionEnded):
            await client.command("handle", seconds=25)
    assert LATER in said(caplog)[0]


@pytest.mark.parametrize(("costs", "greeting"), [([5000], 0), ([0.1], 5000)])
async def test_two_kills_in_a_first_step_end_the_server_with_advice(autojump_clock, caplog, costs, greeting):
    config = {"costs": [list(costs) for _ in range(3)], "greeting": greeting, "loads": []}
    with pytest.raises(ModelFailed) as failed:
        async with open_server(Compiles, config=config, **limits()) as server:
            async with server.connect() as client:
                assert await taken_until_the_end(client) == pytest.approx(30.0, abs=0.6)
            await trio.sleep(60)
            assert server.http("/health").status == 200
            async with server.connect() as client:
                assert await taken_until_the_end(client) == pytest.approx(30.0, abs=0.6)
            await trio.sleep(1)
    assert len(config["loads"]) == 2
    advice = "belongs into load(), as warm_up() of reactor_trio.adapters makes it; or raise runtime.first_step_timeout"
    assert str(failed.value).startswith(f"Compiles: {FIRST}, after each of its last 2 loads. A first step that compiles ")
    assert advice in str(failed.value)
    assert "\n" not in str(failed.value)
    first, second = said(caplog)
    assert FIRST in first
    assert advice in first
    assert "it is loaded again" in first
    assert "it is loaded again" not in second


@pytest.mark.parametrize("between", ["frame", "death"])
async def test_two_kills_that_are_not_in_a_row_end_nothing(autojump_clock, between):
    slow, good = [5000], [0.1, 0.1, 0.1, 5000]
    config = {"costs": [list(slow), list(good), list(slow), list(good)], "loads": []}
    async with open_server(Compiles, config=config, **limits()) as server:
        for turn in range(3):
            async with server.connect() as client:
                if turn == 1 and between == "death":
                    server.runtime.placement.process.kill()
                await taken_until_the_end(client)
            await trio.sleep(20)
        async with server.connect() as client:
            await client.take(1)


async def test_a_hang_right_after_the_first_frame_is_not_a_first_step(autojump_clock):
    """Although its ping was sent while the first step ran."""
    config = {"costs": [[1000, 5000], [0.1]], "never rests": True, "loads": []}
    async with open_server(Compiles, config=config, **limits(first=0)) as server, server.connect() as client:
        await client.take(1, within=2000)
        assert await taken_until_the_end(client) == pytest.approx(2.0, abs=0.6)


class Halves(DistributedPipeline):
    """Rank 1 computes the steps that its config says; rank 0 takes no time."""

    output: Picture
    fps = 10
    ranks = 2

    def load(self, config):
        self.costs = [list(costs) for costs in config["costs"]][min(len(config["loads"]) // 2, 1)]
        config["loads"].append(self)

    async def inference(self):
        while True:
            cost = self.costs.pop(0) if len(self.costs) > 1 else self.costs[0]
            await trio.sleep(cost if self.rank else 0)
            yield PICTURE


@pytest.mark.parametrize("settings", [limits(), limits(first=0)])
async def test_rank_0_waits_for_the_first_step_of_another_rank(autojump_clock, settings):
    config = {"costs": [[29, 0.1]], "loads": []}
    async with open_server(Halves, config=config, **settings) as server, server.connect() as client:
        await client.take(20, within=100)
    assert len(config["loads"]) == 2


async def test_a_later_step_of_a_rank_has_the_time_of_a_step(autojump_clock, caplog):
    config = {"costs": [[29, 0.1, 25], [0.1]], "loads": []}
    async with open_server(Halves, config=config, **limits()) as server, server.connect() as client:
        await client.take(2, within=100)
        await taken_until_the_end(client)
    (line,) = said(caplog)
    assert "rank 1 has not ended step 2 2 s after rank 0; its sessions end, and it is loaded again. If the step comp" in line


async def test_two_first_steps_of_a_rank_that_take_too_long_end_the_server(autojump_clock, caplog):
    config = {"costs": [[5000], [5000]], "loads": []}
    with pytest.raises(ModelFailed, match="rank 1 has not ended step 0 30 s after rank 0, after each of its last 2 loads"):
        async with open_server(Halves, config=config, **limits()) as server:
            for _ in range(2):
                async with server.connect() as client:
                    await taken_until_the_end(client)
                await trio.sleep(20)
    assert len(said(caplog)) == 2
    assert logging.ERROR in {record.levelno for record in caplog.records}
