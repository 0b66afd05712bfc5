"""Logs Python's warnings: a call that was not awaited is one line that names the author's place and the remedy."""

from __future__ import annotations

import logging
import re
import warnings

from reactor_trio.errors import ERRORS_PAGE

#: how Python words a coroutine that was not awaited; `awaited_call` has named it
_NOT_AWAITED = re.compile(rf"coroutine '(.+) (\({ERRORS_PAGE}#not-awaited\))' was never awaited", re.DOTALL)
_FORMAT = warnings.formatwarning


def log_warnings() -> None:
    """Send Python's warnings of this process to the logger `py.warnings`."""
    logging.captureWarnings(True)
    warnings.formatwarning = _formatted


def _formatted(
    message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
) -> str:
    """Return Python's own text, or the name of the coroutine with its place.

    Python's place is that at which the coroutine was dropped, which is that of the call if nothing has kept the coroutine.
    """
    if (named := _NOT_AWAITED.fullmatch(str(message))) is None:
        return _FORMAT(message, category, filename, lineno, line)
    what, page = named[1], named[2]
    return f"{what} {page}" if " (at " in what else f"{what} (at {filename}:{lineno}) {page}"
