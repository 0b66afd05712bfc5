"""`ExecutionObserver`: what the model loop reports to the test kit. In production nothing listens."""

from __future__ import annotations

from typing import Any


class ExecutionObserver:
    """Receives reports on the model loop. This base class ignores them."""

    def begun(self, session_id: str, model_session: Any) -> None:
        """Called when a session begins. `model_session` is its `SessionRunner`."""

    def unheard(self, session_id: str, error: BaseException) -> None:
        """Called when author code raised an exception that is only logged: it reaches no client and ends no session."""
