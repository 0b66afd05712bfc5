"""`reactor run`: load a project's model and serve it until a signal or a failure."""

from __future__ import annotations

import argparse
import faulthandler
import logging
import shlex
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import trio

from reactor_trio.cli.log_output import configure_logging, tell_doubts
from reactor_trio.cli.serving import manifest_of
from reactor_trio.cli.terminal import OK, Terminal, UsageError
from reactor_trio.configuration.manifest import MANIFEST_NAME, Manifest, project_folder
from reactor_trio.interpreter import importing, prepare_to_serve

log = logging.getLogger("reactor_trio.server")


def run(options: argparse.Namespace, terminal: Terminal) -> int:
    """Serve a project until it has drained: in this process, or with `--reload` or `--replicas` in others.

    Raises ManifestError, ModelFailed, and UsageError if the address cannot be used.
    """
    if not options.inherited.sockets:  # who reloads has said it
        _say_what_is_not_read(options.path, terminal)
    if options.replicas is not None:
        from reactor_trio.cli.run_replicated import run_replicated

        return run_replicated(options, terminal)
    for option in ("gpus_per_replica", "ray_address"):
        if getattr(options, option):
            raise UsageError(f"--{option.replace('_', '-')}: give --replicas, too")
    if options.reload:
        from reactor_trio.cli.run_reloading import run_reloading

        return run_reloading(options, terminal)
    manifest = manifest_of(options, terminal)
    serve_here(
        manifest, terminal, json_logs=options.json_logs, debug=options.debug, sockets=options.inherited.sockets,
        token=options.drawn_token, in_browser=options.open,
    )  # fmt: skip
    return OK


def _say_what_is_not_read(place: Path, terminal: Terminal) -> None:
    """Whoever wrote a `reactor.yaml` with `auth` in it believes that the server asks for a token."""
    folder = project_folder(place)
    if not place.is_dir() and (folder / MANIFEST_NAME).is_file():
        named = "" if folder == Path.cwd() else f" {shlex.quote(str(place.parent))}"
        terminal.say(
            f"{MANIFEST_NAME} beside {place.name} is not read, nor is its auth; to serve with it: reactor run{named}"
        )


def serve_here(
    manifest: Manifest,
    terminal: Terminal,
    *,
    json_logs: bool | None,
    debug: bool,
    sockets: Sequence[int] = (),
    token: str | None = None,
    in_browser: bool = False,
) -> None:
    """Serve a model in this process, which is set up for that, until it has drained. See `configure_logging`, `LocalServer`.

    Raises ManifestError, ModelFailed, and UsageError if the address cannot be used.
    """
    configure_logging(manifest, as_json=json_logs, debug=debug, before_line=terminal.erase_live)
    for key in manifest.unused:
        log.warning(
            "%s: %s has no effect here; docs/reference/model/migration.md names what replaces it", MANIFEST_NAME, key
        )
    tell_doubts(manifest, log.warning)
    prepare_to_serve()
    with suppress(RuntimeError, OSError, ValueError):  # without a standard error
        faulthandler.enable()  # if model code crashes the process, its stack is printed
    with importing():
        from reactor_trio.cli.local_server import LocalServer

    trio.run(LocalServer(manifest, terminal, debug=debug, sockets=sockets, token=token, in_browser=in_browser).run)
