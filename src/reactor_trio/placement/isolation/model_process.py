"""A process for the model: start it, notice its end, end it with a grace time, and put its log records into our log.

Model code may start processes of its own, such as the workers of a data loader. The model's process leads a process group,
and the runtime kills what is left of that group when the model's process has ended, however it ended.
"""

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
from contextlib import ExitStack, suppress
from typing import Protocol

import trio

from reactor_trio.crossing.socket_link import Handle, IpcLink, SocketLink
from reactor_trio.execution.current_session import serve_connection
from reactor_trio.memory.shared_mapping import SharedMapping, new_shared_mapping
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.isolation.isolated_worker import Given
from reactor_trio.placement.isolation.shared_clock import ahead

MAIN = "reactor_trio.placement.isolation.process_main"
#: seconds that a process has to let go of its model after `StopModelProcess`
GRACE_PERIOD = 2.0
#: seconds for which the last messages of a process that has ended are received
LAST_MESSAGES = 0.1
#: bytes of the traceback of a process that has died
_LONGEST = 64 * 1024


class ModelProcess(Protocol):
    """A process that runs `isolated_worker.work`, or several processes that are one to the server.

    Attributes:
        link: leads to it.
        memory: the frames of the two processes lie there.
    """

    link: IpcLink
    memory: SharedMapping

    def pack(self, given: Given) -> bytes:
        """Make config, settings and weights fit for a message."""

    def kill(self) -> None:
        """Kill the process at once."""

    async def receive(self, handle: Handle) -> None:
        """Give each message of the process to `handle`; return when the process is gone."""

    async def end(self, handle: Handle = ...) -> None:
        """Give the last messages of the process, which got `StopModelProcess`, to `handle`, and return when it has ended.

        It is killed after `GRACE_PERIOD` seconds.
        """

    def exit(self) -> str:
        """How the process ended, as the rest of a sentence that begins with `its process`."""

    def last_words(self) -> str:
        """The traceback that it wrote as it died of an exception or a crash; empty without one. After `end`."""

    def silent(self) -> str:
        """Name those of several processes that have not answered the newest ping, and a blank; empty for a single one."""


class OneProcess(ModelProcess, Protocol):
    """A single process."""

    async def gone(self) -> None:
        """Return when the process has ended, for whatever reason."""


#: starts so many processes, which then are one to the server
OpenProcess = Callable[[int], Awaitable[ModelProcess]]


async def receive_to_end(
    process: OneProcess, handle: Handle, ended: Callable[[], object] = lambda: None
) -> None:
    """Give each message of a process to `handle`, and return when the process is gone; `ended` is called when it ends.

    The kernel reports the death of a process in less than a millisecond. The end of its socket is no such report: what the
    model's code has started may hold the socket open for as long as it likes.
    """

    async def gone() -> None:
        await process.gone()
        ended()
        nursery.cancel_scope.deadline = trio.current_time() + LAST_MESSAGES

    async with trio.open_nursery() as nursery:
        nursery.start_soon(gone)
        await process.link.receive(handle)
        ended()
        nursery.cancel_scope.cancel()


class Subprocess:
    """A process of this machine. Its creator must call `end`, which frees it. Raises OSError if it cannot be started.

    Args:
        memory: see `ModelProcess`.
        inherited: file descriptors that it inherits besides that of its link and of the file for its last words; their
            numbers are its further arguments. They stay open here, too.
        module: the module that it runs.
        environment: None: that of this process.
    """

    def __init__(
        self,
        memory: SharedMapping,
        inherited: Sequence[int],
        module: str = MAIN,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.memory = memory
        self._last_words = ""
        with ExitStack() as undo:  # of a start that fails
            ours, theirs = socket.socketpair()
            undo.callback(ours.close)
            with theirs:
                self._words = os.memfd_create("reactor-last-words", os.MFD_CLOEXEC)
                undo.callback(os.close, self._words)
                given = [theirs.fileno(), self._words, *inherited]
                numbers = [str(theirs.fileno()), repr(ahead()), str(self._words), *map(str, inherited)]
                # This thread must live as long as the process, which is killed when the thread that started it ends.
                self._popen = subprocess.Popen(  # nosec B603
                    [sys.executable, "-P", "-m", module, *numbers],
                    pass_fds=given, stdin=subprocess.DEVNULL, env=environment, process_group=0,
                )  # fmt: skip
            undo.callback(self._popen.wait)
            undo.callback(self._popen.kill)
            self._ended = os.pidfd_open(self._popen.pid)
            undo.pop_all()
        self.link: IpcLink = SocketLink(ours, ipc_messages.FromProcess)

    def pack(self, given: Given) -> bytes:
        """Pickle config, settings and files."""
        return pickle.dumps(given)

    def kill(self) -> None:
        """Kill the process at once."""
        self._popen.kill()

    async def receive(self, handle: Handle) -> None:
        """Give each message to `handle`; return when the process is gone."""
        await receive_to_end(self, handle)

    async def gone(self) -> None:
        """Return when the process has ended, for whatever reason."""
        await trio.lowlevel.wait_readable(self._ended)

    async def end(self, handle: Handle = lambda _message, _session: None) -> None:
        """Return when the process has ended, killed if it takes longer than `GRACE_PERIOD`; free what belongs to it."""
        with trio.move_on_after(GRACE_PERIOD):
            await self.receive(handle)
            await self.gone()  # the link may end before the process
        self._popen.kill()  # no effect on a process that has ended
        await self.gone()
        with suppress(ProcessLookupError, PermissionError):  # nothing is left, or nothing of ours
            os.killpg(self._popen.pid, signal.SIGKILL)  # of no other group: the number is not free before the next line
        self._popen.wait()
        os.close(self._ended)
        self._last_words = os.pread(self._words, _LONGEST, 0).decode(errors="replace").rstrip()
        os.close(self._words)

    def exit(self) -> str:
        """Say with which exit code or signal it ended."""
        code = self._popen.returncode
        if code is None:
            return "is still running"
        if code >= 0:
            return f"ended with exit code {code}"
        try:
            return f"was ended by {signal.Signals(-code).name}"
        except ValueError:
            return f"was ended by signal {-code}"

    def last_words(self) -> str:
        """The traceback that it wrote as it died; empty without one."""
        return self._last_words

    def silent(self) -> str:
        """Nothing to name: the process is alone."""
        return ""


def open_alone() -> Subprocess:
    """Start the only process of a model. Raises OSError if it cannot be started."""
    with new_shared_mapping("reactor-frames") as (memory, frames):
        return Subprocess(memory, [frames])


def forward_log(line: ipc_messages.LogLine) -> None:
    """Log a record of the model's process in this process, as a line of the same session."""
    logger = logging.getLogger(line.logger)
    if not logger.isEnabledFor(line.level):
        return

    def handle() -> None:
        serve_connection().session_id = line.session
        error = None if line.failure is None else line.failure.error()
        exc_info = None if error is None else (type(error), error, error.__traceback__)
        record = logger.makeRecord(line.logger, line.level, "", 0, line.message, (), exc_info)
        record.__dict__ |= {key: value for key, value in line.extra.items() if key not in record.__dict__}
        logger.handle(record)

    contextvars.Context().run(handle)
