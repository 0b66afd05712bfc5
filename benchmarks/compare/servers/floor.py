"""The least that serves: one trio-websocket loop around the model body, with our encoder and our packets, and nothing else.

No pacing but the clock's, no threads, one client, no checks. `--replay` encodes a second of frames first and then sends
these bytes again and again, so that what is left is the body and bare writes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import sys
from pathlib import Path
from typing import Any

import msgspec
import trio
import trio_websocket

sys.path.insert(0, str(Path(__file__).parents[1]))
from stamp import Body

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings, Encoded, full_bitrate, open_encoder
from reactor_trio.pacing import Quality
from reactor_trio.protocol import Packet, ServerText, TrackInfo, Welcome, encode_packet, encode_server_text

CODEC = os.environ.get("BENCH_CODEC", "h264")
SPEC = TrackSpec("main_video", "video", "out")
REPLAYED = 60


class Floor:
    """One session."""

    def __init__(self, socket: trio_websocket.WebSocketConnection, body: Body, fps: float, replay: bool) -> None:
        self.socket, self.body, self.fps, self.replay = socket, body, fps, replay
        self.brightness = 1.0
        self.waiting: list[str] = []
        self.encoder = open_encoder(SPEC, CODEC, settings := CodecSettings())
        self.encoder.configure(Quality(full_bitrate(CODEC, body.width, body.height, fps, settings), fps))

    async def listen(self) -> None:
        """Commands, answered when the next frames are drawn."""
        while True:
            message = json.loads(await self.socket.get_message())
            if message["type"] == "set_brightness":
                self.brightness = message["data"]["brightness"]
                self.waiting.append(encode_server_text(ServerText("reactor.ack", {"step": 0, "reply": None}, message["id"])))

    async def play(self) -> None:
        """Frames an interval apart; the body draws a batch when the one before has been sent, without its step's wait."""
        first = self.encoder.encode(self.body.draw(self.brightness).reshape(-1, self.body.height, self.body.width, 3)[0])
        info = self.encoder.describe(0, SPEC, first.size)
        for text in _welcome(info):
            await self.socket.send_message(text)
        await self._send(first, 0)
        made = self._replayed() if self.replay else None
        due, numbers = trio.current_time(), itertools.count(1)
        while True:
            await trio.sleep_until(due)
            answers, self.waiting = self.waiting, []
            batch = self.body.draw(self.brightness).reshape(-1, self.body.height, self.body.width, 3)
            for text in answers:
                await self.socket.send_message(text)
            for frame in batch:
                await trio.sleep_until(due)
                await self._send(next(made) if made else self.encoder.encode(frame), next(numbers))
                due += 1 / self.fps

    def _replayed(self) -> Any:
        frames = [self.body.draw(1.0).reshape(-1, self.body.height, self.body.width, 3)[0] for _ in range(REPLAYED)]
        self.encoder.request_keyframe()  # where the cycle begins again, a decoder has to
        return itertools.cycle([self.encoder.encode(frame) for frame in frames])

    async def _send(self, encoded: Encoded, number: int) -> None:
        stamp = round(number * 1e6 / self.fps)
        packet = Packet(0, number, stamp, int(encoded.keyframe), None, number, {}, memoryview(encoded.payload))
        await self.socket.send_message(encode_packet(packet))


def _welcome(info: TrackInfo) -> list[str]:
    schema = {"name": "bench", "protocol": 1, "tracks": [], "commands": [], "messages": []}
    welcome = Welcome("floor", 1, "bench", "control", 10.0, None, None, schema, [info])
    return [
        encode_server_text(ServerText(kind, msgspec.to_builtins(data)))
        for kind, data in (("reactor.welcome", welcome), ("reactor.track", info))
    ]


async def serve(port: int, replay: bool) -> None:
    """Until it is killed."""
    body = Body()
    fps = float(os.environ.get("BENCH_FPS") or body.rate or 1000)

    async def one(request: trio_websocket.WebSocketRequest) -> None:
        socket = await request.accept(subprotocol="reactor.v1")
        floor = Floor(socket, body, fps, replay)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(floor.listen)
                await floor.play()
        except* trio_websocket.ConnectionClosed:
            floor.encoder.close()

    await trio_websocket.serve_websocket(one, "127.0.0.1", port, None)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("port", type=int)
    parser.add_argument("--replay", action="store_true")
    given = parser.parse_args()
    trio.run(serve, given.port, given.replay)
