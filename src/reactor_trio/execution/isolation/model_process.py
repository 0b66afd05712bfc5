"""A process for the model: started anew each time, ended with grace, and its log lines in this process's log."""

from __future__ import annotations

import contextvars
import logging
import os
import pickle  # nosec B403 - this process writes it
import signal
import socket
import subprocess  # nosec B404 - of this very interpreter, with arguments of our own
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import trio

from reactor_trio.errors import ManifestError
from reactor_trio.execution.current_session import serve_connection
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.isolated_worker import Given
from reactor_trio.execution.isolation.process_link import Link, SocketLink
from reactor_trio.execution.isolation.remote_failure import error_of
from reactor_trio.execution.isolation.shared_clock import ahead

#: seconds that a process has to let go of its model when it is told to
GRACE = 2.0


class ModelProcess(Protocol):
    """A process that runs `isolation.worker`.

    Attributes:
        link: the way to it.
        path: where it shall look for modules.
    """

    link: Link
    path: list[str]

    def pack(self, given: Given) -> bytes:
        """What is loaded and how, on its way to that process."""

    def kill(self) -> None:
        """End it at once."""

    async def end(self) -> None:
        """Return when it has ended, which it was told; after `GRACE` seconds it is killed."""

    def exit(self) -> str:
        """How it ended, as the rest of a sentence that begins with `its process`."""

    def silent(self) -> str:
        """Which of its processes has not answered the last ping, in words; empty where there is but one."""


#: Starts a process, or the processes of so many ranks.
OpenProcess = Callable[[int], Awaitable[ModelProcess]]


class Subprocess:
    """A real one.

    Args:
        module: what it runs.
        descriptors: which it gets, besides that of its link; they stay this process's, too.
        arguments: of the module, after the two that each such has.
        environment: instead of this process's.
        heard: a union of the words that it may say.
    """

    def __init__(
        self,
        module: str = "reactor_trio.execution.isolation.process_main",
        *,
        descriptors: Sequence[int] = (),
        arguments: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
        heard: Any = ipc_messages.FromModel,
    ) -> None:
        ours, theirs = socket.socketpair()
        command = [sys.executable, "-P", "-m", module, str(theirs.fileno()), repr(ahead()), *arguments]
        with theirs:
            # From this thread, which must live as long as the process: it is killed when the thread that began it ends.
            self._popen = subprocess.Popen(  # nosec B603
                command, pass_fds=[theirs.fileno(), *descriptors], stdin=subprocess.DEVNULL, env=environment
            )
        self._ended = os.pidfd_open(self._popen.pid)
        self.link: Link = SocketLink(ours, heard)
        self.path = list(sys.path)

    @property
    def pid(self) -> int:
        """Its number."""
        return self._popen.pid

    def pack(self, given: Given) -> bytes:
        """See `ModelProcess`."""
        return pickle.dumps(given)

    def kill(self) -> None:
        """See `ModelProcess`."""
        self._popen.kill()

    async def gone(self) -> None:
        """Return when it has ended, however that came."""
        await trio.lowlevel.wait_readable(self._ended)

    async def end(self) -> None:
        """See `ModelProcess`."""
        with trio.move_on_after(GRACE) as grace:
            await trio.lowlevel.wait_readable(self._ended)
        if grace.cancelled_caught:
            self._popen.kill()
            await trio.lowlevel.wait_readable(self._ended)
        self._popen.wait()
        os.close(self._ended)

    def exit(self) -> str:
        """See `ModelProcess`."""
        code = self._popen.returncode
        if code is None:
            return "is going"
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"

    def silent(self) -> str:
        """See `ModelProcess`."""
        return ""


async def open_subprocess(_ranks: int = 1) -> Subprocess:
    """Start one. Raises ManifestError where the system has not what it takes."""
    await trio.lowlevel.checkpoint()
    if not hasattr(os, "memfd_create") or not hasattr(os, "pidfd_open"):
        raise ManifestError("runtime.isolation: process needs Linux; leave the key out")
    return Subprocess()


def forward_log(line: ipc_messages.Logged) -> None:
    """Log here what was logged there, as a line of the same session."""
    logger = logging.getLogger(line.logger)
    if not logger.isEnabledFor(line.level):
        return

    def handle() -> None:
        serve_connection().session_id = line.session
        error = None if line.failure is None else error_of(line.failure)
        exc_info = None if error is None else (type(error), error, None)
        record = logger.makeRecord(line.logger, line.level, "", 0, line.message, (), exc_info)
        record.__dict__ |= {key: value for key, value in line.extra.items() if key not in record.__dict__}
        logger.handle(record)

    contextvars.Context().run(handle)
