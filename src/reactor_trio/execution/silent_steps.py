"""`SilentSteps`: finds a model that yields nothing from its session's beginning on."""

from __future__ import annotations

import logging
from collections.abc import Callable

from reactor_trio.errors import ERRORS_PAGE

log = logging.getLogger("reactor_trio.model")

#: seconds of steps without a frame
PATIENCE = 5.0


class SilentSteps:
    """Watches the steps of one session up to its first frame, and warns once.

    A bare `yield`, whose frame was forgotten, is like `yield Idle`, which says that the model waits on purpose.
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._over = False

    def made_frame(self) -> None:
        """End the watch: the author has yielded a picture once, and knows how."""
        self._over = True

    def idled(self) -> None:
        """Take a step that waits on purpose."""
        self._since = None

    def made_none(self, now: float, location: Callable[[], str]) -> None:
        """Take a step that has yielded None; `location` gives the line of that yield."""
        if self._over:
            return
        if self._since is None:
            self._since = now
        if now - self._since >= PATIENCE:
            self._over = True
            at = location()
            log.warning(
                "inference has yielded None for %.0f s, so nothing is shown: yield a frame, as in `yield frame`, or `yield "
                "Idle` to wait on purpose%s (%s#yields-none)", now - self._since, at and f" (at {at})", ERRORS_PAGE,
            )  # fmt: skip
