"""For programs that write their own log: which session a line belongs to, also a line that the model's author wrote."""

from __future__ import annotations

import logging

from reactor_trio.execution.current_session import current_session

__all__ = ["SessionFilter", "current_session"]


class SessionFilter(logging.Filter):
    """Gives each record a `session`: the id of the session whose code wrote it, else None. Refuses nothing.

    Put it on a handler, so that it sees the records of every logger: `handler.addFilter(SessionFilter())`, then
    `%(session)s` in the format.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """True, always."""
        record.session = current_session()
        return True
