"""`reactor render` and `reactor replay`: run a model without clients, to a film, to pictures, or to compare its frames."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import trio

from reactor_trio.cli.log_output import configure_logging
from reactor_trio.cli.signals import Stop, stop_on_signals
from reactor_trio.cli.terminal import FAILED, OK, Terminal, UsageError, leaves
from reactor_trio.configuration.manifest import load_manifest
from reactor_trio.errors import DeclarationError, ManifestError, ModelFailed, ReactorError
from reactor_trio.offline import RenderedBundle, Rendering, Verification, read_recording, write
from reactor_trio.offline import render as rendering_of
from reactor_trio.offline import replay as replay_of

__all__ = ["render", "replay"]

#: Exit code after Ctrl-C ended the work early.
INTERRUPTED = 130


def render(
    path: Path,
    out: Path,
    terminal: Terminal,
    *,
    script: Path | None = None,
    frames: int | None = None,
    seconds: float | None = None,
    fps: float | None = None,
    overrides: Sequence[str] = (),
    uploads: Path | None = None,
    debug: bool = False,
) -> int:
    """Render the project in `path` to `out` and return the exit code. Raises ManifestError, ModelFailed, UsageError."""
    manifest = load_manifest(path, overrides)
    configure_logging(manifest.name, as_json=None, debug=debug)
    folder = uploads or (None if script is None else script.absolute().parent)
    opened = rendering_of(manifest, script=script, frames=frames, seconds=seconds, fps=fps, uploads=folder)
    work = _Work(terminal, out)
    interrupted = _run(work, lambda: opened)
    return INTERRUPTED if interrupted and (frames is not None or seconds is not None) else OK


def replay(
    recording: Path,
    path: Path,
    terminal: Terminal,
    *,
    verify: bool = False,
    out: Path | None = None,
    frames: int | None = None,
    overrides: Sequence[str] = (),
    uploads: Path | None = None,
    debug: bool = False,
) -> int:
    """Run a recorded session's commands through the project in `path`. Returns the exit code, 1 if a frame differs.

    Raises ManifestError, ModelFailed, UsageError.
    """
    manifest = load_manifest(path, overrides)
    configure_logging(manifest.name, as_json=None, debug=debug)
    try:
        known = read_recording(recording)
    except ReactorError as error:
        raise UsageError(str(error)) from error
    verification = Verification(known, known.bundles if frames is None else frames)
    if verify and not known.verifiable:
        raise UsageError(f"{verification}; replay it without --verify")

    @asynccontextmanager
    async def opened() -> Any:
        async with replay_of(known, manifest, uploads=uploads, frames=frames) as replaying:
            for warning in replaying.warnings:
                terminal.fail(f"warning: {warning}")
            yield replaying.rendering

    work = _Work(terminal, out, verification.compare if verify else None)
    if _run(work, opened):
        return INTERRUPTED
    if not verify:
        return OK
    verification.close()
    if verification.equal:
        terminal.say(str(verification))
        return OK
    terminal.fail(f"{recording}: {verification}")
    return FAILED


class _Work:
    """One rendering in progress. It shows its progress on a terminal and prints a summary at the end."""

    def __init__(
        self, terminal: Terminal, out: Path | None, on_bundle: Callable[[RenderedBundle], object] | None = None
    ) -> None:
        self.made = 0
        self._terminal = terminal
        self._out = out
        self._on_bundle = on_bundle
        self._rendering: Rendering | None = None
        self.interrupted = False

    async def run(self, open_rendering: Callable[[], AbstractAsyncContextManager[Rendering]]) -> None:
        stop = Stop(self._interrupt)
        stop.armed = True
        with stop_on_signals(stop, signal.SIGINT, signal.SIGTERM):
            async with open_rendering() as self._rendering, trio.open_nursery() as nursery:
                if self._terminal.interactive:
                    nursery.start_soon(self._tell)
                summary = await write(self._rendering, self._out, on_bundle=self._take)
                nursery.cancel_scope.cancel()
        self._terminal.say(str(summary) + ("; stopped" if self.interrupted else ""))
        if (left := self._rendering.commands_left) and not self.interrupted:
            were = "was" if left == 1 else "were"
            self._terminal.fail(f"warning: the film ended before {left} of the script's commands {were} due")

    def what_is_there(self) -> str:
        """Name the frames that a failed rendering has already written, as the rest of an error line."""
        return f"; {self._out} has the {self.made} frames before that" if self._out is not None and self.made else ""

    def _take(self, bundle: RenderedBundle) -> None:
        if self._on_bundle is not None:
            self._on_bundle(bundle)
        self.made += 1

    async def _tell(self) -> None:
        while True:
            await trio.sleep(0.5)
            self._terminal.live(f"{self.made} frames")

    def _interrupt(self) -> None:
        if self._rendering is None:  # load() cannot be interrupted, and no file exists yet
            os._exit(INTERRUPTED)
        self.interrupted = True
        self._rendering.stop()


def _run(work: _Work, open_rendering: Callable[[], AbstractAsyncContextManager[Rendering]]) -> bool:
    """Do the work; return whether a signal ended it. Errors become ones that `Terminal.explain` can tell in one line."""
    try:
        trio.run(partial(work.run, open_rendering))
    except (Exception, BaseExceptionGroup) as error:
        for leaf in leaves(error):
            if isinstance(leaf, ManifestError | DeclarationError | UsageError):
                raise
            if isinstance(leaf, ModelFailed):
                failure = ModelFailed(f"{leaf}{work.what_is_there()}")
                raise failure from leaf.__cause__
            if isinstance(leaf, ReactorError):
                raise UsageError(f"{leaf}{work.what_is_there()}") from error
        raise
    return work.interrupted
