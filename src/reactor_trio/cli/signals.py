"""Ctrl-C, SIGTERM and SIGHUP: the first asks the server to drain, a second Ctrl-C or SIGTERM ends the process at once.

A terminal that closes may send SIGHUP twice, once from the kernel and once from the shell, so it never counts as the second.

Plain signal handlers and not `trio.open_signal_receiver`: the second signal must work when the loop does not.
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
    """What the signals do. `on_first` runs in the loop's thread as soon as the loop gets to it.

    Until `armed` is set there is nothing to drain, and model code that loads weights cannot be interrupted from
    outside, so that the first signal too ends the process, with exit code 0.
    """

    def __init__(self, on_first: Callable[[], object], on_second: Callable[[], object] | None = None) -> None:
        self.armed = False
        self._on_first = on_first
        self._on_second = on_second
        self._asked = False
        self._token = trio.lowlevel.current_trio_token()

    def __call__(self, signum: int, frame: FrameType | None) -> None:
        """Take one signal."""
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
    """Return whether this process was started with SIGHUP ignored, as `nohup` does; then it has to stay ignored."""
    return signal.getsignal(signal.SIGHUP) is signal.SIG_IGN


@contextmanager
def on_hangup(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Call `handler` on SIGHUP inside this block, unless SIGHUP is ignored."""
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
    """Hand `signals` to `stop` inside this block; the former handlers come back after it."""
    before = {signum: signal.signal(signum, stop) for signum in signals}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
