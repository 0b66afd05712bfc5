"""The end of a model's process, in virtual time: what clients get, when the model is back, when the server gives up."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import trio

from reactor_trio import InputState, Output, ReactorModel, ReactorPipeline, Video, event
from reactor_trio.errors import ConnectionRefused, ManifestError, ModelFailed, SessionEnded
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.isolation import isolated_worker as worker
from reactor_trio.placement.isolation.isolated_worker import CHANGED
from reactor_trio.placement.restarts import PAUSES, STAYED
from reactor_trio.testing import open_server
from reactor_trio.testing.inline_process import InlineProcess

LOAD = 3.0


class Picture(Output):
    main_video: Video


class State(InputState):
    level: int = 0


class World(ReactorPipeline):
    """Takes LOAD seconds to load; its config says which loads fail."""

    state: State
    output: Picture
    fps = 10

    async def load(self, config):
        await trio.sleep(LOAD)
        loads = config.get("loads", [])
        loads.append(trio.current_time())
        if len(loads) in config.get("failing", ()):
            raise OSError("the disk is gone")

    @event
    def raise_it(self, what: str):
        self.broken = what

    def inference(self):
        while True:
            match vars(self).pop("broken", None):
                case "cuda":
                    raise RuntimeError("CUDA error: an illegal memory access was encountered")
                case "memory":
                    raise MemoryError
                case "grouped":
                    raise ExceptionGroup("of a nursery", [ValueError("a"), RuntimeError("CUDA error: launch failed")])
                case "cause":
                    raise ValueError("the step failed") from RuntimeError("CUDA error: launch failed")
                case "exit":
                    raise SystemExit(3)
                case "value":
                    raise ValueError("only this session's")
            yield np.full((4, 6, 3), self.state.level, np.uint8)


def process(server):
    return server.runtime.placement.process


async def test_a_process_that_is_gone_ends_its_sessions_and_comes_back(autojump_clock, caplog):
    caplog.set_level("INFO", "reactor_trio.server")
    config = {"loads": []}
    async with open_server(World, isolation="process", config=config) as server:
        assert config["loads"] == [LOAD]
        async with server.connect() as client, server.connect(role="viewer") as viewer:
            await client.command("set_level", level=7)
            assert (await client.take(2))[-1].data[0, 0, 0] == 7
            at = trio.current_time()
            process(server).kill()
            for one in (client, viewer):
                with pytest.raises(SessionEnded) as ended:
                    await one.take(100)
                assert ended.value.reason == "model_restarting"
            assert trio.current_time() == at  # told at once
        assert server.http("/health").status == 503
        assert b"was killed" in server.http("/health").body
        with pytest.raises(ConnectionRefused) as refused:
            async with server.connect():
                pass
        assert refused.value.status == 503
        await trio.sleep(LOAD - 0.01)
        assert server.http("/health").status == 503
        await trio.sleep(0.02)
        assert server.http("/health").status == 200
        assert config["loads"] == [LOAD, at + LOAD]
        assert f"the model is loaded again, {LOAD:.1f} s after its end" in caplog.messages
        async with server.connect() as client:
            assert (await client.take(1))[0].data[0, 0, 0] == 0  # a new model, and a fresh state
        assert server.runtime.metrics.exposition().count(b"reactor_model_restarts_total 1.0") == 1


async def test_the_death_of_the_process_is_its_end_although_a_child_of_it_holds_its_link(autojump_clock):
    async with open_server(World, isolation="process") as server, server.connect() as client:
        await client.take(2)
        process(server).held_open = True
        at = trio.current_time()
        process(server).kill()
        with pytest.raises(SessionEnded) as ended:
            await client.take(100)
        assert ended.value.reason == "model_restarting"
        assert trio.current_time() - at <= 0.2
        await trio.sleep(LOAD + 0.1)
        assert server.http("/health").status == 200


async def test_who_waits_goes_on_waiting_and_is_next(autojump_clock):
    places = []
    async with open_server(World, isolation="process") as server, server.connect() as client:
        async with trio.open_nursery() as nursery:

            async def wait():
                async with server.connect(on_queued=lambda position, total: places.append((position, total))) as second:
                    await second.take(1)
                    places.append(round(trio.current_time(), 3))

            nursery.start_soon(wait)
            await client.take(1)
            await trio.testing.wait_all_tasks_blocked()
            at = trio.current_time()
            process(server).kill()
            with pytest.raises(SessionEnded):
                await client.take(100)
    assert places == [(1, 1), (1, 1), round(at + LOAD, 3)]


@pytest.mark.parametrize("what", ["cuda", "memory", "exit", "grouped", "cause"])
async def test_what_no_model_survives_ends_its_process(autojump_clock, what, caplog):
    async with open_server(World, isolation="process") as server:
        async with server.connect() as client:
            await client.command("raise_it", what=what)
            with pytest.raises(SessionEnded) as ended:
                await client.take(100)
            assert ended.value.reason == "model_restarting"
        await trio.sleep(LOAD + 0.1)
        async with server.connect() as client:
            await client.take(1)
    (line,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert "the model is gone: its code raised" in line.getMessage()


async def test_an_exception_of_a_session_ends_only_that(autojump_clock, caplog):
    config = {"loads": []}
    async with open_server(World, isolation="process", config=config) as server:
        async with server.connect() as client:
            await client.command("raise_it", what="value")
            with pytest.raises(Exception, match="only this session's") as raised:
                await client.take(100)
            assert type(raised.value).__name__ == "ValueError"
        async with server.connect() as client:
            await client.take(1)
    assert len(config["loads"]) == 1
    (line,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert 'raise ValueError("only this session\'s")' in caplog.text, line  # the traceback of the other process


async def test_a_load_that_fails_again_is_tried_again_and_then_given_up(autojump_clock):
    config = {"loads": [], "failing": range(2, 100)}
    with pytest.raises(ModelFailed, match="the disk is gone"):
        async with open_server(World, isolation="process", config=config) as server:
            await trio.sleep(2)
            process(server).kill()
            await trio.sleep(1000)
            assert server.http("/health").status == 503
    pauses = np.diff(config["loads"][1:]) - LOAD
    assert pauses == pytest.approx([0.5, 1, 2, 5, 10])


async def test_a_model_that_ends_soon_after_each_load_is_loaded_ever_later_and_then_given_up(autojump_clock):
    config = {"loads": []}
    life = 1.5
    with pytest.raises(ModelFailed, match="World: its process was killed, soon after each of its last loads"):
        async with open_server(World, isolation="process", config=config) as server:
            for pause in PAUSES:
                await trio.sleep(life)
                process(server).kill()
                await trio.sleep(pause + LOAD - 0.1)
                assert server.http("/health").status == 503
                await trio.sleep(0.2)
                assert server.http("/health").status == 200
            process(server).kill()
            await trio.sleep(1)
    assert np.diff(config["loads"]) == pytest.approx([0.1 * (n > 0) + life + pause + LOAD for n, pause in enumerate(PAUSES)])


async def test_a_model_that_stays_is_loaded_again_at_once_however_often_it_ends(autojump_clock):
    config = {"loads": []}
    async with open_server(World, isolation="process", config=config) as server:
        for _ in range(3 * len(PAUSES)):
            await trio.sleep(STAYED)
            process(server).kill()
            await trio.sleep(LOAD + 0.1)
            assert server.http("/health").status == 200
    assert np.diff(config["loads"]) == pytest.approx(STAYED + LOAD, abs=0.2)


async def test_a_load_that_failed_holds_no_process(autojump_clock, monkeypatch):
    processes, made = [], InlineProcess.__init__

    def init(self, *arguments):
        processes.append(self)
        made(self, *arguments)

    monkeypatch.setattr(InlineProcess, "__init__", init)
    config = {"loads": [], "failing": [2, 3]}
    async with open_server(World, isolation="process", config=config) as server:
        process(server).kill()
        await trio.sleep(LOAD * 3 + PAUSES[1] + PAUSES[2] + 0.1)
        assert server.http("/health").status == 200
        assert [one._ended.is_set() for one in processes] == [True, True, True, False]


async def test_a_load_that_fails_once_more_is_loaded_after_all(autojump_clock):
    config = {"loads": [], "failing": [2]}
    async with open_server(World, isolation="process", config=config) as server:
        process(server).kill()
        await trio.sleep(LOAD * 2 + PAUSES[1] + 0.1)
        async with server.connect() as client:
            await client.take(1)


async def test_a_process_that_goes_while_it_loads_is_a_load_that_failed(autojump_clock, monkeypatch):
    processes, made = [], InlineProcess.__init__

    def init(self, *arguments):
        processes.append(self)
        made(self, *arguments)

    async def kill_soon():
        await trio.sleep(1)
        processes[0].kill()

    monkeypatch.setattr(InlineProcess, "__init__", init)
    failed = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(kill_soon)
        try:
            async with open_server(World, isolation="process"):
                raise AssertionError("it was served")
        except ModelFailed as error:
            failed.append(str(error))
    assert failed == ["World: its process was killed while the model was loaded"]


async def test_a_class_that_declares_something_else_when_it_is_loaded_again_is_refused_before_its_load(
    autojump_clock, monkeypatch, caplog
):
    """Its file was edited. Without this the first command of a client, decoded by two declarations, ended the process."""

    class Edited(State):
        depth: int = 0

    edited = type("World", (World,), {"__annotations__": {"state": Edited}, "__module__": __name__})
    config = {"loads": []}
    async with open_server(World, isolation="process", config=config) as server:
        async with server.connect() as client:
            await client.command("set_level", level=1)
        with monkeypatch.context() as patch:
            patch.setattr(InlineProcess, "find", lambda _process, _path: edited)
            process(server).kill()
            await trio.sleep(sum(PAUSES[:3]) + 0.1)
            assert server.http("/health").status == 503
        refused = f"World: {CHANGED}; trying again"
        assert [record.getMessage() for record in caplog.records if "declares other" in record.getMessage()] == [refused] * 3
        assert len(config["loads"]) == 1
        await trio.sleep(PAUSES[3] + LOAD + 0.1)  # the change was undone
        async with server.connect() as client:
            await client.command("set_level", level=2)


@pytest.mark.parametrize(("busy", "hangs"), [(1.9, False), (2.1, True)])
async def test_a_step_within_step_timeout_goes_on_and_one_above_it_ends_the_process(
    autojump_clock, monkeypatch, busy, hangs
):
    """A busy loop answers late: here each answer is delayed by the time of a step."""
    receive = worker._Worker.receive

    def late(self, message, session):
        if isinstance(message, ipc_messages.Ping):
            self.nursery.start_soon(answer, self, message)
        else:
            receive(self, message, session)

    async def answer(self, ping):
        if trio.current_time() > LOAD:
            await trio.sleep(busy)
        receive(self, ping, 0)

    monkeypatch.setattr(worker._Worker, "receive", late)
    async with open_server(World, isolation="process", step_timeout=2.0) as server, server.connect() as client:
        if not hangs:
            await client.take(200)
            return
        began = trio.current_time()
        with pytest.raises(SessionEnded) as ended:
            await client.take(200)
        assert ended.value.reason == "model_restarting"
        assert trio.current_time() - began == pytest.approx(2.0 + 0.5, abs=0.5)
        assert b"computed for more than 2 s" in server.http("/health").body


async def test_a_server_that_stood_still_in_a_step_does_not_take_it_for_hung(autojump_clock, monkeypatch):
    """When the server continues, the answer is there, but the time is over, too."""
    receive = worker._Worker.receive
    stood = trio.Event()

    def late(self, message, session):
        if isinstance(message, ipc_messages.Ping) and trio.current_time() > LOAD:
            self.nursery.start_soon(answer, self, message)
        else:
            receive(self, message, session)

    async def answer(self, ping):
        await trio.sleep(1.0)
        receive(self, ping, 0)

    async def stand_still():
        await trio.sleep(LOAD + 10.25)  # an answer is on its way
        autojump_clock.jump(3600)
        stood.set()

    monkeypatch.setattr(worker._Worker, "receive", late)
    async with open_server(World, isolation="process", step_timeout=2.0) as server, server.connect() as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(stand_still)
            while not stood.is_set():
                await client.take(10, within=2 * 3600)
        await client.take(100)


class Loop(ReactorModel):
    output: Picture

    async def run(self):
        await self.connected.wait()
        for level in range(3):
            await self.emit(np.full((4, 6, 3), level, np.uint8))
        raise OSError("the device is lost")


async def test_a_run_that_ends_is_the_servers_end_here_too(autojump_clock):
    with pytest.raises(Exception, match="the device is lost"):
        async with open_server(Loop, isolation="process") as server, server.connect() as client:
            await client.take(10)


async def waits(server, heard, task_status=trio.TASK_STATUS_IGNORED):
    """A client that waits in the queue, and what it hears in the end."""
    queued = trio.Event()

    def on_queued(_position, _total):
        if not queued.is_set():
            queued.set()
            task_status.started()

    try:
        async with server.connect(on_queued=on_queued) as second:
            await second.take(1000)
    except (SessionEnded, ConnectionRefused) as error:
        heard.append(getattr(error, "reason", str(error)))


async def test_a_client_that_waits_for_a_load_hears_that_the_server_gives_up(autojump_clock):
    config, heard = {"loads": [], "failing": range(2, 100)}, []
    with pytest.raises(ModelFailed, match="the disk is gone"):
        async with open_server(World, isolation="process", config=config) as server, trio.open_nursery() as nursery:
            async with server.connect() as client:
                await client.take(1)
                await nursery.start(waits, server, heard)
                process(server).kill()
                with pytest.raises(SessionEnded):
                    await client.take(1000)
            await trio.sleep(1000)
    assert heard == ["model_error"]


async def test_a_client_that_waits_for_a_load_hears_that_the_server_goes_down(autojump_clock):
    heard = []
    async with open_server(World, isolation="process") as server, trio.open_nursery() as nursery:
        async with server.connect() as client:
            await client.take(1)
            await nursery.start(waits, server, heard)
            process(server).kill()
            with pytest.raises(SessionEnded):
                await client.take(1000)
        await server.runtime.drain()
        assert heard == ["draining"]


async def test_a_load_that_ends_while_the_server_goes_down_admits_no_client(autojump_clock):
    async with open_server(World, isolation="process", drain_grace=LOAD + 3) as server, trio.open_nursery() as nursery:
        async with server.connect(role="control") as client:
            await client.take(1)
            client.stall()  # it takes no goodbye, so the drain waits for it
            process(server).kill()
            await trio.sleep(0.01)
            nursery.start_soon(server.runtime.drain)
            await trio.sleep(LOAD + 0.5)
            assert server.http("/ready").status == 503
            with pytest.raises(ConnectionRefused) as refused:
                async with server.connect():
                    pass
            assert refused.value.code == "draining", refused.value


async def test_two_calls_of_a_drain_that_begin_while_the_model_is_loaded_return_together(autojump_clock, monkeypatch):
    async def stay(within, *, shield=False):
        await trio.sleep(within)  # clients that do not leave

    async with open_server(World, isolation="process", config={}, drain_grace=4) as server, trio.open_nursery() as nursery:
        process(server).kill()
        await trio.sleep(LOAD - 2)
        returned = []

        async def drain():
            await server.runtime.drain()
            returned.append((trio.current_time(), server.runtime.journal.phase))

        with monkeypatch.context() as patched:
            patched.setattr(server.runtime.session_manager, "all_left", stay)
            nursery.start_soon(drain)
            await trio.sleep(1)
            nursery.start_soon(drain)
            await trio.sleep(20)
        assert [phase for _, phase in returned] == ["drained"] * 2
        assert len({at for at, _ in returned}) == 1


async def test_a_model_whose_file_is_gone_when_it_is_loaded_again_ends_the_server(autojump_clock):
    async def cannot_import(*_given):
        raise ManifestError("no module named world")

    goodbyes = []

    async def wait_for_a_place(server):
        with pytest.raises(SessionEnded) as ended:
            async with server.connect():
                pass
        goodbyes.append((ended.value.reason, server.runtime.journal.phase))

    with pytest.raises(ModelFailed, match="no module named world"):
        async with open_server(World, isolation="process", config={}) as server, trio.open_nursery() as nursery:
            async with server.connect():
                nursery.start_soon(wait_for_a_place, server)
                await trio.sleep(1)
                server.runtime.load_placement = cannot_import
                process(server).kill()
                await trio.sleep(sum(PAUSES) + 1)
    assert goodbyes == [("model_error", "failed")]
