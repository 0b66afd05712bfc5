"""Inter-frame codecs at the consumer: every frame it gets is right, and every lost frame is counted."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading

import anyio
import numpy as np
import pytest
from tests.support.client_doubles import BACKENDS, SOUND, VIDEO, ScriptedTransport
from tests.support.encoded_streams import encoded, number_of, numbered, opus

from reactor_trio.client import Client, running
from reactor_trio.client.streams import _DecodeQueue
from reactor_trio.errors import ProtocolError
from reactor_trio.protocol import Packet, encode_packet

every_backend = pytest.mark.parametrize("backend", BACKENDS)
WIDTH, HEIGHT = 64, 48
H264 = VIDEO | {"codec": "h264", "width": WIDTH, "height": HEIGHT}


@functools.cache
def stream(codec="h264", count=60, keys=(0,)):
    return encoded(codec, numbered(count, WIDTH, HEIGHT), keys)


class Server(ScriptedTransport):
    def send_frame(self, seq, packet, command=None, meta=None, track=0):
        data, key = packet
        self.say_raw(encode_packet(Packet(track, seq, seq * 33_333, int(key), command, seq, meta or {}, memoryview(data))))

    def send_stream(self, packets, start=0):
        for seq, packet in enumerate(packets, start):
            self.send_frame(seq, packet)

    def said(self, type_):
        return [message["data"] for message in self.sent if message["type"] == type_]


def session(backend, story, *tracks, **options):
    async def main():
        server = Server()
        server.welcome(*(tracks or [H264]))
        try:
            async with running(Client(server, **options)) as client:
                await story(client, server)
        finally:
            server.let_go()

    anyio.run(main, backend=backend)


async def take(frames, count):
    got = []
    for _ in range(count):
        frame = await anext(frames)
        assert number_of(frame.data) == frame.seq % 60
        got.append(frame.seq)
    return got


def losses(client):
    track = client.statistics().tracks["main_video"]
    return track.dropped, track.skipped


@every_backend
@pytest.mark.parametrize("codec", ["h264", "vp8", "vp9", "av1", "lossless"])
def test_every_frame_in_order(backend, codec):
    async def story(client, server):
        server.send_stream(stream(codec, 10))
        assert await take(client.frames(), 10) == list(range(10))
        assert losses(client) == (0, 0)

    session(backend, story, H264 | {"codec": codec})


@every_backend
def test_a_full_queue_drops_dependent_frames_and_asks_for_a_keyframe(backend):
    async def story(client, server):
        frames = client.frames()
        packets = stream(count=60)
        for seq in range(66):  # the queue holds 64; the others depend on the first
            server.send_frame(seq, packets[seq % 60] if seq < 60 else packets[59])
        await anyio.wait_all_tasks_blocked()
        assert losses(client) == (66, 0)
        assert server.said("reactor.keyframe") == [{"track": 0}]
        server.send_stream(packets[:5], 120)
        assert await take(frames, 5) == [120, 121, 122, 123, 124]

    session(backend, story)


@every_backend
def test_a_full_queue_continues_at_a_keyframe_that_it_holds(backend):
    async def story(client, server):
        frames = client.frames()
        packets = stream(count=60, keys=(0, 20))
        for seq in range(60):
            server.send_frame(seq, packets[seq])
        for seq in range(60, 65):
            server.send_frame(seq, packets[0])
        await anyio.wait_all_tasks_blocked()
        assert losses(client) == (20, 0)
        assert server.said("reactor.keyframe") == []
        assert await take(frames, 40) == list(range(20, 60))

    session(backend, story)


@every_backend
def test_latest_decodes_all_and_gives_the_newest(backend):
    async def story(client, server):
        frames = client.frames(latest=True)
        packets = stream()
        server.send_stream(packets[:10])
        await anyio.wait_all_tasks_blocked()
        assert await take(frames, 1) == [9]
        assert losses(client) == (0, 9)
        server.send_stream(packets[10:13], 10)
        server.send_stream(packets[:4], 60)  # frames before a keyframe need not be decoded
        await anyio.wait_all_tasks_blocked()
        assert await take(frames, 1) == [63]
        assert losses(client) == (0, 9 + 6)

    session(backend, story)


@every_backend
def test_a_consumer_in_mid_stream_begins_at_a_keyframe_and_asks_for_it(backend):
    async def story(client, server):
        first = client.frames()
        packets = stream()
        server.send_stream(packets[:5])
        assert await take(first, 5) == [0, 1, 2, 3, 4]
        second = client.frames()
        server.send_frame(5, packets[5])
        await anyio.wait_all_tasks_blocked()
        assert server.said("reactor.keyframe") == [{"track": 0}]
        server.send_stream(packets[:3], 60)
        assert await take(second, 3) == [60, 61, 62]
        assert await take(first, 4) == [5, 60, 61, 62]
        assert losses(client) == (1, 0)

    session(backend, story)


@every_backend
def test_a_damaged_packet_is_followed_by_nothing_until_a_keyframe(backend):
    async def story(client, server):
        frames = client.frames()
        packets = stream()
        server.send_stream(packets[:4])
        assert await take(frames, 4) == [0, 1, 2, 3]
        server.send_frame(4, (b"\x00\x00\x00\x01\x65garbage", False))
        server.send_stream(packets[5:10], 5)
        got = []
        async with anyio.create_task_group() as tasks:

            @tasks.start_soon
            async def _():
                got.extend(await take(frames, 2))

            await server.command()  # the request
            await anyio.wait_all_tasks_blocked()
            assert got == []
            assert server.said("reactor.keyframe") == [{"track": 0}]
            server.send_stream(packets[:2], 60)
        assert got == [60, 61]
        assert losses(client) == (6, 0)

    session(backend, story)


@every_backend
def test_latest_gives_no_frame_that_depends_on_a_damaged_packet(backend):
    async def story(client, server):
        frames = client.frames(latest=True)
        packets = stream()
        server.send_stream(packets[:4])
        server.send_frame(4, (b"\x00\x00\x00\x01\x65garbage", False))
        server.send_stream(packets[5:10], 5)
        await anyio.wait_all_tasks_blocked()
        with anyio.move_on_after(0.05):
            pytest.fail(f"gave {(await anext(frames)).seq}")
        assert losses(client) == (6, 4)
        server.send_stream(packets[:2], 60)
        await anyio.wait_all_tasks_blocked()
        assert await take(frames, 1) == [61]

    session(backend, story)


@every_backend
def test_keyframes_that_cannot_be_decoded_end_the_iteration(backend):
    async def story(client, server):
        frames = client.frames()
        server.send_stream([(b"no picture", True)] * 3)
        with pytest.raises(ProtocolError, match="track main_video: 3 keyframes could not be decoded: Invalid data"):
            await anext(frames)
        assert losses(client) == (3, 0)

    session(backend, story)


@every_backend
def test_codec_and_size_change_in_mid_stream(backend):
    async def story(client, server):
        frames = client.frames()
        server.send_stream(stream()[:2])
        server.say("reactor.track", H264 | {"codec": "vp8"})
        server.send_stream(stream("vp8", 10)[:2], 60)
        # an odd picture, padded by its encoder
        server.say("reactor.track", H264 | {"width": 127, "height": 95, "coded_width": 128, "coded_height": 96})
        server.send_stream(encoded("h264", numbered(2, 128, 96)), 120)
        got = [await anext(frames) for _ in range(6)]
        assert [(frame.seq, number_of(frame.data)) for frame in got] == [
            (0, 0), (1, 1), (60, 0), (61, 1), (120, 0), (121, 1)
        ]  # fmt: skip
        assert [frame.data.shape for frame in got[::2]] == [(48, 64, 3), (48, 64, 3), (95, 127, 3)]
        assert all(frame.data.flags.c_contiguous for frame in got)

    session(backend, story)


@every_backend
def test_cancelling_at_any_point_loses_no_frame(backend):
    async def story(client, server):
        frames = client.frames()
        server.send_stream(stream()[:40])
        got = []
        for turn in range(400):
            with anyio.move_on_after(0 if turn % 2 else 0.001):
                got += await take(frames, 1)
            if len(got) == 40:
                break
        assert got == list(range(40))
        assert losses(client) == (0, 0)

    session(backend, story)


def test_a_task_that_asyncio_cancels_while_a_thread_decodes():
    """Its own cancellation does not wait for the thread, as anyio's does."""
    async def story(client, server):
        frames = client.frames()
        server.send_stream(stream()[:40])
        got = []
        for turn in range(400):
            task = asyncio.ensure_future(take(frames, 1))
            for _ in range(turn % 7):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                got += await task
            if len(got) == 40:
                break
            if turn > 300:
                got += await take(frames, 1)
        assert got == list(range(40))

    session("asyncio", story)


def test_the_last_frame_that_a_cancelled_call_decodes_is_not_left_in_its_thread(monkeypatch):
    """The next call waited for a packet that never came."""
    decode, entered, go_on = _DecodeQueue._decode, threading.Event(), threading.Event()

    def held(*args, **more):
        entered.set()
        assert go_on.wait(60)
        return decode(*args, **more)

    monkeypatch.setattr(_DecodeQueue, "_decode", held)

    async def story(client, server):
        frames = client.frames()
        server.send_stream(stream()[:1])
        cancelled = asyncio.ensure_future(take(frames, 1))
        await asyncio.to_thread(entered.wait)
        cancelled.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await cancelled
        following = asyncio.ensure_future(take(frames, 1))
        for _ in range(5):
            await asyncio.sleep(0)
        go_on.set()
        assert await asyncio.wait_for(following, 20) == [0]

    session("asyncio", story)


@every_backend
def test_opus_comes_as_blocks_of_samples(backend):
    async def story(client, server):
        tone = (8000 * np.sin(np.arange(9600) / 20)).astype(np.int16)
        packets = opus(tone)
        frames = client.frames("sound")
        server.send_frame(0, (b"", True), meta={"sizes": []}, track=1)
        server.send_frame(1, (packets[0] + packets[1], True), meta={"sizes": [len(each) for each in packets[:2]]}, track=1)
        frame = await anext(frames)
        assert (frame.seq, frame.data.shape, frame.data.dtype) == (1, (1, 1920), np.int16)

    session(backend, story, H264, SOUND | {"codec": "opus"})


@every_backend
def test_feedback_says_the_newest_frame_and_never_waits(backend):
    async def story(client, server):
        server.send_stream(stream()[:5])
        server.send_frame(0, (b"\0\0", True), track=1)
        await anyio.wait_all_tasks_blocked()
        said = server.said("reactor.feedback")
        assert said[-1] == {"track": 0, "seq": 4}
        assert {each["track"] for each in said} == {0}
        server.takes_nothing = True
        server.send_stream(stream()[5:10], 5)
        await anyio.wait_all_tasks_blocked()
        assert client.statistics().tracks["main_video"].frames == 10

    session(backend, story, H264, SOUND, feedback=True)


@every_backend
def test_other_codecs_are_asked_for_in_mid_session(backend):
    async def story(client, server):
        await client.request_video(["vp8", "h266", "jpeg"])
        await client.request_video([])
        assert server.said("reactor.video") == [{"video": ["vp8", "jpeg"]}, {"video": ["none"]}]
        with pytest.raises(ValueError, match="video=h266 cannot be decoded here"):
            await client.request_video(["h266"])

    session(backend, story)


@every_backend
def test_the_latency_of_a_command_is_divided(backend):
    async def story(client, server):
        frames = client.frames()
        assert client.statistics().latency is None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.command, "go")
            await server.command()
            await anyio.sleep(0.02)
            server.say("reactor.ack", {"step": 0}, id=1)
            server.send_frame(0, stream()[0], 1, {"timing": [1000, 2000, 3000, 4000]})
            server.send_frame(1, stream()[1], 1, {"timing": [None, 2000, 3000, 4000]})  # no command's first picture
        await anyio.wait_all_tasks_blocked()
        await anyio.sleep(0.03)
        assert await take(frames, 2) == [0, 1]
        latency = client.statistics().latency
        exact = {"wait": 0.001, "step": 0.002, "queue": 0.003, "encode": 0.004}
        assert {name: getattr(latency, name).p50 for name in exact} == exact
        assert latency.network.p95 >= 0.01
        assert latency.decode.p50 >= 0.03
        parts = [getattr(latency, name).p50 for name in (*exact, "network", "decode")]
        assert sum(parts) == pytest.approx(latency.total.p50)
        assert latency.total.count == 1
        line = str(client.statistics())
        assert "p50/p95 wait 1.0/1.0 ms, step 2.0/2.0 ms, queue 3.0/3.0 ms, encode 4.0/4.0 ms, network " in line

    session(backend, story)
