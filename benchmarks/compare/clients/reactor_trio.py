"""Our Python client, on asyncio as the others."""

from __future__ import annotations

import asyncio
import os
from contextlib import AsyncExitStack
from typing import Any

import anyio
import anyio.lowlevel

from reactor_trio.client import Client, connect


class Handle:
    """An open client and the task that takes its frames."""

    def __init__(self, client: Client, taking: asyncio.Task[None], closing: AsyncExitStack) -> None:
        self.client, self.taking, self.closing = client, taking, closing


async def load() -> None:
    """AnyIO's side of this loop, and the decoder with its conversion: 15 ms and 75 ms here, once in a process."""
    import av  # noqa: F401
    import cv2  # noqa: F401

    await anyio.lowlevel.checkpoint()


async def join(url: str, on_frame: Any, pause: float, second: bool) -> Handle:
    """H.264, as the peers send a video codec."""
    codec = os.environ.get("BENCH_CODEC", "h264")
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(connect(url, video=[codec], role="viewer" if second else "control"))
        taking = asyncio.create_task(_take(client, on_frame, pause))
        return Handle(client, taking, stack.pop_all())
    raise AssertionError


async def _take(client: Client, on_frame: Any, pause: float) -> None:
    async for frame in client.frames("main_video", latest=bool(pause)):
        height, width, channels = frame.data.shape
        on_frame(frame.data, width, height, channels)
        if pause:
            await asyncio.sleep(pause)


async def set_brightness(handle: Handle, value: float) -> None:
    """Until the ack."""
    await handle.client.command("set_brightness", brightness=value)


async def statistics(handle: Handle) -> dict[str, Any]:
    """Codec, bytes, and the frames that the server says it left out."""
    track = handle.client.statistics().tracks["main_video"]
    codec = next(one.codec for one in handle.client.tracks if one.name == "main_video")
    return {"codec": codec, "bytes": track.bytes, "missing": track.missing, "dropped": track.dropped}


async def close(handle: Handle) -> None:
    """Say goodbye."""
    handle.taking.cancel()
    await handle.closing.aclose()
