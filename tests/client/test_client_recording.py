"""`record` on both loops, against a real server in a thread of its own."""

from __future__ import annotations

import json

import anyio
import av
import numpy as np
import pytest
from tests.support.models import Picture

from reactor_trio.client import connect, observe, record
from reactor_trio.errors import ReactorError
from reactor_trio.interface import InputState, ReactorPipeline
from reactor_trio.server.runtime_host import RuntimeHost


class Level(InputState):
    level: int = 40


class Levels(ReactorPipeline):
    state: Level

    def inference(self):
        while True:
            yield Picture(main_video=np.full((48, 64, 3), self.state.level, np.uint8))


@pytest.fixture(scope="module")
def url():
    with RuntimeHost(Levels) as host:
        yield host.url


def film_of(path):
    with av.open(str(path)) as film:
        return [frame.to_ndarray(format="rgb24") for frame in film.decode(video=0)]


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("video", ["jpeg", "raw"])
def test_received_packets_are_recorded_on_both_loops(tmp_path, url, backend, video):
    async def main():
        async with connect(url, video=[video]) as client, record(client, tmp_path / "out.mp4") as recorder:
            with observe(client, lambda _: None):  # an observer, or another recording, ends no recording
                pass
            async with record(client, tmp_path / "part.mp4"):
                pass
            before = client.statistics().tracks["main_video"].frames
            frames = client.frames()
            seen = [await anext(frames) for _ in range(5)]
            await client.command("set_level", level=200)
            while seen[-1].data.max() < 190:
                seen.append(await anext(frames))
            received = client.statistics().tracks["main_video"].frames - before
        return received, recorder

    received, recorder = anyio.run(main, backend=backend)
    shown = film_of(tmp_path / "out.mp4")
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert recorder.failure is None
    assert len(shown) >= received
    assert lines[-1]["frames"] == {"main_video": len(shown)}
    assert (abs(shown[0].mean() - 40) < 4, abs(shown[-1].mean() - 200) < 4) == (True, True)
    (command,) = (line for line in lines if line["type"] == "command")
    assert (command["name"], command["arguments"], command["step"] > 0) == ("set_level", {"level": 200}, True)
    assert lines[-1]["reason"] == "client_left"


def test_an_exception_of_the_block_comes_out_as_it_is_and_the_film_is_whole(tmp_path, url):
    async def main():
        async with connect(url, video=["jpeg"]) as client, record(client, tmp_path / "out.mp4"):
            await anext(client.frames())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        anyio.run(main, backend="trio")
    assert film_of(tmp_path / "out.mp4")


def test_cancelled_it_leaves_whole_files_and_no_thread(tmp_path, url):
    async def main():
        with anyio.CancelScope() as scope:
            async with connect(url, video=["jpeg"]) as client, record(client, tmp_path / "out.mp4"):
                await anext(client.frames())
                scope.cancel()
                await anyio.sleep_forever()

    anyio.run(main, backend="trio")
    assert film_of(tmp_path / "out.mp4")
    assert json.loads((tmp_path / "out.jsonl").read_text().splitlines()[-1])["type"] == "end"


def test_a_name_that_cannot_be_used_is_an_error_at_once(tmp_path, url):
    async def main():
        async with connect(url, video=["jpeg"]) as client, record(client, tmp_path / "out.gif"):
            raise AssertionError("not reached")

    with pytest.raises(ReactorError, match="ends in"):
        anyio.run(main, backend="trio")
