"""A log filter for programs that write their own log: it adds to each line the session that the line belongs to."""

from __future__ import annotations

import logging

from reactor_trio.execution.current_session import current_session

__all__ = ["SessionFilter", "current_session"]


class SessionFilter(logging.Filter):
    """Gives each record a `session`: the id of the session whose code wrote it, or None. It refuses no record.

    Put it on a handler, so that it sees the records of every logger: `handler.addFilter(SessionFilter())`, then
    `%(session)s` in the format. It also marks the lines that the model's author wrote.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Set `record.session`; always True."""
        record.session = current_session()
        return True
