"""A client of FastRTC in Python: it publishes one for browsers alone, so this is aiortc, which it is made of itself.

aiortc hands a frame out when the first packet of the next one comes, so a frame is older here than in a browser by the time
between two frames, and the last one of a batch by a step.
"""

from __future__ import annotations

import asyncio
import re
import uuid
from typing import Any

import httpx
from aiortc import MediaStreamTrack, RTCConfiguration, RTCPeerConnection, RTCSessionDescription
from aiortc.contrib.media import MediaRelay
from aiortc.mediastreams import MediaStreamError


class Handle:
    """An open connection and the task that takes its frames."""

    def __init__(self, url: str) -> None:
        self.id = uuid.uuid4().hex
        self.peer = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.http = httpx.AsyncClient(base_url=url, timeout=30)
        self.taking: asyncio.Task[None] | None = None
        self.codec = ""

    async def post(self, path: str, **fields: Any) -> Any:
        """Its HTTP endpoints. Raises ConnectionError with what FastRTC says, which is never an HTTP error."""
        answer = await self.http.post(path, json=fields | {"webrtc_id": self.id})
        answer.raise_for_status()
        said = answer.json()
        if said is not None and said.get("status") == "failed":
            raise ConnectionError(f"FastRTC refuses: {said['meta']}")
        return said


async def join(url: str, on_frame: Any, pause: float, second: bool) -> Handle:
    """The codec is the first that both have, as with a browser."""
    if second:
        raise NotImplementedError("FastRTC runs a handler for each connection: a second client cannot watch the first one's")
    handle = Handle(url)
    connected: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @handle.peer.on("track")
    def _(track: MediaStreamTrack) -> None:
        handle.taking = asyncio.create_task(_take(track, on_frame, pause))

    @handle.peer.on("connectionstatechange")
    def _() -> None:
        state = handle.peer.connectionState
        if connected.done():
            return
        if state == "connected":
            connected.set_result(None)
        elif state in ("failed", "closed"):
            connected.set_exception(ConnectionError(f"the connection is {state}"))

    try:
        handle.peer.addTransceiver("video", direction="recvonly")
        handle.peer.createDataChannel("text")
        await handle.peer.setLocalDescription(await handle.peer.createOffer())
        offer = handle.peer.localDescription
        answer = await handle.post("/webrtc/offer", sdp=offer.sdp, type=offer.type)
        handle.codec = re.findall(r"a=rtpmap:\d+ (\w+)/90000", answer["sdp"])[0]
        await handle.peer.setRemoteDescription(RTCSessionDescription(answer["sdp"], answer["type"]))
        await connected
        await set_brightness(handle, 1.0)
    except BaseException:
        await close(handle)
        raise
    return handle


async def _take(track: MediaStreamTrack, on_frame: Any, pause: float) -> None:
    if pause:
        # A track keeps all that its consumer has not taken; a relay can keep the newest alone.
        track = MediaRelay().subscribe(track, buffered=False)
    while True:
        try:
            frame = await track.recv()
        except MediaStreamError:
            return
        on_frame(frame.to_ndarray(format="rgb24"), frame.width, frame.height, 3)
        if pause:
            await asyncio.sleep(pause)


async def set_brightness(handle: Handle, value: float) -> None:
    """Until its endpoint answers; FastRTC does not say when a value is used."""
    await handle.post("/input_hook", brightness=value)


async def statistics(handle: Handle) -> dict[str, Any]:
    """The codec, and what aiortc counts: the bytes of the whole connection, since it counts none for a track."""
    counted = {one.type: one for one in (await handle.peer.getStats()).values()}
    return {
        "codec": handle.codec,
        "bytes": counted["transport"].bytesReceived,
        "packets_lost": counted["inbound-rtp"].packetsLost,
    }


async def close(handle: Handle) -> None:
    """Say goodbye."""
    if handle.taking is not None:
        handle.taking.cancel()
    await handle.peer.close()
    await handle.http.aclose()
