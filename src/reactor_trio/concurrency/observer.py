"""What the model's side tells whoever watches it: the test kit, and nobody in production."""

from __future__ import annotations

from typing import Any


class ExecutionObserver:
    """Is told by the model loop; this one keeps nothing."""

    def begun(self, session_id: str, model_session: Any) -> None:
        """A session begins, with its side on the model loop."""

    def unheard(self, session_id: str, error: BaseException) -> None:
        """Author code of a session raised what the log has, but no client is told, and what ends no session."""
