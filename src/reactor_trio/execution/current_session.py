"""Which session the running code works for, on either loop: for log lines and for author code.

The tasks of a connection share one `Served`. It is filled in when the session is known: the tasks that read and write the
socket begin before that. Context variables carry it to the model's side of the session, to author code, and to the worker
threads and tasks that author code starts with Trio. Code of a `run()` loop outlives sessions; it works for the session that
it last saw (`session_binding`).
"""

from __future__ import annotations

import logging
from contextvars import ContextVar

from reactor_trio.execution.session_binding import SEEN_SESSION


class Served:
    """Which session a connection belongs to, None until it has one."""

    session_id: str | None = None


_SERVED: ContextVar[Served | None] = ContextVar("reactor_served", default=None)


def serve_connection() -> Served:
    """Make a `Served` for the connection that the code of this context works for from now on."""
    served = Served()
    _SERVED.set(served)
    return served


def current_session() -> str | None:
    """The id of the session that the calling code works for; None if it works for none, or if that is not known.

    It is known in hooks, handlers, `inference()`, `run()` once it has seen a client, `start_session()`, and in tasks and
    threads that these start with Trio. A plain `threading.Thread` starts without context variables; give it
    `contextvars.copy_context().run` as its target.
    """
    session = SEEN_SESSION.get()
    if session is not None:
        return session.session_id
    served = _SERVED.get()
    return None if served is None else served.session_id


class SessionFilter(logging.Filter):
    """Gives each record a `session`: the id of the session whose code wrote it, or None. It refuses no record.

    Put it on a handler, so that it sees the records of every logger: `handler.addFilter(SessionFilter())`, then
    `%(session)s` in the format. It also marks the lines that the model's author wrote.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Set `record.session`; always True."""
        record.session = current_session()
        return True
