"""What author code raises that is no `Exception`: it ends the session, as an `Exception` does, and not the server.

asyncio's `CancelledError` is one, and so is the panic of a library that is written in Rust. Only `SystemExit` and
`KeyboardInterrupt` end a program.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import ExitStack, nullcontext
from typing import Any

import pytest
import trio

from reactor_trio.errors import CommandError, ModelFailed, SessionEnded
from reactor_trio.interface import (
    DistributedPipeline,
    InputState,
    ReactorApp,
    ReactorModel,
    ReactorPipeline,
    UploadedFile,
    VideoModel,
    connected,
    disconnected,
    event,
    file_uploaded,
    get_ctx,
    session_ended,
    session_started,
)
from reactor_trio.interface.blocking_tracks import VideoIn
from reactor_trio.server.moderation_hook import UNCHECKED, check_in_thread
from reactor_trio.testing import PipelineExecutor, open_server
from tests.support.behaviour_models import picture
from tests.support.models import Picture


class Panic(BaseException):
    """As the panic of a Rust library."""


#: what the model raises next, by where
PLAN: dict[str, BaseException] = {}


def do(where: str) -> None:
    if (error := PLAN.pop(where, None)) is not None:
        raise error


class Raises:
    @session_started
    def at_start(self):
        do("session_started")

    @connected
    def at_connect(self):
        do("connected")

    @disconnected
    def at_disconnect(self):
        do("disconnected")

    @session_ended
    def at_end(self):
        do("session_ended")

    @file_uploaded
    def got(self, file: UploadedFile):
        do("file_uploaded")

    @event
    def act(self):
        do("handler")


class Sync(Raises, ReactorPipeline):
    output: Picture
    fps = 10

    def inference(self):
        try:
            while True:
                do("step")
                yield picture(1)
        finally:
            do("finally")


class Async(Raises, ReactorPipeline):
    output: Picture
    fps = 10

    @event
    async def act(self):
        await trio.sleep(0.25)
        do("handler")

    async def inference(self):
        try:
            while True:
                do("step")
                yield picture(1)
        finally:
            do("finally")


class App(Raises, ReactorApp):
    output: Picture
    fps = 10

    def generate(self, given):
        do("step")
        return Picture(main_video=picture(1))


class Together(Raises, ReactorPipeline):
    output: Picture
    fps = 10
    max_sessions = 2

    def batch_inference(self, sessions):
        do("step")
        return [picture(1) for _ in sessions]


class Blocking(Raises, VideoModel):
    fps = 10

    def start_session(self):
        while not get_ctx().should_stop():
            do("step")
            get_ctx().emit_block(picture(1))
        do("finally")


class Ranked(Raises, DistributedPipeline):
    output: Picture
    fps = 10
    ranks = 2

    def __init__(self):
        self.plan = {}

    @event
    def next_step_raises(self):
        self.plan["step"] = Panic("in a library")

    @event
    def act(self):
        raise Panic("in a library")

    def inference(self):
        while True:
            if self.plan:
                raise self.plan.popitem()[1]
            yield picture(1)


KINDS = [Sync, Async, App, Together, Blocking]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
PLACES: list[dict[str, Any]] = [{}, {"isolation": "process"}]
PLACED: list[tuple[type, dict[str, Any]]] = [
    *((kind, place) for kind in KINDS for place in PLACES),
    *((kind, {"thread": True}) for kind in (Sync, Async)),
]  # fmt: skip
everywhere = pytest.mark.parametrize(
    ("kind", "place"), PLACED, ids=[f"{kind.__name__}-{next(iter(place), 'inline')}" for kind, place in PLACED]
)


@pytest.fixture(autouse=True)
def nothing_planned():
    PLAN.clear()


def failures(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@everywhere
@pytest.mark.parametrize("error", [asyncio.CancelledError("inside"), Panic("inside")], ids=repr)
async def test_a_step_that_raises_it_ends_its_session(autojump_clock, caplog, kind, place, error):
    async with open_server(kind, **place) as server:
        model = server.model
        async with server.connect() as client:
            await client.take(2)
            PLAN["step"] = error
            with pytest.raises(BaseException, match="inside") as raised:
                await client.take(99)
            assert type(error).__name__ in repr(raised.value)
            assert client.ended == "model_error"
        async with server.connect() as client:
            await client.take(2)
        assert server.model is model
        assert failures(caplog) == [f"session {server.sessions[0].id}: the model raised"]


@everywhere
async def test_a_handler_that_raises_it_is_answered_and_the_session_goes_on(autojump_clock, caplog, kind, place):
    async with open_server(kind, **place) as server, server.connect() as client:
        await client.take(1)
        PLAN["handler"] = asyncio.CancelledError("inside")
        with pytest.raises(CommandError) as raised:
            await client.command("act")
        assert raised.value.code == "internal_error"
        await client.command("act")
        await client.take(5)
        assert failures(caplog) == [f"session {client.session_id}: the handler of act raised"]


@every_kind
@pytest.mark.parametrize("hook", ["session_started", "connected"])
async def test_a_hook_of_the_begin_that_raises_it_ends_its_session(autojump_clock, kind, hook):
    async with open_server(kind) as server:
        PLAN[hook] = asyncio.CancelledError("inside")
        async with server.connect() as client:
            with pytest.raises(asyncio.CancelledError):
                await client.take(1)
        async with server.connect() as client:
            await client.take(2)


@pytest.mark.parametrize(
    ("kind", "hook"),
    [*((kind, hook) for kind in KINDS for hook in ("disconnected", "session_ended")), (Sync, "finally"), (Async, "finally")],
)
async def test_a_hook_of_the_end_that_raises_it_is_logged(autojump_clock, caplog, kind, hook):
    raises = pytest.raises(BaseException, match=r"^inside|author code raised")
    with ExitStack() as at_the_end:
        if kind is Blocking:
            at_the_end.enter_context(raises)
        async with open_server(kind) as server:
            async with server.connect() as client:
                await client.take(2)
                PLAN[hook] = Panic("inside")
                with nullcontext() if kind is Blocking else raises:
                    await client.close()
            await server.wait_left(client)
            assert server.sessions[0].reason == "client_left"
            async with server.connect() as client:
                await client.take(2)
    assert len(failures(caplog)) == 1


async def test_a_hook_that_gets_a_file_and_raises_it_is_logged(autojump_clock, caplog):
    async with open_server(Sync) as server, server.connect() as client:
        PLAN["file_uploaded"] = Panic("inside")
        await client.upload(b"words", name="a.txt")
        await client.take(5)
        assert len(failures(caplog)) == 1
        with pytest.raises(Panic):
            await client.close()


async def test_a_hook_that_gets_a_picture_and_raises_it_is_logged(autojump_clock, caplog):
    class Watches(Blocking):
        camera = VideoIn()

        def on_frame(self, frame):
            do("on_frame")

    async with open_server(Watches) as server, server.connect() as client:
        PLAN["on_frame"] = Panic("inside")
        await client.push("camera", picture(3))
        await client.take(20)
        assert failures(caplog) == ["Watches.on_frame() raised"]
        with pytest.raises(Panic):
            await client.close()


async def test_a_group_of_them_ends_its_session(autojump_clock):
    async with open_server(Async) as server:
        async with server.connect() as client:
            await client.take(1)
            PLAN["step"] = BaseExceptionGroup("several", [asyncio.CancelledError(), ValueError("a")])
            with pytest.raises(BaseExceptionGroup, match="several"):
                await client.take(99)
        async with server.connect() as client:
            await client.take(2)


@pytest.mark.parametrize("error", [asyncio.CancelledError("inside"), SystemExit(3)], ids=repr)
async def test_a_moderation_hook_that_raises_it_refuses_the_text(caplog, error):
    def hook(text, *, command, field):
        raise error

    assert await check_in_thread(hook, 5.0)("set_prompt", [("prompt", "words")]) == UNCHECKED
    assert failures(caplog) == ["the moderation hook failed on set_prompt.prompt, which is refused"]


async def test_all_ranks_that_raise_it_go_on(autojump_clock, caplog):
    async with open_server(Ranked) as server:
        async with server.connect() as client:
            await client.take(1)
            with pytest.raises(CommandError) as raised:
                await client.command("act")
            assert raised.value.code == "internal_error"
            await client.command("next_step_raises")
            with pytest.raises(Exception, match="in a library"):
                await client.take(99)
        async with server.connect() as client:
            await client.take(2)
        assert server.runtime.journal.phase == "ready"
    assert not [line for line in failures(caplog) if "is gone" in line]


@pytest.mark.parametrize("place", PLACES, ids=["inline", "process"])
async def test_a_load_and_a_run_that_raise_it_are_the_models_failure(autojump_clock, place):
    class Loads(Sync):
        def load(self, config):
            raise asyncio.CancelledError("inside")

    class Runs(ReactorModel):
        output: Picture

        async def run(self):
            await self.connected.wait()
            raise asyncio.CancelledError("inside")

    with pytest.raises(ModelFailed, match=r"load\(\) raised CancelledError: inside"):
        async with open_server(Loads, **place):
            pass
    async with open_server(Runs, **place) as server, server.connect() as client:
        with pytest.raises(SessionEnded) as ended:
            async for _ in client.frames():
                pass
        assert "CancelledError('inside')" in repr(server.model_error(ended.value, client))


async def test_a_state_that_cannot_be_made_because_of_it_ends_its_session(autojump_clock):
    class Half(InputState):
        def __post_init__(self):
            do("state")

    class Stated(Sync):
        state: Half

    async with open_server(Stated) as server:
        PLAN["state"] = Panic("inside")
        async with server.connect() as client:
            with pytest.raises(Panic):
                await client.take(1)
        async with server.connect() as client:
            await client.take(2)


async def test_a_program_that_is_to_end_still_ends(autojump_clock):
    """Also from a group, beside other exceptions."""
    async with open_server(Async) as server, server.connect() as client:
        await client.take(1)
        PLAN["step"] = BaseExceptionGroup("several", [ValueError("a"), SystemExit(3)])
        with pytest.raises(SessionEnded) as ended:
            async for _ in client.frames():
                pass
        assert server.model_error(ended.value, client) is not None
        assert server.runtime.journal.phase == "failed"


def test_an_output_of_a_batch_that_is_one_is_raised_by_the_executor():
    class Returns(Together):
        def batch_inference(self, sessions):
            return [Panic("inside") for _ in sessions]

    with PipelineExecutor(Returns) as executor:
        executor.connect()
        with pytest.raises(Panic):
            next(executor)
