"""Ends a process in which no Python code can run any more, because C code of a model holds the interpreter's lock.

Then neither the watchdog's thread nor a handler of a signal runs. So another process watches (`lock_watcher`): each beat of
the watchdog's thread is a byte to it, and so is each signal, which Python's C code writes. To end this process it sends two
signals whose handlers are C functions: one writes the stacks (`faulthandler`), the other is `_exit`, since a process that is
the first of its container cannot be killed from within.

`_exit` as a handler gets the number of its signal, so that is the exit code: `EXIT_CODE`, and not the watchdog's.
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import socket
import subprocess  # nosec B404 - a file of ours in the same interpreter
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

from reactor_trio.configuration.settings import Settings
from reactor_trio.server import lock_watcher
from reactor_trio.server.server_facts import ServerFacts

#: whether this system has what the watching needs: signals of no other meaning, and states of processes
POSSIBLE = sys.platform == "linux"
_DUMP, _END = 64, 63
#: exit code of a process that was ended because C code held the interpreter's lock
EXIT_CODE = _END

#: what may keep the lock: a load, a step, or the first step since the load, which may compile
LOAD, STEP, FIRST_STEP = range(3)


def limits(settings: Settings) -> list[float]:
    """Return for how many seconds LOAD, STEP and FIRST_STEP may keep the lock; 0 means no limit.

    The process that watches counts from the last beat, which came up to a quarter of `watchdog` before the step began. So a
    limit is longer than the time that a step may take.
    """
    steps = settings.step_timeout, settings.first_step_timeout
    return [0.0, *(seconds and seconds + settings.watchdog for seconds in steps)]


def running(facts: ServerFacts | None) -> int:
    """Return what may run now. Any thread may call this."""
    if facts is None or facts.phase in ("loading", "failed"):
        return LOAD
    return STEP if facts.health.has_stepped else FIRST_STEP


#: our ends of the sockets to the watching processes. A forked child closes its copies: its signals are not meant
#: for the server
_OPEN: list[socket.socket] = []


def _leave_to_parent() -> None:
    if _OPEN:
        signal.set_wakeup_fd(-1)
        while _OPEN:
            _OPEN.pop().close()


os.register_at_fork(after_in_child=_leave_to_parent)


class LockWatch:
    """The process that watches this one. Make it where it may watch signals, in the main thread.

    Args:
        seconds: those of `limits`.
        signals: whether a second SIGINT or SIGTERM must also end the process. This takes the place of `set_wakeup_fd`.
    """

    def __init__(self, seconds: Sequence[float], *, signals: bool = False) -> None:
        faulthandler.register(_DUMP, all_threads=True)
        libc = ctypes.CDLL(None)
        libc.signal(_END, ctypes.cast(libc._exit, ctypes.c_void_p))
        self._ours, theirs = socket.socketpair()
        self._ours.setblocking(False)
        _OPEN.append(self._ours)
        with theirs:
            arguments = (os.getpid(), _DUMP, _END, *seconds)
            self._process = subprocess.Popen(  # nosec B603
                [sys.executable, "-I", "-S", lock_watcher.__file__, *map(str, arguments)],
                stdin=theirs.fileno(), stdout=subprocess.DEVNULL, process_group=0,
            )  # fmt: skip
        self._before = None
        if signals and threading.current_thread() is threading.main_thread():
            # The loop that had it notices signals by its ticks.
            self._before = signal.set_wakeup_fd(self._ours.fileno(), warn_on_full_buffer=False)

    def beat(self, what: int) -> None:
        """Report that Python code runs, and what may keep the lock until the next beat. Any thread may call this."""
        with suppress(OSError):  # the watching process has ended, or is stopped
            self._ours.send(bytes([lock_watcher.BEAT + what]))

    def close(self) -> None:
        """End the watching process. In the thread that made this."""
        if self._before is not None:
            signal.set_wakeup_fd(self._before)
        with suppress(OSError):
            self._ours.shutdown(socket.SHUT_RDWR)  # a forked child of the model may hold it open
        self._ours.close()
        _OPEN.remove(self._ours)
        self._process.wait()
