"""Traces each command with OpenTelemetry, from its arrival to the first picture that shows it.

    command set_prompt -+- wait     until the step that sees it begins
                        +- step     that step
                        +- queue    until encoding of its first picture that is sent begins
                        +- encode
                        '- send     until it is written to the controlling client's socket

`Tracing` makes the spans at the end, from times that the runtime takes anyway. A command that is refused, or whose session
ends before a picture, is a span without children. A server without tracing does not import OpenTelemetry.
"""

from __future__ import annotations

import logging
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import trio

from reactor_trio.connection.outgoing_frames import CodedFrame
from reactor_trio.errors import ManifestError
from reactor_trio.telemetry import CommandRecord

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Tracer, TracerProvider

log = logging.getLogger("reactor_trio.server")

EXTRA = 'pip install "reactor-trio[otel]"'

#: commands of one client that may wait for a picture; beyond that the oldest becomes a span without children
MOST_PENDING = 256
#: seconds that a server which ends waits for its last spans to be sent
FLUSH = 5.0

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


class Tracing:
    """Makes the spans of one server's commands. Its methods do not wait and do not raise.

    Args:
        tracer: OpenTelemetry's.
        wall: the system's clock now, in nanoseconds since 1970.
    """

    def __init__(self, tracer: Tracer, wall: Callable[[], int] = time.time_ns) -> None:
        self._tracer = tracer
        self._wall = wall
        self._pending: dict[int, deque[CommandRecord]] = {}

    def commanded(self, record: CommandRecord) -> None:
        """A command is over. If it was applied, a picture will show it."""
        if record.code is not None:
            self._tell(record)
            return
        pending = self._pending.setdefault(record.client, deque())
        pending.append(record)
        if len(pending) > MOST_PENDING:
            self._tell(pending.popleft())

    def pictured(self, client: int, picture: CodedFrame) -> None:
        """A picture was written, just now, to the socket of the client with this number."""
        pending = self._pending.get(client)
        while pending and pending[0].step <= picture.origin.step:
            self._tell(pending.popleft(), picture)

    def session_over(self, client: int) -> None:
        """The session of this controlling client is over: make the spans of its pending commands."""
        for record in self._pending.pop(client, ()):
            self._tell(record)

    def _tell(self, record: CommandRecord, picture: CodedFrame | None = None) -> None:
        from opentelemetry.trace import SpanKind, StatusCode, set_span_in_context

        now = trio.current_time()
        zero = self._wall() - now * 1e9  # measured for each command, since the system's clock may be set

        def at(seconds: float) -> int:
            return round(zero + seconds * 1e9)

        attributes: dict[str, Any] = {"session.id": record.session_id, "reactor.command": record.name}
        if record.id is not None:
            attributes["reactor.command_id"] = record.id
        if record.code is None:
            attributes["reactor.step"] = record.step
        span = self._tracer.start_span(
            f"command {record.name}", _parent(record.traceparent), SpanKind.SERVER, attributes, start_time=at(record.at)
        )
        if record.code is not None:
            span.set_status(StatusCode.ERROR, record.code)
        if picture is not None:
            inside = set_span_in_context(span)
            encode = picture.made + picture.queued
            encoded = encode + picture.encoding
            step = picture.made - picture.origin.seconds
            seen: Mapping[str, Any] = {"reactor.step": picture.origin.step}
            coded = {"reactor.codec": picture.info.codec or "", "reactor.bytes": picture.size, "reactor.seq": picture.seq}
            parts: tuple[tuple[str, float, float, Mapping[str, Any]], ...] = (
                ("wait", record.at, max(step, record.at), {}),
                ("step", step, picture.made, seen),
                ("queue", picture.made, encode, {}),
                ("encode", encode, encoded, coded),
                ("send", encoded, now, {}),
            )
            for name, begin, end, what in parts:
                self._tracer.start_span(name, inside, attributes=what, start_time=at(begin)).end(at(end))
        span.end(at(record.answered if picture is None else now))


@asynccontextmanager
async def open_tracing(setting: bool | None, name: str) -> AsyncGenerator[Tracing | None, None]:
    """Open the tracing of the model `name`, or None if it is off. The end of the block sends the last spans.

    `setting` None: if the environment names a collector (OTEL_EXPORTER_OTLP_ENDPOINT) and OpenTelemetry is installed. A
    program that has set up OpenTelemetry itself gets the spans there.

    Raises ManifestError if it is wanted by the setting, and OpenTelemetry is not installed or a variable of it is malformed.
    """
    if not _is_wanted(setting, os.environ):
        yield None
        return
    try:
        provider, shutdown = await trio.to_thread.run_sync(_find_provider, name)
    except ImportError as error:
        if setting:
            raise ManifestError(f"runtime.tracing: true needs OpenTelemetry ({error}): {EXTRA}") from error
        log.info("the environment names a collector of traces, but OpenTelemetry is not installed: %s", EXTRA)
        yield None
        return
    except ValueError as error:  # the exporter reads the variables itself
        if setting:
            raise ManifestError(f"runtime.tracing: true: a variable OTEL_* is malformed: {error}") from error
        log.error("commands are not traced: a variable OTEL_* is malformed: %s", error)
        yield None
        return
    try:
        yield Tracing(provider.get_tracer("reactor_trio"))
    finally:
        with trio.move_on_after(FLUSH, shield=True) as limit:
            await trio.to_thread.run_sync(shutdown, abandon_on_cancel=True)
        if limit.cancelled_caught:
            log.warning("the collector of traces did not take the last spans in %g s", FLUSH)


def _is_wanted(setting: bool | None, environment: Mapping[str, str]) -> bool:
    if environment.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return False
    if setting is not None:
        return setting
    named = any(environment.get(key) for key in _ENDPOINTS)
    return named and environment.get("OTEL_TRACES_EXPORTER", "otlp") != "none"


def _find_provider(name: str) -> tuple[TracerProvider, Callable[[], object]]:
    """Return the provider of spans and the function that shuts it down. Blocks.

    Raises ImportError, and ValueError for a malformed variable of the environment.
    """
    from opentelemetry import trace

    given = trace.get_tracer_provider()
    if not isinstance(given, trace.ProxyTracerProvider):
        return given, lambda: None  # the program's own; the program shuts it down
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {} if os.environ.get("OTEL_SERVICE_NAME") else {"service.name": name}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider, provider.shutdown


def _parent(traceparent: str | None) -> Context | None:
    """Return the client's trace context, None if it is not a valid W3C traceparent."""
    if traceparent is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({"traceparent": traceparent})
