"""`reactor.video` with `tracks`, and `video.NAME` in the query: a client gets the video of the tracks that it shows."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager

import numpy as np
import pytest
import trio
import trio.testing

from reactor_trio.client.client_transport import TransportClosed
from reactor_trio.errors import ConnectionRefused
from reactor_trio.interface import Audio, Output, ReactorPipeline, Video
from reactor_trio.protocol import decode_packet
from reactor_trio.testing import Link, open_server
from reactor_trio.testing.memory_connection import Stall

FPS = 10
THREE = ["main_video", "depth", "mask"]


class Pictures(Output):
    main_video: Video
    depth: Video
    mask: Video


class Model(ReactorPipeline):
    output: Pictures
    fps = FPS

    def inference(self):
        while True:
            yield Pictures(*(np.full((2, 2, 3), number, np.uint8) for number in range(3)))


class Sounding(Output):
    main_video: Video
    main_audio: Audio


class WithSound(ReactorPipeline):
    output: Sounding
    fps = FPS

    def inference(self):
        while True:
            yield Sounding(np.zeros((2, 2, 3), np.uint8), np.zeros((1, 4800), np.int16))


class Raw:
    """A client of the wire: texts as they came, and how many packets of each track."""

    def __init__(self, transport, nursery):
        self.transport = transport
        self.texts, self.packets = [], {}
        nursery.start_soon(self._listen)

    async def _listen(self):
        try:
            while True:
                message = await self.transport.receive()
                if isinstance(message, str):
                    self.texts.append(json.loads(message))
                else:
                    name = self.names[decode_packet(message).track]
                    self.packets[name] = self.packets.get(name, 0) + 1
        except TransportClosed:
            pass

    @property
    def welcome(self):
        return self.of("reactor.welcome")[0]

    @property
    def names(self):
        return {track["index"]: track["name"] for track in self.welcome["tracks"]}

    def of(self, kind):
        return [text["data"] for text in self.texts if text["type"] == kind]

    async def ask(self, **data):
        await self.transport.send(json.dumps({"type": "reactor.video", "data": data}))
        await trio.testing.wait_all_tasks_blocked()

    async def watch(self, seconds=1.0):
        """The packets of each track that come in this time."""
        self.packets.clear()
        await trio.sleep(seconds)
        return dict(self.packets)


@asynccontextmanager
async def connected(server, query):
    async with trio.open_nursery() as nursery:
        client = Raw(await server._open_memory(f"ws://127.0.0.1/ws?{query}", Stall()), nursery)
        await trio.sleep(0.05)
        yield client
        await client.transport.aclose(1000)


def codecs(client):
    """The codec of each output video track, as the client knows it last."""
    known = {track["name"]: track["codec"] for track in client.welcome["tracks"] if track["kind"] == "video"}
    return known | {track["name"]: track["codec"] for track in client.of("reactor.track")}


class Grainy(ReactorPipeline):
    output: Pictures
    fps = FPS

    def inference(self):
        while True:
            yield Pictures(*(np.full((64, 64, 3), number, np.uint8) for number in range(3)))


async def test_on_a_thin_link_the_tracks_take_turns(autojump_clock):
    """A picture has 12 kB, so a link of 120 kB/s carries 10 of the 30 of each second."""
    counts = dict.fromkeys(THREE, 0)
    link = Link(bits_per_second=960_000, buffer=0)

    async def count(name):
        async for _ in client.frames(name):
            counts[name] += 1

    async with open_server(Grainy) as server, server.connect(video="raw", link=link) as client:
        async with trio.open_nursery() as nursery:
            for name in THREE:
                nursery.start_soon(count, name)
            await trio.sleep(1.5)
            nursery.cancel_scope.cancel()
    assert min(counts.values()) > 0
    assert max(counts.values()) - min(counts.values()) <= 1


# ---- reactor.video ----------------------------------------------------------------------------------------------------


async def test_a_page_that_shows_one_of_three_tracks_receives_one(autojump_clock):
    async with open_server(Model) as server, connected(server, "video=raw") as client:
        assert await client.watch() == dict.fromkeys(THREE, FPS)
        await client.ask(video=["none"], tracks={"main_video": ["raw"]})
        assert await client.watch() == {"main_video": FPS}
        await client.ask(video=["raw"], tracks={"main_video": ["none"]})
        assert await client.watch() == {"depth": FPS, "mask": FPS}
        assert client.of("reactor.error") == []


async def test_each_track_has_its_codec_and_the_others_keep_the_general_list(autojump_clock):
    async with open_server(Model) as server, connected(server, "video=raw") as client:
        await client.ask(video=["raw"], tracks={"depth": ["no such codec", "jpeg"]})
        assert await client.watch() == dict.fromkeys(THREE, FPS)
        assert codecs(client) == {"main_video": "raw", "depth": "jpeg", "mask": "raw"}
        assert [track["name"] for track in client.of("reactor.track") if track["codec"] == "jpeg"] == ["depth"]


async def test_each_message_is_the_whole_choice(autojump_clock):
    async with open_server(Model) as server, connected(server, "video=raw") as client:
        await client.ask(video=["raw"], tracks={"depth": ["none"], "mask": ["none"]})
        await client.ask(video=["raw"], tracks={"mask": ["none"]})
        assert await client.watch() == {"main_video": FPS, "depth": FPS}
        await client.ask(video=["raw"])
        assert await client.watch() == dict.fromkeys(THREE, FPS)


async def test_the_same_choice_again_changes_nothing(autojump_clock):
    async with open_server(Model) as server, connected(server, "video=raw") as client:
        for _ in range(3):
            await client.ask(video=["none"], tracks={"depth": ["jpeg"]})
        await client.watch()
        assert [(track["name"], track["codec"]) for track in client.of("reactor.track")][-1] == ("depth", "jpeg")
        assert len([track for track in client.of("reactor.track") if track["codec"] == "jpeg"]) == 1


async def test_a_choice_while_the_client_waits_holds_from_the_first_frame_on(autojump_clock):
    async with open_server(Model) as server, connected(server, "video=raw") as first:
        async with connected(server, "video=raw") as client:
            await client.ask(video=["none"], tracks={"depth": ["raw"]})
            await first.transport.aclose(1000)
            assert set(await client.watch()) == {"depth"}


async def test_a_choice_of_one_client_is_not_of_another(autojump_clock):
    async with open_server(Model) as server, connected(server, "video=raw") as client:
        async with connected(server, "video=raw&role=viewer") as viewer:
            await viewer.ask(video=["none"], tracks={"mask": ["raw"]})
            client.packets.clear()
            assert await viewer.watch() == {"mask": FPS}
            assert client.packets == dict.fromkeys(THREE, FPS)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"video": ["raw"], "tracks": {"dpth": ["raw"]}},
         "reactor.video: dpth is not a video track that this client gets; it gets: main_video, depth, mask"),
        ({"video": ["raw"], "tracks": {"depth": ["hevc", "x"]}},
         "reactor.video: this server encodes none of hevc, x for depth"),
        ({"video": ["hevc"], "tracks": {name: ["raw"] for name in THREE}},
         "reactor.video: this server encodes none of hevc"),
        ({"tracks": {"depth": ["raw"]}}, "reactor.video: Object missing required field video"),
        ({"video": ["raw"], "tracks": ["depth"]}, "reactor.video: Expected object, got array - at $.tracks"),
        ({"video": ["raw"], "tracks": {"depth": "raw"}}, "reactor.video: Expected array, got str - at $.tracks[...]"),
        ({"video": ["raw"], "tracks": {"depth": []}},
         "reactor.video: Expected array of length >= 1 - at $.tracks[...]"),
        ({"video": ["raw"], "tracks": {"depth": [1]}}, "reactor.video: Expected str, got int - at $.tracks[...][0]"),
        ({"video": ["raw"], "tracks": {"depth": ["raw"] * 17}},
         "reactor.video: Expected array of length <= 16 - at $.tracks[...]"),
        ({"video": ["raw"], "tracks": None}, "reactor.video: Expected object, got null - at $.tracks"),
    ],
)  # fmt: skip
async def test_a_wrong_choice_is_refused_and_changes_nothing(autojump_clock, data, message):
    async with open_server(Model) as server, connected(server, "video=raw") as client:
        await client.ask(video=["none"], tracks={"depth": ["raw"]})
        await client.ask(**data)
        assert client.of("reactor.error") == [{"code": "protocol_error", "message": message}]
        assert await client.watch() == {"depth": FPS}


async def test_a_list_of_sixteen_codecs_is_taken(autojump_clock):
    async with open_server(Model) as server, connected(server, "video=raw") as client:
        await client.ask(video=["none"], tracks={"depth": [*(f"codec {number}" for number in range(15)), "raw"]})
        assert await client.watch() == {"depth": FPS}


async def test_audio_and_input_tracks_are_no_video_tracks(autojump_clock):
    async with open_server(WithSound) as server, connected(server, "video=raw&audio=none") as client:
        await client.ask(video=["raw"], tracks={"main_audio": ["none"]})
        (error,) = client.of("reactor.error")
        assert error["message"].endswith("main_audio is not a video track that this client gets; it gets: main_video")


# ---- the query --------------------------------------------------------------------------------------------------------


async def test_the_query_chooses_from_the_first_frame_on_and_announces_all_tracks(autojump_clock):
    async with open_server(Model) as server:
        async with connected(server, "video=none&video.depth=jpeg") as client:
            assert codecs(client) == {"main_video": None, "depth": "jpeg", "mask": None}
            assert await client.watch() == {"depth": FPS}
            await client.ask(video=["none"], tracks={"mask": ["raw"]})
            assert await client.watch() == {"mask": FPS}
            assert codecs(client)["mask"] == "raw"


async def test_a_client_may_begin_paused_and_ask_later(autojump_clock):
    async with open_server(Model) as server, connected(server, "video=raw&paused=1&video.mask=jpeg") as client:
        assert await client.watch() == {"mask": FPS}
        assert codecs(client) == {"main_video": None, "depth": None, "mask": "jpeg"}
        await client.ask(video=["raw"], tracks={"mask": ["none"]})
        assert await client.watch() == {"main_video": FPS, "depth": FPS}


async def test_a_client_that_begins_paused_has_sound(autojump_clock):
    async with open_server(WithSound) as server, connected(server, "video=raw&paused=1") as client:
        assert set(await client.watch()) == {"main_audio"}


async def test_a_client_that_names_a_track_may_begin_without_any_video(autojump_clock):
    async with open_server(WithSound) as server:
        async with connected(server, "video=none&video.main_video=none") as client:
            assert list(client.names.values()) == ["main_video", "main_audio"]
            assert set(await client.watch()) == {"main_audio"}
            await client.ask(video=["raw"])
            assert set(await client.watch()) == {"main_video", "main_audio"}
        async with connected(server, "video=none") as client:
            assert client.names == {}, "control only, as ever"
            await client.ask(video=["raw"])
            assert await client.watch() == {}


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("video.dpth=raw", "video.dpth: not an output video track of this model, which has: main_video, depth, mask"),
        ("video.=raw", "video.: not an output video track of this model, which has: main_video, depth, mask"),
        ("video.depth=hevc", "video.depth: this server encodes"),
        ("video.depth=", "video.depth: this server encodes"),
    ],
)
async def test_a_wrong_query_is_refused(autojump_clock, query, message):
    async with open_server(Model) as server:
        with pytest.raises(ConnectionRefused) as refused:
            await server._open_memory(f"ws://127.0.0.1/ws?video=raw&{query}", Stall())
        assert refused.value.status == 400
        assert message in str(refused.value)


# ---- the Python client ------------------------------------------------------------------------------------------------


def received(client):
    return {name: track.frames for name, track in client.statistics().tracks.items()}


async def arrivals(client, seconds=1.0):
    before = received(client)
    await trio.sleep(seconds)
    return {name: count - before[name] for name, count in received(client).items() if count > before[name]}


async def test_the_python_client_chooses_by_track(autojump_clock):
    async with open_server(Model) as server, server.connect(video=["raw"]) as client:
        await client.request_video([], {"depth": ["jpeg"]})
        await trio.testing.wait_all_tasks_blocked()
        assert set(await arrivals(client)) == {"depth"}
        await client.request_video(["raw"])
        await trio.testing.wait_all_tasks_blocked()
        assert set(await arrivals(client)) == set(THREE)


async def test_the_python_client_refuses_what_it_knows_to_be_wrong(autojump_clock):
    async with open_server(WithSound) as server, server.connect(video=["raw"]) as client:
        with pytest.raises(ValueError, match="no video output track 'dpth'; this session has main_video, main_audio"):
            await client.request_video(["raw"], {"dpth": []})
        with pytest.raises(ValueError, match="no video output track 'main_audio'"):
            await client.request_video(["raw"], {"main_audio": []})
        with pytest.raises(ValueError, match="video=hevc cannot be decoded here"):
            await client.request_video(["raw"], {"main_video": ["hevc"]})
        assert set(await arrivals(client)) == {"main_video", "main_audio"}


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ((["raw"], {"mask": []}), {"main_video", "depth"}),
        (([], {"mask": ["raw"]}), {"mask"}),
        ((["jpeg"], None), set(THREE)),
        (([], None), set()),
    ],
)
async def test_a_client_that_comes_back_keeps_its_choice(autojump_clock, choice, expected):
    async with open_server(Model, resume_window=30) as server:
        async with server.connect(video=["raw"], comes_back=True) as client:
            await client.request_video(*choice)
            await trio.testing.wait_all_tasks_blocked()
            await client.vanish()
            await trio.sleep(1)
            assert client.statistics().comebacks == 1
            assert set(await arrivals(client)) == expected
            await client.request_video(["raw"])
            await trio.testing.wait_all_tasks_blocked()
            assert set(await arrivals(client)) == set(THREE), "and may change it again"
