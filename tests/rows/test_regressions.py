"""Bugs that other runtimes of this kind have had, by their number in our list; none may come here."""

from __future__ import annotations

import gc
import json
import weakref

import numpy as np
import pytest
import trio
from row_models import Picture, in_all_placements, picture, raw_session, shown

from reactor_trio.errors import CommandError, SessionEnded
from reactor_trio.interface import (
    Idle,
    InputField,
    InputState,
    ReactorModel,
    ReactorPipeline,
    connected,
    disconnected,
    event,
)
from reactor_trio.testing import open_server, open_session
from reactor_trio.testing.memory import MemoryLink, MemoryMessages, Stall
from reactor_trio.transport import Request


class Level(InputState):
    level: int = InputField(default=1, ge=0, le=255)


class Steady(ReactorPipeline):
    """Pictures of `level`; a log of the session's life."""

    output: Picture
    state: Level
    fps = 10

    def load(self, config):
        self.log = []

    @connected
    def hello(self):
        self.log.append("connected")

    @disconnected
    def goodbye(self):
        self.log.append("disconnected")

    def inference(self):
        try:
            while True:
                yield picture(self.state.level)
        finally:
            self.log.append("closed")


def gaps(frames):
    return np.diff([frame.pts for frame in frames])


async def test_regression_01_29_frames_at_once_into_ten_places_lose_nothing(autojump_clock):
    class Chunks(ReactorPipeline):
        output: Picture
        fps = 25
        buffer_size = 10

        def inference(self):
            first = 0
            while True:
                yield np.stack([picture(first + n) for n in range(29)])
                first += 29

    async with open_server(Chunks, step_cost=1.0) as server, server.connect() as client:
        frames = await client.take(87)
        assert shown(frames) == [frame.seq for frame in frames] == list(range(87))
        assert server.runtime.metrics.drops() == {}


async def test_regression_02_a_flush_in_mid_batch_leaves_no_old_frame(autojump_clock):
    class Scenes(ReactorModel):
        output: Picture
        fps = 10
        scene = 10

        @event
        def cut(self, scene: int):
            self.scene = scene
            self.output_buffer.clear()

        async def run(self):
            while True:
                await self.connected.wait()
                await self.emit(np.stack([picture(self.scene)] * 30))

    async with open_server(Scenes) as server, server.connect() as client:
        await trio.sleep(1.25)
        await client.command("cut", scene=20)
        frames = await client.take(60)
        values = shown(frames)
        assert values[:13] == [10] * 13, "shown before the cut"
        assert set(values[13:]) == {20}, "and not one old frame after it"
        assert server.runtime.metrics.drops().keys() == {("buffer", "flushed")}


@pytest.mark.parametrize("role", ["viewer", "control"])
async def test_regression_03_a_handshake_that_ends_after_the_session_or_the_server_is_refused(autojump_clock, role):
    async with open_server(Steady) as server:
        request = Request(
            method="GET", path="/ws", query={"role": role, "video": "raw"}, host="127.0.0.1", authority="127.0.0.1",
            headers=(), peer="late",
        )  # fmt: skip
        async with server.connect() as client:
            await client.take(1)
            assert server._site.admit(request) is None
            if role == "viewer":
                await client.close()
            else:
                await server.drain()
        link = MemoryLink(Stall(), 15)
        await server._site.converse(request, MemoryMessages(link, "late"))
        (goodbye,) = link.to_client
        assert json.loads(goodbye)["data"]["reason"] == ("done" if role == "viewer" else "draining")
        assert link.closed is not None
        assert len(server.sessions) == 1


@in_all_placements
async def test_regression_04_a_model_that_crashes_while_it_streams_tells_its_clients(autojump_clock, placement):
    class Crashes(Steady):
        def inference(self):
            yield picture(1)
            yield picture(2)
            raise RuntimeError("CUDA error")

    async with open_server(Crashes, step_cost=0.25, **placement) as server:
        async with server.connect() as client, server.connect(role="viewer") as viewer:
            with pytest.raises(RuntimeError, match="CUDA error"):
                await client.take(10)
            with pytest.raises(RuntimeError, match="CUDA error"):
                await viewer.take(10)
            assert (client.ended, viewer.ended) == ("model_error", "model_error")
        assert server.http("/health").status == 200, "a pipeline is there for the next client"
        async with server.connect() as client:
            assert shown(await client.take(1)) == [1]


@in_all_placements
async def test_regression_05_a_slow_reader_costs_no_memory_and_no_other_client(autojump_clock, placement):
    alive = []

    class Promises(Steady):
        def inference(self):
            while True:
                frame = picture(7)
                frame.flags.writeable = False
                alive.append(weakref.ref(frame))
                yield frame
                del frame

    async with open_server(Promises, step_cost=0.01, **placement) as server, server.connect() as client:
        async with server.connect(role="viewer") as slow:
            await slow.take(1)
            slow.stall()
            frames = await client.take(100)
            gc.collect()
            assert gaps(frames) == pytest.approx(0.1, abs=2e-6)
            assert [frame.seq for frame in frames] == list(range(100))
            assert sum(ref() is not None for ref in alive) <= 6
            assert server.runtime.metrics.drops()["lane", "superseded"] >= 90


@pytest.mark.parametrize("websocket", [False, True])
async def test_regression_06_a_dead_reader_is_freed_within_its_bound(autojump_clock, websocket):
    async with open_server(Steady, websocket=websocket) as server:
        async with server.connect() as client:
            await client.take(1)
            client.stall()
            began = trio.current_time()
            await server.sessions[0].ended.wait()
            assert trio.current_time() - began <= 15.3
            assert server.sessions[0].reason == "too_slow"
            assert server.model.log == ["connected", "disconnected", "closed"]
        async with server.connect() as client:
            assert shown(await client.take(1)) == [1], "the next one is served"


@in_all_placements
async def test_regression_07_what_a_long_step_made_for_a_client_that_left_is_discarded(autojump_clock, placement):
    async with open_server(Steady, step_cost=10, **placement) as server:
        async with server.connect() as client:
            await client.command("set_level", level=99)
            await trio.sleep(3)
            await client.vanish()
        waited = trio.current_time()
        async with server.connect() as client:
            assert trio.current_time() - waited == pytest.approx(7), "never two sessions in one model"
            frames = await client.take(2)
            assert shown(frames) == [1, 1]
            assert [frame.seq for frame in frames] == [0, 1]
            assert server.runtime.metrics.drops() == {("buffer", "session_over"): 1}
        await server.sessions[1].ended.wait()
        assert server.model.log == ["connected", "disconnected", "closed"] * 2, "each released exactly once"


@in_all_placements
async def test_regression_08_a_minute_at_30_fps_drifts_by_less_than_a_frame(autojump_clock, placement):
    class Film(Steady):
        fps = 30

    async with open_session(Film, step_cost=0.01, **placement) as client:
        frames = await client.take(1801)
    assert abs(frames[-1].pts - frames[0].pts - 60) < 1 / 30
    assert [frame.seq for frame in frames] == list(range(1801))


async def test_regression_09_the_rate_of_a_bursty_model_is_steady_and_does_not_spiral_down(autojump_clock):
    class Bursty(ReactorPipeline):
        output: Picture

        def load(self, config):
            self.rates = []

        def inference(self):
            while True:
                self.rates.append(self.output_buffer.fps)
                yield np.stack([picture(1)] * 8)

    async with open_server(Bursty, step_cost=lambda n: 0.6 if n % 5 == 4 else 0.2) as server, server.connect() as client:
        await client.take(8 * 200)
        late = server.model.rates[20:]
        assert len(late) > 150
        assert min(late) > 8 / 0.6
        assert max(late) <= 8 / 0.2
        first, second = late[:75], late[75:150]
        assert np.mean(first) == pytest.approx(np.mean(second), rel=0.01), "it neither falls nor climbs"


async def test_regression_10_a_stall_of_200_ms_is_one_late_frame_and_no_fast_forward(autojump_clock):
    class Camera(ReactorModel):
        output: Picture
        fps = 20

        async def run(self):
            await self.connected.wait()
            for n in range(60):
                if n == 30:
                    await trio.sleep(0.45)  # 0.25 s are buffered
                await self.emit(picture(n))
            await trio.sleep_forever()

    async with open_session(Camera) as client:
        between = gaps(await client.take(60))
    late = [gap for gap in between if gap > 0.051]
    assert len(late) == 1
    assert 0.15 < late[0] <= 0.30001
    assert min(between) >= 0.05 - 2e-6


@in_all_placements
async def test_regression_12_in_a_storm_of_parameters_the_last_wins_and_each_is_answered(autojump_clock, placement):
    async with open_server(Steady, step_cost=0.25, **placement) as server, server.connect() as client:
        await client.take(1)
        async with trio.open_nursery() as nursery:
            answered = []

            async def change(number):
                await client.command("set_level", level=number)
                answered.append(number)

            for number in range(150):
                nursery.start_soon(change, number)
                await trio.lowlevel.checkpoint()
        assert sorted(answered) == list(range(150))
        last = server.model.state.level
        assert shown(await client.take(4))[-1] == last


async def test_regression_12_in_the_order_of_the_wire(autojump_clock):
    async with open_server(Steady, step_cost=0.25) as server, raw_session(server) as peer:
        await trio.sleep(0.1)
        for number in range(150):
            await peer.command("set_level", number, level=number)
        answers = [await peer.hear() for _ in range(150)]
        assert [answer["id"] for answer in answers] == list(range(150))
        assert {answer["type"] for answer in answers} == {"reactor.ack"}
        assert len({answer["data"]["step"] for answer in answers}) == 1, "they share one place"
        assert server.model.state.level == 149


@pytest.mark.parametrize("codec", ["raw", "jpeg"])
async def test_regression_13_a_late_joiner_starts_on_a_key_frame(autojump_clock, codec):
    async with open_server(Steady, step_cost=0.01) as server, server.connect() as client:
        await client.take(10)
        async with server.connect(role="viewer", video=[codec]) as viewer:
            (frame,) = await viewer.take(1)
            assert frame.keyframe
            assert frame.seq >= 9
            assert viewer.tracks[0].width == 2, "its size was told before it"


@pytest.mark.parametrize("websocket", [False, True])
async def test_regression_14_malformed_and_deeply_nested_messages_are_refused_by_type(autojump_clock, websocket):
    async with open_server(Steady, step_cost=0.01, websocket=websocket) as server, server.connect() as client:
        await client.take(1)
        deep = '{"type": "set_level", "data": {"level": ' + "[" * 50_000 + "]" * 50_000 + "}}"
        for text in ("{", '{"type": "set_level", "data": {"level": NaN}}', deep, '{"type": "set_level"}'):
            await client._transport.send(text)
        await client.command("set_level", level=9)
        with pytest.raises(CommandError, match=r"\$\.level"):
            await client.command("set_level", level=[[[[]]]])
        await client.take(3)
        assert shown(await client.take(1)) == [9]


async def test_regression_14_an_oversized_message_closes_with_too_big(autojump_clock):
    async with open_server(Steady, step_cost=0.01, websocket=True) as server, server.connect() as client:
        await client.take(1)
        await client._transport.send('{"type": "set_level", "data": {"level": ' + "1" * 300 * 1024 + "}}")
        with pytest.raises(SessionEnded) as ended:
            await client.take(100)
        assert ended.value.reason == "too_big"
        await server.sessions[0].ended.wait()
        assert server.model.log == ["connected", "disconnected", "closed"]


@in_all_placements
async def test_regression_15_idle_yields_do_not_lower_the_rate(autojump_clock, placement):
    class Waits(ReactorPipeline):
        output: Picture

        def inference(self):
            for n in range(1000):
                if n % 10 == 5:
                    for _ in range(100):
                        yield Idle
                yield picture(n % 256)

    async with open_server(Waits, step_cost=0.02, **placement) as server, server.connect() as client:
        frames = await client.take(40)
        assert server.model.output_buffer.fps == pytest.approx(50)
        between = gaps(frames)
        assert sum(gap < 0.021 for gap in between) >= 30
        assert sum(gap > 1.9 for gap in between) == 4, "only the waits are long"


@pytest.mark.parametrize("websocket", [False, True])
async def test_regression_16_congested_video_never_costs_an_answer(autojump_clock, websocket):
    async with open_server(Steady, step_cost=0.01, websocket=websocket) as server, server.connect() as client:
        await client.take(1)
        client.stall()
        answered = []

        async def change(number):
            await client.command("set_level", level=number)
            answered.append((number, trio.current_time()))

        async with trio.open_nursery() as nursery:
            for number in range(50):
                nursery.start_soon(change, number)
                await trio.sleep(0.1)
            assert answered == []
            resumed = trio.current_time()
            client.resume()
        assert [number for number, _ in answered] == list(range(50))
        assert {at for _, at in answered} == {resumed}
        assert server.runtime.metrics.drops()["lane", "superseded"] > 30
