"""Which session a log line belongs to, whoever writes it and on whichever loop or thread."""

from __future__ import annotations

import contextvars
import logging
import re
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import structlog
import trio

from reactor_trio import SessionFilter, current_session
from reactor_trio.interface import (
    InputState,
    Output,
    ReactorModel,
    ReactorPipeline,
    Video,
    VideoModel,
    VideoOut,
    command,
    connected,
    disconnected,
    event,
    get_ctx,
)
from reactor_trio.testing import open_server
from tests.support.resume_peers import returner

log = logging.getLogger("authors.own")


class Picture(Output):
    picture: Video


def picture() -> Picture:
    return Picture(np.zeros((4, 6, 3), np.uint8))


class Collected(logging.Handler):
    """Of each author's line its text and session."""

    def __init__(self) -> None:
        super().__init__()
        self.addFilter(SessionFilter())
        self.lines: list[tuple[str, str | None]] = []
        self.ours: list[tuple[str, str | None]] = []

    def emit(self, record: Any) -> None:
        (self.lines if record.name == "authors.own" else self.ours).append((record.getMessage(), record.session))

    def sessions(self, text: str) -> list[str | None]:
        return list(dict.fromkeys(session for said, session in self.lines if said == text))


@pytest.fixture
def collected(caplog):
    caplog.set_level(logging.INFO)
    handler = Collected()
    logging.getLogger().addHandler(handler)
    yield handler
    logging.getLogger().removeHandler(handler)


class Pipeline(ReactorPipeline):
    state: InputState
    output: Picture

    def load(self, config):
        log.info("load")

    @connected
    async def arrives(self):
        log.info("connected")
        thread = threading.Thread(target=contextvars.copy_context().run, args=(log.info, "plain thread, with context"))
        thread.start()
        thread.join()
        thread = threading.Thread(target=log.info, args=("plain thread",))
        thread.start()
        thread.join()

    @disconnected
    def leaves(self):
        log.info("disconnected")

    @event
    async def shout(self):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.whisper)
        return current_session()

    async def whisper(self):
        log.info("task of a handler")

    def inference(self):
        try:
            while True:
                log.info("step")
                yield picture()
        finally:
            log.info("closing")


@pytest.mark.parametrize("placement", [{}, {"thread": True}], ids=["inline", "thread"])
async def test_each_line_of_a_pipeline_has_its_session(autojump_clock, collected, placement):
    async with open_server(Pipeline, step_cost=0.25, **placement) as server:
        ids = []
        for _ in range(2):
            async with server.connect() as client:
                await client.take(2)
                assert await client.command("shout") == client.session_id
                ids.append(client.session_id)
            await server.wait_left(client)
    assert collected.sessions("load") == [None]
    assert collected.sessions("plain thread") == [None]
    for text in ("connected", "plain thread, with context", "step", "task of a handler", "disconnected",
                 "closing"):  # fmt: skip
        assert collected.sessions(text) == ids, text
    assert current_session() is None


class Crossing(ReactorPipeline):
    output: Picture

    @event
    async def ask(self):
        return await trio.to_thread.run_sync(current_session)

    def inference(self):
        while True:
            yield picture()


async def test_threads_started_with_trio_belong_to_it():
    async with open_server(Crossing) as server, server.connect() as client:
        assert await client.command("ask") == client.session_id


async def test_the_runtimes_own_lines_have_it_too_and_there_is_one_for_each_event(autojump_clock, collected):
    async with open_server(Pipeline, step_cost=0.25, websocket=True) as server:
        async with server.connect() as client, server.connect(role="viewer") as viewer:
            await client.take(1)
            await viewer.take(1)
            await client.close()
            sid = client.session_id
            await server.wait_left(client)
        await server.settle()
    assert sorted(collected.ours, key=str) == sorted([
        ("client 1 connects from memory as control", None),
        (f"session {sid} begins", sid),
        ("client 2 connects from memory as viewer", None),
        (f"session {sid} ended: client_left", sid),
        ("client 1 has left: client_left", sid),
        ("client 2 has left: client_left", sid),
    ], key=str)  # fmt: skip


async def test_a_client_that_is_lost_and_comes_back_is_a_line_each_of_its_session(autojump_clock, collected):
    async with open_server(Pipeline, step_cost=0.25, resume_window=30) as server:
        async with returner(server) as peer:
            sid = peer.welcome["session_id"]
            await peer.vanish()
            await peer.connect()
            assert peer.welcome["resumed"]
            await peer.leave()
        await server.settle()
    assert [line for line in collected.ours if "its client" in line[0]] == [
        (f"session {sid} has lost its client, which may come back in 30 s", sid),
        (f"session {sid} has its client again", sid),
    ]


class RunLoop(ReactorModel):
    output: Picture

    @event
    def shout(self):
        log.info("handler")

    async def run(self):
        log.info("run begins")
        while True:
            await self.connected.wait()
            log.info("sees a client")
            while self.connected.is_set():
                await self.emit(picture())
            log.info("sees none")


async def test_a_run_loop_speaks_for_the_session_that_it_last_saw(autojump_clock, collected):
    async with open_server(RunLoop, step_cost=0.25) as server:
        ids = []
        for _ in range(2):
            async with server.connect() as client:
                await client.take(2)
                await client.command("shout")
                ids.append(client.session_id)
            await server.wait_left(client)
            await trio.sleep(1)
    assert collected.sessions("run begins") == [None]
    assert collected.sessions("sees a client") == ids
    assert collected.sessions("handler") == ids
    assert collected.sessions("sees none") == [None]


class Blocking(VideoModel):
    main_video = VideoOut()

    @command
    def shout(self):
        log.info("handler")

    def start_session(self):
        log.info("start_session")
        while not get_ctx().should_stop():
            get_ctx().emit_block(np.zeros((1, 4, 6, 3), np.uint8))
        log.info("end of start_session")


async def test_a_blocking_models_threads_speak_for_their_session(autojump_clock, collected):
    async with open_server(Blocking, step_cost=0.25) as server:
        ids = []
        for _ in range(2):
            async with server.connect() as client:
                await client.take(2)
                await client.command("shout")
                ids.append(client.session_id)
            await server.wait_left(client)
    for text in ("start_session", "handler", "end of start_session"):
        assert collected.sessions(text) == ids, text


class WithStructlog(ReactorPipeline):
    output: Picture

    def inference(self):
        while True:
            structlog.get_logger().info("step", session=current_session())
            yield picture()


async def test_structlog_gets_the_session_by_a_processor_of_the_author(autojump_clock):
    with structlog.testing.capture_logs() as lines:
        async with open_server(WithStructlog, step_cost=0.25) as server, server.connect() as client:
            await client.take(1)
            sid = client.session_id
    assert {line["session"] for line in lines if line["event"] == "step"} == {sid}


def test_the_recipe_of_the_page_on_operating_works(capsys):
    page = (Path(__file__).parents[2] / "docs" / "operate" / "operating.md").read_text()
    (recipe,) = (block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "SessionFilter" in block)
    program: dict[str, Any] = {}
    try:
        exec(compile(recipe, "operating.md", "exec"), program)
        structlog.get_logger().info("hello")
    finally:
        structlog.reset_defaults()
    record = logging.makeLogRecord({"msg": "there", "levelname": "INFO"})
    assert program["handler"].filter(record)
    assert program["handler"].format(record) == "INFO [None] there"
    assert capsys.readouterr().out == '{"session": null, "event": "hello"}\n'
