"""Exceptions of author code in the log: the first of its kind whole, those that repeat it in one line with their count.

A handler that raises may do so 60 times a second, and a step that raises does so again for each client that comes back. Of
one kind are exceptions of one type that were raised by the same lines; what their text says may differ. The second to the
tenth are logged, then each tenth, each hundredth and so on, so that the log grows with the number of digits of the count.
"""

from __future__ import annotations

import logging
import traceback

#: Kinds that are remembered; of more the oldest is forgotten, and its next exception is logged whole again.
KINDS = 1000
#: Characters of an exception's text in one line.
LONGEST = 300
#: Causes of causes, and groups in groups, that are looked at; an exception may be its own cause.
DEPTH = 8


class FailureLog:
    """Counts the exceptions of one model. Used by one thread."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def log(self, logger: logging.Logger, error: BaseException, message: str, *args: object) -> None:
        """Log at ERROR that `message % args` raised `error`, with its traceback if it is the first of its kind."""
        kind = hash(_kind(error))
        count = self._counts[kind] = self._counts.get(kind, 0) + 1
        if count == 1:
            if len(self._counts) > KINDS:
                del self._counts[next(iter(self._counts))]
            logger.error(message, *args, exc_info=error)
        elif count % 10 ** (len(str(count)) - 1) == 0:
            again = " %s: %s (%d times by now; the traceback is logged with the first)"
            logger.error(message + again, *args, type(error).__name__, _first_line(error), count)


def _kind(error: BaseException, depth: int = 0) -> tuple[object, ...]:
    lines = [(frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__)]
    inner = error.exceptions if isinstance(error, BaseExceptionGroup) else ()
    cause = error.__cause__
    return (
        type(error).__qualname__,
        str(lines or error),  # one that was raised in another process has its lines as text
        tuple(_kind(each, depth + 1) for each in inner) if depth < DEPTH else (),
        _kind(cause, depth + 1) if cause is not None and depth < DEPTH else (),
    )


def _first_line(error: BaseException) -> str:
    text = str(error).strip().partition("\n")[0]
    return text if len(text) <= LONGEST else text[:LONGEST] + "..."
