"""Bugs that other runtimes of this kind have had. None of them may appear here."""

from __future__ import annotations

import gc
import json
import weakref

import numpy as np
import pytest
import trio

from reactor_trio.client import available
from reactor_trio.client.session_view import internals
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
from reactor_trio.media import choose_codecs
from reactor_trio.testing import Link, open_server, open_session
from reactor_trio.testing.memory_connection import MemoryLink, MemoryMessages, Stall
from reactor_trio.testing.memory_exchange import admit
from reactor_trio.transport import Request
from tests.support.behaviour_models import in_all_placements, picture, raw_session, shown
from tests.support.models import Picture


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
    def request(self):
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


async def test_29_frames_at_once_into_ten_places_lose_nothing(autojump_clock):
    """A batch larger than the queue loses nothing."""
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


async def test_a_flush_in_mid_batch_leaves_no_old_frame(autojump_clock):
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
async def test_a_handshake_that_ends_after_the_session_or_the_server_is_refused(autojump_clock, role):
    """A connection whose handshake ends after the session did is refused."""
    async with open_server(Steady) as server:
        request = Request(
            method="GET", path="/ws", query={"role": role, "video": "raw"}, host="127.0.0.1", authority="127.0.0.1",
            headers=(), peer="late",
        )  # fmt: skip
        async with server.connect() as client:
            await client.take(1)
            talk = await admit(server._site, request)
            if role == "viewer":
                await client.close()
            else:
                await server.drain()
        link = MemoryLink(Stall(), 15)
        await talk(MemoryMessages(link, "late"))
        (goodbye,) = link.to_client
        assert json.loads(goodbye)["data"]["reason"] == ("done" if role == "viewer" else "draining")
        assert link.closed is not None
        assert len(server.sessions) == 1


@in_all_placements
async def test_a_model_that_crashes_while_it_streams_tells_its_clients(autojump_clock, placement):
    """When a model crashes while it streams, its clients get the reason, and `/health` reports the failure."""
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
async def test_a_slow_reader_costs_no_memory_and_no_other_client(autojump_clock, placement):
    """A slow reader: memory stays flat and other clients notice nothing."""
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


class Wide(Steady):
    """Pictures of 10 000 bytes: 800 kbit/s."""

    def inference(self):
        while True:
            yield np.full((50, 66, 3), self.state.level, np.uint8)


@pytest.mark.parametrize("thread", [False, True])
async def test_a_slow_reader_on_a_thin_link_costs_no_memory_and_no_other_client(autojump_clock, thread):
    """On a link that carries a third of the video and stalls: memory flat, the others notice nothing."""
    alive = []

    class Promises(Wide):
        def inference(self):
            for frame in super().inference():
                frame.flags.writeable = False
                alive.append(weakref.ref(frame))
                yield frame
                del frame

    async with open_server(Promises, step_cost=0.01, thread=thread) as server, server.connect() as client:
        async with server.connect(role="viewer", link=Link(250_000, delay=0.02)) as slow:
            for stalled in (False, True, False):
                (slow.link.stall if stalled else slow.link.resume)()
                began = trio.current_time()
                frames = await client.take(100)
                assert gaps(frames) == pytest.approx(0.1, abs=2e-6)
                assert trio.current_time() - began == pytest.approx(10, abs=0.2)
                gc.collect()
                assert sum(ref() is not None for ref in alive) <= 6
            slow.link.set(bits_per_second=None)
            await client.take(20)
            assert gaps(await slow.take(80))[-10:] == pytest.approx(0.1, abs=2e-6), "and it comes back"
        assert [frame.seq for frame in await client.take(10)] == list(range(320, 330))


@pytest.mark.parametrize("websocket", [False, True])
async def test_a_dead_reader_is_freed_within_its_bound(autojump_clock, websocket):
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
async def test_the_frame_of_a_long_step_for_a_client_that_left_is_discarded(autojump_clock, placement):
    """A client leaves during a long step: the result is discarded, and the state released exactly once."""
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
async def test_a_minute_at_30_fps_drifts_by_less_than_a_frame(autojump_clock, placement):
    """Long runs do not drift; an hour of it is in tests/soak."""
    class Film(Steady):
        fps = 30

    async with open_session(Film, step_cost=0.01, **placement) as client:
        frames = await client.take(1801)
    assert abs(frames[-1].pts - frames[0].pts - 60) < 1 / 30
    assert [frame.seq for frame in frames] == list(range(1801))


async def test_the_rate_of_a_bursty_model_is_steady_and_does_not_spiral_down(autojump_clock):
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


async def test_a_stall_of_200_ms_is_one_late_frame_and_no_fast_forward(autojump_clock):
    """A stall of 200 ms is one late frame, and nothing is played faster to catch up."""
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
@pytest.mark.parametrize("step_cost", [0.01, 1.0])
@pytest.mark.parametrize("first", ["close", "new"])
async def test_of_a_close_and_a_new_client_at_one_instant_the_latest_wins(autojump_clock, placement, step_cost, first):
    """A close and a new client in one batch of events, in either order: the new one is served."""
    async with open_server(Steady, step_cost=step_cost, **placement) as server:
        async with server.connect() as old, trio.open_nursery() as nursery:
            await old.take(2)
            await trio.sleep_until(4.5)
            frames = []

            async def new():
                async with server.connect() as client:
                    frames.extend(await client.take(3))
                    assert server.model.connected.is_set()
                    assert server.model.log == ["connected", "disconnected", "closed", "connected"]

            for event_ in (old.aclose, new) if first == "close" else (new, old.aclose):
                nursery.start_soon(event_)
        await server.sessions[-1].ended.wait()
        assert len(server.sessions) == 2
        assert [frame.seq for frame in frames] == [0, 1, 2]
        assert server.model.log == ["connected", "disconnected", "closed"] * 2
        assert not server.model.connected.is_set()


@in_all_placements
async def test_a_client_that_came_and_went_at_one_instant_is_gone(autojump_clock, placement):
    """A close, a new client and its close in one batch of events: no client remains, and no resource."""
    async with open_server(Steady, step_cost=1.0, **placement) as server:
        async with server.connect() as old:
            await old.take(1)
            await old.aclose()
            with trio.move_on_after(0):
                async with server.connect():
                    pytest.fail("it cannot have got in: a step runs")
        await server.sessions[0].ended.wait()
        await trio.sleep(5)
        assert (len(server.sessions), len(server.runtime.session_manager.clients)) == (1, 0)
        assert not server.model.connected.is_set()
        async with server.connect() as client:
            assert shown(await client.take(1)) == [1]


@in_all_placements
async def test_in_a_storm_of_parameters_the_last_wins_and_each_is_answered(autojump_clock, placement):
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


async def test_a_storm_of_parameters_is_answered_in_the_order_of_the_wire(autojump_clock):
    async with open_server(Steady, step_cost=0.25) as server, raw_session(server) as peer:
        await trio.sleep(0.1)
        for number in range(150):
            await peer.command("set_level", number, level=number)
        answers = [await peer.hear() for _ in range(150)]
        assert [answer["id"] for answer in answers] == list(range(150))
        assert {answer["type"] for answer in answers} == {"reactor.ack"}
        assert len({answer["data"]["step"] for answer in answers}) == 1, "they share one place"
        assert server.model.state.level == 149


CODECS = ("raw", "jpeg", "h264", "vp8", "vp9", "av1")


@pytest.mark.parametrize("codec", CODECS)
async def test_a_late_joiner_starts_on_a_keyframe(autojump_clock, codec):
    if not choose_codecs([codec]) or codec not in available():
        pytest.skip(f"{codec} is not installed")

    class Large(Steady):
        def inference(self):
            while True:
                yield np.full((240, 320, 3), 60 + self.state.level, np.uint8)

    async with open_server(Large, step_cost=0.01) as server, server.connect(video=[codec]) as client:
        await client.take(10)
        for _ in range(2):  # the second one joins what is already shared
            async with server.connect(role="viewer", video=[codec]) as viewer:
                frames = await viewer.take(3)
                assert frames[0].keyframe
                assert frames[0].seq >= 9
                assert (viewer.tracks[0].codec, viewer.tracks[0].width) == (codec, 320), "its size was told before it"
                assert all(np.abs(frame.data.astype(int) - 61).max() <= 4 for frame in frames), "and it is the picture"


@pytest.mark.parametrize("websocket", [False, True])
async def test_malformed_and_deeply_nested_messages_are_refused_by_type(autojump_clock, websocket):
    async with open_server(Steady, step_cost=0.01, websocket=websocket) as server, server.connect() as client:
        await client.take(1)
        deep = '{"type": "set_level", "data": {"level": ' + "[" * 50_000 + "]" * 50_000 + "}}"
        for text in ("{", '{"type": "set_level", "data": {"level": NaN}}', deep, '{"type": "set_level"}'):
            await internals(client).connection.transport.send(text)
        await client.command("set_level", level=9)
        with pytest.raises(CommandError, match=r"\$\.level"):
            await client.command("set_level", level=[[[[]]]])
        await client.take(3)
        assert shown(await client.take(1)) == [9]


async def test_an_oversized_message_closes_with_too_big(autojump_clock):
    async with open_server(Steady, step_cost=0.01, websocket=True) as server, server.connect() as client:
        await client.take(1)
        long = '{"type": "set_level", "data": {"level": ' + "1" * 300 * 1024 + "}}"
        await internals(client).connection.transport.send(long)
        with pytest.raises(SessionEnded) as ended:
            await client.take(100)
        assert ended.value.reason == "too_big"
        await server.sessions[0].ended.wait()
        assert server.model.log == ["connected", "disconnected", "closed"]


@in_all_placements
async def test_idle_yields_do_not_lower_the_rate(autojump_clock, placement):
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
async def test_congested_video_never_costs_an_answer(autojump_clock, websocket):
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


@pytest.mark.parametrize("rate", [1_000_000, 300_000, 100_000])
async def test_on_a_thin_link_each_answer_comes_within_what_the_link_holds(autojump_clock, rate):
    """Video takes all of the link and more, it stalls, and each command is answered once, in order."""
    delay, frame, buffer = 0.02, 8 * 10_000, 8 * 16_384
    async with open_server(Wide, step_cost=0.01) as server:
        async with server.connect(link=Link(rate, delay=delay)) as client:
            await client.take(3)
            answered = []

            async def change(number):
                asked = trio.current_time()
                await client.command("set_level", level=number)
                answered.append((number, trio.current_time() - asked))

            async with trio.open_nursery() as nursery:
                for number in range(40):
                    nursery.start_soon(change, number)
                    await trio.sleep(0.1)
            assert [number for number, _ in answered] == list(range(40))
            # there and back, a frame's time until the step, what is in the buffer, and the frame on its way into it
            bound = 2 * delay + 0.1 + (buffer + frame + 40 * 8 * 100) / rate
            assert max(took for _, took in answered) <= bound
            answered.clear()
            client.link.stall()
            async with trio.open_nursery() as nursery:
                for number in range(40, 60):
                    nursery.start_soon(change, number)
                    await trio.sleep(0.1)
                await trio.sleep(1)
                assert len(answered) <= 1, "what had passed before the stall"
                client.link.resume()
            assert [number for number, _ in answered] == list(range(40, 60))
            assert server.sessions[0].reason is None


@pytest.mark.parametrize("size", [(1280, 720), (1920, 1080)])
@pytest.mark.parametrize("websocket", [False, True])
async def test_a_client_with_default_options_takes_a_large_raw_frame(autojump_clock, size, websocket):
    """A client with no option set receives raw 720p, whatever a WebSocket library's own limit is."""
    width, height = size
    image = np.random.default_rng(1).integers(0, 256, (height, width, 3), np.uint8)

    class Big(ReactorPipeline):
        output: Picture
        fps = 10

        def inference(self):
            while True:
                yield image

    async with open_session(Big, step_cost=0.01, websocket=websocket) as client:
        for frame in await client.take(3):
            assert np.array_equal(frame.data, image)
