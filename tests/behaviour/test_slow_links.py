"""A viewer on a link that gets thin, stalls, and recovers: how old its pictures are, and what the others notice of it.

In virtual time, with the real encoders, decoders and rate control, so each run is the same. Encoding and decoding take no
time here; `python -m benchmarks links` has the same with real sockets, processes and shaped networks."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import trio

from reactor_trio.interface import InputField, InputState, ReactorPipeline
from reactor_trio.testing import Link, open_server
from tests.support.models import Picture

pytest.importorskip("av")

FPS = 30
DELAY = 0.02
MAX_AGE = 0.15
ADAPTING = 3.0


@cache
def clip() -> list[np.ndarray]:
    """A grainy picture that moves, 640x480."""
    rng = np.random.default_rng(4)
    x, y = np.meshgrid(np.linspace(0, 14, 720), np.linspace(0, 10, 520))
    scene = np.stack([np.sin(x + 2 * k) * np.cos(y - k) * 60 + np.sin(x * y / 2) * 20 + 120 for k in range(3)], 2)
    grain = rng.normal(0, 4, (520, 720, 1))
    pictures = []
    for number in range(30):
        left, top = round(35 + 35 * np.sin(number / 30 * 2 * np.pi)), round(18 + 18 * np.cos(number / 30 * 2 * np.pi))
        noise = np.roll(grain, (number * 7, number * 11), (0, 1))[:480, :640]
        picture = np.clip(scene[top : top + 480, left : left + 640] + noise, 0, 255).astype(np.uint8)
        picture.flags.writeable = False
        pictures.append(picture)
    return pictures


class Level(InputState):
    level: int = InputField(default=0, ge=0, le=1000)


class Moving(ReactorPipeline):
    output: Picture
    state: Level
    fps = FPS

    def inference(self):
        while True:
            for picture in clip():
                yield Picture(main_video=picture)


@dataclass
class Seen:
    """What a client has decoded: when, which, how old it was, its size in pixels and bytes."""

    at: float
    seq: int
    age: float
    width: int


class Watcher:
    """Takes every frame of a client as it comes."""

    def __init__(self, client: Any, began: float) -> None:
        self.client = client
        self.frames: list[Seen] = []
        self._began = began

    async def watch(self) -> None:
        async for frame in self.client.frames():
            now = trio.current_time()
            self.frames.append(Seen(now - self._began, frame.seq, now - self._began - frame.pts, frame.data.shape[1]))

    def between(self, start: float, end: float) -> list[Seen]:
        return [seen for seen in self.frames if start <= seen.at < end]

    def fps(self, start: float, end: float) -> float:
        return len(self.between(start, end)) / (end - start)


def p95(values: list[float]) -> float:
    return float(np.quantile(values, 0.95))


async def command_storm(client: Any, answered: list[float]) -> None:
    """Five commands a second; each answer counts."""
    for level in range(1000):
        asked = trio.current_time()
        await client.command("set_level", level=level)
        answered.append(trio.current_time() - asked)
        await trio.sleep(0.2)


def bits_per_second(client: Any, before: int, seconds: float) -> float:
    return (client.statistics().tracks["main_video"].bytes - before) * 8 / seconds


@pytest.mark.parametrize("codec", ["h264", "jpeg"])
@pytest.mark.parametrize("rate", [1_000_000, 300_000])
async def test_a_thin_link_shows_fresh_pictures_and_recovers(autojump_clock, codec, rate):
    async with open_server(Moving, step_cost=0.001) as server:
        link = Link(delay=DELAY)
        async with (
            server.connect(video=[codec], link=link, feedback=True) as thin,
            server.connect(video=[codec], role="viewer", feedback=True) as good,
            trio.open_nursery() as nursery,
        ):
            began = server.sessions[0].began
            thin_seen, good_seen, answered = Watcher(thin, began), Watcher(good, began), []
            nursery.start_soon(thin_seen.watch)
            nursery.start_soon(good_seen.watch)
            nursery.start_soon(command_storm, thin, answered)
            await trio.sleep(3)
            full = thin.statistics().tracks["main_video"].bytes * 8 / 3
            link.set(bits_per_second=rate)
            await trio.sleep(ADAPTING)
            bytes_before = thin.statistics().tracks["main_video"].bytes
            await trio.sleep(6)
            carried = bits_per_second(thin, bytes_before, 6)
            link.set(bits_per_second=None)
            await trio.sleep(5 if codec == "h264" else 7)  # JPEG has eighteen times as far to climb
            bytes_before = thin.statistics().tracks["main_video"].bytes
            await trio.sleep(2)
            recovered = bits_per_second(thin, bytes_before, 2)
            now = trio.current_time() - began
            nursery.cancel_scope.cancel()

        adapted = thin_seen.between(3 + ADAPTING, 12)
        transmission = carried / (len(adapted) / 6) / rate
        assert p95([seen.age for seen in adapted]) < MAX_AGE + 2 * DELAY + transmission
        assert len(adapted) / 6 > 4
        assert carried <= 1.1 * rate  # a picture more may lie at the end of the time than at its begin
        assert carried > 0.5 * rate  # the link is used
        assert recovered > 0.8 * full
        assert thin_seen.fps(now - 2, now) > 29
        assert {seen.width for seen in thin_seen.between(now - 2, now)} == {640}
        assert len(answered) >= now / 0.2 / 3
        assert max(answered) < 2.5  # also behind a picture on 300 kbit/s
        # the other viewer: every frame, at full size, fresh
        assert [b.seq - a.seq for a, b in pairwise(good_seen.between(1, now))] == [1] * (len(good_seen.between(1, now)) - 1)
        assert {seen.width for seen in good_seen.frames} == {640}
        assert max(seen.age for seen in good_seen.between(1, now)) < 0.005


async def test_a_stall_of_three_seconds_leaves_nothing_behind(autojump_clock):
    async with open_server(Moving, step_cost=0.001) as server:
        link = Link(bits_per_second=20_000_000, delay=DELAY)
        async with (
            server.connect(video=["h264"], link=link, feedback=True) as stalled,
            server.connect(video=["h264"], role="viewer", feedback=True) as good,
            trio.open_nursery() as nursery,
        ):
            began = server.sessions[0].began
            seen, good_seen, answered = Watcher(stalled, began), Watcher(good, began), []
            nursery.start_soon(seen.watch)
            nursery.start_soon(good_seen.watch)
            nursery.start_soon(command_storm, stalled, answered)
            await trio.sleep(3)
            link.stall()
            await trio.sleep(3)
            link.resume()
            await trio.sleep(6)
            now = trio.current_time() - began
            nursery.cancel_scope.cancel()

        late = [frame for frame in seen.frames if frame.age > MAX_AGE + 2 * DELAY]
        assert len(late) <= 3  # what was under way when it stalled, no more
        assert seen.fps(7, now) > 29
        assert max(frame.age for frame in seen.between(7, now)) < 0.06
        assert len(answered) > (now - 3) / 0.4
        assert [b.seq - a.seq for a, b in pairwise(good_seen.between(1, now))] == [1] * (len(good_seen.between(1, now)) - 1)


async def test_what_waits_for_a_thin_link_does_not_grow(autojump_clock):
    """Latency and memory of a slow viewer are bounded, also after a long time."""
    async with open_server(Moving, step_cost=0.001) as server:
        async with (
            server.connect(video=["jpeg"]) as control,
            server.connect(video=["jpeg"], role="viewer", feedback=True, link=Link(400_000, DELAY)) as thin,
            trio.open_nursery() as nursery,
        ):
            seen = Watcher(thin, server.sessions[0].began)
            nursery.start_soon(seen.watch)
            await trio.sleep(30)
            ages = [[s.age for s in seen.between(at, at + 6)] for at in (6, 12, 18, 24)]
            assert max(map(p95, ages)) < 0.45  # a picture takes 0.2 s
            (sender,) = [o for o in server.runtime.session_manager.clients if o.number == 2]
            assert sum(map(len, sender._down_tracks.values())) <= 1
            assert not control.ended
            nursery.cancel_scope.cancel()
