"""`reactor render` and `reactor replay`: run a model without clients, to a film, to pictures, or to compare its frames."""

from __future__ import annotations

import argparse
import logging
import os
import signal
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from reactor_trio.cli import INTERRUPTED
from reactor_trio.cli.log_output import configure_logging, tell_doubts
from reactor_trio.cli.signals import Stop, handled, in_loop
from reactor_trio.cli.terminal import FAILED, OK, Terminal, UsageError, leaves
from reactor_trio.configuration.manifest import Manifest, load_manifest
from reactor_trio.errors import DeclarationError, ManifestError, ModelFailed, ReactorError
from reactor_trio.offline import RenderedBundle, Rendering, Verification, read_recording, write
from reactor_trio.offline import render as open_rendering
from reactor_trio.offline import replay as open_replay

log = logging.getLogger("reactor_trio.server")


def render(options: argparse.Namespace, terminal: Terminal) -> int:
    """Render a project to `options.out` and return the exit code. Raises ManifestError, ModelFailed, UsageError."""
    manifest = _manifest_of(options)
    uploads = options.uploads or (None if options.script is None else options.script.absolute().parent)
    limits = {"frames": options.frames, "seconds": options.seconds}
    opening = open_rendering(manifest, script=options.script, fps=options.fps, uploads=uploads, **limits)
    interrupted = _Work(terminal, options.out).run(opening)
    return INTERRUPTED if interrupted and any(limit is not None for limit in limits.values()) else OK


def replay(options: argparse.Namespace, terminal: Terminal) -> int:
    """Run a recorded session's commands through a project. Returns the exit code, 1 if a frame differs.

    Raises ManifestError, ModelFailed, UsageError.
    """
    manifest = _manifest_of(options)
    try:
        recording = read_recording(options.recording)
    except ReactorError as error:
        raise UsageError(str(error)) from error
    verification = Verification(recording, recording.bundles if options.frames is None else options.frames)
    if options.verify and not recording.verifiable:
        raise UsageError(f"{verification}; replay it without --verify")

    @asynccontextmanager
    async def opening() -> Any:
        given = {"uploads": options.uploads, "worlds": options.worlds, "frames": options.frames}
        async with open_replay(recording, manifest, **given) as replaying:
            for warning in replaying.warnings:
                terminal.fail(f"warning: {warning}")
            yield replaying.rendering

    if _Work(terminal, options.out, verification.compare if options.verify else None).run(opening()):
        return INTERRUPTED
    if not options.verify:
        return OK
    verification.close()
    if verification.equal:
        terminal.say(str(verification))
        return OK
    terminal.fail(f"{options.recording}: {verification}")
    return FAILED


def _manifest_of(options: argparse.Namespace) -> Manifest:
    manifest = load_manifest(options.path, options.overrides)
    configure_logging(manifest, as_json=None, debug=options.debug)
    tell_doubts(manifest, log.warning)
    return manifest


class _Work:
    """One rendering in progress. It shows its progress on a terminal and prints a summary at the end."""

    def __init__(
        self, terminal: Terminal, out: Path | None, on_bundle: Callable[[RenderedBundle], object] | None = None
    ) -> None:
        self._terminal = terminal
        self._out = out
        self._on_bundle = on_bundle
        self._rendering: Rendering | None = None
        self._frames = 0
        self._interrupted = False

    def run(self, opening: AbstractAsyncContextManager[Rendering]) -> bool:
        """Do the work; return whether a signal ended it. Errors become ones that `Terminal.explain` can tell in one line."""
        try:
            trio.run(self._render, opening)
        except (Exception, BaseExceptionGroup) as error:
            written = f"; {self._out} has the {self._frames} frames before that" if self._out and self._frames else ""
            for leaf in leaves(error):
                if isinstance(leaf, ManifestError | DeclarationError | UsageError):
                    raise
                if isinstance(leaf, ModelFailed):
                    raise ModelFailed(f"{leaf}{written}") from leaf.__cause__
                if isinstance(leaf, ReactorError):
                    raise UsageError(f"{leaf}{written}") from error
            raise
        return self._interrupted

    async def _render(self, opening: AbstractAsyncContextManager[Rendering]) -> None:
        with handled(dict.fromkeys((signal.SIGINT, signal.SIGTERM), Stop(in_loop(self._interrupt)))):
            async with opening as self._rendering, trio.open_nursery() as nursery:
                if self._terminal.interactive:
                    nursery.start_soon(self._show_progress)
                summary = await write(self._rendering, self._out, on_bundle=self._count)
                nursery.cancel_scope.cancel()
        self._terminal.say(str(summary) + ("; stopped" if self._interrupted else ""))
        if (left := self._rendering.commands_left) and not self._interrupted:
            were = "was" if left == 1 else "were"
            self._terminal.fail(f"warning: the film ended before {left} of the script's commands {were} due")

    def _count(self, bundle: RenderedBundle) -> None:
        if self._on_bundle is not None:
            self._on_bundle(bundle)
        self._frames += 1

    async def _show_progress(self) -> None:
        while True:
            await trio.sleep(0.5)
            self._terminal.live(f"{self._frames} frames")

    def _interrupt(self) -> None:
        if self._rendering is None:  # load() cannot be interrupted, and no file exists yet
            os._exit(INTERRUPTED)
        self._interrupted = True
        self._rendering.stop()
