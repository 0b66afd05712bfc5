"""Which session the running code works for, on either loop, so that what is said of it can say so too.

The tasks of a connection share one `Served`, which is filled in when its session is known: those that read and write its
socket begin before that. Context variables carry it to the session's half on the model loop, to author code, and to the
worker threads and tasks that either starts with Trio. Code of a `run()` loop outlives sessions; for it counts the one that
it last saw (`binding`).
"""

from __future__ import annotations

from contextvars import ContextVar

from reactor_trio.execution.session_binding import observed_runner


class Served:
    """Which session a connection belongs to, None until it has one."""

    session_id: str | None = None


_SERVED: ContextVar[Served | None] = ContextVar("reactor_served", default=None)


def serve_connection() -> Served:
    """Code that runs in this context from now on works for the connection whose session the result is told."""
    served = Served()
    _SERVED.set(served)
    return served


def current_session() -> str | None:
    """The id of the session that the calling code works for, None if for none, or if that is not known.

    Known: in hooks, handlers, `inference()`, `run()` once it has seen a client, `start_session()`, and in tasks and threads
    that these start with Trio. A plain `threading.Thread` starts without context variables; give it
    `contextvars.copy_context().run` as its target.
    """
    runner = observed_runner()
    if runner is not None:
        return runner.session_id
    served = _SERVED.get()
    return None if served is None else served.session_id
