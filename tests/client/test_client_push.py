from __future__ import annotations

import json

import anyio
import numpy as np
import pytest
import simplejpeg
import trio
from tests.support.client_doubles import (
    BACKENDS,
    CAMERA,
    SOUND,
    VIDEO,
    ScriptedTransport,
    WsServer,
    memory_pipe,
    welcome,
)
from wsproto.events import TextMessage

from reactor_trio.client import Client, open_websocket, running
from reactor_trio.errors import SessionEnded
from reactor_trio.protocol import decode_packet

every_backend = pytest.mark.parametrize("backend", BACKENDS)

MICROPHONE = {"index": 3, "name": "microphone", "kind": "audio", "direction": "in", "codec": None, "sample_rate": 16_000}
GREY = np.full((16, 32, 3), 100, np.uint8)


class Socket(ScriptedTransport):
    """Keeps packets; while it is slow each waits until the test lets it go."""

    def __init__(self) -> None:
        super().__init__()
        self.packets = []
        self.room = anyio.Semaphore(1000)

    async def send_bytes(self, data: bytes) -> None:
        await self.room.acquire()
        self.packets.append(decode_packet(data))


def session(backend, story):
    async def main():
        server = Socket()
        server.welcome(VIDEO, SOUND, CAMERA, MICROPHONE)
        try:
            async with running(Client(server)) as client:
                await story(client, server)
        finally:
            server.let_go()

    anyio.run(main, backend=backend)


def described(packet):
    return (packet.track, packet.seq, packet.pts_us, packet.flags, packet.command, packet.step, packet.meta)


@every_backend
def test_a_picture_as_jpeg_and_raw(backend):
    async def story(client, server):
        assert await client.push_video("camera", GREY, 0.5) is True
        assert await client.push_video(None, GREY[:, ::2], 0.75, codec="raw") is True
        jpeg, raw = server.packets
        assert described(jpeg) == (2, 0, 500_000, 1, None, 0, {"codec": "jpeg"})
        assert np.abs(simplejpeg.decode_jpeg(jpeg.payload).astype(int) - 100).max() <= 2
        assert described(raw) == (2, 1, 750_000, 1, None, 0, {"codec": "raw", "width": 16, "height": 16})
        assert bytes(raw.payload) == bytes([100]) * 16 * 16 * 3

    session(backend, story)


@every_backend
def test_the_metadata_that_the_client_gives_travels_with_its_frame(backend):
    async def story(client, server):
        await client.push_video("camera", GREY, 0, metadata=b"x", capture_time_us=1_790_000_000_000_001)
        await client.push_video("camera", GREY[:1, :1], 0, codec="raw", capture_time_us=np.int64(0))
        await client.push_audio("microphone", np.array([1], np.int16), 0.0, capture_time_us=-7)
        assert [packet.meta for packet in server.packets] == [
            {"codec": "jpeg", "metadata": b"x", "capture_time_us": 1_790_000_000_000_001},
            {"codec": "raw", "width": 1, "height": 1, "capture_time_us": 0},
            {"codec": "pcm_s16le", "capture_time_us": -7},
        ]
        with pytest.raises(TypeError):
            await client.push_video("camera", GREY, 0, capture_time_us=0.5)

    session(backend, story)


@every_backend
def test_sound_of_either_shape(backend):
    async def story(client, server):
        await client.push_audio("microphone", np.array([1, -2], np.int16), 0.0)
        await client.push_audio(None, np.array([[3]], np.int16), 1.0)
        assert [described(packet) for packet in server.packets] == [
            (3, 0, 0, 1, None, 0, {"codec": "pcm_s16le"}),
            (3, 1, 1_000_000, 1, None, 0, {"codec": "pcm_s16le"}),
        ]
        assert [bytes(packet.payload) for packet in server.packets] == [b"\x01\x00\xfe\xff", b"\x03\x00"]

    session(backend, story)


@every_backend
def test_the_clock_begins_with_the_first_push_of_any_track(backend):
    async def story(client, server):
        await client.push_video("camera", GREY)
        await anyio.sleep(0.05)
        await client.push_audio("microphone", np.zeros(4, np.int16))
        first, second = (packet.pts_us for packet in server.packets)
        assert first == 0
        assert second >= 50_000

    session(backend, story)


@every_backend
def test_only_the_newest_picture_waits_while_one_is_under_way(backend):
    async def story(client, server):
        server.room = anyio.Semaphore(0)
        results = {}

        async def push(number):
            results[number] = await client.push_video("camera", GREY, number, codec="raw")

        async with anyio.create_task_group() as tasks:
            for number in range(5):
                tasks.start_soon(push, number)
                await anyio.wait_all_tasks_blocked()
            assert results == {1: False, 2: False, 3: False}
            server.room.release()
            server.room.release()
        assert results == {0: True, 1: False, 2: False, 3: False, 4: True}
        assert [(packet.seq, packet.pts_us) for packet in server.packets] == [(0, 0), (4, 4_000_000)]

    session(backend, story)


@every_backend
def test_a_push_that_is_cancelled_lets_the_next_one_through(backend):
    async def story(client, server):
        server.room = anyio.Semaphore(0)
        scopes = [anyio.CancelScope(), anyio.CancelScope()]

        async def push(scope):
            with scope:
                await client.push_video("camera", GREY, codec="raw")

        async with anyio.create_task_group() as tasks:
            for scope in scopes:
                tasks.start_soon(push, scope)
                await anyio.wait_all_tasks_blocked()
            scopes[1].cancel()  # it waits for its turn
            await anyio.wait_all_tasks_blocked()
            scopes[0].cancel()  # it is being sent, and is sent whole
        server.room.release()
        server.room.release()
        assert await client.push_video("camera", GREY) is True
        assert [packet.seq for packet in server.packets] == [0, 2]

    session(backend, story)


@every_backend
def test_invalid_pushes_raise(backend):
    async def story(client, server):
        for wrong in (GREY[..., 0], GREY.astype(float), np.zeros((0, 4, 3), np.uint8)):
            with pytest.raises(ValueError, match=r"expected a picture, uint8 \(H, W, 3\)"):
                await client.push_video("camera", wrong)
        for wrong in (np.zeros((2, 4), np.int16), np.zeros(4), np.zeros(0, np.int16)):
            with pytest.raises(ValueError, match="expected sound, int16"):
                await client.push_audio("microphone", wrong)
        with pytest.raises(ValueError, match="no video input track 'main_video'; this session has camera, microphone"):
            await client.push_video("main_video", GREY)
        with pytest.raises(ValueError, match="no audio input track 'camera'"):
            await client.push_audio("camera", np.zeros(4, np.int16))
        with pytest.raises(ValueError, match="codec: expected one of jpeg, raw, h264, vp8, vp9, got 'gif'"):
            await client.push_video("camera", GREY, codec="gif")
        with pytest.raises(ValueError, match="pts"):
            await client.push_video("camera", GREY, -1)
        assert server.packets == []
        assert await client.push_video("camera", GREY) is True  # none of this has blocked the track

    session(backend, story)


@every_backend
def test_a_push_after_the_end_raises(backend):
    async def story(client, server):
        server.say("reactor.bye", {"reason": "draining"})
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(SessionEnded, match="draining"):
            await client.push_video("camera", GREY)
        with pytest.raises(SessionEnded):
            await client.push_audio("microphone", np.zeros(4, np.int16))

    session(backend, story)


async def test_a_push_that_is_cancelled_while_it_is_sent_leaves_a_whole_message_and_the_connection(autojump_clock):
    ours, theirs = memory_pipe(unread=1)
    server = WsServer(theirs)
    picture = np.zeros((200, 400, 3), np.uint8)  # 240 kB, four chunks of the transport
    async with trio.open_nursery() as nursery:
        described = {"type": "reactor.welcome", "data": welcome(VIDEO, CAMERA), "n": 1}
        nursery.start_soon(server.accept, TextMessage(data=json.dumps(described)))
        transport = await open_websocket("ws://example.org/ws", stream=ours)
    async with running(Client(transport, feedback=True)) as client:
        with trio.move_on_after(1) as scope:
            await client.push_video("camera", picture, codec="raw")
        assert scope.cancelled_caught
        with trio.move_on_after(1) as scope:
            await client.request_video(["jpeg"])  # has not begun: it waits for the picture
        assert scope.cancelled_caught
        sent = []
        async with trio.open_nursery() as nursery:

            @nursery.start_soon
            async def push():
                sent.append(await client.push_video("camera", picture + 1, codec="raw"))

            first, second = decode_packet(await server.message()), decode_packet(await server.message())
        assert (first.seq, bytes(first.payload)) == (0, picture.tobytes())
        assert (second.seq, bytes(second.payload)) == (1, (picture + 1).tobytes())
        assert sent == [True]
        assert client.connected
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.answer_close)
            await client.aclose()
    await theirs.aclose()
