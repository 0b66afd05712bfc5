"""`FailureLog`: logs exceptions of author code. The first of a kind gets its traceback, a repetition one line and its count.

A handler may raise 60 times a second, and a step may raise again for each client that reconnects. Two exceptions are of one
kind if they have the same type and the same lines raised them; their texts may differ. The log shows the second to the
tenth, then every tenth, every hundredth and so on, so that it grows with the number of digits of the count.
"""

from __future__ import annotations

import logging
import traceback

from reactor_trio.concurrency.author_tracebacks import author_error, log_author_error
from reactor_trio.plain_text import sendable

#: Number of kinds that are remembered. The oldest is forgotten first; its next exception gets its traceback again.
KINDS = 1000
#: Characters of an exception's text that one line shows.
LONGEST = 300
#: Depth of causes and groups that are compared. It is bounded because an exception may be its own cause.
DEPTH = 8


class FailureLog:
    """Counts and logs the exceptions of one model. For one thread."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def log(self, logger: logging.Logger, error: BaseException, message: str, *args: object) -> None:
        """Log `message % args` at ERROR; of the first `error` of its kind the traceback, from the author's line on."""
        error = author_error(error)
        kind = hash(_kind(error))
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count == 1:
            if len(self._counts) > KINDS:
                del self._counts[next(iter(self._counts))]
            log_author_error(logger, error, message, *args)
        elif count % 10 ** (len(str(count)) - 1) == 0:
            again = " %s: %s (%d times by now; the traceback is logged with the first)"
            logger.error(message + again, *args, type(error).__name__, _first_line(error), count)


def _kind(error: BaseException, depth: int = 0) -> tuple[object, ...]:
    lines = [(frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__)]
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    cause = error.__cause__
    return (
        type(error).__qualname__,
        sendable(lines or error),  # an exception from another process has its lines in its text
        tuple(_kind(each, depth + 1) for each in inner) if depth < DEPTH else (),
        _kind(cause, depth + 1) if cause is not None and depth < DEPTH else (),
    )


def _first_line(error: BaseException) -> str:
    text = sendable(error).strip().partition("\n")[0]
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
