"""Several sessions, a client that comes back and a model in a process of its own, together."""

from __future__ import annotations

import numpy as np
import pytest
import trio

from reactor_trio import InputField, InputState, ReactorModel, ReactorPipeline, UploadedFile, event
from reactor_trio.errors import SessionEnded
from reactor_trio.testing import open_server
from tests.support.models import Picture

PLACES = pytest.mark.parametrize("place", ["thread", "process"])


class State(InputState):
    level: int = InputField(default=0, ge=0, le=255)
    file: UploadedFile | None = None


class World(ReactorPipeline):
    state: State
    output: Picture
    fps = 10
    max_sessions = 3

    @event
    def size(self) -> int:
        return self.state.file.size

    def inference(self):
        number = 0
        while True:
            frame = np.full((4, 6, 3), self.state.level, np.uint8)
            frame[0, 0] = number
            number += 1
            yield frame


class Loop(ReactorModel):
    """Counts for each session from 0."""

    output: Picture
    fps = 10
    max_sessions = 2

    @event
    def set_level(self, level: int):
        self.level = level

    async def run(self):
        while True:
            await self.connected.wait()
            self.level, number = 0, 0
            while self.connected.is_set():
                frame = np.full((4, 6, 3), self.level, np.uint8)
                frame[0, 0] = number
                number += 1
                await self.emit(frame)


def numbers(frames):
    return [int(frame.data[0, 0, 0]) for frame in frames]


@PLACES
@pytest.mark.parametrize("model", [World, Loop])
async def test_sessions_beside_each_other_wherever_the_model_is(autojump_clock, model, place):
    async with open_server(model, isolation=place, step_cost=0.01) as server:
        async with server.connect() as one, server.connect() as other:
            await one.command("set_level", level=1)
            await other.command("set_level", level=2)
            await trio.sleep(1)
            for client, level in ((one, 1), (other, 2)):
                frames = await client.take(10)
                assert numbers(frames) == list(range(numbers(frames)[0], numbers(frames)[0] + 10))
                assert int(frames[-1].data[1, 1, 0]) == level


async def test_a_process_that_goes_takes_all_its_sessions_and_all_come_back(autojump_clock):
    async with open_server(World, isolation="process") as server:
        async with server.connect() as one, server.connect() as other:
            await one.take(1)
            await other.take(1)
            server.runtime.placement.process.kill()
            for client in (one, other):
                with pytest.raises(SessionEnded, match="model_restarting"):
                    await client.take(100)
        await trio.sleep(1)
        async with server.connect() as one, server.connect() as other:
            assert numbers(await one.take(2)) == numbers(await other.take(2)) == [0, 1]


@PLACES
async def test_a_session_without_its_client_stops_and_the_others_go_on(autojump_clock, place):
    async with open_server(World, isolation=place, resume_window=30, step_cost=0.01) as server:
        async with server.connect() as other:
            async with server.connect() as lost:
                token, last = lost.resume_token, (await lost.take(5))[-1]
                await lost.vanish()
            await other.take(1)
            await trio.sleep(10)
            assert numbers(await other.take(90))[-1] > 60
            assert len(server.runtime.session_manager.away) == 1
            async with server.connect(resume=token) as back:
                first = (await back.take(4))[-1]
                assert first.seq - last.seq < 8, "the world stood still meanwhile"
        assert len(server.sessions) == 2


async def test_the_models_process_ends_while_a_client_is_disconnected(autojump_clock):
    async with open_server(World, isolation="process", resume_window=30) as server:
        async with server.connect() as lost:
            token, session = lost.resume_token, lost.session_id
            await lost.take(2)
            await lost.vanish()
        server.runtime.placement.process.kill()
        await trio.sleep(1)
        assert len(server.runtime.session_manager.away) == 0
        async with server.connect(resume=token) as fresh:
            assert fresh.session_id != session
            assert numbers(await fresh.take(1)) == [0]


@PLACES
async def test_a_viewer_watches_the_session_of_its_token_and_a_file_belongs_to_its_own(autojump_clock, place):
    async with open_server(World, isolation=place) as server:
        async with server.connect() as one, server.connect() as other:
            await one.command("set_level", level=10)
            await other.command("set_level", level=20)
            share = server.runtime.session_manager.running[1].share_token
            async with server.connect(role="viewer", token=share) as viewer:
                assert int((await viewer.take(3))[-1].data[1, 1, 0]) == 20
            mine, theirs = await one.upload(b"x" * 10), await other.upload(b"y" * 20)
            await one.command("set_file", file=mine)
            await other.command("set_file", file=theirs)
            assert (await one.command("size"), await other.command("size")) == (10, 20)


async def test_of_several_sessions_a_newcomer_takes_over_the_first(autojump_clock):
    async with open_server(World, takeover="anyone", max_sessions=2) as server:
        async with server.connect() as one, server.connect() as other, server.connect() as third:
            await third.take(1)
            with pytest.raises(SessionEnded, match="taken_over"):
                await one.take(100)
            await other.take(1)
