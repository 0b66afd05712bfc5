"""How often a viewer acknowledges: a near one on a good link as seldom as the server allows, all others each frame."""

from __future__ import annotations

import numpy as np
import pytest
import trio

from reactor_trio.connection.connect_request import parse_connect_request
from reactor_trio.interface import ReactorPipeline
from reactor_trio.testing import Link, open_server
from tests.support.models import Picture


class Pausing(ReactorPipeline):
    """Thirty pictures a second for some six seconds, then none."""

    output: Picture
    fps = 30
    pictures = 180

    async def inference(self):
        for number in range(self.pictures):
            yield np.full((16, 16, 3), number % 256, np.uint8)
        await trio.sleep_forever()


class Endless(ReactorPipeline):
    """Thirty pictures a second."""

    output: Picture
    fps = 30

    def inference(self):
        while True:
            yield np.full((64, 64, 3), 7, np.uint8)


def acknowledgements(link: Link) -> int:
    """How many messages the client has sent so far: nothing but acknowledgements."""
    return link._up._passed


async def watch(client, seqs):
    async for frame in client.frames():
        seqs.append(frame.seq)


async def test_a_near_viewer_acknowledges_four_times_a_second_and_gets_every_frame(autojump_clock):
    link, seqs = Link(delay=0.002), []
    async with (
        open_server(Endless, step_cost=0.01) as server,
        server.connect(),
        server.connect(role="viewer", feedback=True, link=link) as viewer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(watch, viewer, seqs)
        await trio.sleep(3)
        before, first = acknowledgements(link), len(seqs)
        await trio.sleep(10)
        assert acknowledgements(link) - before == pytest.approx(10 / (8 / 30), abs=1), "with each eighth frame"
        assert len(seqs) - first == pytest.approx(300, abs=1)
        assert seqs == list(range(seqs[0], seqs[0] + len(seqs)))
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("role", "delay"), [("control", 0.002), ("viewer", 0.05)])
async def test_controlling_clients_and_distant_clients_acknowledge_each_frame(autojump_clock, role, delay):
    link, seqs = Link(delay=delay), []
    async with open_server(Endless, step_cost=0.01) as server, trio.open_nursery() as nursery:
        async with server.connect(role=role, feedback=True, link=link) if role == "control" else server.connect():
            if role == "viewer":
                async with server.connect(role="viewer", feedback=True, link=link) as client:
                    nursery.start_soon(watch, client, seqs)
                    await trio.sleep(10)
                    assert acknowledgements(link) == pytest.approx(len(seqs), abs=3)
                    nursery.cancel_scope.cancel()
            else:
                await trio.sleep(10)
                assert acknowledgements(link) == pytest.approx(300, abs=4)


@pytest.mark.parametrize("pictures", range(180, 184))
async def test_the_last_frame_before_a_pause_is_acknowledged(autojump_clock, monkeypatch, pictures):
    monkeypatch.setattr(Pausing, "pictures", pictures)
    link, seqs = Link(delay=0.002), []
    async with (
        open_server(Pausing) as server,
        server.connect(),
        server.connect(role="viewer", feedback=True, link=link) as viewer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(watch, viewer, seqs)
        await trio.sleep(5.5)
        assert acknowledgements(link) < 120
        await trio.sleep(1.5)
        renditions = server.served[0].renditions
        assert [down_track.link.in_flight for down_track in renditions.placed if down_track.request.role == "viewer"] == [0]
        nursery.cancel_scope.cancel()


def test_a_controlling_client_is_never_asked():
    asked = {"feedback": "1", "cadence": "1"}
    assert parse_connect_request(asked | {"role": "viewer"}, "m").cadence
    assert not parse_connect_request(asked, "m").cadence
    assert not parse_connect_request({"feedback": "1", "role": "viewer"}, "m").cadence


async def test_a_link_that_gets_thin_is_noticed_and_recovers(autojump_clock):
    link, ages = Link(delay=0.002), []

    async def age(client):
        async for frame in client.frames():
            ages.append((trio.current_time(), frame.pts))

    async with (
        open_server(Endless, step_cost=0.01) as server,
        server.connect(),
        server.connect(role="viewer", feedback=True, link=link) as viewer,
        trio.open_nursery() as nursery,
    ):
        nursery.start_soon(age, viewer)
        await trio.sleep(5)
        quickest = min(at - pts for at, pts in ages)
        link.set(bits_per_second=1_000_000)  # a raw picture of 12 kB takes a tenth of a second
        await trio.sleep(5)
        link.set(bits_per_second=None)
        narrow = [at - pts - quickest for at, pts in ages if at > ages[0][0] + 8]
        assert max(narrow) < 0.4, "the queue of a quarter of a second has drained"
        await trio.sleep(5)
        assert ages[-1][0] - ages[-1][1] - quickest < 0.05
        nursery.cancel_scope.cancel()
