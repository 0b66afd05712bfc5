"""`progress(fraction, text)`: how far the load of a model is. Author code calls it in `load`, from any thread."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from reactor_trio.interface.context import set_during

#: A report with the text of the one before is dropped if its fraction differs by less: the bar would look the same.
SMALLEST = 0.001
#: Characters of the text; the rest is cut off.
LONGEST = 200


class LoadReports:
    """Passes the reports of one load on to the I/O loop. Of reports that the loop has not seen yet, only the newest counts.

    Args:
        post: queues a call on the I/O loop, from any thread.
        report: called there with fraction and text.
    """

    def __init__(self, post: Callable[..., object], report: Callable[[float | None, str], object]) -> None:
        self._post, self._report = post, report
        self._lock = threading.Lock()
        self._newest: tuple[float | None, str] | None = None
        self._posted = False

    def put(self, fraction: float | None, text: str) -> None:
        """Report; for any thread."""
        with self._lock:
            if self._newest is not None and self._newest[1] == text and _near(self._newest[0], fraction):
                return
            self._newest = fraction, text
            posted, self._posted = self._posted, True
        if not posted:
            self._post(self._deliver)

    def _deliver(self) -> None:
        with self._lock:
            self._posted = False
            assert self._newest is not None
            fraction, text = self._newest
        self._report(fraction, text)


_OWN: ContextVar[LoadReports | None] = ContextVar("reactor_load", default=None)
#: the loads that run in this process
_running: list[LoadReports] = []


def progress(fraction: float | None, text: str = "") -> None:
    """Say how far the load of the model is: in the log, on the terminal, at `/health` and on the viewer page.

    Call it in `load` (in a `VideoModel`: in `__init__`), or in code and threads that these start, as often as you like. Each
    report replaces the one before. Anywhere else it does nothing, so that `load` also works in a test or a notebook.

    Args:
        fraction: from 0 to 1; None while it is not known.
        text: what is being done, in a few words; the first 200 characters are shown, in one line.

    Raises ValueError for a fraction that is not from 0 to 1, and TypeError for one that is not a number or a text that is
    not a str.
    """
    if fraction is not None:
        fraction = _checked(fraction)
    if not isinstance(text, str):
        raise TypeError(f"progress(): the text must be a str, not {type(text).__name__}")
    own = _OWN.get()
    if own is None and len(_running) == 1:
        own = _running[0]  # a plain thread starts without its creator's context
    if own is not None and own in _running:
        own.put(fraction, "".join(one if one.isprintable() else " " for one in " ".join(text.split())[:LONGEST]))


@contextmanager
def reported_load(
    post: Callable[..., object], report: Callable[[float | None, str], object]
) -> Generator[None, None, None]:
    """A block in which model code is loaded; `report` gets what `progress` says there. See `LoadReports`."""
    reports = LoadReports(post, report)
    _running.append(reports)
    try:
        with set_during(_OWN, reports):
            yield
    finally:
        _running.remove(reports)


def _checked(fraction: Any) -> float:
    if isinstance(fraction, str | bytes):
        raise TypeError(f"progress(): the fraction must be a number or None, not {type(fraction).__name__}")
    number = float(fraction)
    if not 0 <= number <= 1:  # NaN, too
        raise ValueError(f"progress(): the fraction must be from 0 to 1, or None if it is not known, not {fraction!r}")
    return number


def _near(before: float | None, now: float | None) -> bool:
    if before is None or now is None:
        return before is now
    return math.fabs(now - before) < SMALLEST and now != 1
