"""`reactor run`: load a project's model and serve it until a signal or a failure."""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import msgspec
import trio

from reactor_trio.cli.importing import importing, settle
from reactor_trio.cli.log_output import configure_logging, warm_up
from reactor_trio.cli.signals import Stop, on_hangup, stop_on_signals
from reactor_trio.cli.terminal import OK, Terminal, UsageError, leaves
from reactor_trio.configuration.manifest import MANIFEST_NAME, Manifest, load_manifest

__all__ = ["cannot_listen", "manifest_of", "run"]

log = logging.getLogger("reactor_trio.server")

# The pacer must get the GIL within about a millisecond of a frame's due time. A model that computes in Python releases it
# only on request, by default after 5 ms, which a viewer sees as jitter.
SWITCH_INTERVAL = 0.001


def run(
    path: Path,
    terminal: Terminal,
    *,
    host: str | None = None,
    port: int | None = None,
    record: Path | None = None,
    overrides: Sequence[str] = (),
    certfile: Path | None = None,
    keyfile: Path | None = None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
    debug: bool = False,
    json_logs: bool | None = None,
    sockets: Sequence[int] = (),
) -> int:
    """Serve the project in `path` until it has drained.

    `sockets` are listening descriptors inherited from `reactor run --reload`. With them SIGUSR1 asks this process to drain
    for its successor; the clients' session then ends with `model_restarting`.

    Raises ManifestError, ModelFailed, and UsageError if the address cannot be used.
    """
    manifest = manifest_of(
        path, overrides, host, port, record, certfile=certfile, keyfile=keyfile, hosts=hosts, origins=origins
    )
    configure_logging(manifest.name, as_json=json_logs, debug=debug)
    for key in manifest.unused:
        log.warning("%s: %s has no effect here; docs/guide/migration.md names what replaces it", MANIFEST_NAME, key)
    sys.setswitchinterval(SWITCH_INTERVAL)
    with suppress(RuntimeError, OSError, ValueError):  # without a standard error
        faulthandler.enable()  # if model code crashes the process, its stack is printed
    trio.run(_serve, manifest, terminal, debug, sockets)
    return OK


def manifest_of(
    path: Path,
    overrides: Sequence[str],
    host: str | None,
    port: int | None,
    record: Path | None = None,
    *,
    certfile: Path | None = None,
    keyfile: Path | None = None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
) -> Manifest:
    """Load the manifest and override it with the options. `hosts` and `origins` are added to those of the manifest.

    Raises ManifestError, UsageError.
    """
    if keyfile is not None and certfile is None:
        raise UsageError("--keyfile: give the certificate too, with --certfile")
    folder = None if record is None else str(record.absolute())
    files = {"certfile": certfile, "keyfile": keyfile}
    tls = None if certfile is None else {name: str(file.absolute()) for name, file in files.items() if file is not None}
    laid = (("host", host), ("port", port), ("record", folder), ("tls", tls))
    given = {key: value for key, value in laid if value is not None}
    manifest = load_manifest(path, overrides, given)
    settings = manifest.settings
    return replace(
        manifest,
        settings=msgspec.structs.replace(
            settings, hosts=(*settings.hosts, *hosts), origins=(*settings.origins, *origins)
        ),
    )


async def _serve(manifest: Manifest, terminal: Terminal, debug: bool, sockets: Sequence[int]) -> None:
    with importing():
        from reactor_trio.server.serve import Serving, serve
        from reactor_trio.server.watchdog import Watchdog

    drain = trio.Event()
    serving: Serving | None = None
    listeners = [trio.SocketListener(trio.socket.from_stdlib_socket(socket.socket(fileno=fd))) for fd in sockets]

    def ask_to_drain() -> None:
        notice = "" if serving is None else waits_for(len(serving.runtime.sessions), serving.runtime.drain_notice)
        terminal.say(f"draining {manifest.name}{notice}; a second signal ends at once")
        drain.set()

    def make_room() -> None:
        if serving is None:  # load() cannot be interrupted
            os._exit(OK)
        serving.runtime.goodbye = "model_restarting"
        drain.set()

    settings = manifest.settings
    watchdog = Watchdog(settings.watchdog) if settings.watchdog else None

    def on_phase(phase: str) -> None:
        if phase == "drained" and watchdog is not None:
            watchdog.expect_exit(settings.stuck_after, f"a step of {manifest.name} does not end; abandoning it")

    async def until_served(task_status: trio.TaskStatus[Serving]) -> None:
        await serve(
            manifest, debug=debug, listeners=listeners or None, drain=drain, on_phase=on_phase, task_status=task_status
        )
        nursery.cancel_scope.cancel()

    def renew() -> None:
        if serving is not None and serving.certificates is not None:
            serving.certificates.renew()

    stop = Stop(ask_to_drain)
    token = trio.lowlevel.current_trio_token()
    if sockets:
        signal.signal(signal.SIGUSR1, lambda _signum, _frame: token.run_sync_soon(make_room))
    with (
        stop_on_signals(stop, signal.SIGINT, signal.SIGTERM),
        # SIGHUP renews the certificates of a service. A closed terminal sends it, too, so a server on a terminal drains.
        on_hangup(stop if settings.tls is None or os.isatty(0) else lambda _signum, _frame: token.run_sync_soon(renew)),
    ):
        async with trio.open_nursery() as nursery:
            if watchdog is not None:
                nursery.start_soon(watchdog.run)
            try:
                async with terminal.loading(manifest.name):
                    serving = await nursery.start(until_served)
            except Exception as error:
                # Errors of load() arrive as ModelFailed, so a bare OSError is the listening socket's.
                for leaf in leaves(error):
                    if isinstance(leaf, OSError):
                        raise UsageError(cannot_listen(manifest, leaf)) from error
                raise
            if sockets:  # under --reload a restart must not wait for sessions to end
                serving.runtime.drain_notice = 0.0
            stop.armed = True
            terminal.say(f"{manifest.name} is ready: {where(serving.urls)}")
            nursery.start_soon(trio.to_thread.run_sync, warm_up)
            await serving.runtime.prepared.wait()
            terminal.say(f"encoders: {', '.join(f'{codec} ({by})' for codec, by in serving.runtime.encoders.items())}")
            await serving.runtime.at_rest.wait()
            settle()


def where(urls: Sequence[str]) -> str:
    """Format the URL to open; a second line has the other URLs of a server that listens on all addresses."""
    *others, here = urls
    if not others:
        return here
    first, *more = others
    return f"{first}\nalso at {', '.join([*more, here])} (the last one on this machine)"


def waits_for(sessions: int, seconds: float) -> str:
    """Say how long sessions may go on during a drain, as the rest of a line."""
    if not sessions or not seconds:
        return ""
    return f", {sessions} session{'s' if sessions > 1 else ''} may go on for {seconds:g} s"


def cannot_listen(manifest: Manifest, error: OSError) -> str:
    """Explain why the server cannot listen, and what to do."""
    settings = manifest.settings
    return (
        f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}; "
        "stop the program that uses it, or choose another with --host and --port (0 picks a free port)"
    )
