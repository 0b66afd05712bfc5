"""Handlers for Ctrl-C, SIGTERM and SIGHUP: the first drains the server, a second Ctrl-C or SIGTERM ends the process at once.

A closing terminal may send SIGHUP twice, once from the kernel and once from the shell, so SIGHUP never counts as the second.

These are plain signal handlers, not `trio.open_signal_receiver`: the second signal must work even if the loop hangs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import trio


@dataclass(eq=False)
class Stop:
    """A signal handler that calls `on_first` for the first signal, and ends the process for the second.

    Until `armed` is set, the first signal also ends the process, with exit code 0: there is nothing to drain yet, and
    `load` cannot be interrupted. `on_second` runs before the second signal ends the process.
    """

    on_first: Callable[[], object]
    on_second: Callable[[], object] = lambda: None
    armed: bool = True
    _called: bool = False

    def __call__(self, signum: int, _frame: FrameType | None) -> None:
        """Handle one signal."""
        if self._called:
            if signum != signal.SIGHUP:
                self.on_second()
                os._exit(128 + signum)
        elif not self.armed:
            os._exit(0)
        else:
            self._called = True
            self.on_first()


def in_loop(function: Callable[[], object]) -> Callable[..., None]:
    """Return a signal handler that makes the current Trio loop call `function`, as soon as the loop gets to it."""
    token = trio.lowlevel.current_trio_token()
    return lambda *_: token.run_sync_soon(function)


@contextmanager
def handled(handlers: Mapping[signal.Signals, Callable[[int, FrameType | None], object]]) -> Iterator[None]:
    """Install signal handlers during this block. An ignored SIGHUP, as under `nohup`, stays ignored."""
    ignored = {signal.SIGHUP} if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else set()
    before = {number: signal.signal(number, handlers[number]) for number in handlers.keys() - ignored}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
