"""A fault of the runtime while a session begins or runs: the session ends with a goodbye, and its slot is free."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
import trio
from tests.support.black import Black

from reactor_trio.errors import ConnectionRefused, SessionEnded
from reactor_trio.server import session_manager, session_recording
from reactor_trio.session.playout import Playout
from reactor_trio.testing import open_server
from reactor_trio.transport import Response

FAULT = "a fault of the runtime"


def fail_once(owner, name, monkeypatch):
    """Have the next call of this function raise."""
    real = getattr(owner, name)

    def failing(*_arguments, **_options):
        monkeypatch.setattr(owner, name, real)
        raise RuntimeError(FAULT)

    monkeypatch.setattr(owner, name, failing)


def contained(server, faults):
    """Keep what a connection raises, as the acceptor of a port does."""
    serve = server._site.serve

    async def answer(exchange):
        conversation = await serve(exchange)
        if isinstance(conversation, Response):
            return conversation

        async def converse(messages):
            try:
                await conversation(messages)
            except* RuntimeError as group:
                faults.append(group)

        return converse

    server._site.serve = answer


BEFORE_THE_SESSION_RUNS = {
    "its lease": lambda server: (server.runtime.leases, "begun"),
    "its welcome": lambda server: (server.runtime.session_manager, "welcome"),
    "its recording": lambda _server: (session_manager, "run_facts"),
}


@pytest.mark.parametrize("window", [0, 5])
@pytest.mark.parametrize("step", BEFORE_THE_SESSION_RUNS)
async def test_a_session_that_fails_to_begin_ends_and_frees_its_slot(
    autojump_clock, monkeypatch, caplog, tmp_path, step, window
):
    options = {"record": str(tmp_path)} if step == "its recording" else {}
    async with open_server(Black, step_cost=0.25, resume_window=window, queue=0, **options) as server:
        faults = []
        contained(server, faults)
        fail_once(*BEFORE_THE_SESSION_RUNS[step](server), monkeypatch)
        with suppress(SessionEnded, ConnectionRefused):
            async with server.connect() as first:
                await first.take(1)
        await trio.sleep(1)
        assert FAULT in caplog.text + repr(faults)
        health = msgspec.json.decode(server.http("/health").body)
        assert (health["sessions"], health["clients"], server.runtime.sessions) == (0, 0, [])
        async with server.connect() as second:
            assert await second.take(1)
        await trio.sleep(0.5)
        began = trio.current_time()
        await server.drain()
        assert trio.current_time() == began
        figures = server.runtime.metrics.exposition().decode()
        assert sum(int(float(line.split()[1])) for line in figures.splitlines() if "sessions_ended_total{" in line) == 2


@pytest.mark.parametrize("window", [0, 5])
async def test_a_recorder_that_fails_to_open_ends_only_the_recording(
    autojump_clock, monkeypatch, caplog, tmp_path, window
):
    async with open_server(Black, step_cost=0.25, resume_window=window, record=str(tmp_path)) as server:
        faults = []
        contained(server, faults)
        fail_once(session_recording, "Recorder", monkeypatch)
        with suppress(SessionEnded):
            async with server.connect() as client:
                assert await client.take(2)
        await trio.sleep(0.5)
        assert (faults, server.runtime.sessions, len(list(tmp_path.iterdir()))) == ([], [], 0)
    (entry,) = (entry for entry in caplog.records if entry.levelname == "ERROR")
    assert "is not recorded: please report this" in entry.getMessage()


@pytest.mark.parametrize("window", [0, 5])
async def test_a_session_that_fails_while_it_runs_says_so_to_all_its_clients(
    autojump_clock, monkeypatch, caplog, window
):
    async def failing(*_arguments):
        await trio.sleep(1)
        raise RuntimeError(FAULT)

    async with open_server(Black, step_cost=0.25, resume_window=window, queue=0) as server:
        with monkeypatch.context() as patched:
            patched.setattr(Playout, "run", failing)
            async with server.connect() as client, server.connect(role="viewer") as viewer:
                await trio.sleep(3)
        assert [client.ended, viewer.ended] == ["replica_failed"] * 2
        (entry,) = (entry for entry in caplog.records if entry.levelname == "ERROR")
        assert entry.getMessage().endswith(" failed in the runtime: please report this")
        async with server.connect() as second:
            assert await second.take(1)


@pytest.mark.parametrize("window", [0, 5])
async def test_a_server_that_is_cancelled_while_a_goodbye_is_under_way(autojump_clock, window):
    async def stay(server):
        with suppress(SessionEnded):
            async with server.connect() as client:
                await client.take(1)
                client.stall()
                await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        async with open_server(Black, step_cost=0.25, resume_window=window) as server:
            nursery.start_soon(stay, server)
            await trio.sleep(1)
            (session,) = server.runtime.sessions
            server.runtime.revoke(session.id)
            await session.ended.wait()
            assert len(server.runtime.session_manager.clients) == 1
        nursery.cancel_scope.cancel()
