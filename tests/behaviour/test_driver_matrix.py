"""What every kind of model does alike: generators, run loops and blocking sessions pass one and the same tests."""

from __future__ import annotations

import numpy as np
import pytest
import trio
import trio.testing

from reactor_trio import (
    CommandError,
    InputField,
    ModelMessage,
    ReactorModel,
    ReactorPipeline,
    VideoModel,
    command,
    connected,
    event,
    get_ctx,
)
from reactor_trio.client import connect
from reactor_trio.server.serve import serve
from reactor_trio.testing import open_server
from tests.support.behaviour_models import picture, shown
from tests.support.models import Picture

COST = 0.125


class Note(ModelMessage):
    number: int


class Levels:
    """Pictures of the level that clients set; each is announced by a message. Set 13 and the model breaks."""

    level = 0

    def picture(self):
        if self.level == 13:
            raise ValueError("thirteen")
        return picture(self.level)


class SyncLevels(Levels, ReactorPipeline):
    output: Picture
    fps = 8

    @connected
    def anew(self):
        self.level = 0

    @event
    def set_level(self, level: int = InputField(ge=0, le=255)):
        self.level = level
        return level

    @event
    def refuse(self):
        raise CommandError("never", "not today")

    def inference(self):
        while True:
            yield self.picture()


class AsyncLevels(SyncLevels):
    output: Picture

    async def inference(self):
        number = 0
        while True:
            frame = self.picture()
            await self.send(Note(number=number))
            number += 1
            yield frame


class LoopLevels(Levels, ReactorModel):
    output: Picture
    fps = 8
    anew, set_level, refuse = SyncLevels.anew, SyncLevels.set_level, SyncLevels.refuse

    async def run(self):
        while True:
            await self.connected.wait()
            number = 0
            while self.connected.is_set():
                frame = self.picture()
                await self.send(Note(number=number))
                number += 1
                await self.emit(Picture(main_video=frame), compute_time=COST)


class BlockingLevels(Levels, VideoModel):
    fps = 8

    @command
    def set_level(self, level: int = InputField(ge=0, le=255)):
        self.level = level
        return level

    @command
    def refuse(self):
        raise CommandError("never", "not today")

    def start_session(self):
        number, self.level = 0, 0
        while not get_ctx().should_stop():
            frame = self.picture()
            get_ctx().send({"type": "note", "data": {"number": number}})
            number += 1
            get_ctx().emit_block(frame)


KINDS = [SyncLevels, AsyncLevels, LoopLevels, BlockingLevels]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
in_memory_or_framed = pytest.mark.parametrize("websocket", [False, True], ids=["memory", "websocket"])


@every_kind
@in_memory_or_framed
async def test_frames_come_in_order_evenly_and_none_is_missing(autojump_clock, kind, websocket):
    async with open_server(kind, step_cost=COST, websocket=websocket) as server, server.connect() as client:
        frames = await client.take(20)
        assert [frame.seq for frame in frames] == list(range(20))
        assert [frame.step for frame in frames] == list(range(20))
        assert frames[0].pts == COST
        assert np.diff([frame.pts for frame in frames[1:]]) == pytest.approx(COST, abs=2e-6)


@every_kind
@in_memory_or_framed
async def test_a_command_is_answered_and_seen_and_named_by_the_frames_made_with_it(autojump_clock, kind, websocket):
    async with open_server(kind, step_cost=COST, websocket=websocket) as server, server.connect() as client:
        await client.take(3)
        assert await client.command("set_level", level=7) == 7
        frames = await client.take(10)
        assert shown(frames)[-1] == 7
        named = [frame for frame in frames if frame.command_id is not None]
        assert set(shown(named)) == {7}


@every_kind
async def test_a_refused_command_changes_nothing(autojump_clock, kind):
    async with open_server(kind, step_cost=COST) as server, server.connect() as client:
        await client.take(1)
        for arguments, message in (({"level": 256}, r"Expected int <= 255 - at \$\.level"), ({}, r"level"),
                                   ({"level": "3"}, r"Expected int, got str"), ({"up": 1}, "up")):  # fmt: skip
            with pytest.raises(CommandError, match=message):
                await client.command("set_level", **arguments)
        with pytest.raises(CommandError, match="unknown command 'jump'"):
            await client.command("jump")
        with pytest.raises(CommandError, match="not today"):
            await client.command("refuse")
        assert set(shown(await client.take(8))) == {0}


@every_kind
@pytest.mark.parametrize("leaving", ["close", "vanish"])
async def test_each_client_finds_the_model_as_the_first_did(autojump_clock, kind, leaving):
    seen = []
    async with open_server(kind, step_cost=COST) as server:
        for _ in range(3):
            async with server.connect() as client:
                began = trio.current_time()
                seen.append(shown(await client.take(4)))
                await client.command("set_level", level=9)
                await client.take(6)
                await getattr(client, leaving)()
                await server.wait_left(client)
                assert trio.current_time() - began < 3
    assert seen == [[0] * 4] * 3


@every_kind
async def test_the_queue_moves_when_a_session_ends(autojump_clock, kind):
    async with open_server(kind, step_cost=COST) as server, trio.open_nursery() as nursery:
        order = []

        async def visit(number):
            async with server.connect() as client:
                await client.take(2)
                order.append(number)

        for number in range(4):
            nursery.start_soon(visit, number)
            await trio.testing.wait_all_tasks_blocked()
    assert order == [0, 1, 2, 3]


@every_kind
async def test_a_viewer_sees_the_same_frames_and_may_not_command(autojump_clock, kind):
    async with open_server(kind, step_cost=COST) as server, server.connect() as client:
        await client.take(1)
        async with server.connect(role="viewer") as viewer:
            with pytest.raises(CommandError, match="viewer"):
                await viewer.command("set_level", level=1)
            mine, theirs = await client.take(5), await viewer.take(6)
            assert {frame.seq for frame in mine} <= {frame.seq for frame in theirs}


@pytest.mark.parametrize("kind", KINDS[1:], ids=lambda kind: kind.__name__)
async def test_a_message_arrives_before_the_frame_made_after_it(autojump_clock, kind):
    async with open_server(kind, step_cost=COST) as server, server.connect() as client:
        for number in range(5):
            await client.take(1)
            assert (await client.next_message()).data == {"number": number}


@pytest.mark.parametrize("kind", [SyncLevels, AsyncLevels, BlockingLevels], ids=lambda kind: kind.__name__)
async def test_a_model_that_raises_ends_its_session_and_serves_the_next(autojump_clock, kind):
    async with open_server(kind, step_cost=COST) as server:
        for _ in range(2):
            async with server.connect() as client:
                await client.command("set_level", level=13)
                with pytest.raises(ValueError, match="thirteen"):
                    while True:
                        await client.take(1)
        assert server.http("/health").status == 200


@every_kind
async def test_one_trace_in_every_run(autojump_clock, kind):
    async def trace():
        async with open_server(kind, step_cost=[0.125, 0.25, 0.0625]) as server, server.connect() as client:
            frames = await client.take(4)
            await client.command("set_level", level=4)
            frames += await client.take(8)
            return [(frame.seq, round(frame.pts, 4), frame.step, frame.command_id, shown([frame])[0]) for frame in frames]

    first = await trace()
    for _ in range(15):
        assert await trace() == first


@every_kind
async def test_the_same_over_a_real_socket(kind):
    async with trio.open_nursery() as nursery:
        serving = await nursery.start(lambda task_status: serve(kind, port=0, task_status=task_status))
        for _ in range(2):
            with trio.fail_after(120):
                async with connect(f"ws://127.0.0.1:{serving.port}/ws", video=["raw"]) as client:
                    frames = client.frames()
                    assert shown([await anext(frames)]) == [0]
                    assert await client.command("set_level", level=5) == 5
                    while shown([await anext(frames)]) != [5]:
                        pass
        nursery.cancel_scope.cancel()
