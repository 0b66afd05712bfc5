"""`reactor run --replicas`: run a gate and several servers of one model on Ray until a signal.

This process starts Ray and the application, then waits; no client and no frame passes through it. A Ray that it started on
this machine ends with it, however it ends.
"""

from __future__ import annotations

import argparse
import importlib.util
import signal
import socket
from contextlib import AbstractContextManager

import msgspec

from reactor_trio.cli.log_output import tell_doubts
from reactor_trio.cli.serving import cannot_listen, manifest_of, where
from reactor_trio.cli.signals import Stop, handled
from reactor_trio.cli.terminal import OK, Terminal, UsageError
from reactor_trio.configuration.manifest import Manifest


class _Stop(BaseException):
    """Raised in the main thread by the first signal."""


def run_replicated(options: argparse.Namespace, terminal: Terminal) -> int:
    """Serve a project with `options.replicas` processes until a signal, then drain them.

    Raises ManifestError, UsageError, and ReactorError if Ray or the replicas cannot start.
    """
    if options.reload:
        raise UsageError("--reload: works with one process only; leave --replicas out")
    if importlib.util.find_spec("ray") is None:
        raise UsageError("--replicas needs the package ray: pip install 'reactor-trio[ray]'")
    for option in ("token", "open"):
        if getattr(options, option):
            raise UsageError(f"--{option}: works with one process only; leave --replicas out, or use runtime.auth")
    manifest = manifest_of(options, terminal)
    tell_doubts(manifest, terminal.say)
    from reactor_trio.replicas.cluster import Application, joined_cluster, local_cluster
    from reactor_trio.replicas.options import Options

    settings, replicas, gpus, ray = manifest.settings, options.replicas, options.gpus_per_replica, options.ray_address
    options_too = ("record", "tls", "hosts", "origins", "management", "max_sessions", "isolation", "fps")
    runtime = {name: msgspec.to_builtins(getattr(settings, name) or None) for name in options_too}
    deployed = Options(
        path=str(manifest.load_path), overrides=tuple(options.overrides), replicas=replicas, gpus_per_replica=gpus,
        runtime=runtime, host="127.0.0.1" if ray is None else "0.0.0.0",  # nosec B104
        gate_host=settings.host, gate_port=_gate_port(manifest), max_session=settings.drain_notice,
    )  # fmt: skip
    application = Application(manifest.name)
    cluster: AbstractContextManager[str | None] = local_cluster(replicas * gpus) if ray is None else joined_cluster(ray)
    terminal.say(f"starting {replicas} replicas of {manifest.name} ...")
    # `here` is a resource of this machine, so that the gate runs here.
    with cluster as here, handled(dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), Stop(_raise_stop))):
        try:
            application.deploy(msgspec.structs.replace(deployed, gate_resource=here))
            terminal.say(f"{manifest.name} is ready, {replicas} replicas: {where(application.urls(settings))}")
            while True:
                signal.pause()
        except _Stop:
            terminal.say(f"draining {manifest.name}; a second signal ends at once")
        application.take_down()
    return OK


def _raise_stop() -> None:
    raise _Stop


def _gate_port(manifest: Manifest) -> int:
    """Choose the gate's port, which a restarted gate takes again. Raises UsageError if the port is in use."""
    host, port = manifest.settings.host, manifest.settings.port
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
        except OSError as error:
            raise cannot_listen(manifest, error) from error
        return int(probe.getsockname()[1])
