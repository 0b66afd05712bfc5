"""`serve`: a model on a port, as an async function for Trio programs."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import trio

from reactor_trio.errors import ManifestError, ModelFailed
from reactor_trio.interface.model import Model
from reactor_trio.interface.weights import weights_of_manifest
from reactor_trio.model_host import open_model_host
from reactor_trio.server.certificates import Certificates
from reactor_trio.server.free_memory import FreeMemory, trimmer
from reactor_trio.server.manifest import Manifest
from reactor_trio.server.moderation import Hook, check_in_thread
from reactor_trio.server.placement import LocalPlacement, Placement
from reactor_trio.server.refusals import Refusals
from reactor_trio.server.runtime import Runtime
from reactor_trio.server.settings import Settings
from reactor_trio.server.site import ReactorSite
from reactor_trio.server.tracing import open_tracing
from reactor_trio.session import Check
from reactor_trio.transport import PatientListener, peer_of, secured, serve_http, turn_away

A = TypeVar("A")
R = TypeVar("R")

log = logging.getLogger("reactor_trio.server")


class Serving(msgspec.Struct, frozen=True):
    """A server that is ready: its address, the runtime behind it, and what it shows by TLS."""

    host: str
    port: int
    runtime: Runtime
    certificates: Certificates | None = None

    @property
    def url(self) -> str:
        """The viewer page."""
        scheme = "http" if self.runtime.settings.tls is None else "https"
        return f"{scheme}://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}/"


async def serve(
    model: type[Model] | Manifest,
    *,
    host: str | None = None,
    port: int | None = None,
    config: Mapping[str, Any] | None = None,
    name: str | None = None,
    settings: Settings | None = None,
    debug: bool = False,
    listeners: Sequence[trio.SocketListener] | None = None,
    drain: trio.Event | None = None,
    moderate: Hook | None = None,
    on_phase: Callable[[str], object] | None = None,
    task_status: trio.TaskStatus[Serving] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Load a model and serve it until `drain` is set and done, or until cancelled.

    The port answers from the start, `/health` with 503 until the model is loaded; `task_status.started` is called with a
    `Serving` then. Cancelling ends every session in its order without a goodbye; the running step is still waited for.

    Args:
        model: a model class, or a manifest, whose settings hold unless given here.
        listeners: sockets that listen already, instead of host and port; closed in the end.
        drain: set it to refuse newcomers, end the sessions, after `settings.drain_notice` seconds at most, and return.
        moderate: checks the text in commands (`docs/guide/moderation.md`), instead of what the manifest names.
        on_phase: told "loading", "ready", "draining", "stopped" or "failed".

    Raises ManifestError if the model cannot be imported, ModelFailed if `load()` or `run()` fails, OSError if the
    address cannot be bound.
    """
    if isinstance(model, Manifest):
        manifest, name = model, name or model.name
        config = model.config if config is None else config
        settings = settings or model.settings
        weights, path = model.weights, model.model_path
        find_model: Callable[[], type[Model]] = lambda: manifest.model  # noqa: E731 - imported where it runs
        find_hook: Callable[[], Hook | None] = lambda: moderate or manifest.moderate  # noqa: E731
    else:
        cls, name, weights, path = model, name or model.__name__, None, None
        find_model = lambda: cls  # noqa: E731
        find_hook = lambda: moderate  # noqa: E731
        if settings is not None and settings.moderate is not None:
            raise ManifestError("runtime.moderate: without a manifest give the function itself, serve(..., moderate=...)")
    settings = msgspec.structs.replace(
        settings or Settings(), **{key: value for key, value in (("host", host), ("port", port)) if value is not None}
    )
    tell = on_phase or (lambda _phase: None)
    certificates = None if settings.tls is None else Certificates(settings.tls)
    open_listeners = listeners or await trio.open_tcp_listeners(settings.port, host=settings.host)
    limiter = trio.CapacityLimiter(os.cpu_count() or 1)

    async def worker(function: Callable[[A], R], argument: A, /) -> R:
        return await trio.to_thread.run_sync(function, argument, limiter=limiter)

    def find_moderation() -> Check | None:
        hook = find_hook()
        return None if hook is None else check_in_thread(hook, settings.moderate_timeout)

    try:
        with weights_of_manifest(weights):
            async with (
                open_tracing(settings.tracing, name) as tracing,
                _open_placement(settings, name, find_model, find_moderation, path, weights) as placement,
            ):
                runtime = Runtime(
                    placement, name=name, settings=settings, debug=debug, worker=worker, on_phase=tell, tracing=tracing,
                    after_session=FreeMemory(trim=trimmer()).after_session,
                )  # fmt: skip
                async with trio.open_nursery() as nursery:
                    bound = open_listeners[0].socket.getsockname()
                    serving = Serving(bound[0], bound[1], runtime, certificates)
                    accepting = trio.CancelScope()
                    nursery.start_soon(_listen, serving, open_listeners, settings, accepting, nursery)
                    await runtime.load(dict(config or {}))
                    nursery.start_soon(runtime.watch_model)
                    await runtime.open_doors()
                    nursery.start_soon(runtime.prepare)
                    task_status.started(serving)
                    await (trio.Event() if drain is None else drain).wait()
                    if runtime.goodbye == "model_restarting":
                        accepting.cancel()  # who comes from now on waits in the sockets' queue for the next server
                    await runtime.drain()
                    nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        # A model that failed is one error, however many nurseries it came through.
        failed, others = group.split((ModelFailed, ManifestError))
        if failed is None or others is not None:
            raise
        raise _first(failed) from _first(failed).__cause__
    finally:
        for listener in open_listeners:
            listener.socket.close()
    tell("stopped")


@asynccontextmanager
async def _open_placement(
    settings: Settings,
    name: str,
    find_model: Callable[[], type[Model]],
    find_moderation: Callable[[], Check | None],
    path: str | None,
    weights: Path | None,
) -> AsyncGenerator[Placement, None]:
    """The place that the settings choose."""
    if settings.isolation == "thread":
        async with open_model_host() as host:
            yield LocalPlacement(host, name, find_model, find_moderation)
        return
    from reactor_trio.server.isolation.placement import open_process_placement
    from reactor_trio.server.isolation.process import open_subprocess

    async with open_process_placement(
        name, find_model, find_moderation, open_process=open_subprocess, path=path, weights=weights
    ) as placement:
        yield placement


async def _listen(
    serving: Serving,
    listeners: Sequence[trio.SocketListener],
    settings: Settings,
    accepting: trio.CancelScope,
    connections: trio.Nursery,
) -> None:
    """Accept until `accepting` is cancelled; connections go on, in a nursery of their own."""
    runtime, certificates = serving.runtime, serving.certificates
    site, refusals = ReactorSite(runtime, settings.host), Refusals(runtime.metrics, lambda: runtime.metrics.ready)
    room, limits = settings.limits.connections, site.limits
    _warn_if_open(listeners, settings)
    open_connections = turned_away = 0

    async def refuse(stream: trio.abc.Stream, why: str, status: HTTPStatus) -> None:
        nonlocal turned_away
        per_address = "_per_address" if status == HTTPStatus.TOO_MANY_REQUESTS else ""
        refusals.note(f"a connection above runtime.limits.connections{per_address}", status)
        if turned_away >= room:  # to say why takes a descriptor, too
            await trio.aclose_forcefully(stream)
            return
        turned_away += 1
        try:
            await turn_away(stream, why, status)
        finally:
            turned_away -= 1

    async def connection(tcp: trio.SocketStream) -> None:
        # The TLS handshake is part of the first read, so that it has the limit of the first request.
        stream = tcp if certificates is None else secured(tcp, certificates.context)
        peer = peer_of(tcp)
        if open_connections >= room:
            await refuse(stream, site.addresses.refuse("connections", peer, room), HTTPStatus.SERVICE_UNAVAILABLE)
            return
        with site.addresses.connection(peer) as why_not:
            if why_not is None:
                await serve_connection(stream)
            else:
                await refuse(stream, why_not, HTTPStatus.TOO_MANY_REQUESTS)

    async def serve_connection(stream: trio.abc.Stream) -> None:
        nonlocal open_connections
        open_connections += 1
        runtime.metrics.connections = open_connections
        try:
            await serve_http(
                stream, site, limits, closing=runtime.draining, methods=site.methods, refused=refusals.note
            )
        except* Exception as group:
            # A fault of the runtime in one connection must not take the others down.
            log.error("a connection failed in the runtime: please report this", exc_info=group)
        finally:
            open_connections -= 1
            runtime.metrics.connections = open_connections

    connections.start_soon(runtime.room.run)
    await connections.start(runtime.desk.stays.run)
    with accepting:
        await trio.serve_listeners(connection, [PatientListener(one) for one in listeners], handler_nursery=connections)


def _warn_if_open(listeners: Sequence[trio.SocketListener], settings: Settings) -> None:
    """Log a warning if others than this computer's users can reach a server that asks for nothing."""
    if settings.auth is not None:
        return
    for listener in listeners:
        if listener.socket.family in (socket.AF_INET, socket.AF_INET6):
            host, port = listener.socket.getsockname()[:2]
            if not ipaddress.ip_address(host.partition("%")[0]).is_loopback:
                where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                log.warning(
                    "whoever reaches %s can use this model: set runtime.auth (docs/security.md), or host: 127.0.0.1", where
                )
                return


def _first(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group
