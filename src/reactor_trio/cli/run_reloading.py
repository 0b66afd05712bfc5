"""`reactor run --reload`: a supervisor owns the port, runs the server as a child process, and restarts it on file changes.

A new process, rather than a re-import, is certain to release the old code's weights, CUDA contexts and threads. The sockets
outlive each child: every child inherits them, and between two children new connections wait in the sockets' backlog.
Clients get `model_restarting`, and the page then starts a new session. When a child fails, the supervisor does not start
another one until the next change; meanwhile it answers on the port itself, with the reason. A child that ends with code 0
ends the supervisor, too.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, cast

import trio

from reactor_trio.cli.access_token import page_with
from reactor_trio.cli.browser import show_page
from reactor_trio.cli.inherited_sockets import Inherited
from reactor_trio.cli.serving import ALONE, listen, manifest_of, page_urls_of
from reactor_trio.cli.signals import Stop, handled, in_loop
from reactor_trio.cli.terminal import OK, WILL_BE_READY, Terminal, UsageError
from reactor_trio.configuration.manifest import Manifest, project_folder
from reactor_trio.errors import ERRORS_PAGE, ManifestError
from reactor_trio.server.standby import serve_standby

PROGRAM = ("-m", "reactor_trio")
SUFFIXES = (".py", ".yml", ".yaml")
PATIENCE = 10.0  # seconds that the server has to drain before it is killed


def run_reloading(options: argparse.Namespace, terminal: Terminal) -> int:
    """Run the same command as a child process and restart it after each change in the project, until a signal ends it."""
    if importlib.util.find_spec("watchfiles") is None:
        raise UsageError("--reload needs the package watchfiles: pip install 'reactor-trio[reload]'")
    if not project_folder(options.path).is_dir():
        raise UsageError(f"--path: {options.path} is not a folder, nor a file in one")
    trio.run(_Supervisor(options, terminal).run)
    return OK


class _Watch:
    """The stop event of watchfiles. Its thread asks for it from the moment at which it sees changes.

    Attributes:
        on: set when it sees changes.
    """

    def __init__(self) -> None:
        self.on = trio.Event()
        self._over = False
        self._tell = in_loop(self.on.set)

    def is_set(self) -> bool:
        """Whether to stop. Called in the thread of watchfiles, every 50 ms."""
        if not self.on.is_set():
            self._tell()
        return self._over

    def set(self) -> None:
        """Stop."""
        self._over = True


class _Supervisor:
    def __init__(self, options: argparse.Namespace, terminal: Terminal) -> None:
        self._options = options
        self._folder = project_folder(options.path)
        words = (word for word in options.arguments if word not in ("--reload", "--open"))
        self._command = [sys.executable, *PROGRAM, *words]
        self._terminal = terminal
        self._process: trio.Process | None = None
        self._end_signal = signal.SIGUSR1
        self._address: tuple[str, int] | None = None
        self._listeners: list[trio.SocketListener] = []
        self._manifest: Manifest | None = None  # the last one that could be read
        self._until_change = trio.CancelScope()
        self._shown = False

    async def run(self) -> None:
        watch = _Watch()
        async with trio.open_nursery() as nursery:

            def leave() -> None:
                self._end_signal = signal.SIGTERM
                nursery.cancel_scope.cancel()

            stop = Stop(in_loop(leave), self._kill)
            # SIGHUP, too: the child has its own process group, so a closed terminal signals only this process.
            with handled(dict.fromkeys((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), stop)):
                nursery.start_soon(self._watch, watch)
                # An error that is reported right away may also be fixed right away, and that change must not be missed.
                await watch.on.wait()
                try:
                    while True:
                        with trio.CancelScope() as self._until_change:
                            await self._serve(nursery)
                            await trio.sleep_forever()
                finally:
                    watch.set()
                    self._close_sockets()

    async def _serve(self, nursery: trio.Nursery) -> None:
        try:
            manifest = manifest_of(self._options, self._terminal)
            await self._listen(manifest)
            self._show_page(nursery, manifest)
        except (ManifestError, UsageError) as error:
            reason = str(error)
            self._terminal.fail(reason)
            self._terminal.say(f"waiting for a change in {self._folder}")
        else:
            code, reason = await self._run_child()
            if code == OK:
                nursery.cancel_scope.cancel()
                return
            if code < 0 and manifest.settings.isolation != "process":
                name = signal.Signals(-code).name
                self._terminal.say(f"{name} ended it: {ALONE} ({ERRORS_PAGE}#native-crash)")
            self._terminal.say(f"the server ended with code {code}; waiting for a change in {self._folder}")
        if self._listeners and self._manifest is not None:
            await serve_standby(self._listeners, self._manifest.settings, self._manifest.name, reason)

    async def _listen(self, manifest: Manifest) -> None:
        """Open the sockets that the manifest asks for, or keep them if the address is the same. Raises UsageError."""
        self._manifest = manifest
        address = (manifest.settings.host, manifest.settings.port)
        if address == self._address:
            return
        self._close_sockets()
        self._listeners = await listen(manifest)
        self._address = address

    def _show_page(self, nursery: trio.Nursery, manifest: Manifest) -> None:
        """Say once, and open once, what the children do not know: the address with the token that was drawn here."""
        shown, self._shown = self._shown, True
        if shown:
            return
        token = self._options.drawn_token
        for url in page_urls_of(self._listeners, manifest.settings)[:1]:
            self._terminal.say(WILL_BE_READY.format(name=manifest.name, url=page_with(url, token)))
            if self._options.open:
                nursery.start_soon(show_page, page_with(url, token), self._terminal.say)

    async def _run_child(self) -> tuple[int, str]:
        """Run the server until it ends. Returns its exit code and its last error."""
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb", buffering=0) as pipe:
            os.set_blocking(reader, False)
            inherited = Inherited([listener.socket.fileno() for listener in self._listeners], writer)
            # In its own process group the child does not get the terminal's Ctrl-C; this process forwards it once.
            run = partial(
                trio.run_process, self._command, stdin=subprocess.DEVNULL, check=False, process_group=0,
                deliver_cancel=self._end_child, env=inherited.environment(), pass_fds=(*inherited.sockets, writer),
            )  # fmt: skip
            async with trio.open_nursery() as nursery:
                try:
                    self._process = await nursery.start(run)
                finally:
                    os.close(writer)
            _kill_group(self._process)  # what the server has left behind
            said = pipe.read() or b""
        code = self._process.returncode
        assert code is not None
        return code, said.decode(errors="replace") or f"the server ended with code {code}"

    async def _watch(self, watch: _Watch) -> None:
        import watchfiles

        sources = watchfiles.DefaultFilter()

        def wanted(change: watchfiles.Change, path: str) -> bool:
            return path.endswith(SUFFIXES) and sources(change, path)

        async for changed in watchfiles.awatch(self._folder, watch_filter=wanted, stop_event=cast(Any, watch)):
            _, path = min(changed)
            self._terminal.say(f"{Path(path).relative_to(self._folder)} changed, restarting")
            self._until_change.cancel()

    async def _end_child(self, process: trio.Process) -> None:
        """Ask the server to drain, and kill it after `PATIENCE` seconds."""
        process.send_signal(self._end_signal)
        with trio.move_on_after(PATIENCE):
            await process.wait()
        _kill_group(process)

    def _kill(self) -> None:
        if self._process is not None:
            _kill_group(self._process)

    def _close_sockets(self) -> None:
        for listener in self._listeners:
            listener.socket.close()
        self._listeners, self._address = [], None


def _kill_group(process: trio.Process) -> None:
    """Kill what is left of a server and its model's processes. They would keep the GPU's memory, which the next needs."""
    with suppress(ProcessLookupError, PermissionError):  # nothing is left, or nothing of ours
        os.killpg(process.pid, signal.SIGKILL)
