"""Handlers for Ctrl-C, SIGTERM and SIGHUP: the first drains the server, a second Ctrl-C or SIGTERM ends the process at once.

A closing terminal may send SIGHUP twice, once from the kernel and once from the shell, so SIGHUP never counts as the second.

These are plain signal handlers, not `trio.open_signal_receiver`: the second signal must work even if the loop hangs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import trio

__all__ = ["Stop", "hangups_ignored", "on_hangup", "stop_on_signals"]


class Stop:
    """A signal handler that calls `on_first` in the loop's thread, and ends the process at the second signal.

    Until `armed` is set, the first signal also ends the process, with exit code 0: there is nothing to drain yet, and
    `load` cannot be interrupted. `on_second` runs in the handler, before the process ends.
    """

    def __init__(self, on_first: Callable[[], object], on_second: Callable[[], object] | None = None) -> None:
        self.armed = False
        self._on_first = on_first
        self._on_second = on_second
        self._asked = False
        self._token = trio.lowlevel.current_trio_token()

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Handle one signal."""
        if self._asked:
            if signum == signal.SIGHUP:
                return
            if self._on_second is not None:
                self._on_second()
            os._exit(128 + signum)
        if not self.armed:
            os._exit(0)
        self._asked = True
        self._token.run_sync_soon(self._on_first)


def hangups_ignored() -> bool:
    """Return whether this process was started with SIGHUP ignored, as by `nohup`; then SIGHUP must stay ignored."""
    return signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@contextmanager
def on_hangup(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Install `handler` for SIGHUP during this block, unless SIGHUP is ignored."""
    if hangups_ignored():
        yield
        return
    before = signal.signal(signal.SIGHUP, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def stop_on_signals(stop: Stop, *signals: signal.Signals) -> Iterator[None]:
    """Install `stop` as the handler of `signals` during this block."""
    before = {signum: signal.signal(signum, stop) for signum in signals}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
