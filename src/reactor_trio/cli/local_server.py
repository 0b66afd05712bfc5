"""The server that `reactor run` runs in its own process."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import trio

from reactor_trio.cli.access_token import page_with, whose_token
from reactor_trio.cli.browser import show_page
from reactor_trio.cli.log_output import route_structlog
from reactor_trio.cli.serving import ALONE, listen, page_urls_of, where
from reactor_trio.cli.signals import Stop, handled, in_loop
from reactor_trio.cli.terminal import OK, Terminal
from reactor_trio.concurrency.bounded_prints import bounded_prints
from reactor_trio.configuration.manifest import Manifest
from reactor_trio.interpreter import settle
from reactor_trio.server.lock_watch import POSSIBLE, LockWatch, limits, running
from reactor_trio.server.serve import Serving, serve
from reactor_trio.server.watchdog import Watchdog

log = logging.getLogger("reactor_trio.server")

class LocalServer:
    """The server in this process, from the load of the model until it has drained.

    Under `--reload` it inherits the listening sockets. SIGUSR1 then asks it to drain for its successor; the clients' session
    ends with `model_restarting`.

    Args:
        sockets: file descriptors of the inherited sockets.
        token: one that was drawn, which the terminal shows.
        in_browser: whether to open the page.
    """

    def __init__(
        self,
        manifest: Manifest,
        terminal: Terminal,
        *,
        debug: bool = False,
        sockets: Sequence[int] = (),
        token: str | None = None,
        in_browser: bool = False,
    ) -> None:
        if sockets:  # under --reload a restart must not wait for sessions to end
            manifest = replace(manifest, settings=msgspec.structs.replace(manifest.settings, drain_notice=0.0))
        settings = manifest.settings
        self._manifest = manifest
        self._terminal = terminal
        self._debug = debug or bool(sockets)  # who reloads a model develops it, and wants to see its exceptions
        self._inherited = sockets
        self._token, self._in_browser = token, in_browser
        self._watchdog: Watchdog | None = None
        if settings.watchdog:
            self._watchdog = Watchdog(settings.watchdog, open_lock_watch=self._watch_lock, running=self._running)
        self._serving: Serving | None = None
        self._renewal_asked = False

    async def run(self) -> None:
        """Serve until a signal or a failure."""
        stop = Stop(in_loop(self._drain_for_good), armed=False)
        if self._inherited:
            signal.signal(signal.SIGUSR1, in_loop(self._drain_for_successor))
        # SIGHUP renews the certificates of a service. A closed terminal sends it, too, so a server on a terminal drains.
        renews = self._manifest.settings.tls is not None and not os.isatty(0)
        on_hangup = in_loop(self._renew_certificates) if renews else stop
        handlers = {signal.SIGINT: stop, signal.SIGTERM: stop, signal.SIGHUP: on_hangup}
        with bounded_prints(before_line=self._terminal.erase_live), handled(handlers):
            async with trio.open_nursery() as nursery:
                if self._watchdog is not None:
                    nursery.start_soon(self._watchdog.run)
                self._serving = await self._load(nursery)
                if self._watchdog is not None:
                    self._watchdog.say_running()  # before a client's first step can keep the lock
                stop.armed = True
                if self._renewal_asked:  # SIGHUP came during the load, perhaps after the files were read
                    self._renew_certificates()
                await self._announce(self._serving)

    def _watch_lock(self) -> LockWatch | None:
        return LockWatch(limits(self._manifest.settings), signals=True) if POSSIBLE else None

    def _running(self) -> int:
        return running(None if self._serving is None else self._serving.runtime.facts)

    async def _load(self, nursery: trio.Nursery) -> Serving:
        listeners = await self._listen()
        urls = page_urls_of(listeners, self._manifest.settings)
        if self._in_browser and urls:
            nursery.start_soon(show_page, page_with(urls[0], self._token), self._terminal.say)
        shown = page_with(urls[0], self._token) if urls and not self._inherited else ""  # who reloads has said it
        async with self._terminal.loading(self._manifest.name, shown):
            serving: Serving = await nursery.start(self._serve, nursery.cancel_scope, listeners)
        return serving

    async def _listen(self) -> list[trio.SocketListener]:
        if self._inherited:
            sockets = [trio.socket.from_stdlib_socket(socket.socket(fileno=each)) for each in self._inherited]
            return [trio.SocketListener(each) for each in sockets]
        return await listen(self._manifest)

    async def _serve(
        self,
        everything: trio.CancelScope,
        listeners: Sequence[trio.SocketListener],
        task_status: trio.TaskStatus[Serving],
    ) -> None:
        await serve(
            self._manifest, debug=self._debug, listeners=listeners, on_phase=self._on_phase,
            on_progress=self._terminal.progress, task_status=task_status,
        )  # fmt: skip
        everything.cancel()

    async def _announce(self, serving: Serving) -> None:
        urls = [page_with(url, self._token) for url in serving.urls]
        self._terminal.say(f"{self._manifest.name} is ready: {where(urls)}")
        if self._terminal.interactive and self._token is None and (whose := whose_token(self._manifest.settings)):
            self._terminal.say(whose)
        route_structlog()  # a library may have imported it
        preparation = serving.runtime.preparation
        await preparation.tried.wait()
        encoders = ", ".join(f"{codec} ({by})" for codec, by in preparation.encoders.items())
        self._terminal.say(f"encoders: {encoders}")
        await preparation.at_rest.wait()
        settle()

    def _on_phase(self, phase: str) -> None:
        if phase == "failed" and self._serving is not None and self._manifest.settings.isolation != "process":
            log.warning("%s", ALONE)
        if phase == "drained" and self._watchdog is not None:
            why = f"a step of {self._manifest.name} does not end; abandoning it"
            self._watchdog.expect_exit(self._manifest.settings.stuck_after, why)

    def _drain_for_good(self) -> None:
        assert self._serving is not None  # until then the signals end the process
        sessions, seconds = len(self._serving.runtime.sessions), self._manifest.settings.drain_notice
        may_go_on = f", {sessions} session{'s' if sessions > 1 else ''} may go on for {seconds:g} s"
        notice = may_go_on if sessions and seconds else ""
        self._terminal.say(f"draining {self._manifest.name}{notice}; a second signal ends at once")
        self._serving.runtime.begin_drain()

    def _drain_for_successor(self) -> None:
        if self._serving is None:  # load() cannot be interrupted
            os._exit(OK)
        self._serving.runtime.begin_drain("model_restarting")

    def _renew_certificates(self) -> None:
        if self._serving is None:
            self._renewal_asked = True
        elif self._serving.certificates is not None:
            self._serving.certificates.renew()
