"""Exceptions of author code that a test has not seen: kept until a block of the kit raises them.

There are two kinds. `unheard` collects exceptions that no client can receive: a hook or the closing of a generator raised,
or took too long. The others ended a session, and no client of the test has seen that, by an exception or by its `ended`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from reactor_trio.concurrency import ExecutionObserver
from reactor_trio.session import Session


class Failures(ExecutionObserver):
    """The unseen exceptions of all sessions of one server.

    Attributes:
        model_sessions: the model's side of each session, by session id.
    """

    def __init__(self) -> None:
        self.model_sessions: dict[str, Any] = {}
        self._unheard: dict[str, list[BaseException]] = {}
        self._heard: set[str] = set()

    def begun(self, session_id: str, model_session: Any) -> None:
        """A session begins."""
        self.model_sessions[session_id] = model_session

    def unheard(self, session_id: str, error: BaseException) -> None:
        """Author code raised an exception that no client receives."""
        self._unheard.setdefault(session_id, []).append(error)

    def hear(self, session_id: str) -> None:
        """The test has seen that an exception of the model ended this session."""
        self._heard.add(session_id)

    def check(self, sessions: Iterable[Session], watched: Collection[str]) -> None:
        """Raise the new exceptions of these sessions: the only one, or several in a group in the order of their sessions.

        `watched`: the sessions with a client of the kit. A test that speaks the wire by hand sees failures there.
        """
        found: list[BaseException] = []
        for session in sessions:
            unheard = self._unheard.pop(session.id, [])
            found += unheard if session.reason != "model_restarting" else []  # its clients get that reason
            if session.error is not None and session.id in watched and session.id not in self._heard:
                self.hear(session.id)
                found.append(session.error)
        if len(found) > 1:
            raise BaseExceptionGroup("author code raised what no client was told", found)
        if found:
            raise found[0]
