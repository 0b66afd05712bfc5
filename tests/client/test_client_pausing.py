"""The Python client pauses, steps and restarts the model of `reactor run`, over a real socket."""

from __future__ import annotations

import shutil
from pathlib import Path

import anyio
import pytest
from tests.support import adder
from tests.support.real_server import real_server

from reactor_trio.client import connect
from reactor_trio.errors import CommandError


@pytest.mark.parametrize("isolation", ["thread", "process"])
@pytest.mark.parametrize("loop", ["asyncio", "trio"])
def test_a_model_pauses_makes_two_steps_and_restarts(tmp_path: Path, isolation: str, loop: str) -> None:
    shutil.copy(adder.__file__, tmp_path)
    (tmp_path / "reactor.yaml").write_text(f"model: adder:Adder\nruntime: {{isolation: {isolation}}}\n")

    async def drive(url: str) -> None:
        async with connect(url) as client, connect(url, role="viewer", token=client.share_token) as viewer:
            frames = client.frames()
            transport = client.playback
            assert client.transport is transport  # its older name
            assert transport.allowed == ("pause", "step", "restart")
            await frames.after(await applied(client))
            with pytest.raises(CommandError, match="not paused"):
                await transport.step()
            await transport.pause()
            assert transport.paused
            await transport.step()
            seen = await frames.after(client.last_command)  # what was queued comes before it
            await anyio.sleep(0.3)
            arrived = client.statistics().tracks["main_video"].frames
            await anyio.sleep(0.5)
            assert client.statistics().tracks["main_video"].frames == arrived
            assert viewer.playback.paused
            await transport.step(2)
            steps = [(await anext(frames)).step for _ in range(2)]
            assert steps == [seen.step + 1, seen.step + 2]
            await transport.restart("fresh")
            await transport.resume()
            assert (await frames.after(client.last_command)).seq > seen.seq

    with real_server(tmp_path) as url:
        anyio.run(drive, url, backend=loop)


async def applied(client) -> int:
    await client.command("add")
    return client.last_command
