"""A stage for renditions without a session.

Its encoder makes packets that name their frame, its links carry what the test says, its viewers take packets when the test
lets them, and its model shows a frame each `INTERVAL`.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
import trio
import trio.testing

from reactor_trio.connection import (
    ClientSender,
    RenditionSet,
    SenderContext,
    encoder_target,
    rendition,
)
from reactor_trio.connection import (
    client_sender as sender,
)
from reactor_trio.connection import (
    rendition_set as renditions,
)
from reactor_trio.connection.connect_request import ConnectRequest
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import Bundle, CodecSettings, Encoded, Encoder, Origin, Overrun
from reactor_trio.media.codec_pool import CodecPool
from reactor_trio.pacing import Quality
from reactor_trio.protocol import TrackInfo, decode_packet
from reactor_trio.telemetry import Telemetry
from reactor_trio.transport import MessageChannel, SentNow

VIDEO = TrackSpec("main_video", "video")
INTERVAL = 0.125
FULL = 2_000_000.0


def quality(bitrate: float, divisor: int = 1, scale: float = 1.0) -> Quality:
    """What a link carries of a track whose full quality is `FULL`."""
    return Quality(bitrate, 30.0, scale, divisor, bitrate / FULL)


def context(tracks: tuple[TrackSpec, ...], codec_pool: CodecPool, **others: Any) -> SenderContext:
    """What senders, receivers and renditions use; its telemetry counts nothing."""
    return SenderContext(tracks, CodecSettings(), codec_pool, **{"max_age": 0.15, "message_limit": 100} | others)


def count(renditions: RenditionSet) -> int:
    """How many renditions of the track have members."""
    return len(set(renditions.placed.values()))


class ChainEncoder(Encoder):
    """Each packet refers to the one before it, unless it is a keyframe; each packet of JPEG is one.

    Args:
        log: of all encoders; this one's place in it is its number.
        good_for: frames that it encodes; then it raises an exception.
    """

    blocking = True
    implementation = "of the test"

    def __init__(self, codec: str, log: list[ChainEncoder], good_for: float = math.inf) -> None:
        self.codec = codec  # type: ignore[misc]
        self.intra_only = codec == "jpeg"  # type: ignore[misc]
        self.number = len(log)
        log.append(self)
        self.frames: list[int] = []
        self.targets: list[Quality] = []
        self.closed = False
        self._good_for = good_for
        self._keyframe = True

    def encode(self, frame: Any) -> Encoded:
        assert not self.closed
        if len(self.frames) >= self._good_for:
            raise RuntimeError("a bitstream that is none")
        keyframe, self._keyframe = self._keyframe or self.intra_only, False
        self.frames.append(int(frame[0, 0, 0]))
        payload = json.dumps({"encoder": self.number, "value": int(frame[0, 0, 0])}).encode()
        return Encoded(memoryview(payload), keyframe, (2, 2))

    def request_keyframe(self) -> None:
        self._keyframe = True

    def configure(self, target: Quality) -> None:
        self.targets.append(target)

    def close(self) -> None:
        self.closed = True

    def describe(self, index: int, spec: TrackSpec, size: tuple[int, int] | None) -> TrackInfo:
        return TrackInfo(index, spec.name, "video", "out", self.codec, width=size and size[0], height=size and size[1])


class FakeLink:
    """In place of `pacing.CongestionWindow`: it says what the test sets."""

    def __init__(self) -> None:
        self.quality = quality(FULL)
        self.cadence = 0.0
        self.is_open = True
        self.probe_at = math.inf
        self.skips = 0
        #: full bitrate, fps, codec, width, height
        self.descriptions: list[tuple[Any, ...]] = []
        self.acknowledgements: list[int] = []

    def describe(self, *description: Any) -> None:
        self.descriptions.append(description[:5])

    def sent(self, seq: int, size: int, now: float) -> None: ...

    def acknowledged(self, seq: int, now: float, lag: float) -> None:
        self.acknowledgements.append(seq)

    def skipped(self, now: float) -> None:
        self.skips += 1

    def open(self, now: float) -> bool:
        return self.is_open

    def reopens_at(self) -> float:
        return self.probe_at


class Viewer(MessageChannel):
    """A client sender and the stream that it writes to, which takes a message at once, unless it is stalled.

    A stalled one takes the first part of a packet that is written without waiting, if `begins` is set.
    """

    peer = "test"

    def __init__(self, stage: Stage, sender: ClientSender) -> None:
        self.stage = stage
        self.sender = sender
        self.texts: list[dict[str, Any]] = []
        #: when, keyframe, encoder, value
        self.packets: list[tuple[float, bool, int, int]] = []
        #: of each packet, in microseconds: waited (if a command was carried out), step, queue, encoding
        self.timings: list[list[int | None]] = []
        self.link = FakeLink()
        (down_track,) = sender._down_tracks.values()
        down_track.link = self.link  # type: ignore[assignment]
        self.down_track = down_track
        self.scope = trio.CancelScope()
        self.begins = False
        self._reading = trio.Event()
        self._reading.set()
        self._begun: tuple[bytes, memoryview] | None = None

    async def receive(self) -> str | bytes:
        raise NotImplementedError

    async def send_text(self, text: str) -> None:
        await self._reading.wait()
        self.texts.append(json.loads(text))

    async def send_packet(self, head: bytes, payload: memoryview) -> None:
        await self._reading.wait()
        self._take(head, payload)

    def send_packet_now(self, head: bytes, payload: memoryview) -> SentNow:
        assert self._begun is None, "the rest of the one before must be written first"
        if self._reading.is_set():
            self._take(head, payload)
            return "sent"
        if not self.begins:
            return "refused"
        self._begun = head, payload
        return "begun"

    async def finish(self) -> None:
        assert self._begun is not None
        await self._reading.wait()
        self._take(*self._begun)
        self._begun = None

    def _take(self, head: bytes, payload: memoryview) -> None:
        packet = decode_packet(head + bytes(payload))
        said = json.loads(bytes(packet.payload))
        self.packets.append((trio.current_time() - self.stage.began, packet.keyframe, said["encoder"], said["value"]))
        self.timings.append(packet.meta["timing"])

    async def aclose(self, code: int, reason: str) -> None:
        await trio.lowlevel.checkpoint()

    async def abort(self) -> None:
        await trio.lowlevel.checkpoint()

    def stall(self) -> None:
        self._reading = trio.Event()

    def resume(self) -> None:
        self._reading.set()

    def open_window(self, is_open: bool) -> None:
        self.link.is_open = is_open
        self.sender.wake()

    @property
    def rendition(self) -> rendition.Rendition | None:
        return self.stage.renditions.placed.get(self.down_track)

    @property
    def codecs(self) -> list[str]:
        """The codecs that the viewer was sent, one after another."""
        return [text["data"]["codec"] for text in self.texts if text["type"] == "reactor.track"]

    @property
    def values(self) -> list[int]:
        return [value for _, _, _, value in self.packets]

    @property
    def keyframes(self) -> list[int]:
        return [value for _, keyframe, _, value in self.packets if keyframe]


class _ToStage(Telemetry):
    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def dropped(self, place: str, reason: str, frames: int) -> None:
        self._stage.drops[reason] = self._stage.drops.get(reason, 0) + frames

    def latency(self, part: str, seconds: float) -> None:
        self._stage.latencies.append((part, seconds))


class Stage:
    """A session's renditions, its viewers, and a model that shows a frame each `INTERVAL`."""

    def __init__(self, nursery: trio.Nursery, monkeypatch: pytest.MonkeyPatch, max_age: float = 0.15) -> None:
        self.encoders: list[ChainEncoder] = []
        self.drops: dict[str, int] = {}
        self.latencies: list[tuple[str, float]] = []
        self.began = trio.current_time()
        self.encoding_time = 0.0
        self.viewers: list[Viewer] = []
        self.value = 0
        self.size = 2
        #: encoders at work that were not waited for any more; each goes on when it is called
        self.left_behind: list[Callable[[], Any]] = []
        #: codec: how many frames its encoders encode before they fail, -1 for one that cannot even be opened
        self.broken: dict[str, float] = {}
        self._nursery = nursery
        self._last: tuple[Bundle, float] | None = None
        self.codec_pool = CodecPool(self.work, CodecSettings().timeout)
        self.renditions = RenditionSet(context((VIDEO,), self.codec_pool, max_age=max_age, telemetry=_ToStage(self)))
        for module in (encoder_target, renditions):
            monkeypatch.setattr(module, "full_bitrate", lambda *_: FULL)
        monkeypatch.setattr(renditions, "open_encoder", lambda spec, codec, settings: self.open_encoder(codec))
        monkeypatch.setattr(sender, "choose_codecs", lambda wanted: () if wanted == ["none"] else tuple(wanted))

    def open_encoder(self, codec: str) -> ChainEncoder:
        good_for = self.broken.get(codec, math.inf)
        if good_for < 0:
            raise OSError(f"no {codec} today")
        return ChainEncoder(codec, self.encoders, good_for)

    async def work(self, function: Any, argument: Any, /, limit: float = math.inf) -> Any:
        with trio.move_on_after(limit):
            await trio.sleep(self.encoding_time)
            return function(argument)
        self.left_behind.append(partial(function, argument))
        raise Overrun

    def watch(self, *codecs: str) -> Viewer:
        way = ClientSender(len(self.viewers), 0.0, ConnectRequest("viewer", codecs or ("h264",)), self.renditions.context)
        viewer = Viewer(self, way)
        self.viewers.append(viewer)
        way.join(self.renditions)
        self._nursery.start_soon(self._send, viewer)
        if self._last is not None:
            way.offer(*self._last)
        return viewer

    def count(self) -> int:
        """How many renditions have members."""
        return count(self.renditions)

    async def _send(self, viewer: Viewer) -> None:
        with viewer.scope:
            await viewer.sender.send(viewer)

    async def leave(self, viewer: Viewer) -> None:
        self.viewers.remove(viewer)
        viewer.scope.cancel()
        await trio.testing.wait_all_tasks_blocked()
        viewer.sender.close()

    async def show(self, count: int = 1, *, command: int | None = None, waited: float | None = None) -> None:
        """Show frames, each for `INTERVAL`, and return when the last one's time is over."""
        for _ in range(count):
            now = trio.current_time()
            frame = np.full((self.size, self.size, 3), self.value, np.uint8)
            origin = Origin(self.value, command, waited, 0.25)
            bundle = Bundle({"main_video": frame}, {"main_video": self.value}, INTERVAL, True, origin, now)
            self._last = bundle, now - self.began
            for viewer in self.viewers:
                viewer.sender.offer(bundle, now - self.began)
            self.value += 1
            await trio.sleep(INTERVAL)
