"""Ranks in one loop, in virtual time: each makes the same calls in the same order, and what happens when one does not."""

from __future__ import annotations

import asyncio
import logging

import anyio
import numpy as np
import pytest
import sniffio
import trio

from reactor_trio import (
    BufferClosed,
    ClientInfo,
    CommandError,
    DistributedPipeline,
    Idle,
    Input,
    InputState,
    Output,
    UploadedFile,
    Video,
    connected,
    disconnected,
    event,
    file_uploaded,
    session_ended,
)
from reactor_trio.crossing.file_pieces import PIECE
from reactor_trio.errors import DeclarationError, ManifestError, ModelFailed, SessionEnded
from reactor_trio.interface import ReactorPipeline
from reactor_trio.placement.ranks.leader import RAISED_TIMEOUT
from reactor_trio.testing import open_server
from reactor_trio.testing.inline_process import InlineProcess


class Picture(Output):
    main_video: Video


class Camera(Input):
    webcam: Video


class State(InputState):
    level: int = 0
    file: UploadedFile | None = None


async def on_asyncio():
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(anyio.sleep, 0)
    return sniffio.current_async_library()


#: a file that crosses in several pieces
LONG = b"words" * (PIECE // 2)


class World(DistributedPipeline):
    """Writes down what it is called for."""

    state: State
    output: Picture
    camera: Camera
    fps = 10
    ranks = 3

    def load(self, config):
        self.calls = [("load", self.rank, self.world_size)]
        self.config = config
        config.setdefault("models", []).append(self)

    def did(self, *what):
        self.calls.append(what)

    @connected
    def request(self, client: ClientInfo):
        self.did("connected", client.id, client.joined_at, self.connected.is_set(), self.state.level)

    @disconnected
    def goodbye(self):
        self.did("disconnected", self.connected.is_set(), self.state.level)

    @file_uploaded
    def got(self, file: UploadedFile):
        self.did("file", file.name, file.data)

    @event
    def double(self, of: int) -> int:
        self.did("double", of)
        return 2 * of

    @event
    def refuse(self):
        raise CommandError("no", f"rank {self.rank} says no")

    @event
    async def rests(self, seconds: float):
        await trio.sleep(seconds)
        self.did("rested")

    @event
    def act(self, what: str, rank: int = -1):
        self.acts = what if rank in (-1, self.rank) else ""

    def inference(self):
        try:
            for step in range(10**9):
                match vars(self).pop("acts", ""):
                    case "raise":
                        raise ValueError(f"on rank {self.rank}")
                    case "other":
                        raise (ValueError if self.rank else KeyError)("differs")
                    case "end":
                        return
                    case "exit":
                        raise SystemExit(3)
                    case "asyncio":
                        self.did(asyncio.run(on_asyncio()), sniffio.current_async_library())
                    case "ask":
                        self.cancelled()
                self.did("step", step, self.state.level, self.state.file and self.state.file.data)
                yield np.full((4, 6, 3), self.state.level + 100 * (self.rank > 0), np.uint8)
        finally:
            self.did("closed")


async def test_a_rank_whose_class_declares_something_else_is_refused(autojump_clock, monkeypatch):
    """Its file was edited while the ranks started."""

    class Edited(State):
        depth: int = 0

    edited = type("World", (World,), {"__annotations__": {"state": Edited}, "__module__": __name__})
    given = iter([World, World, edited])
    monkeypatch.setattr(InlineProcess, "find", lambda _process, _path: next(given))
    with pytest.raises(ModelFailed, match="World: its class declares other tracks, commands or messages"):
        async with open_server(World):
            pass


def models(server):
    """Those of all ranks that are loaded now."""
    found = [process.loaded for process in server.runtime.placement.process.ranks]
    assert [model.rank for model in found] == list(range(len(found)))
    return found


async def the_same(server):
    """What all ranks were called for, which must be one."""
    await trio.sleep(3)  # a client that left is let go, and the other ranks, which here come after rank 0, have done all
    first, *others = [model.calls[1:] for model in models(server)]
    for other in others:
        assert other == first
    return first


async def test_a_step_may_run_asyncio_on_every_rank(autojump_clock):
    async with open_server(World) as server:
        async with server.connect() as client:
            await client.command("act", what="asyncio")
            await client.take(2)
        assert await the_same(server)
        assert all(("asyncio", "trio") in model.calls for model in models(server))


async def test_a_pause_a_step_and_a_restart_are_the_same_on_every_rank(autojump_clock):
    async with open_server(World) as server:
        async with server.connect() as client:
            assert client.transport.allowed == ("pause", "step", "restart")
            await client.take(2)
            await client.transport.pause()
            await client.command("set_level", level=7)
            await client.transport.step()
            before = await the_same(server)
            await trio.sleep(5)
            assert await the_same(server) == before
            await client.transport.step(2)
            assert [call[0] for call in (await the_same(server))[len(before) :]] == ["step"] * 2
            await client.transport.restart()
            await client.transport.step()
            assert (await the_same(server))[-2:] == [("closed",), ("step", 0, 7, None)]
            await client.transport.restart("fresh")
            await client.transport.step()
            again = await the_same(server)
            assert again[-4:] == [("disconnected", False, 7), ("closed",), again[0], ("step", 0, 0, None)]
            assert again[0][-2:] == (True, 0)
            await client.transport.resume()
            await client.take(5)
        assert (await the_same(server))[-2:] == [("disconnected", False, 0), ("closed",)]


async def test_every_rank_is_called_for_the_same_in_the_same_order(autojump_clock):
    async with open_server(World) as server:
        assert [model.calls for model in models(server)] == [[("load", rank, 3)] for rank in range(3)]
        async with server.connect() as client:
            assert (await client.take(1))[0].data[0, 0, 0] == 0
            await client.command("set_level", level=7)
            frames = await client.take(5)
            assert {int(frame.data[0, 0, 0]) for frame in frames} <= {0, 7}  # rank 0's, never another's
            assert await client.command("double", of=21) == 42
            with pytest.raises(CommandError, match="rank 0 says no"):
                await client.command("refuse")
            file = await client.upload(LONG, name="a.txt")
            await client.command("set_file", file=file)
            await client.take(2)
        async with server.connect() as client:
            await client.take(2)
        calls = await the_same(server)
        assert [call for call in calls if call[0] not in ("step",)] == [
            ("connected", 1, joined(calls, 1), True, 0), ("double", 21), ("file", "a.txt", LONG),
            ("disconnected", False, 7), ("closed",),
            ("connected", 2, joined(calls, 2), True, 0), ("disconnected", False, 0), ("closed",),
        ]  # fmt: skip
        steps = [call for call in calls if call[0] == "step"]
        assert steps[0] == ("step", 0, 0, None)
        assert ("step", 0, 0, None) in steps[1:]  # the second session's
        assert any(call[2:] == (7, LONG) for call in steps)


def joined(calls, client):
    """When a client joined."""
    return next(call[2] for call in calls if call[:2] == ("connected", client))


async def test_a_command_is_seen_by_the_same_step_on_every_rank(autojump_clock):
    async with open_server(World, step_cost=0.03) as server:
        async with server.connect() as client:
            await client.take(1)
            for level in range(1, 30):
                await client.command("set_level", level=level)
                await trio.sleep(0.017 * level)
        calls = await the_same(server)
        levels = [call[2] for call in calls if call[0] == "step"]
        assert levels == sorted(levels)
        assert len(set(levels)) > 20


@pytest.mark.parametrize("what", ["raise", "end"])
async def test_what_all_ranks_do_is_as_with_one(autojump_clock, what, caplog):
    async with open_server(World) as server:
        before = models(server)
        async with server.connect() as client:
            await client.take(1)
            await client.command("act", what=what)
            if what == "end":
                await client.take(20)
                assert (await the_same(server)).count(("step", 0, 0, None)) == 2  # a new generator
            else:
                with pytest.raises(Exception, match="on rank 0"):
                    await client.take(100)
        async with server.connect() as client:
            await client.take(1)
        assert models(server) == before
        await the_same(server)
    assert [record.levelno for record in caplog.records].count(logging.ERROR) == (what == "raise")


@pytest.mark.parametrize(
    ("what", "rank", "told"),
    [
        ("raise", 1, "in step N rank 1 raised ValueError: on rank 1, and rank 0 returned"),
        ("raise", 0, "in step N rank 1 returned, and rank 0 raised ValueError: on rank 0"),
        ("other", -1, "in step N rank 1 raised ValueError: differs, and rank 0 raised KeyError: 'differs'"),
        ("end", 2, "in step N rank 2 ended its generator, and rank 0 returned"),
        ("ask", 2, "in step N rank 2 raised OutOfStep: it asked for cancelled more often than rank 0, and rank 0 returned"),
    ],
)
async def test_ranks_that_are_apart_are_loaded_again(autojump_clock, what, rank, told, caplog):
    async with open_server(World) as server:
        async with server.connect() as client:
            before = models(server)
            await client.take(1)
            await client.command("act", what=what, rank=rank)
            with pytest.raises(SessionEnded) as ended:
                await client.take(100)
            assert ended.value.reason == "model_restarting"
        await trio.sleep(1)
        async with server.connect() as client:
            await client.take(3)
        assert not set(models(server)) & set(before)
        await the_same(server)
    lines = [record.getMessage() for record in caplog.records if "is gone" in record.getMessage()]
    (line,) = lines
    words = line.partition("its process group is out of step: ")[2].partition(";")[0]
    assert words.split(" rank ")[1:] == told.split(" rank ")[1:]
    assert "on rank 1" not in told or "raised alone" in caplog.text


async def test_a_rank_that_ends_alone_takes_all_with_it(autojump_clock, caplog):
    async with open_server(World) as server:
        async with server.connect() as client:
            await client.take(1)
            at = trio.current_time()
            server.runtime.placement.process.ranks[2].kill()
            with pytest.raises(SessionEnded) as ended:
                await client.take(100)
            assert ended.value.reason == "model_restarting"
            assert trio.current_time() == at  # told at once
        await trio.sleep(1)
        async with server.connect() as client:
            await client.take(1)
    assert "the model is gone: its process of rank 2 was killed" in caplog.text


async def test_the_death_of_a_rank_is_its_end_although_a_child_of_it_holds_its_link(autojump_clock, caplog):
    async with open_server(World) as server, server.connect() as client:
        await client.take(1)
        at = trio.current_time()
        rank = server.runtime.placement.process.ranks[1]
        rank.held_open = True
        rank.kill()
        with pytest.raises(SessionEnded):
            await client.take(100)
        assert trio.current_time() - at <= 0.2
    assert "the model is gone: its process of rank 1 was killed" in caplog.text


@pytest.mark.parametrize("rank", [0, 1])
async def test_what_no_process_survives_is_not_compared(autojump_clock, rank, caplog):
    async with open_server(World) as server:
        async with server.connect() as client:
            await client.take(1)
            at = trio.current_time()
            await client.command("act", what="exit", rank=rank)
            with pytest.raises(SessionEnded) as ended:
                await client.take(100)
            assert ended.value.reason == "model_restarting"
            assert trio.current_time() - at < RAISED_TIMEOUT
    assert "the model is gone: its code raised SystemExit: 3" in caplog.text


async def test_a_load_that_fails_on_one_rank_is_that_of_all(autojump_clock):
    class Broken(World):
        def load(self, config):
            if self.rank == 1:
                raise OSError("no second device")

    with pytest.raises(ModelFailed, match="no second device"):
        async with open_server(Broken):
            raise AssertionError("it was served")


class Watching(DistributedPipeline):
    """Shows what it reads, awaiting it or not."""

    output: Picture
    camera: Camera
    fps = 10
    ranks = 2
    waits = True

    def load(self, config):
        self.read = []

    @disconnected
    def goodbye(self):
        self.read.append("disconnected")

    async def inference(self):
        while True:
            try:
                if self.waits:
                    frames = await self.camera.webcam.read(timeout=0.5)
                else:
                    frames = self.camera.webcam.try_read() or []
            except TimeoutError:
                frames = []
            except BufferClosed:
                self.read.append("closed")
                raise
            self.read.append((self.camera.webcam.total_received, self.camera.webcam.available, self.output_buffer.fps))
            for frame in frames:
                self.read.append((frame.pts, int(frame.data[0, 0, 0])))
                frame.data[:] = 0  # which is the author's
                yield frame.data
            if not frames:
                yield Idle


@pytest.mark.parametrize("waits", [True, False])
async def test_every_rank_reads_the_frames_that_rank_0_reads(autojump_clock, waits):
    class Reads(Watching):
        pass

    Reads.waits = waits
    async with open_server(Reads, step_cost=0.05, limits={"input_bytes": 16 * 16 * 3 * 32}) as server:
        assert [model.camera.webcam.max_bytes for model in models(server)] == [16 * 16 * 3 * 16] * 2
        async with server.connect() as client:
            for level in range(0, 200, 10):
                await client.push_video("webcam", np.full((16, 16, 3), level, np.uint8))
                await trio.sleep(0.013 * (level % 70))
            await trio.sleep(1.2)  # in the middle of a read
        await trio.sleep(1)
        read, other = [model.read for model in models(server)]
        assert read == other
        assert len({entry for entry in read if len(entry) == 2}) > 10
        if waits:
            assert read[-2:] == ["closed", "disconnected"]


class Awaiting(DistributedPipeline):
    output: Picture
    fps = 10
    ranks = 2

    def load(self, config):
        self.seen = []

    @disconnected
    def goodbye(self):
        self.seen.append("disconnected")

    async def inference(self):
        try:
            yield np.zeros((4, 6, 3), np.uint8)
            self.seen.append("waits")
            await trio.sleep_forever()
        finally:
            self.seen.append("closed")


async def test_a_step_that_awaits_for_ever_is_cancelled_on_every_rank(autojump_clock):
    async with open_server(Awaiting) as server:
        for session in (1, 2):
            async with server.connect() as client:
                await client.take(1)
                await trio.sleep(1)
            await trio.sleep(3)
            for model in models(server):
                assert sorted(model.seen) == sorted(["waits", "closed", "disconnected"] * session)


class RaisesInCleanup(Awaiting):
    """Waits for ever in one part of a session, on every rank; its cleanup raises as soon as the wait is cancelled."""

    waits_in = ""

    async def wait(self, part):
        if RaisesInCleanup.waits_in == part:
            try:
                await trio.sleep_forever()
            finally:
                self.seen.append(part)
                raise ValueError(f"cleanup on rank {self.rank}")

    @connected
    async def greet(self):
        await self.wait("@connected")

    @event
    async def act(self):
        await self.wait("the handler")

    @disconnected
    async def leave(self):
        await self.wait("@disconnected")

    async def inference(self):
        try:
            while True:
                yield np.zeros((4, 6, 3), np.uint8)
                await self.wait("the step")
        finally:
            await self.wait("the closing")


@pytest.mark.parametrize("part", ["@connected", "the handler", "the step", "@disconnected", "the closing"])
async def test_a_cancelled_call_whose_cleanup_raises_leaves_the_ranks_in_step(autojump_clock, part, caplog, monkeypatch):
    async def leave_while_it_waits(server):
        before = models(server)
        monkeypatch.setattr(RaisesInCleanup, "waits_in", part)
        async with server.connect() as client:
            with trio.move_on_after(1):
                await client.command("act")
                await trio.sleep_forever()
        await trio.sleep(10)
        assert [model.seen for model in models(server)] == [[part]] * 2
        monkeypatch.setattr(RaisesInCleanup, "waits_in", "")
        async with server.connect() as client:
            await client.take(1)
        assert models(server) == before

    try:
        async with open_server(RaisesInCleanup) as server:
            await leave_while_it_waits(server)
    except* (ValueError, trio.TooSlowError):
        pass  # the kit raises what no client receives
    assert "is out of step" not in caplog.text
    raised = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert sorted(raised) == ["cleanup on rank 0", "cleanup on rank 1"]


async def test_what_rank_0_raised_is_not_lost_if_the_client_leaves_while_the_other_ranks_are_in_the_call(autojump_clock):
    class Refuses(Awaiting):
        @connected
        async def greet(self):
            await trio.sleep(self.rank)  # seconds
            raise ValueError("no greeting")

    with pytest.raises(ValueError, match="no greeting"):
        async with open_server(Refuses) as server:
            before = models(server)
            async with server.connect() as client:
                await trio.sleep(0.5)
                await client.vanish()
            await trio.sleep(5)
            assert models(server) == before


async def test_a_handler_that_waits_is_waited_for_on_every_rank(autojump_clock):
    async with open_server(World) as server:
        async with server.connect() as client:
            began = trio.current_time()
            await client.command("rests", seconds=1.5)
            assert trio.current_time() - began == pytest.approx(1.5, abs=0.2)
        assert ("rested",) in await the_same(server)


class Greets(Awaiting):
    @connected
    async def request(self):
        self.seen.append("connected")
        await trio.sleep(1)
        self.seen.append("greeted")


class Lingers(Awaiting):
    """Rank 1 does not return from this part of a session's end."""

    lingers = ""

    async def linger(self, part):
        if self.rank == 1 and Lingers.lingers == part:
            await trio.sleep_forever()

    @disconnected
    async def leave(self):
        await self.linger("@disconnected")

    @session_ended
    async def end(self):
        await self.linger("@session_ended")

    async def inference(self):
        try:
            while True:
                yield np.zeros((4, 6, 3), np.uint8)
        finally:
            await self.linger("closing inference()")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # the generator of a rank that was killed
@pytest.mark.parametrize("settings", [{}, {"step_timeout": 0, "first_step_timeout": 0}], ids=["limits", "no limits"])
@pytest.mark.parametrize("part", ["@disconnected", "closing inference()", "@session_ended"])
async def test_a_part_of_the_end_has_5_s_on_every_rank(autojump_clock, part, settings, caplog, monkeypatch):
    monkeypatch.setattr(Lingers, "lingers", part)
    with trio.fail_after(3600):
        async with open_server(Lingers, **settings) as server:
            async with server.connect() as client:
                await client.take(1)
            left = trio.current_time()
            await server.sessions[0].ended.wait()
            assert trio.current_time() - left == pytest.approx(5, abs=0.1)
            monkeypatch.setattr(Lingers, "lingers", "")
            await trio.sleep(1)
            async with server.connect() as client:
                await client.take(1)
    assert f"is out of step: rank 1 has not ended {part} 5 s after rank 0" in caplog.text
    assert "took over" not in caplog.text, "no other part is blamed"


async def test_a_process_of_rank_0_without_a_server_waits_for_no_other_rank(autojump_clock):
    class Halts(Awaiting):
        async def inference(self):
            yield np.zeros((4, 6, 3), np.uint8)
            while True:
                if self.rank == 1:
                    await trio.sleep_forever()
                yield Idle

    async with open_server(Halts, step_timeout=0, first_step_timeout=0) as server, server.connect() as client:
        await client.take(1)
        await trio.sleep(1)
        rank = server.runtime.placement.process.ranks[0]
        with trio.fail_after(3600):
            rank.link.close()
            gone = trio.current_time()
            await rank.gone()
        assert trio.current_time() - gone < 1


@pytest.mark.parametrize("stays", [0.0, 0.5])
async def test_a_client_that_leaves_while_it_is_greeted(autojump_clock, stays):
    async with open_server(Greets) as server:
        async with server.connect() as client:
            await trio.sleep(stays)
            await client.vanish()
        await trio.sleep(2)
        for model in models(server):
            assert model.seen == ["connected", "disconnected"]
        async with server.connect() as client:
            await client.take(1)
        assert server.runtime.metrics.exposition().count(b"reactor_model_restarts_total 0.0") == 1


async def test_code_outside_of_a_call_learns_on_every_rank_whether_a_client_is_there(autojump_clock):
    class Parts(Awaiting):
        @disconnected
        async def goodbye(self):
            await trio.sleep(1)

        def inference(self):
            yield np.zeros((4, 6, 3), np.uint8)

    async with open_server(Parts) as server:
        over = [[model.cancelled() for model in models(server)]]
        async with server.connect() as client:
            await client.take(1)
            over.append([model.cancelled() for model in models(server)])
        await trio.sleep(1.5)  # in @disconnected of rank 1, which here begins when that of rank 0 has ended
        over.append([model.cancelled() for model in models(server)])
    assert over == [[True, True], [False, False], [True, True]]


async def test_one_rank_is_a_model_like_any_other(autojump_clock):
    async with open_server(World, ranks=1) as server:
        assert (server.model.rank, server.model.world_size) == (0, 1)
        assert server.runtime.placement.process is None
        async with server.connect() as client:
            await client.take(1)


async def test_the_manifest_lays_over_the_class(autojump_clock):
    async with open_server(World, ranks=2) as server:
        assert [model.world_size for model in models(server)] == [2, 2]


class Fragile(State):
    broken = False

    def __post_init__(self):
        if Fragile.broken:
            raise ValueError("no state")


class Restarting(World):
    state: Fragile

    @event
    def restart(self, level: int):
        self.state = Fragile(level=level)


async def test_a_state_that_a_handler_assigns_is_that_of_every_rank(autojump_clock):
    async with open_server(Restarting) as server:
        async with server.connect() as client:
            await client.command("restart", level=5)
            await client.take(4)
        assert [call[2] for call in await the_same(server) if call[0] == "step"][-1] == 5


async def test_a_state_that_cannot_be_made_ends_the_session_alone(autojump_clock, monkeypatch):
    async with open_server(Restarting) as server:
        with monkeypatch.context() as broken:
            broken.setattr(Fragile, "broken", True)
            async with server.connect() as client:
                with pytest.raises(Exception, match=r"^no state$"):
                    await client.take(1)
                assert client.ended == "model_error"
        async with server.connect() as client:
            await client.take(2)
        assert [call[0] for call in await the_same(server)][:2] == ["connected", "step"]


class Plain(ReactorPipeline):
    output: Picture

    def inference(self):
        yield np.zeros((4, 6, 3), np.uint8)


class ServesTwo(World):
    def load(self, config):
        self.max_sessions = 2


class Batched(DistributedPipeline):
    output: Picture
    ranks = 2

    def batch_inference(self, sessions):
        return [None for _ in sessions]


@pytest.mark.parametrize(
    ("model", "settings", "error", "told"),
    [
        (Plain, {"ranks": 2}, ManifestError, "Plain runs in one process"),
        (World, {"max_sessions": 2}, Exception, "serves one session at a time, max_sessions asks for 2"),
        (ServesTwo, {}, Exception, "serves one session at a time, max_sessions asks for 2"),
        (Batched, {}, Exception, "ranks step one session at a time"),
    ],
)
async def test_what_ranks_cannot_be_is_said_in_one_line(autojump_clock, model, settings, error, told):
    with pytest.raises((error, DeclarationError, ModelFailed), match=told) as raised:
        async with open_server(model, **settings):
            raise AssertionError("it was served")
    assert "\n" not in str(raised.value)


async def test_clients_are_told_the_values_of_rank_0(autojump_clock):
    class Rising(World):
        @event
        def rise(self):
            self.state.level = 7 + self.rank

        def inference(self):
            while True:
                if self.state.level == 1:
                    self.state.level = 2 + self.rank
                yield Idle

    async with open_server(Rising) as server, server.connect() as client:
        assert client.state == {"level": 0, "file": None}
        await client.command("set_level", level=1)
        assert client.state["level"] == 1
        await trio.sleep(1)
        assert client.state["level"] == 2
        assert [model.state.level for model in models(server)] == [2, 3, 4]
        await client.command("rise")
        await trio.sleep(1)
        assert client.state == {"level": 7, "file": None}
