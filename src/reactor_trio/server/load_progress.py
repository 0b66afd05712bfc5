"""`LoadProgress`: how far the load of the model is, by what its author reports (`interface.progress`)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import trio

log = logging.getLogger("reactor_trio.server")

#: Seconds between two lines of the log, and between two messages to clients that wait.
EVERY = 5.0


class LoadProgress:
    """The newest report of the load that runs now, on the I/O loop.

    Args:
        on_report: called with fraction and text of each report.
        tell: called when clients that wait should hear of the progress.

    Attributes:
        fraction: from 0 to 1; None if it is not known.
        text: what is being done; "" if that is not known.
    """

    def __init__(self, on_report: Callable[[float | None, str], object], tell: Callable[[], object]) -> None:
        self.fraction: float | None = None
        self.text = ""
        self._on_report, self._tell = on_report, tell
        self._changed = trio.Event()

    def reset(self) -> None:
        """Forget the reports: a load begins or is over."""
        self.fraction, self.text = None, ""
        self._changed.set()

    def report(self, fraction: float | None, text: str) -> None:
        """Take a report."""
        self.fraction, self.text = fraction, text
        self._on_report(fraction, text)
        self._changed.set()

    def as_json(self) -> dict[str, Any]:
        """Return the value of `progress` in `/health`."""
        return {"fraction": self.fraction, "text": self.text}

    def __str__(self) -> str:
        """Return the progress in words, "" if nothing was reported."""
        shown = [] if self.fraction is None else [f"{self.fraction:.0%}"]
        return ", ".join([*shown, self.text] if self.text else shown)

    async def run(self) -> None:
        """Task: log the reports and send them to the clients that wait, at most every `EVERY` seconds; until cancelled."""
        shown = ""
        while True:
            if (words := str(self)) == shown:
                self._changed = trio.Event()
                await self._changed.wait()
                continue
            shown = words
            if words:
                log.info("loading: %s", words)
                self._tell()
                await trio.sleep(EVERY)
