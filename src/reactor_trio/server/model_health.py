"""`ModelHealth`: whether the model's code returns, as `/health`, `/ready` and clients that wait hear of it."""

from __future__ import annotations

from collections.abc import Callable

import trio


class ModelHealth:
    """The author code of one model that has run for too long, on the I/O loop.

    Args:
        name: the model's.
        first_step_timeout: seconds for which a step may outlive its session before the model's first frame; 0: any time.
        stuck_changed: called after `stuck` has changed.

    Attributes:
        stuck: why the model is not free although no session runs, in words; None: it is free.
        has_stepped: whether the model has made a frame since its load. Before, its code may compile.
    """

    def __init__(self, name: str, first_step_timeout: float, stuck_changed: Callable[[], object]) -> None:
        self.stuck: str | None = None
        self.has_stepped = False
        self._name = name
        self._first_step_timeout = first_step_timeout
        self._stuck_changed = stuck_changed
        self._stuck_sessions: dict[str, float] = {}
        self._late_calls: dict[str, tuple[str, float]] = {}

    @property
    def hangs(self) -> bool:
        """Whether `stuck` is a reason to end this process. The first step since the load may compile, and has its time."""
        if self.has_stepped or not self._stuck_sessions:
            return bool(self._stuck_sessions)
        return 0 < self._first_step_timeout <= trio.current_time() - min(self._stuck_sessions.values())

    @property
    def late(self) -> str | None:
        """The author code that runs for long although its client is there, in words. The server serves on meanwhile."""
        for sid, (what, since) in self._late_calls.items():
            return f"{what} for {trio.current_time() - since:.0f} s in session {sid} of {self._name}; the log has its stack"
        return None

    def step_stuck(self, session_id: str, stuck: bool) -> None:
        """See `Telemetry`."""
        self._stuck_sessions.pop(session_id, None)
        if stuck:
            self._stuck_sessions[session_id] = trio.current_time()
        ended = sorted(self._stuck_sessions)
        of = f"session {ended[0]}, which has ended" if len(ended) == 1 else f"sessions {', '.join(ended)}, which have ended"
        first = "" if self.has_stepped else "; it may compile, since the model has made no frame since its load"
        self.stuck = f"a step of {self._name} still computes for {of}{first}" if ended else None
        self._stuck_changed()

    def code_late(self, session_id: str, what: str, since: float) -> None:
        """See `Telemetry.author_code_late`."""
        self._late_calls.pop(session_id, None)
        if what:
            self._late_calls[session_id] = what, since
