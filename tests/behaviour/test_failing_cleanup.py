"""Author code that fails in its cleanup while the runtime cancels it: the runtime gets a group of both.

The failure is the author's. It ends no other session, and the cancellation goes on.
"""

from __future__ import annotations

import logging
import traceback
from contextlib import suppress
from typing import Any

import pytest
import trio

from reactor_trio.errors import ModelFailed, SessionEnded
from reactor_trio.execution.driver_scopes import CLOSE_TIMEOUT
from reactor_trio.execution.served_performer import ServedPerformer
from reactor_trio.execution.session_tasks import SessionTasks
from reactor_trio.interface import (
    DistributedPipeline,
    ReactorPipeline,
    UploadedFile,
    connected,
    disconnected,
    event,
    file_uploaded,
    session_ended,
    session_started,
)
from reactor_trio.testing import open_server
from tests.support.behaviour_models import picture
from tests.support.models import Picture

#: where the model's next call waits in a nursery, and what its cleanup raises then
PLAN: dict[str, BaseException] = {}


async def fails_in_its_cleanup(error: BaseException) -> None:
    try:
        await trio.sleep_forever()
    finally:
        raise error


async def do(where: str) -> None:
    await trio.lowlevel.checkpoint()
    if (error := PLAN.get(where)) is not None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(fails_in_its_cleanup, error)
            await trio.sleep_forever()


class Cleans:
    output: Picture
    fps = 10

    @session_started
    async def at_start(self):
        await do("session_started")

    @connected
    async def at_connect(self):
        await do("connected")

    @disconnected
    async def at_disconnect(self):
        await do("disconnected")

    @session_ended
    async def at_end(self):
        await do("session_ended")

    @event
    async def act(self):
        await do("handler")

    @file_uploaded
    async def got(self, file: UploadedFile):
        await do("file_uploaded")

    def inference(self):
        while True:
            yield picture(1)


class World(Cleans, ReactorPipeline):
    """In one process."""


class Ranked(Cleans, DistributedPipeline):
    """On two ranks."""

    ranks = 2


PLACES: dict[str, tuple[type, dict[str, Any]]] = {
    "inline": (World, {}),
    "thread": (World, {"thread": True}),
    "process": (World, {"isolation": "process"}),
    "ranks": (Ranked, {}),
}
everywhere = pytest.mark.parametrize("place", PLACES)


@pytest.fixture(autouse=True)
def nothing_planned():
    PLAN.clear()


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


async def ends(server) -> None:
    """A client comes, and leaves after a second; the test kit raises what no client was told."""
    with suppress(ExceptionGroup, ValueError, trio.TooSlowError):
        async with server.connect():
            await trio.sleep(1)
    await server.sessions[0].ended.wait()
    with suppress(ExceptionGroup, ValueError, trio.TooSlowError):
        server.check_failures()


@everywhere
@pytest.mark.parametrize("hook", ["session_started", "connected", "disconnected", "session_ended"])
async def test_a_hook_that_is_cancelled_and_fails_is_logged_and_the_next_client_is_served(
    autojump_clock, caplog, place, hook
):
    kind, where = PLACES[place]
    async with open_server(kind, **where) as server:
        model = server.model
        PLAN[hook] = ValueError("in the cleanup")
        await ends(server)
        PLAN.clear()
        assert server.sessions[0].reason == "client_left"
        number = server.sessions[0].id
        own = [line for line in failures(caplog) if line.startswith(f"session {number}: @")]
        late = f"session {number}: @{hook} took over {CLOSE_TIMEOUT:g} s and was cancelled"
        assert own == [f"session {number}: @{hook} raised", *[late] * (hook in ("disconnected", "session_ended"))]
        async with server.connect() as client:
            await client.take(2)
        assert server.model is model
    assert not [line for line in failures(caplog) if "please report" in line or "is gone" in line]


@everywhere
async def test_a_handler_that_is_cancelled_and_fails_is_logged_and_the_next_client_is_served(
    autojump_clock, caplog, place
):
    kind, where = PLACES[place]
    async with open_server(kind, **where) as server:
        model = server.model
        PLAN["handler"] = ValueError("in the cleanup")
        with suppress(ExceptionGroup, ValueError, SessionEnded):
            async with server.connect() as client, trio.open_nursery() as nursery:
                await client.take(1)
                nursery.start_soon(client.command, "act")
                await trio.sleep(1)
                await client.close()
        await server.sessions[0].ended.wait()
        with suppress(ValueError, ExceptionGroup):
            server.check_failures()
        PLAN.clear()
        assert server.sessions[0].reason == "client_left"
        async with server.connect() as client:
            await client.take(2)
        assert server.model is model
        assert f"session {server.sessions[0].id}: the model raised after its end" in failures(caplog)
    assert not [line for line in failures(caplog) if "please report" in line or "is gone" in line]


@everywhere
@pytest.mark.parametrize("where", ["connected", "disconnected"])
async def test_a_program_that_ends_in_a_cleanup_ends_the_model(autojump_clock, caplog, place, where):
    kind, placed = PLACES[place]
    phases = []
    with suppress(ModelFailed, SystemExit, trio.TooSlowError, BaseExceptionGroup):
        async with open_server(kind, **placed) as server:
            PLAN[where] = SystemExit(3)
            with suppress(SystemExit, trio.TooSlowError, BaseExceptionGroup):
                async with server.connect():
                    await trio.sleep(1)
            await server.sessions[0].ended.wait()
            PLAN.clear()
            await server.settle()
            phases.append(server.runtime.journal.phase)
    if place in ("inline", "thread"):
        assert phases == ["failed"]
    else:
        assert any("the model is gone: its code raised" in line for line in failures(caplog))
    assert not [line for line in failures(caplog) if "please report" in line]


@everywhere
async def test_a_hook_that_gets_a_file_may_end_the_model(autojump_clock, caplog, place):
    class Ends:
        @file_uploaded
        def got(self, file: UploadedFile):
            raise SystemExit(3)

    kind, placed = PLACES[place]
    kind = type("Ends", (kind,), {"got": Ends.got, "__module__": __name__})
    with suppress(ModelFailed):
        async with open_server(kind, **placed) as server:
            async with server.connect() as client:
                await client.upload(b"words", name="a.txt")
                with pytest.raises(SessionEnded) as ended:
                    async for _ in client.frames():
                        pass
                if place in ("inline", "thread"):
                    assert server.model_error(ended.value, client) is not None
                    assert server.runtime.journal.phase == "failed"
                else:
                    assert ended.value.reason == "model_restarting"


@everywhere
@pytest.mark.parametrize("begun", [True, False])
async def test_a_fault_of_the_runtime_ends_one_session_and_is_not_called_the_models(
    autojump_clock, caplog, monkeypatch, place, begun
):
    kind, placed = PLACES[place]
    async with open_server(kind, **placed, debug=True) as server:
        model = server.model
        with monkeypatch.context() as patch:
            if begun:
                patch.setattr(SessionTasks, "_serve_client", fails)
            else:
                patch.setattr(ServedPerformer, "open_driver", cannot_be_opened)
            async with server.connect() as client:
                with pytest.raises(SessionEnded) as ended:
                    await client.take(1)
        async with server.connect() as client:
            await client.take(2)
        assert server.model is model
    assert (ended.value.reason, str(ended.value)) == ("replica_failed", "the session ended: replica_failed")
    (record,) = [record for record in caplog.records if record.levelno >= logging.ERROR]
    assert record.getMessage() == f"session {server.sessions[0].id} failed in the runtime: please report this"
    assert "LookupError: of the runtime" in "".join(traceback.format_exception(record.exc_info[1]))


def cannot_be_opened(_self: object) -> None:
    raise LookupError("of the runtime")


async def fails(_self: object) -> None:
    await trio.lowlevel.checkpoint()
    raise LookupError("of the runtime")
