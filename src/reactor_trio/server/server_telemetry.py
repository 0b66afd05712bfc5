"""The telemetry of one server: its counters, the traces of its commands, and what `/health` says of author code."""

from __future__ import annotations

from collections.abc import Callable

import trio

from reactor_trio.server.server_metrics import Metrics, ModelState
from reactor_trio.server.tracing import Tracing
from reactor_trio.session import Session
from reactor_trio.telemetry import CommandRecord, SentFrame


class ServerTelemetry(Metrics):
    """Counts what sessions and connections report, traces their commands and watches for author code that does not return.

    Args:
        name: the model's.
        state: returns the state of the model now.
        tracing: makes spans of commands; None: the server traces nothing.
        stuck_changed: called after `stuck` has changed.

    Attributes:
        stuck: why the model is not free although no session runs, in words; None: it is free.
    """

    def __init__(
        self, name: str, state: Callable[[], ModelState], tracing: Tracing | None, stuck_changed: Callable[[], object]
    ) -> None:
        super().__init__(name, state)
        self.stuck: str | None = None
        self.tracing = tracing
        self._stuck_changed = stuck_changed
        self._stuck_sessions: set[str] = set()
        self._late_calls: dict[str, tuple[str, float]] = {}

    @property
    def late(self) -> str | None:
        """The author code that runs for long although its client is there, in words. The server serves on meanwhile."""
        for sid, (what, since) in self._late_calls.items():
            return f"{what} for {trio.current_time() - since:.0f} s in session {sid} of {self._name}; the log has its stack"
        return None

    def session_over(self, session: Session) -> None:
        """A session has ended."""
        assert session.reason is not None
        self.session_ended(session.reason, trio.current_time() - session.began)
        if self.tracing is not None:
            self.tracing.session_over(session.controller)

    def commanded(self, command: CommandRecord) -> None:
        """See `Telemetry`."""
        super().commanded(command)
        if self.tracing is not None:
            self.tracing.commanded(command)

    def pictured(self, client: int, frame: SentFrame) -> None:
        """See `Telemetry`."""
        if self.tracing is not None:
            self.tracing.pictured(client, frame)

    def author_code_late(self, session_id: str, what: str, since: float) -> None:
        """See `Telemetry`."""
        self._late_calls.pop(session_id, None)
        if what:
            self._late_calls[session_id] = what, since

    def step_stuck(self, session_id: str, stuck: bool) -> None:
        """See `Telemetry`."""
        (self._stuck_sessions.add if stuck else self._stuck_sessions.discard)(session_id)
        ended = sorted(self._stuck_sessions)
        of = f"session {ended[0]}, which has ended" if len(ended) == 1 else f"sessions {', '.join(ended)}, which have ended"
        self.stuck = f"a step of {self._name} still computes for {of}" if ended else None
        self._stuck_changed()
