"""What can happen in a session before its client leaves politely: each is a cell of `test_matrix`."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import trio

from reactor_trio.interface import (
    Audio,
    ClientInfo,
    Idle,
    InputField,
    InputState,
    ModelMessage,
    Output,
    ReactorPipeline,
    Video,
    connected,
    event,
)
from tests.leftovers.kinds import SHAPE
from tests.leftovers.matrix import Visits
from tests.leftovers.visitor import Visitor


class Film(Output):
    main_video: Video
    speech: Audio


class Told(ModelMessage):
    text: str


class Prompted(InputState):
    prompt: str = InputField(default="", moderate=True)


class Talking(ReactorPipeline):
    """Has sound, messages, moderated text, a command that raises, and a transport."""

    state: Prompted
    output: Film
    fps = 20
    transport = ("pause", "step", "restart")

    @connected
    async def joins(self, client: ClientInfo) -> None:
        self.client = client  # as authors do; the newest one stays
        await client.send(Told(text="welcome"))

    @event
    def fail(self) -> None:
        raise ValueError("the handler raises")

    @event
    async def tell(self, text: str) -> None:
        await self.send(Told(text=text))
        await self.client.send(Told(text=text))

    async def inference(self):
        number = 0
        while True:
            number += 1
            film = Film(main_video=np.full(SHAPE, number % 256, np.uint8), speech=np.zeros((1, 2400), np.int16))
            yield Idle if number % 5 == 0 else film


async def moderated(text: str, command: str, field: str) -> str | None:
    await trio.sleep(0.1)
    return "no cats" if "cat" in text else None


async def _enter(visits: Visits, video: str = "jpeg") -> Visitor:
    visitor = await Visitor(visits.server).open(f"/ws?video={video}")
    await visitor.pictures(3)
    return visitor


async def handlers_raise(visits: Visits) -> None:
    visitor = await _enter(visits)
    await visitor.say("fail", 1)
    await visitor.say("set_prompt", 2, prompt="a cat")
    await visitor.say("set_prompt", 3, prompt="a dog")
    await visitor.say("set_prompt", 4, prompt=5)
    await visitor.say("tell", 5, text="hello")
    await visitor.pictures(8)
    await visitor.leave()


async def viewers_watch(visits: Visits) -> None:
    visitor = await _enter(visits)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(visitor.until_over)
        viewers = [await Visitor(visits.server).open(f"/ws?role=viewer&video={video}") for video in ("jpeg", "jpeg", "raw")]
        for viewer in viewers[1:]:
            nursery.start_soon(viewer.until_over)
        await viewers[0].pictures(3)
        await viewers[0].vanish()
        await trio.sleep(0.3)
        visits.server.runtime.revoke(visits.server.sessions[-1].id)


async def codecs_change(visits: Visits) -> None:
    visitor = await _enter(visits, "raw,jpeg")
    for wanted in (["jpeg"], ["none"], ["raw"]):
        await visitor.say("reactor.video", video=wanted)
        await visitor.say("reactor.keyframe", track=0)
        await trio.sleep(0.3)
    await visitor.pictures(3)
    await visitor.leave()


async def a_stream_codec(visits: Visits) -> None:
    await (await _enter(visits, "h264,vp8,jpeg")).leave()


async def comes_back(visits: Visits) -> None:
    visitor = await _enter(visits)
    await visitor.vanish()
    await trio.sleep(1)
    again = await Visitor(visits.server).open(f"/ws?video=jpeg&resume={visitor.welcome['resume_token']}&after=1")
    await again.pictures(3)
    await again.leave()


async def steers(visits: Visits) -> None:
    visitor = await _enter(visits)
    await visitor.say("reactor.pause", 1, paused=True)
    await visitor.say("reactor.step", 2, steps=2)
    await trio.sleep(1)
    await visitor.say("reactor.restart", 3, state="fresh")
    await visitor.say("reactor.pause", 4, paused=False)
    await visitor.say("reactor.restart", 5, state="keep")
    await visitor.pictures(3)
    await visitor.leave()


async def waits_in_vain(visits: Visits) -> None:
    visitor = await _enter(visits)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(visitor.until_over)
        waiting = Visitor(visits.server)
        await waiting.open_waiting("/ws?video=jpeg")
        await waiting.vanish()
        await trio.sleep(0.5)
        visits.server.runtime.revoke(visits.server.sessions[-1].id)


async def speaks_nonsense(visits: Visits) -> None:
    visitor = await _enter(visits)
    for text in (b"{", b"[]", b'{"type": "reactor.nothing"}', b'{"type": "nothing", "id": 1}'):
        await visitor.text(text)
    await visitor.pictures(2)
    await visitor.text(b"\xff\xfe")  # no UTF-8: the reader of the WebSocket closes
    await visitor.until_over()


async def asks_by_http(visits: Visits) -> None:
    visitor = await _enter(visits)
    for path in ("/health", "/schema", "/nowhere"):
        assert b"HTTP/1.1" in await Visitor(visits.server).get(path)
    await visitor.leave()


Happening = Callable[[Visits], Awaitable[None]]
HAPPENINGS: dict[str, Happening] = {
    "handlers raise": handlers_raise, "viewers watch": viewers_watch, "codecs change": codecs_change,
    "a stream codec": a_stream_codec, "comes back": comes_back, "steers": steers, "waits in vain": waits_in_vain,
    "speaks nonsense": speaks_nonsense, "asks by HTTP": asks_by_http, "is recorded": handlers_raise,
    "the model waits": viewers_watch,
}  # fmt: skip

#: settings of the server, by happening; the test adds the folder of recordings
SETTINGS: dict[str, dict[str, Any]] = {"comes back": {"resume_window": 30}, "the model waits": {"slow_client": "hold"}}
