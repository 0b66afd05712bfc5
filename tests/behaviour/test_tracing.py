"""Traces of commands: exact spans in virtual time, and who gets them."""

from __future__ import annotations

import os
import sys
from contextlib import asynccontextmanager
from types import ModuleType

import numpy as np
import pytest
import trio
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from reactor_trio.client.session_view import internals
from reactor_trio.errors import CommandError, ManifestError
from reactor_trio.interface import InputField, InputState, Output, ReactorModel, ReactorPipeline, Video, event
from reactor_trio.server.tracing import MOST_PENDING, Tracing, open_tracing
from reactor_trio.testing import open_server


class Picture(Output):
    picture: Video


class Settings(InputState):
    level: int = InputField(default=0, ge=0, le=255)


class Model(ReactorPipeline):
    state: Settings
    output: Picture

    @event
    def refuse(self):
        raise CommandError("not_now", "come back")

    def inference(self):
        while True:
            yield np.full((4, 6, 3), self.state.level, np.uint8)


class Loop(ReactorModel):
    output: Picture

    @event
    def poke(self):
        pass

    async def run(self):
        while True:
            await self.connected.wait()
            await self.emit(Picture(np.zeros((4, 6, 3), np.uint8)))


class Spans(InMemorySpanExporter):
    """What was told, with times in seconds."""

    def roots(self):
        return [span for span in self.get_finished_spans() if span.name.startswith("command ")]

    def parts(self, root):
        inside = [span for span in self.get_finished_spans() if span.parent and span.parent.span_id == root.context.span_id]
        return {span.name: times(span) for span in inside}


def times(span) -> tuple[float, float]:
    return span.start_time / 1e9, span.end_time / 1e9


@asynccontextmanager
async def traced(model, **options):
    """A server whose spans are collected; its clock began at 0."""
    spans = Spans()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    async with open_server(model, **options) as server:
        server.runtime.metrics.tracing = Tracing(provider.get_tracer("test"), lambda: round(trio.current_time() * 1e9))
        yield server, spans


async def test_a_commands_parts_are_exact(autojump_clock):
    async with traced(Model, step_cost=0.25) as (server, spans):
        async with server.connect() as client:
            began = trio.current_time()
            await client.take(4)  # the fourth is shown at 1 s; the step of the fifth has begun
            await trio.sleep(0.1)
            await client.command("set_level", level=7)
            await client.take(2)
            sid = client.session_id
        (root,) = spans.roots()
        parts = {name: (begin - began, end - began) for name, (begin, end) in spans.parts(root).items()}
        (coded,) = [dict(span.attributes) for span in spans.get_finished_spans() if span.name == "encode"]
    arrived = pytest.approx(root.start_time / 1e9 - began)
    assert 1.0 <= arrived.expected < 1.25
    step = parts["step"]
    assert step[1] - step[0] == pytest.approx(0.25)
    assert step[0] % 0.25 == pytest.approx(0)
    assert parts == {
        "wait": (arrived, pytest.approx(step[0])),
        "step": step,
        "queue": (pytest.approx(step[1]), parts["encode"][0]),
        "encode": (pytest.approx(step[1]), pytest.approx(step[1])),  # takes no time here
        "send": (pytest.approx(step[1]), pytest.approx(step[1])),
    }
    assert times(root)[1] - began == pytest.approx(step[1])
    assert dict(root.attributes) == {
        "session.id": sid, "reactor.command": "set_level", "reactor.command_id": 1, "reactor.step": round(step[0] / 0.25),
    }  # fmt: skip
    assert (coded["reactor.codec"], coded["reactor.seq"]) == ("raw", round(step[0] / 0.25))
    assert coded["reactor.bytes"] > 4 * 6 * 3


async def test_a_refused_command_is_a_span_of_its_own_with_the_code(autojump_clock):
    async with traced(Model, step_cost=0.25) as (server, spans):
        async with server.connect() as client:
            for name, arguments in (("set_level", {"level": 999}), ("refuse", {})):
                with pytest.raises(CommandError):
                    await client.command(name, **arguments)
        roots = spans.roots()
        assert [(root.name, root.status.description, spans.parts(root)) for root in roots] == [
            ("command set_level", "invalid_command", {}), ("command refuse", "not_now", {}),
        ]  # fmt: skip
        assert not any(root.status.is_ok for root in roots)


async def test_the_span_of_a_command_without_a_picture_ends_with_the_session(autojump_clock):
    async with traced(Model, step_cost=0.25) as (server, spans):
        async with server.connect(video=["none"]) as client:
            await client.command("set_level", level=7)
            assert spans.roots() == []
        await server.wait_left(client)
        (root,) = spans.roots()
        assert spans.parts(root) == {}
        assert root.status.description is None


async def test_commands_that_wait_for_a_picture_are_bounded(autojump_clock):
    async with traced(Model, step_cost=0.25) as (server, spans):
        async with server.connect(video=["none"]) as client:
            for number in range(MOST_PENDING + 3):
                await client.command("set_level", level=number % 256)
                await trio.sleep(0.01)
            assert len(spans.roots()) == 3
        await server.wait_left(client)
        assert len(spans.roots()) == MOST_PENDING + 3


async def test_a_run_loops_commands_are_followed_to_the_next_emit(autojump_clock):
    async with traced(Loop, step_cost=0.25) as (server, spans):
        async with server.connect() as client:
            await client.take(2)
            await client.command("poke")
            await client.take(3)
            (root,) = spans.roots()
            assert list(spans.parts(root)) == ["wait", "step", "queue", "encode", "send"]
            assert times(root)[0] <= times(root)[1]


TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


@pytest.mark.parametrize(
    ("given", "continued"),
    [
        (f'"00-{TRACE}-00f067aa0ba902b7-01"', True),
        (f'"00-{"0" * 32}-00f067aa0ba902b7-01"', False),
        (f'"ff-{TRACE}-00f067aa0ba902b7-01"', False),
        ('"nonsense"', False),
        ("7", False),
        ('{"deep": [1]}', False),
        ("null", False),
    ],
)
async def test_a_client_may_say_which_trace_its_command_is_part_of(autojump_clock, given, continued):
    """Anything else under that key is no mistake, as with any key that the protocol does not know."""
    async with traced(Model, step_cost=0.25) as (server, spans):
        async with server.connect() as client:
            text = '{"type": "set_level", "data": {"level": 7}, "traceparent": ' + given + "}"
            await internals(client).connection.transport.send(text)
            await client.take(3)
            (root,) = spans.roots()
    assert (root.parent is not None, f"{root.context.trace_id:032x}" == TRACE) == (continued, continued)


# ---- who gets them -------------------------------------------------------------------------------------------------------


@pytest.fixture
def no_program(monkeypatch):
    """No program has set OpenTelemetry up, and the environment says nothing."""
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: trace.ProxyTracerProvider())
    for name in ("OTEL_SDK_DISABLED", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)


async def test_tracing_without_its_package_names_the_package_to_install(no_program):
    with pytest.raises(ManifestError, match=r'runtime.tracing: true needs OpenTelemetry .*reactor-trio\[otel\]"'):
        async with open_tracing(True, "mine"):
            pass


@pytest.mark.parametrize(
    ("setting", "environment"),
    [
        (None, {}), (False, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}),
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}),  # but it is not installed
        (None, {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}),
        (True, {"OTEL_SDK_DISABLED": "true"}),
    ],
)  # fmt: skip
async def test_not_wanted_or_not_possible_is_off(no_program, monkeypatch, setting, environment):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    async with open_tracing(setting, "mine") as tracing:
        assert tracing is None


@pytest.mark.parametrize("setting", [None, True])
async def test_a_malformed_variable_of_the_exporter_ends_a_server_only_if_tracing_is_demanded(
    no_program, monkeypatch, caplog, setting
):
    exporter = ModuleType("trace_exporter")
    exporter.OTLPSpanExporter = lambda: float(os.environ["OTEL_EXPORTER_OTLP_TIMEOUT"])  # which is what it does first
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", exporter)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://collector:4318")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "10 s")
    if setting:
        with pytest.raises(ManifestError, match=r"(?m)^runtime.tracing: true: a variable OTEL_\* is malformed: .*'10 s'$"):
            async with open_tracing(setting, "mine"):
                pass
        return
    async with open_tracing(setting, "mine") as tracing:
        assert tracing is None
    (line,) = [record.getMessage() for record in caplog.records if record.name.startswith("reactor_trio")]
    assert line.startswith("commands are not traced: a variable OTEL_* is malformed: ")
    assert line.endswith("'10 s'")


async def test_a_program_that_has_set_it_up_gets_the_spans(monkeypatch):
    provider = TracerProvider()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    async with open_tracing(True, "mine") as tracing:
        assert tracing is not None
