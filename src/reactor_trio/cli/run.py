"""`reactor run`: load the model of a project and serve it until a signal or a failure."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import trio

from reactor_trio.cli.logs import configure_logging
from reactor_trio.cli.signals import Stop, stop_on_signals
from reactor_trio.cli.terminal import OK, Terminal, UsageError, leaves
from reactor_trio.server.manifest import Manifest, load_manifest

__all__ = ["run"]

# The pacer must get the interpreter within about a millisecond of a frame's due time. A model that computes in Python
# gives it up only when asked, by default after 5 ms, which a viewer sees as jitter.
SWITCH_INTERVAL = 0.001


def run(
    path: Path,
    terminal: Terminal,
    *,
    host: str | None = None,
    port: int | None = None,
    overrides: Sequence[str] = (),
    debug: bool = False,
    json_logs: bool = False,
) -> int:
    """Serve the project in `path` until it has drained.

    Raises ManifestError, ModelFailed, and UsageError if it cannot listen at the address.
    """
    given = {key: value for key, value in (("host", host), ("port", port)) if value is not None}
    manifest = load_manifest(path, overrides, given)
    configure_logging(manifest.name, as_json=json_logs, debug=debug)
    sys.setswitchinterval(SWITCH_INTERVAL)
    trio.run(_serve, manifest, terminal, debug)
    return OK


async def _serve(manifest: Manifest, terminal: Terminal, debug: bool) -> None:
    from reactor_trio.server.serve import Serving, serve
    from reactor_trio.server.watchdog import Watchdog

    drain = trio.Event()

    def ask_to_drain() -> None:
        terminal.say(f"draining {manifest.name}; a second signal ends at once")
        drain.set()

    settings = manifest.settings
    watchdog = Watchdog(settings.watchdog) if settings.watchdog else None

    def on_phase(phase: str) -> None:
        if phase == "drained" and watchdog is not None:
            watchdog.expect_exit(settings.stuck_after, f"a step of {manifest.name} does not end; leaving it behind")

    async def until_served(task_status: trio.TaskStatus[Serving]) -> None:
        await serve(manifest, debug=debug, drain=drain, on_phase=on_phase, task_status=task_status)
        nursery.cancel_scope.cancel()

    stop = Stop(ask_to_drain)
    with stop_on_signals(stop, signal.SIGINT, signal.SIGTERM):
        async with trio.open_nursery() as nursery:
            if watchdog is not None:
                nursery.start_soon(watchdog.run)
            try:
                async with terminal.loading(manifest.name):
                    serving = await nursery.start(until_served)
            except Exception as error:
                # What load() raised comes as ModelFailed, so that a bare OSError is the listening socket's.
                for leaf in leaves(error):
                    if isinstance(leaf, OSError):
                        raise UsageError(_cannot_listen(manifest, leaf)) from error
                raise
            stop.armed = True
            terminal.say(f"{manifest.name} is ready: {serving.url}")


def _cannot_listen(manifest: Manifest, error: OSError) -> str:
    settings = manifest.settings
    return (
        f"cannot listen on {settings.host}:{settings.port}: {error.strerror or error}; "
        "stop what uses it or choose another with --host and --port (0 picks a free port)"
    )
