"""Which session the running code works for, on either loop: for log lines and for author code.

The tasks of a connection share one `Served`. It is filled in when the session is known: the tasks that read and write the
socket begin before that. Context variables carry it to the model's side of the session, to author code, and to the worker
threads and tasks that author code starts with Trio. Code of a `run()` loop outlives sessions; it works for the session that
it last saw (`session_binding`).
"""

from __future__ import annotations

from contextvars import ContextVar

from reactor_trio.execution.session_binding import observed_runner


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
    runner = observed_runner()
    if runner is not None:
        return runner.session_id
    served = _SERVED.get()
    return None if served is None else served.session_id
