"""`reactor run --replicas`: run a gate and several servers of one model on Ray until a signal.

This process starts Ray and the application, then waits; no client and no frame passes through it. A Ray that it started on
this machine ends with it, however it ends.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import socket
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import FrameType

import msgspec

from reactor_trio.cli.run_command import cannot_listen, manifest_of, where
from reactor_trio.cli.signals import hangups_ignored
from reactor_trio.cli.terminal import OK, Terminal, UsageError
from reactor_trio.configuration.manifest import Manifest

__all__ = ["run_replicated"]


class _Stop(BaseException):
    """Raised in the main thread by the first signal."""


def run_replicated(
    path: Path,
    terminal: Terminal,
    *,
    replicas: int,
    gpus_per_replica: float = 0.0,
    ray_address: str | None = None,
    host: str | None = None,
    port: int | None = None,
    record: Path | None = None,
    overrides: Sequence[str] = (),
    certfile: Path | None = None,
    keyfile: Path | None = None,
    hosts: Sequence[str] = (),
    origins: Sequence[str] = (),
) -> int:
    """Serve the project in `path` with `replicas` processes until a signal, then drain them.

    Raises ManifestError, UsageError, and ReactorError if Ray or the replicas cannot start.
    """
    if importlib.util.find_spec("ray") is None:
        raise UsageError("--replicas needs the package ray: pip install 'reactor-trio[ray]'")
    manifest = manifest_of(
        path, overrides, host, port, record, certfile=certfile, keyfile=keyfile, hosts=hosts, origins=origins
    )
    from reactor_trio.replicas.cluster import Application, joined_cluster, local_cluster
    from reactor_trio.replicas.options import Options

    settings = manifest.settings
    laid = {
        "record": settings.record, "tls": None if settings.tls is None else msgspec.to_builtins(settings.tls),
        "hosts": list(settings.hosts) or None, "origins": list(settings.origins) or None,
    }  # fmt: skip
    options = Options(
        path=str(manifest.path), overrides=tuple(overrides), replicas=replicas, gpus_per_replica=gpus_per_replica,
        runtime={name: value for name, value in laid.items() if value is not None},
        host="127.0.0.1" if ray_address is None else "0.0.0.0",  # nosec B104
        gate_host=settings.host, gate_port=_free_port(manifest), max_session=settings.drain_notice,
    )  # fmt: skip
    application = Application(manifest.name)
    cluster: AbstractContextManager[str | None]
    cluster = local_cluster(replicas * gpus_per_replica) if ray_address is None else joined_cluster(ray_address)
    terminal.say(f"starting {replicas} replicas of {manifest.name} ...")
    with cluster as here:  # a resource of this machine, so that the gate runs here
        stop = _StopOnSignals()
        try:
            with stop:
                application.deploy(msgspec.structs.replace(options, gate_resource=here))
                terminal.say(f"{manifest.name} is ready, {replicas} replicas: {where(application.urls(settings))}")
                while True:
                    signal.pause()
        except _Stop:
            terminal.say(f"draining {manifest.name}; a second signal ends at once")
        with stop:
            application.take_down()
    return OK


class _StopOnSignals:
    """A reusable block in which the first SIGINT, SIGTERM or SIGHUP raises `_Stop`; a second SIGINT or SIGTERM exits."""

    def __init__(self) -> None:
        self._asked = False

    def __enter__(self) -> None:
        numbers = [signal.SIGINT, signal.SIGTERM, *([] if hangups_ignored() else [signal.SIGHUP])]
        self._before = {number: signal.signal(number, self) for number in numbers}

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        if self._asked:
            if number == signal.SIGHUP:  # a closed terminal may send it twice
                return
            os._exit(128 + number)
        self._asked = True
        raise _Stop


def _free_port(manifest: Manifest) -> int:
    """Choose the gate's port, which a restarted gate takes again. Raises UsageError if the port is in use."""
    host, port = manifest.settings.host, manifest.settings.port
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
        except OSError as error:
            raise UsageError(cannot_listen(manifest, error)) from error
        return int(probe.getsockname()[1])
