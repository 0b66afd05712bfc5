"""The life of a session on each rank, also for code that takes no part in the calls, and when a client leaves early."""

from __future__ import annotations

import threading

import numpy as np
import pytest
import trio

from reactor_trio import (
    BufferClosed,
    DistributedPipeline,
    Input,
    Output,
    Video,
    connected,
    disconnected,
    session_ended,
    session_started,
)
from reactor_trio.configuration.settings import Settings
from reactor_trio.testing import inline_process, open_server
from reactor_trio.testing.memory_ipc_link import MemoryIpcLink


class Picture(Output):
    main_video: Video


class Camera(Input):
    webcam: Video


class Asked(DistributedPipeline):
    """Has a plain thread ask the runtime in each hook; such a thread is in no call. It has no `@disconnected`."""

    output: Picture
    camera: Camera
    fps = 10

    def load(self, config):
        self.found = []

    def ask(self, where):
        def look():
            self.found.append((where, self.cancelled(), self.connected.is_set(), self.camera.webcam.closed))

        asks = threading.Thread(target=look)
        asks.start()
        asks.join()

    @session_started
    def begins(self):
        self.ask("session_started")

    @connected
    def greets(self):
        self.ask("connected")

    @session_ended
    def ends(self):
        self.ask("session_ended")

    def inference(self):
        try:
            while True:
                yield np.zeros((4, 6, 3), np.uint8)
        finally:
            self.ask("closed")


class AskedAtEnd(Asked):
    @disconnected
    def says_goodbye(self):
        self.ask("disconnected")


def models(server):
    """Of each rank, or of the only one."""
    process = server.runtime.placement.process
    return [rank.loaded for rank in getattr(process, "ranks", [process])]


BEGIN = [("session_started", False, False, False), ("connected", False, True, False)]
#: where the session goes on: only `connected` is cleared
AGAIN = [("disconnected", False, False, False), ("closed", False, False, False), ("session_ended", False, False, False)]
END = [("disconnected", True, False, True), ("closed", True, False, True), ("session_ended", True, False, True)]


@pytest.mark.parametrize("model", [Asked, AskedAtEnd])
async def test_a_plain_thread_learns_the_same_on_each_rank(autojump_clock, model):
    async with open_server(model, settings=Settings(ranks=2)) as server:
        for _ in range(2):
            async with server.connect() as client:
                await client.take(2)
                await client.transport.restart("fresh")
                await client.take(2)
            await trio.sleep(3)
        first, other = [model.found for model in models(server)]
    one = [found for found in BEGIN + AGAIN + BEGIN + END if model is AskedAtEnd or found[0] != "disconnected"]
    assert first == one * 2
    assert other == first


class Reads(DistributedPipeline):
    """Its generator holds a nursery open across its yields, with a task in it that reads."""

    output: Picture
    camera: Camera
    fps = 10
    ranks = 2

    def load(self, config):
        self.catches, self.found = config["catches"], []

    async def reads(self):
        await trio.lowlevel.checkpoint()  # the step in which it began may be over
        try:
            while True:
                await self.camera.webcam.read()
        except (BufferClosed, trio.Cancelled) as error:
            self.found.append(type(error).__name__)
            if not self.catches or isinstance(error, trio.Cancelled):
                raise

    async def inference(self):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.reads)
            while True:
                yield np.zeros((4, 6, 3), np.uint8)


@pytest.mark.parametrize("catches", [True, False])
async def test_a_task_that_reads_between_steps_learns_on_each_rank_that_the_input_is_closed(autojump_clock, catches):
    async with open_server(Reads, config={"catches": catches}) as server:
        for _ in range(2):
            async with server.connect() as client:
                await client.push_video("webcam", np.zeros((16, 16, 3), np.uint8))
                await client.take(5)
            await trio.sleep(3)
        assert [model.found for model in models(server)] == [["BufferClosed"] * 2] * 2
        assert server.runtime.metrics.exposition().count(b"reactor_model_restarts_total 0.0") == 1


class Cleans(DistributedPipeline):
    """Its client leaves during a step, whose cleanup takes a while."""

    output: Picture
    fps = 10

    def load(self, config):
        self.found = []

    async def inference(self):
        try:
            while True:
                yield np.zeros((4, 6, 3), np.uint8)
                await trio.sleep(100)
        finally:
            began = trio.current_time()
            try:
                await trio.sleep(1)
            finally:
                self.found.append(round(trio.current_time() - began, 3))


@pytest.mark.parametrize("ranks", [1, 2])
async def test_the_cleanup_of_a_cancelled_step_may_await_on_each_rank(autojump_clock, ranks):
    async with open_server(Cleans, settings=Settings(ranks=ranks, isolation="process")) as server:
        for _ in range(2):
            async with server.connect() as client:
                await client.take(1)
                await trio.sleep(1)
            await trio.sleep(20)
        assert [model.found for model in models(server)] == [[1, 1]] * ranks
        assert server.runtime.metrics.exposition().count(b"reactor_model_restarts_total 0.0") == 1


class Leaves(DistributedPipeline):
    """A hook takes a second, whatever is cancelled; its client leaves meanwhile."""

    output: Picture
    camera: Camera
    fps = 10

    def load(self, config):
        self.late, self.called = config["late"], []

    async def hook(self, name):
        self.called.append(name)
        if name == self.late:
            with trio.CancelScope(shield=True):
                await trio.sleep(1)

    @session_started
    async def begins(self):
        await self.hook("session_started")

    @connected
    async def greets(self):
        await self.hook("connected")

    @disconnected
    async def says_goodbye(self):
        await self.hook("disconnected")

    @session_ended
    async def ends(self):
        await self.hook("session_ended")

    def inference(self):
        while True:
            yield np.zeros((4, 6, 3), np.uint8)


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("late", ["session_started", "connected"])
async def test_hooks_come_in_pairs_when_the_client_leaves_during_one(autojump_clock, late, ranks):
    settings = Settings(ranks=ranks, isolation="process")
    async with open_server(Leaves, config={"late": late}, settings=settings) as server:
        async with server.connect():
            await trio.sleep(0.5)
        await trio.sleep(5)
        for each in models(server):
            assert each.called == ["session_started", "connected", "disconnected", "session_ended"]


class UploadsAlone(DistributedPipeline):
    """Its second step is longer on rank 0, which waits for something that the other ranks do not need."""

    ranks, fps = 2, 10
    output: Picture

    def load(self, config):
        self.made, self.ended = 0, []

    @disconnected
    def goodbye(self):
        self.ended.append(self.made)

    async def inference(self):
        self.made += 1
        if self.made == 2 and self.rank == 0:
            await trio.sleep(1000)
        yield np.zeros((4, 6, 3), np.uint8)


async def test_a_client_leaves_while_rank_0_alone_is_in_a_step_whose_result_differs_from_that_before(
    autojump_clock, monkeypatch, caplog
):
    """The first step ended the generator and the second yields: what rank 1 says of it is no answer to the first."""
    monkeypatch.setattr(inline_process, "LeaderLink", MemoryIpcLink)  # rank 1 makes a call while rank 0 still makes it
    async with open_server(UploadsAlone) as server:
        async with server.connect() as client:
            await client.take(1)
            with pytest.raises(trio.TooSlowError, match=r"inference\(\) is at .*: await trio.sleep\(1000\)"):
                await client.take(10**6, within=1)
        async with server.connect() as client:  # at once: no rank is loaded again
            await client.take(1)
        found = [model.ended for model in models(server)]
    assert found == [[2, 3], [2, 3]]
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
