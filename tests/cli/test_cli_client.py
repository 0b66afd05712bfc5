"""`reactor client` without a display: what it prints, also while it waits, and that it leaves in time."""

from __future__ import annotations

from contextlib import asynccontextmanager, nullcontext
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import trio
from tests.support.cli_doubles import without_links
from tests.support.client_doubles import SOUND, VIDEO, ScriptedTransport
from tests.support.models import Picture

from reactor_trio.cli import main
from reactor_trio.cli import watching as headless
from reactor_trio.cli.client_command import target_of
from reactor_trio.client import Client, running
from reactor_trio.errors import ReactorError, SessionEnded
from reactor_trio.interface import ReactorPipeline, event
from reactor_trio.testing import open_server

TAKEN = "someone else has the session; see max_sessions"


class Still(ReactorPipeline):
    output: Picture

    def inference(self):
        while True:
            yield np.zeros((2, 2, 3), np.uint8)


@pytest.fixture
def server_of_watch(monkeypatch):
    """Make `headless.watch` connect to a server of the test kit."""

    def connecting_to(server):
        @asynccontextmanager
        async def connect(_url, *, on_queued, on_waiting, **_others):
            async with server.connect(on_queued=on_queued, on_waiting=on_waiting) as client:
                yield client

        monkeypatch.setattr(headless, "connect", connect)

    return connecting_to


async def test_a_waiting_client_prints_why_and_leaves_when_its_time_is_up(server_of_watch, autojump_clock):
    lines: list[str] = []
    async with open_server(Still, step_cost=0.1) as server, server.connect():
        server_of_watch(server)
        began = trio.current_time()
        with pytest.raises(headless.StillWaiting, match="no session within 5 s"):
            await headless.watch("", seconds=5, report=lines.append)
        assert trio.current_time() - began == 5
        assert lines == [f"queued: 1 of 1: {TAKEN}"]
        assert server.http("/health").status == 200


async def test_time_in_the_queue_counts(server_of_watch, autojump_clock):
    lines: list[str] = []
    async with open_server(Still, step_cost=0.1) as server:
        server_of_watch(server)
        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            async with server.connect():
                nursery.start_soon(partial(headless.watch, "", seconds=5, report=lines.append))
                await trio.sleep(3)
        assert trio.current_time() - began == 5
        assert lines[0] == f"queued: 1 of 1: {TAKEN}"
        assert lines[1].startswith("session ")
        assert [line.partition(":")[0] for line in lines[2:]] == ["main_video"]


async def test_time_for_an_unanswered_command_counts(server_of_watch, autojump_clock):
    lines: list[str] = []
    async with open_server(Slow, step_cost=0.1) as server:
        server_of_watch(server)
        began = trio.current_time()
        await headless.watch("", seconds=5, send=[("wait", {})], report=lines.append)
        assert trio.current_time() - began == 5
        assert lines[1:] == ["wait: no answer in time"]


class Slow(Still):
    @event
    async def wait(self):
        await trio.sleep(3600)


async def test_the_servers_reason_has_priority_over_the_clients(server_of_watch, autojump_clock):
    lines: list[str] = []
    async with open_server(Still, step_cost=[0.1, 60.0, 0.1], stuck_after=2) as server:
        server_of_watch(server)
        async with server.connect() as first:
            await first.take(1)
            await trio.sleep(0.1)
        await trio.sleep(5)
        with pytest.raises(headless.StillWaiting):
            await headless.watch("", seconds=1, report=lines.append)
        (line,) = lines
        assert line.startswith("queued: 1 of 1: a step of Still still computes for session ")


async def test_a_waiting_client_reports_that_the_server_ends(server_of_watch, autojump_clock):
    async with open_server(Still, step_cost=0.1) as server, server.connect():
        server_of_watch(server)
        async with trio.open_nursery() as nursery:

            async def drain():
                await trio.sleep(1)
                await server.drain()

            nursery.start_soon(drain)
            with pytest.raises(SessionEnded, match="draining"):
                await headless.watch("", seconds=5, report=lambda _line: None)


@pytest.mark.parametrize(("reason", "code", "stream"), [("done", 0, "out"), ("model_error", 1, "err")])
def test_a_servers_text_is_printed_in_one_line_without_terminal_codes(reason, code, stream, monkeypatch, capsys):
    async def ended(*_arguments, **_others):
        raise SessionEnded(reason, "over \x1b[2J\x9b\n and out")

    monkeypatch.setattr(headless, "watch", ended)
    assert main(["client", "127.0.0.1:1"]) == code
    said = without_links(getattr(capsys.readouterr(), stream))
    assert said.rstrip("\n").endswith("over [2J and out")


class Answering(Still):
    @event
    def reset(self):
        pass

    @event
    def double(self, x: int) -> dict[str, int]:
        return {"twice": 2 * x}


async def test_the_headless_client_sends_and_reports(server_of_watch, autojump_clock):
    lines: list[str] = []
    async with open_server(Answering) as server:
        server_of_watch(server)
        await headless.watch("", send=[("reset", {}), ("double", {"x": 1})], seconds=0.5, report=lines.append)
    assert lines[0].endswith(": Answering as control")
    assert lines[1:] == ["reset: applied", "double: {'twice': 2}"]


async def test_the_headless_client_reports_once_a_second(autojump_clock, monkeypatch):
    lines: list[str] = []
    server = ScriptedTransport()
    server.welcome(VIDEO, SOUND)

    async def ten_a_second():
        for seq in range(25):
            server.frame(seq)
            for block in range(10):  # which the client does not decode, so it loses none
                server.frame(10 * seq + block, b"\0\0", track=1)
            await trio.sleep(0.1)
        server.say("reactor.bye", {"reason": "draining"})

    async with running(Client(server)) as client, trio.open_nursery() as nursery:
        monkeypatch.setattr(headless, "connect", lambda _url, **_others: nullcontext(client))
        nursery.start_soon(ten_a_second)
        # Between two frames, so that the count does not depend on which task runs first.
        await trio.sleep(0.05)
        with pytest.raises(SessionEnded, match="draining"):
            await headless.watch("", report=lines.append)
    server.let_go()
    figures = lines[1:]
    assert [line.split(",")[0] for line in figures] == ["main_video: 9.5 fps", "main_video: 10.0 fps"]
    pictures, sound = figures[1].split(" | ")
    assert pictures.endswith("fps, jitter 0.0 ms, p95 100.0 ms, 0 missing, 0 dropped")
    assert sound.endswith("0 missing, 0 dropped")


def test_recording_names_what_it_needs_before_it_connects(monkeypatch):
    monkeypatch.setattr("reactor_trio.recording.containers.find_spec", lambda name: None)
    with pytest.raises(ReactorError, match=r'pip install "reactor-trio\[video\]"'):
        trio.run(partial(headless.watch, "ws://127.0.0.1:1", record="out.mp4", report=print))


@pytest.mark.parametrize(
    ("url", "option", "variable", "token"),
    [
        ("http://h/?token=in-url", "option", "variable", "option"),
        ("http://h/?token=in-url", None, "variable", "in-url"),
        ("http://h/", None, "variable", "variable"),
        ("http://h/", None, "", None),
    ],
)
def test_which_token_counts(url, option, variable, token, monkeypatch):
    monkeypatch.setenv("REACTOR_TOKEN", variable)
    assert target_of(SimpleNamespace(url=url, token=option)) == ("http://h/", token)
