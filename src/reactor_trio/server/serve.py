"""`serve`: an async function that serves a model on a port, for Trio programs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import msgspec
import trio

from reactor_trio.admission import Phase
from reactor_trio.concurrency import open_model_host
from reactor_trio.concurrency.free_memory import MemoryReclaimer, trimmer
from reactor_trio.concurrency.loop_lag import LoopLag
from reactor_trio.configuration.manifest import Manifest
from reactor_trio.configuration.settings import Settings, address_of
from reactor_trio.edge.acceptor import Acceptor, bound_addresses, warn_if_open
from reactor_trio.edge.certificates import Certificates
from reactor_trio.edge.management import serve_management
from reactor_trio.edge.own_addresses import page_urls, reachable_hosts
from reactor_trio.edge.ports import Ports, open_ports
from reactor_trio.errors import ReactorError
from reactor_trio.interface.manifest_files import files_of_manifest
from reactor_trio.interface.model import Model
from reactor_trio.media.codec_pool import worker_threads
from reactor_trio.placement.model_source import Hook, ModelSource, model_source, placement_loader
from reactor_trio.placement.placement import LoadPlacement
from reactor_trio.processors import usable_processors
from reactor_trio.server.moderation_hook import check_in_thread
from reactor_trio.server.one_failure import one_failure
from reactor_trio.server.reactor_site import reactor_site
from reactor_trio.server.runtime import Runtime
from reactor_trio.server.runtime_parts import Observers, ProcessParts
from reactor_trio.server.tracing import open_tracing


class Serving(msgspec.Struct, frozen=True):
    """A server that is ready: its address, its runtime and its TLS certificates.

    If it listens at a Unix socket, `host` is the path of that, and `port` is 0.
    """

    host: str
    port: int
    runtime: Runtime
    certificates: Certificates | None = None
    #: the port of `runtime.management`, None without that
    management_port: int | None = None

    @property
    def url(self) -> str:
        """URL of the viewer page, at an address that works also if the server listens on all addresses."""
        return self.urls[0]

    @property
    def urls(self) -> list[str]:
        """URLs of the viewer page, one for each address; several if the server listens on all addresses."""
        return page_urls(self.host, self.port, secure=self.runtime.settings.tls is not None)

    def session_url(self, host: str | None = None) -> str:
        """URL at which clients open sessions: `runtime.advertise` for `host`, by default for a reachable address."""
        secure = "" if self.runtime.settings.tls is None else "s"
        template = self.runtime.settings.advertise or f"ws{secure}://{{ip}}:{{port}}"
        return address_of(template, host or reachable_hosts(self.host)[0], self.port).rstrip("/") + "/ws"


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
    on_phase: Callable[[Phase], object] = lambda _phase: None,
    on_progress: Callable[[float | None, str], object] | None = None,
    task_status: trio.TaskStatus[Serving] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Load a model and serve it until it has drained, or until cancelled.

    The port answers from the start, `/health` with 503 until the model is loaded; `task_status.started` is called with a
    `Serving` then, but not if a drain begins before. An `async load()` is cancelled then, one that blocks is waited for.
    Cancelling ends every session in its order without a goodbye; the running step is still waited for.

    Args:
        model: a model class, or a manifest, whose settings hold unless given here.
        listeners: sockets that already listen, instead of host and port. Closed at the end.
        drain: set it to refuse newcomers, end the sessions, after `settings.drain_notice` seconds at most, and return. A
            caller who has another reason than that the server goes down calls `Serving.runtime.begin_drain`.
        moderate: checks the text in commands (`docs/reference/model/moderation.md`), instead of what the manifest names.
        on_phase: called with each phase that the server enters: "loading", "ready", "draining", "drained", and "stopped"
            at the end; "failed" if this raises ModelFailed or ManifestError.
        on_progress: called with fraction and text of each `progress(fraction, text)` in the model's load.

    Raises ManifestError if the model cannot be imported, ModelFailed if `load()` or `run()` fails, OSError if the
    address cannot be bound.
    """
    source = model_source(model, name=name, config=config, settings=settings, moderate=moderate)
    given = {key: value for key, value in (("host", host), ("port", port)) if value is not None}
    settings = Settings(**{**msgspec.structs.asdict(source.settings), **given})
    source = msgspec.structs.replace(source, settings=settings)
    observers = Observers(on_phase, on_progress or (lambda _fraction, _text: None))
    try:
        await _serve(source, listeners, drain, debug, observers, task_status)
    except ReactorError as error:
        # It says all; the frames of the runtime would stand between it and the author's.
        raise error.with_traceback(None) from error.__cause__


async def _serve(
    source: ModelSource,
    listeners: Sequence[trio.SocketListener] | None,
    drain: trio.Event | None,
    debug: bool,
    observers: Observers,
    task_status: trio.TaskStatus[Serving],
) -> None:
    settings, worker = source.settings, worker_threads(usable_processors())
    async with open_ports(settings, listeners) as ports:
        certificates = await Certificates.read(settings.tls)
        with files_of_manifest(source.files), one_failure(), LoopLag().watched() as lag:
            async with open_tracing(settings.tracing, source.name) as tracing, _open_loader(source) as load:
                parts = ProcessParts(worker, free_memory=MemoryReclaimer(trim=trimmer()), tracing=tracing, lag=lag.seconds)
                runtime = Runtime(
                    load, name=source.name, settings=settings, parts=parts, observers=observers,
                    introduction=source.introduction, debug=debug,
                )  # fmt: skip
                serving = Serving(*ports.address, runtime, certificates, ports.management_port)
                site = reactor_site(runtime, *bound_addresses(ports.clients))
                acceptor = Acceptor(site, runtime.closing, certificates)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(lag.tick)
                    nursery.start_soon(_end_drained, runtime, acceptor, nursery.cancel_scope)
                    if drain is not None:
                        nursery.start_soon(_begin_drain_when_set, drain, runtime)
                    listen = partial(_listen, acceptor, ports, settings)
                    await nursery.start(partial(runtime.run, source.config, listeners=[listen]))
                    if certificates is not None:
                        nursery.start_soon(certificates.run)
                    task_status.started(serving)
    runtime.enter("stopped")


async def _begin_drain_when_set(drain: trio.Event, runtime: Runtime) -> None:
    await drain.wait()
    runtime.begin_drain()


async def _end_drained(runtime: Runtime, acceptor: Acceptor, everything: trio.CancelScope) -> None:
    """Task, from before the load on: once a drain has begun, end the server with it."""
    await runtime.closing.wait()
    began = trio.current_time()
    if runtime.drain_reason == "model_restarting":
        acceptor.stop_accepting()  # clients that connect from now on wait in the sockets' queue for the next server
    await runtime.drain()
    await acceptor.finish(max(began, runtime.drains_at) + runtime.settings.drain_grace)
    everything.cancel()


@asynccontextmanager
async def _open_loader(source: ModelSource) -> AsyncGenerator[LoadPlacement, None]:
    async with AsyncExitStack() as stack:
        local = source.settings.isolation != "process"
        host = await stack.enter_async_context(open_model_host()) if local else None
        nursery = await stack.enter_async_context(trio.open_nursery())
        yield placement_loader(source, nursery, host, check_in_thread)
        nursery.cancel_scope.cancel()


async def _listen(acceptor: Acceptor, ports: Ports, settings: Settings, connections: trio.Nursery) -> None:
    """Accept on the port of the clients, and on that of `runtime.management`."""
    warn_if_open(ports.clients, settings)
    async with trio.open_nursery() as nursery:
        if ports.management:
            nursery.start_soon(serve_management, acceptor, settings, ports.management, connections)
        await acceptor.run(ports.clients, connections)
