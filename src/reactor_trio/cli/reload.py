"""`reactor run --reload`: a supervisor that runs the server as a child process and restarts it when a file changes.

A new process and not a re-import: weights, CUDA contexts and threads of the old code are gone for certain. A server
that fails (a syntax error just typed) is not restarted until the next change; one that ends with code 0 ends the
supervisor.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import trio

from reactor_trio.cli.signals import Stop, stop_on_signals
from reactor_trio.cli.terminal import OK, Terminal, UsageError

__all__ = ["run_reloading"]

PROGRAM = ("-m", "reactor_trio")
SUFFIXES = (".py", ".yml", ".yaml")
PATIENCE = 10.0  # seconds for the server to drain before it is killed


def run_reloading(folder: Path, arguments: Sequence[str], terminal: Terminal) -> int:
    """Run `reactor ARGUMENTS` as a child, again after each change in `folder`, until a signal ends it."""
    try:
        import watchfiles  # noqa: F401
    except ImportError:
        raise UsageError("--reload needs the package watchfiles: pip install 'reactor-trio[reload]'") from None
    if not folder.is_dir():
        raise UsageError(f"--path: {folder} is no folder")
    command = [sys.executable, *PROGRAM, *(word for word in arguments if word != "--reload")]
    trio.run(_Supervisor(folder.resolve(), command, terminal).run)
    return OK


class _Supervisor:
    def __init__(self, folder: Path, command: list[str], terminal: Terminal) -> None:
        self._folder = folder
        self._command = command
        self._terminal = terminal
        self._process: trio.Process | None = None

    async def run(self) -> None:
        send_change, receive_change = trio.open_memory_channel[str](0)
        watching_over = trio.Event()
        async with trio.open_nursery() as nursery:
            stop = Stop(nursery.cancel_scope.cancel, self._kill)
            stop.armed = True
            # SIGHUP too: the child has a process group of its own, so that a closed terminal reaches only this process.
            with stop_on_signals(stop, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                nursery.start_soon(self._watch, send_change, watching_over)
                try:
                    while not nursery.cancel_scope.cancel_called:
                        await self._serve_until_change(nursery.cancel_scope, receive_change)
                finally:
                    watching_over.set()

    async def _serve_until_change(self, everything: trio.CancelScope, changes: trio.MemoryReceiveChannel[str]) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._serve, everything)
            changed = await changes.receive()
            self._terminal.say(f"{changed} changed, restarting")
            nursery.cancel_scope.cancel()

    async def _serve(self, everything: trio.CancelScope) -> None:
        async with trio.open_nursery() as nursery:
            self._process = await nursery.start(self._run_child)
        code = self._process.returncode
        if code == OK:
            everything.cancel()
        else:
            self._terminal.say(f"the server ended with code {code}; waiting for a change in {self._folder}")

    async def _run_child(self, task_status: trio.TaskStatus[trio.Process]) -> None:
        # A process group of its own: Ctrl-C on a terminal then reaches only this process, which passes it on once.
        await trio.run_process(
            self._command, stdin=subprocess.DEVNULL, check=False, process_group=0,
            deliver_cancel=_drain, task_status=task_status,
        )  # fmt: skip

    async def _watch(self, changes: trio.MemorySendChannel[str], over: trio.Event) -> None:
        import watchfiles

        class Filter(watchfiles.DefaultFilter):
            def __call__(self, change: watchfiles.Change, path: str) -> bool:
                return path.endswith(SUFFIXES) and super().__call__(change, path)

        async for changed in watchfiles.awatch(self._folder, watch_filter=Filter(), stop_event=over):
            _, path = min(changed)
            await changes.send(str(Path(path).relative_to(self._folder)))

    def _kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()


async def _drain(process: trio.Process) -> None:
    """End the server as a signal would, and by force if it does not drain in time."""
    process.terminate()
    with trio.move_on_after(PATIENCE):
        await process.wait()
        return
    process.kill()
