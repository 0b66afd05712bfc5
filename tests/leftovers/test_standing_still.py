"""Each party stands still for a minute while the others do what they may: every queue stays within its bound.

A cell names the queues that it fills to their bound: a bound that is never reached proves nothing.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

from reactor_trio.client.client_transport import TransportClosed
from reactor_trio.crossing.input_lanes import FRAMES
from reactor_trio.crossing.local_channel import LocalEnd
from reactor_trio.crossing.messages import InputArrived
from reactor_trio.errors import ConnectionRefused
from reactor_trio.interface import (
    Audio,
    DistributedPipeline,
    Input,
    InputField,
    InputState,
    Output,
    ReactorPipeline,
    Video,
    event,
)
from reactor_trio.media import Overrun
from reactor_trio.pacing.playout_forecast import MOST_HELD
from reactor_trio.protocol import Packet, encode_packet
from reactor_trio.testing import memory_server, open_server
from reactor_trio.testing.memory_ipc_link import LeaderLink, MemoryIpcLink
from reactor_trio.testing.memory_server import TestServer
from tests.leftovers.standing_still import FRAME, INPUT_BYTES, QUEUES, Bound, Watch
from tests.leftovers.test_queues import rows
from tests.support.behaviour_models import RawPeer
from tests.support.gate_kit import open_gate
from tests.support.models import Said

PICTURE = np.zeros((512, 512, 3), np.uint8)
PICTURE.flags.writeable = False
SOUND = np.zeros((1, 4800), np.int16)
SOUND.flags.writeable = False
BIG = "x" * 200_000
#: index of the input track of `World`
CAMERA = 2


class Shown(Output):
    main_video: Video
    sound: Audio


class Camera(Input):
    webcam: Video


class State(InputState):
    x: int = InputField(default=0)
    prompt: str = InputField(default="", moderate=True)


class World(ReactorPipeline):
    output: Shown
    input: Camera
    state: State
    fps = 10
    silent = False

    @event
    async def say(self, text: str) -> None:
        for _ in range(1200):
            await self.send(Said(text=text))
            await trio.sleep(0.01)

    @event
    async def shout(self, text: str) -> None:
        while True:
            await self.send(Said(text=text))

    @event
    def take(self, text: str) -> None:
        """Do nothing with it."""

    @event
    async def paint(self) -> None:
        await self.emit(Shown(main_video=PICTURE, sound=SOUND))

    def inference(self):
        while True:
            yield Shown(main_video=PICTURE, sound=SOUND)


class Small(World):
    def inference(self):
        while True:
            yield Shown(main_video=PICTURE[:16, :16], sound=SOUND)


class Ranks(DistributedPipeline):
    output: Shown
    fps = 10

    @event
    def take(self, text: str) -> None:
        """Do nothing with it."""

    def inference(self):
        while True:
            yield Shown(main_video=PICTURE, sound=SOUND)


LIMITS = {"input_bytes": INPUT_BYTES, "stall": 3600, "silence": 3600}


@asynccontextmanager
async def peer_of(
    server: TestServer, query: str = "video=none", *, reads: bool = True
) -> AsyncGenerator[RawPeer, None]:
    """A client that reads all it gets, or nothing; its connection may end in the block."""
    stall = memory_server.Stall()
    transport = await server._open_memory(f"ws://127.0.0.1/ws?{query}", stall)

    async def read() -> None:
        try:
            while True:
                await transport.receive()
        except TransportClosed:
            pass

    await trio.testing.wait_all_tasks_blocked()
    async with trio.open_nursery() as nursery:
        if reads:
            nursery.start_soon(read)
        else:
            stall.stall()
        yield RawPeer(transport)
        nursery.cancel_scope.cancel()
        stall.resume()
    await transport.aclose(1006)


async def flood(peer: RawPeer, name: str, *, texts: int = 0, seconds: int = 4, **arguments: Any) -> None:
    """Send as many commands as a client may; `texts`: how many of them a second, with a text of 200 kB."""
    try:
        for _ in range(seconds):
            for number in range(200):
                given = arguments | ({"text": BIG if number < texts else ""} if texts else {})
                await peer.command(name, None, **given)
            await trio.sleep(1)
    except TransportClosed:
        pass


async def film(peer: RawPeer, seconds: int = 2, codec: str = "raw", side: int = 128) -> None:
    """Send 100 pictures a second, of 48 KiB or of 192 KiB."""
    payload = bytes(side * side * 3)
    for number in range(100 * seconds):
        meta = {"codec": codec, "width": side, "height": side}
        await peer.say(encode_packet(Packet(CAMERA, number, number * 10_000, 0, None, 0, meta, memoryview(payload))))
        await trio.sleep(0.01)


async def a_minute(watch: Watch) -> None:
    for _ in range(12):
        await trio.sleep(5)
        watch.look()


class Stop:
    """Lets no call of a method come through while the block of `of` runs, for the objects that it names; then all."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
        self._stopped: Sequence[Any] = ()
        self._passes = passes = getattr(owner, name)
        self.held: list[tuple[Any, ...]] = []

        def call(one: Any, *args: Any, **named: Any) -> None:
            if any(one is each for each in self._stopped):
                self.held.append((one, *args, *named.values()))
            else:
                passes(one, *args, **named)

        monkeypatch.setattr(owner, name, call)

    @contextmanager
    def of(self, *stopped: Any) -> Iterator[None]:
        self._stopped = stopped
        yield
        self._stopped = ()
        for call in self.held:
            self._passes(*call)
        self.held.clear()


# ---- the cells ----------------------------------------------------------------------------------------------------------


async def a_client_reads_nothing(watch, monkeypatch, tmp_path):
    """The controlling client reads nothing, and the model sends messages."""
    async with (
        open_server(Small, step_cost=0.01, limits=LIMITS) as server, peer_of(server, "video=jpeg", reads=False) as peer,
    ):  # fmt: skip
        await trio.sleep(20)
        watch.look()
        await peer.command("say", text=BIG)
        for _ in range(20):
            await trio.sleep(0.05)
            watch.look()
        await a_minute(watch)


async def a_viewer_reads_nothing(watch, monkeypatch, tmp_path):
    """One of two that share an encoder."""
    async with (
        open_server(Small, step_cost=0.01, limits=LIMITS, max_age=0.5) as server, peer_of(server, "video=vp8"),
        peer_of(server, "video=vp8&role=viewer", reads=False),
    ):  # fmt: skip
        for _ in range(20):
            await trio.sleep(0.1)
            watch.look()
        await a_minute(watch)


async def a_lost_client_in_its_window(watch, monkeypatch, tmp_path):
    async with open_server(World, step_cost=0.01, limits=LIMITS, resume_window=3600) as server:
        async with peer_of(server) as peer:
            await peer.command("say", text="x" * 10_000)
            await trio.sleep(0.5)
        await a_minute(watch)


async def a_model_in_a_step(watch, monkeypatch, tmp_path):
    """Its commands and input frames wait. The client sends as much as it may."""
    async with open_server(World, step_cost=3600, limits=LIMITS) as server, peer_of(server) as peer:
        await trio.sleep(1)
        await flood(peer, "take", texts=100)
        watch.look()
        await flood(peer, "take", text="")
        await film(peer)
        await a_minute(watch)


async def a_model_in_a_step_and_a_slider(watch, monkeypatch, tmp_path):
    async with open_server(World, step_cost=3600, limits=LIMITS) as server, peer_of(server) as peer:
        await trio.sleep(1)
        await flood(peer, "set_x", seconds=5, x=1)
        for _ in range(24):
            await peer.command("set_x", None, x=2)
        await trio.sleep(0.01)
        watch.look()
        await flood(peer, "set_x", x=3)
        await a_minute(watch)


async def a_paused_session(watch, monkeypatch, tmp_path):
    watch.bounds["session.playout:Playout._queue"] = Bound(bytes=MOST_HELD, over=2 * FRAME)
    async with open_server(World, step_cost=0.01, limits=LIMITS) as server, peer_of(server) as peer:
        await trio.sleep(1)
        await peer.say({"type": "reactor.pause", "data": {"paused": True}})
        await flood(peer, "paint", seconds=1)
        await a_minute(watch)


async def the_io_loop(watch, monkeypatch, tmp_path):
    """What the model's side posts is not delivered. It makes frames as fast as it may, and sends messages."""
    stop = Stop(monkeypatch, LocalEnd, "take")
    async with open_server(World, step_cost=0.001, limits=LIMITS, fps=100) as server, peer_of(server) as peer:
        await trio.sleep(1)
        end = server.sessions[0].playout._channel
        with stop.of(end):
            await a_minute(watch)
        await trio.sleep(1)
        with stop.of(end):
            await peer.command("shout", text="x")
            await a_minute(watch)


async def the_models_process(watch, monkeypatch, tmp_path):
    """Stopped by a signal: it takes nothing that the server sends. The client sends as much as it may."""
    stop = Stop(monkeypatch, MemoryIpcLink, "send")
    async with open_server(World, step_cost=0.01, limits=LIMITS, isolation="process", step_timeout=0) as server:
        async with peer_of(server) as peer:
            await trio.sleep(1)
            with stop.of(server.runtime.placement.process.link):
                await film(peer)
                watch.look()
                await film(peer, side=256)
                watch.look()
                assert len([each for each in stop.held if isinstance(each[1], InputArrived)]) == FRAMES.items
                await flood(peer, "take", texts=50)
                await a_minute(watch)


async def the_server_as_its_model_sees_it(watch, monkeypatch, tmp_path):
    """Stopped by a signal: it takes nothing that the model's process sends."""
    stop = Stop(monkeypatch, MemoryIpcLink, "send")
    options = {"isolation": "process", "step_timeout": 0, "fps": 100}
    async with open_server(World, step_cost=0.001, limits=LIMITS, **options) as server, peer_of(server):
        await trio.sleep(1)
        with stop.of(server.runtime.placement.process.link.other):
            await a_minute(watch)
            assert len(stop.held) <= 2000


async def codecs(watch, monkeypatch, tmp_path):
    """Each encoder and decoder hangs, and is left behind only after an hour."""

    async def never(function: Any, argument: Any, /, limit: float = math.inf) -> Any:
        if math.isinf(limit):  # what a server does when it starts
            return await here(function, argument)
        await trio.sleep(limit)
        raise Overrun

    here = memory_server._here
    monkeypatch.setattr(memory_server, "_here", never)
    async with open_server(World, step_cost=0.01, limits=LIMITS, codec={"timeout": 30}) as server:
        async with peer_of(server, "video=jpeg") as peer, peer_of(server, "video=jpeg&role=viewer"):
            await film(peer)
            await a_minute(watch)


async def moderation(watch, monkeypatch, tmp_path):
    async def never(text: str, *, command: str, field: str) -> None:
        await trio.sleep_forever()

    async with (
        open_server(World, step_cost=0.01, limits=LIMITS, moderate=never, moderate_timeout=3600) as server,
        peer_of(server) as peer,
    ):
        await peer.command("set_prompt", prompt="a dog")
        await flood(peer, "take", seconds=2, text="")
        await a_minute(watch)


async def a_disk(watch, monkeypatch, tmp_path):
    """It opens the files of a recording, and then writes nothing."""
    call_here, writes = memory_server._call_here, trio.Event()

    async def hang(function: Any, *arguments: Any, abandon_on_cancel: bool = False) -> Any:
        if getattr(function, "__name__", "") == "write":
            await writes.wait()
        return await call_here(function, *arguments)

    monkeypatch.setattr(memory_server, "_call_here", hang)
    async with open_server(Small, step_cost=0.001, limits=LIMITS, record=str(tmp_path)) as server:
        async with peer_of(server) as peer:
            await flood(peer, "take", texts=1)
            await a_minute(watch)
            writes.set()


async def a_full_server(watch, monkeypatch, tmp_path):
    async with open_server(World, step_cost=0.01, limits=LIMITS) as server, peer_of(server):
        async with trio.open_nursery() as nursery:
            for _ in range(16):
                nursery.start_soon(wait_in_the_queue, server)
                await trio.testing.wait_all_tasks_blocked()
            with pytest.raises(ConnectionRefused):
                await server._open_memory("ws://127.0.0.1/ws?video=none", memory_server.Stall())
            await a_minute(watch)
            nursery.cancel_scope.cancel()


async def wait_in_the_queue(server: TestServer) -> None:
    async with peer_of(server):
        await trio.sleep_forever()


async def the_lessor_of_a_gate(watch, monkeypatch, tmp_path):
    async with open_gate() as gate:
        gate.replicas.dead.add(0)
        callers = []
        with suppress(ConnectionRefused):
            for _ in range(20):
                callers.append(await gate.call())
        await a_minute(watch)
        for caller in callers:
            await caller.transport.aclose()


async def a_rank(watch, monkeypatch, tmp_path):
    """Rank 1 takes no message of rank 0."""
    stop = Stop(monkeypatch, LeaderLink, "send")
    async with open_server(Ranks, step_cost=0.01, limits=LIMITS, ranks=2, step_timeout=0) as server:
        async with peer_of(server) as peer:
            await trio.sleep(1)
            with stop.of(server.runtime.placement.process.ranks[1]._serve.keywords["first"].other):
                await flood(peer, "take", text="")
                await a_minute(watch)
                assert len(stop.held) <= 4


L, S, X = "session.command_ledger:CommandLedger.", "session.command_preparation:CommandPreparer.", "execution."
CELLS: dict[Callable[..., Any], set[str]] = {
    a_client_reads_nothing: {
        "connection.text_queue:TextQueue._texts", "connection.sound_queue:SoundQueue._blocks",
    },
    a_viewer_reads_nothing: {"connection.down_track:DownTrack._queue"},
    a_lost_client_in_its_window: {"connection.message_log:MessageLog._kept"},
    a_model_in_a_step: {
        f"{X}command_queue:CommandQueue._groups", "interface.input_buffer:InputBuffer._frames", f"{L}_commands",
    },
    a_model_in_a_step_and_a_slider: {f"{L}_commands"},
    a_paused_session: {"session.playout:Playout._queue"},
    the_io_loop: {"pacing.playout_forecast:PlayoutForecast._queued", "crossing.local_channel:LocalEnd._came"},
    the_models_process: {
        "crossing.input_lanes:_Lane.waiting", f"{L}_commands",
    },
    the_server_as_its_model_sees_it: {"pacing.playout_forecast:PlayoutForecast._queued"},
    codecs: {"connection.media_receiver:MediaReceiver._waiting"},
    moderation: {f"{S}_waiting"},
    a_disk: {"recording.recorder:Recorder._queue"},
    a_full_server: {"admission.slots:Admission._waiting"},
    the_lessor_of_a_gate: {"gate.allocation:Allocation._pending", "gate.allocation:Allocation._requests"},
    a_rank: set(),
}  # fmt: skip


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.__name__)
async def test_every_queue_stays_within_its_bound(cell, autojump_clock, monkeypatch, tmp_path):
    watch = Watch()
    await cell(watch, monkeypatch, tmp_path)
    print({where.partition(":")[2]: most for where, most in watch.most.items() if most[0]})
    assert {where for where in CELLS[cell] if not watch.reached(where)} == set()


def test_every_bound_is_reached_somewhere():
    elsewhere = {where: bound.elsewhere for where, bound in QUEUES.items() if bound.elsewhere}
    assert set().union(*CELLS.values()) | set(elsewhere) == set(QUEUES)
    for test in elsewhere.values():
        path, _, name = test.partition("::")
        assert re.search(rf"def {name}\b", (Path(__file__).parents[2] / path).read_text(encoding="utf-8"))


def test_the_queues_that_are_looked_at_are_those_of_the_page():
    assert set(QUEUES) <= {name for names, _ in rows("Queues", 1) for name in names}
