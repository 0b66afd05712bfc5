"""Model code that goes on between steps, on several ranks: it takes no part in the calls."""

from __future__ import annotations

import numpy as np
import pytest
import trio

from reactor_trio import BufferClosed, DistributedPipeline, Input, Output, Video, event
from reactor_trio.concurrency import open_model_host
from reactor_trio.execution.bare_binding import BareBinding
from reactor_trio.interface.declaration import declaration_of
from reactor_trio.lifecycle import Action
from reactor_trio.placement.ranks.follower import Follower
from reactor_trio.placement.ranks.rank_messages import CancelRankCall, FromLeader, RankCall, RankCallDone
from reactor_trio.testing import open_server
from reactor_trio.testing.memory_ipc_link import memory_links
from reactor_trio.testing.virtual_time import InlineTime


class Picture(Output):
    main_video: Video


class Camera(Input):
    webcam: Video


class Background(DistributedPipeline):
    """Its generator holds a nursery open across yields, with a task in it; each step asks the runtime, too."""

    output: Picture
    camera: Camera
    fps = 10
    ranks = 2
    begins_alone = False

    def load(self, config):
        self.steps = []
        self.found = []

    async def inference(self):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.background)
            if self.begins_alone:  # the task's first turn is after this step
                yield np.zeros((4, 6, 3), np.uint8)
            while True:
                self.steps.append(self.camera.webcam.total_received)
                await trio.sleep(0.05)
                self.steps.append((self.camera.webcam.total_received, self.cancelled(), self.camera.webcam.available))
                yield np.zeros((4, 6, 3), np.uint8)


class Polls(Background):
    begins_alone = True

    async def background(self):
        while True:
            self.found.append((self.camera.webcam.total_received, self.cancelled(), self.connected.is_set()))
            await trio.sleep(0.013)


class Reads(Background):
    async def background(self):
        while True:
            try:
                self.found += [frame.data[0, 0, 0] for frame in await self.camera.webcam.read()]
            except BufferClosed:
                return


class ReadsForATime(Background):
    async def background(self):
        while True:
            try:
                self.found += [frame.data[0, 0, 0] for frame in await self.camera.webcam.read(timeout=0.3)]
            except BufferClosed:
                return
            except TimeoutError:
                self.found.append("late")


async def two_sessions(server, frames=20):
    """Serve two clients that push frames."""
    for _ in range(2):
        async with server.connect() as client:
            for level in range(frames):
                await client.push_video("webcam", np.full((16, 16, 3), level, np.uint8))
                await trio.sleep(0.013 * (level % 7))
            await client.take(5)
        await trio.sleep(3)
    assert server.runtime.metrics.exposition().count(b"reactor_model_restarts_total 0.0") == 1
    return [process.loaded for process in server.runtime.placement.process.ranks]


@pytest.mark.parametrize("model", [Polls, Reads, ReadsForATime])
async def test_a_task_that_goes_on_between_steps_changes_no_answer_in_a_step(autojump_clock, model):
    async with open_server(model) as server:
        first, other = await two_sessions(server)
    assert len(first.steps) > 20
    assert first.steps == other.steps


async def test_such_a_task_learns_what_its_rank_knows(autojump_clock):
    async with open_server(Polls) as server:
        first, other = await two_sessions(server)
    assert first.found[0][1:] == other.found[0][1:] == (False, True)


async def test_such_a_task_reads_frames_on_rank_0_alone_and_is_late_on_each(autojump_clock):
    async with open_server(ReadsForATime) as server:
        async with server.connect() as client:
            await trio.sleep(1)
            await client.push_video("webcam", np.full((16, 16, 3), 100, np.uint8))
            await trio.sleep(1)
        await trio.sleep(3)
        first, other = [process.loaded.found for process in server.runtime.placement.process.ranks]
    assert len([found for found in first if found != "late"]) == 1
    assert set(other) == {"late"}


class Rests(Background):
    begins_alone = True

    async def background(self):
        await trio.sleep_forever()

    @event
    async def rests(self, seconds: float):
        await trio.sleep(seconds)


async def test_a_handler_that_is_cancelled_leaves_the_nursery_of_the_generator_alone(autojump_clock):
    async with open_server(Rests) as server:
        async with server.connect() as client:
            await client.take(1)
            with trio.move_on_after(1):
                await client.command("rests", seconds=60)
        await trio.sleep(3)
        await two_sessions(server)


async def test_a_cancel_of_a_call_that_this_rank_has_made_cancels_nothing(autojump_clock):
    done = []
    async with open_model_host(InlineTime(None)) as host, trio.open_nursery() as nursery:
        first, second = memory_links(RankCallDone, FromLeader)
        follower = Follower(1, second, host, done.append)
        nursery.start_soon(second.receive, follower.receive)
        nursery.start_soon(first.receive, lambda message, _session: done.append((message.number, message.outcome)))
        model, declaration = Rests(), declaration_of(Rests)
        binding = BareBinding(declaration, 10)
        model._reactor_binding = binding
        model.load({})
        nursery.start_soon(host.run, follower.run, model, declaration, binding)
        for number, action in enumerate([Action.MAKE_STATE, None, None, None, Action.CLOSE_DRIVER], start=1):
            first.send(RankCall(number, "step") if action is None else RankCall(number, "perform", action=action))
            await trio.sleep(1)
            first.send(CancelRankCall(number))
            await trio.sleep(1)
        assert done == [(1, ""), (2, ""), (3, ""), (4, ""), (5, "BaseExceptionGroup")]
        nursery.cancel_scope.cancel()
