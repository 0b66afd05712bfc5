"""What author code raised that a test has not heard of: kept until the block raises it.

Two kinds: what no client can be told (a hook or the closing of a generator raised, or took too long), which `unheard`
collects; and what ended a session of which no client of the test has heard, by an exception or by its `ended`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from reactor_trio.concurrency import ExecutionObserver
from reactor_trio.session import Session


class Failures(ExecutionObserver):
    """Of all sessions of one server.

    Attributes:
        halves: the side on the model loop of each session, by its id.
    """

    def __init__(self) -> None:
        self.model_sessions: dict[str, Any] = {}
        self._unheard: dict[str, list[BaseException]] = {}
        self._heard: set[str] = set()

    def begun(self, session_id: str, model_session: Any) -> None:
        """A session begins."""
        self.model_sessions[session_id] = model_session

    def unheard(self, session_id: str, error: BaseException) -> None:
        """Author code raised what no client is told."""
        self._unheard.setdefault(session_id, []).append(error)

    def hear(self, session_id: str) -> None:
        """The test knows that this session was ended by an exception of the model."""
        self._heard.add(session_id)

    def check(self, sessions: Iterable[Session], watched: Collection[str]) -> None:
        """Raise what is new of these: the exception, or several in a group in the order in which they came.

        `watched`: the sessions that clients of the test had; whoever speaks the wire by hand hears of failures there.
        """
        found: list[BaseException] = []
        for session in sessions:
            unheard = self._unheard.pop(session.id, [])
            found += unheard if session.reason != "model_restarting" else []  # that is told
            if session.error is not None and session.id in watched and session.id not in self._heard:
                self.hear(session.id)
                found.append(session.error)
        if len(found) > 1:
            raise BaseExceptionGroup("author code raised what no client was told", found)
        if found:
            raise found[0]
