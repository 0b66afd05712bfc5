"""The exposition, read by Prometheus' own parser."""

from __future__ import annotations

import platform
import re
from collections import Counter
from pathlib import Path
from typing import get_args

import numpy as np
import pytest
import trio
import trio.testing
from prometheus_client.parser import text_string_to_metric_families
from tests.support.known_facts import facts_of

import reactor_trio.server
from reactor_trio.edge.request_metrics import STATUSES
from reactor_trio.errors import CommandError, ConnectionRefused
from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, Video, event
from reactor_trio.media.codecs import audio_codecs, video_codecs
from reactor_trio.protocol.refusals import REFUSALS
from reactor_trio.server.server_metrics import CODECS, DROPS, Metrics, ModelState
from reactor_trio.testing import TestServer, open_server


class Picture(Output):
    picture: Video


class Fast(ReactorPipeline):
    output: Picture
    fps = 10

    def inference(self):
        while True:
            yield np.zeros((4, 6, 3), np.uint8)


def read(server: TestServer) -> dict[tuple[str, ...], float]:
    answer = server.http("/metrics")
    assert (answer.status, answer.content_type.split(";")[0]) == (200, "text/plain")
    return {
        (sample.name, *(sample.labels[key] for key in sorted(sample.labels))): sample.value
        for family in text_string_to_metric_families(answer.body.decode())
        for sample in family.samples
    }


async def test_frames_and_drops_are_counted_by_place_and_reason(autojump_clock: object) -> None:
    async with open_server(Fast) as server:
        before = read(server)
        assert before["reactor_frames_dropped_total", "lane", "superseded"] == 0  # declared from the start
        assert before["reactor_model_ready",] == 1
        async with server.connect() as client:
            await client.take(3)
            client.stall()
            began = client.server.sessions[0]
            await trio.sleep(1)
            during = read(server)
            assert during["reactor_sessions_live",] == 1
            client.resume()
            await client.take(1)
        await trio.testing.wait_all_tasks_blocked()  # the server notices that the client has left
        after = read(server)
        handed = after["reactor_frames_handed_total",]
        sent = after["reactor_frames_sent_total",]
        down_track = sum(v for k, v in after.items() if k[:2] == ("reactor_frames_dropped_total", "lane"))
        assert handed == sent + down_track
        assert after["reactor_frames_dropped_total", "lane", "superseded"] >= 7
        assert after["reactor_sessions_ended_total", "client_left"] == 1
        assert began.reason == "client_left"
        assert all(name[0].startswith("reactor_") for name in after)


# ---- times ----------------------------------------------------------------------------------------------------------------


class Settings(InputState):
    level: int = InputField(default=0, ge=0, le=255)


class Steady(ReactorPipeline):
    state: Settings
    output: Picture

    @event
    def refuse(self):
        raise CommandError("no_" + "x" * 200, "an author's own code must not become a label")

    @event
    def fail(self):
        raise ZeroDivisionError

    def inference(self):
        while True:
            yield np.full((4, 6, 3), self.state.level, np.uint8)


async def test_times_are_exact_in_virtual_time(autojump_clock: object) -> None:
    async with open_server(Steady, step_cost=0.25) as server:
        async with server.connect(feedback=True) as client:
            await client.take(4)
            await client.command("set_level", level=7)  # comes at 1 s, while a step computes, is seen by the next one
            await client.take(1)
        await server.wait_left(client)
        figures = read(server)
    assert figures["reactor_frame_interval_seconds_sum",] == 0.25 * figures["reactor_frame_interval_seconds_count",]
    assert figures["reactor_frame_interval_seconds_count",] == figures["reactor_frames_handed_total",] - 1 >= 4
    assert figures["reactor_step_seconds_sum",] == 0.25 * figures["reactor_step_seconds_count",]
    assert figures["reactor_step_seconds_count",] == figures["reactor_frames_handed_total",]
    assert figures["reactor_encode_seconds_count", "raw"] == figures["reactor_frames_sent_total",]
    assert figures["reactor_command_wait_seconds_count",] == figures["reactor_commands_total", "applied"] == 1
    assert 0 <= figures["reactor_command_wait_seconds_sum",] <= 0.25
    assert figures["reactor_session_seconds_count",] == 1
    assert 1.25 <= figures["reactor_session_seconds_sum",] <= 1.75


async def test_commands_are_counted_by_what_became_of_them(autojump_clock: object) -> None:
    async with open_server(Steady, step_cost=0.25) as server:
        async with server.connect() as client:
            await client.take(1)
            await client.command("set_level", level=7)
            for name, arguments in (("set_level", {"level": -1}), ("nonsense", {}), ("refuse", {}), ("fail", {})):
                with pytest.raises(CommandError):
                    await client.command(name, **arguments)
            client.stall()
            async with trio.open_nursery() as nursery:
                nursery.start_soon(client.command, "set_level")  # {} is refused, too; nobody hears that
                await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        await server.wait_left(client)
        figures = read(server)
    outcomes = {key[1]: value for key, value in figures.items() if key[0] == "reactor_commands_total"}
    assert outcomes == {"applied": 1, "refused": 4, "failed": 1, "discarded": 0}


# ---- what the server is ---------------------------------------------------------------------------------------------------


class Slow(ReactorPipeline):
    output: Picture

    async def load(self, config):
        await trio.sleep(3)

    def inference(self):
        yield np.zeros((4, 6, 3), np.uint8)


def states(server: TestServer) -> list[str]:
    return [key[1] for key, value in read(server).items() if key[0] == "reactor_model_state" and value]


async def test_the_model_is_in_exactly_one_state(autojump_clock: object) -> None:
    async with open_server(Slow) as server:
        assert states(server) == ["ready"]
        assert read(server)["reactor_model_load_seconds",] == 3
        server.runtime.metrics.step_stuck("s", True)
        assert states(server) == ["ready"]  # it may compile
        server.runtime.metrics.stepped()
        assert states(server) == ["stuck"]
        server.runtime.metrics.step_stuck("s", False)
        await server.drain()
        assert states(server) == ["draining"]
        assert {key[1] for key in read(server) if key[0] == "reactor_model_state"} == set(get_args(ModelState))


async def test_the_process_and_the_build_are_described(autojump_clock: object) -> None:
    async with open_server(Fast, name="my-model") as server:
        figures = read(server)
        assert figures["reactor_process_resident_memory_bytes",] > 1e7
        assert figures["reactor_process_open_fds",] > 2
        assert figures["reactor_process_cpu_seconds_total",] > 0
        (build,) = (key for key in figures if key[0] == "reactor_build_info")
        assert build[1:3] == ("my-model", platform.python_version())


# ---- nobody makes series --------------------------------------------------------------------------------------------------


async def asked(server: TestServer, line: str, word: str) -> int:
    """The status that a WebSocket handshake gets with this request line."""
    stream = await server._open_stream()
    await stream.send(
        f"{line} HTTP/1.1\r\nhost: localhost\r\nconnection: Upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 13\r\n"
        f"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nuser-agent: {word}\r\nx-{word}: {word}\r\n\r\n".encode()
    )
    answer = await stream.receive()
    await stream.aclose()
    return int(answer.split()[1])


async def test_no_client_can_make_a_series_of_its_own(autojump_clock: object) -> None:
    """Whatever odd clients say, the names and labels stay those that were there before the first of them came."""
    async with open_server(Steady, step_cost=0.25, websocket=True, queue=0) as server:
        before, statuses = set(read(server)), []
        for number in range(8):
            word = f"odd{number}" * 20
            for line in (
                f"GET /ws?video={word}", f"GET /ws?role={word}", f"GET /ws?model={word}",
                f"GET /ws?role=viewer&token={word}", f"GET /ws?{word}&{word}=%ff", f"{word} /",
                f"POST /uploads?name={word}", f"POST /{word}",
            ):  # fmt: skip
                statuses.append(await asked(server, line, word))
            statuses.append(server.http(f"/{word}?{word}={word}", headers={word: word}).status)
            async with server.connect(video=["raw", word]) as client:
                with pytest.raises(ConnectionRefused):
                    async with server.connect():
                        pass
                for name in (word, "reactor." + word, "refuse", "fail", "@connected", ""):
                    with pytest.raises(CommandError):
                        await client.command(name, **{word: number})
                await client.take(1)
                await client.vanish()
            await server.wait_left(client)
        await server.drain()
        after = read(server)
    assert set(after) == before
    refused = {key[1]: value for key, value in after.items() if key[0] == "reactor_requests_refused_total" and value}
    assert refused == {**Counter(map(str, statuses)), "503": 8}
    assert len(refused) >= 5
    assert len(after) < 500


def test_what_is_not_known_has_a_place(autojump_clock: object) -> None:
    metrics = Metrics(facts_of("model"))
    before = metrics.exposition().count(b"\n")
    metrics.encoded("h265", 0.1)
    text = metrics.exposition().decode()
    assert 'reactor_encode_seconds_count{codec="other"} 1.0' in text
    assert text.count("\n") == before


def test_each_codec_and_each_status_that_the_server_uses_has_a_label() -> None:
    assert {str(kind.status) for kind in REFUSALS.values()} == set(STATUSES)
    assert {*video_codecs(), *audio_codecs()} <= set(CODECS)


def test_each_dropped_frame_has_a_place_and_a_reason_that_are_counted_and_documented() -> None:
    source = Path(reactor_trio.server.__file__).parents[1]
    text = "\n".join(path.read_text() for path in source.rglob("*.py"))
    used = set(re.findall(r'\.dropped\("(\w+)", "(\w+)"', text))
    assert used > {("session", "no_viewer"), ("input", "evicted"), ("model", "incomplete")}
    assert used <= set(DROPS)
    pages = (Path(__file__).parents[2] / "docs/operate/operating.md").read_text().splitlines()
    places = dict(re.findall(r"^\| `(\w+)`.*? \| (.*) \|$", "\n".join(pages).partition("| `place` |")[2], re.MULTILINE))
    assert [(place, reason) for place, reason in DROPS if f"`{reason}`" not in places[place]] == []
