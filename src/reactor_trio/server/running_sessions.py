"""The sessions that run now, with what viewers of each one share, and the tokens by which clients find them."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from weakref import WeakKeyDictionary

import msgspec

from reactor_trio.connection import RenditionSet
from reactor_trio.server.session_recording import SessionRecording
from reactor_trio.session import Session


class RunningSession(msgspec.Struct):
    """What the viewers of one session share.

    Attributes:
        renditions: its encoders.
        share_token: lets another client watch the session.
        recording: writes the session to files, None if it is not recorded. Removed when the session runs.
    """

    renditions: RenditionSet
    share_token: str
    recording: SessionRecording | None = None


class RunningSessions:
    """The sessions of one server, in the order in which they began."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._stages: WeakKeyDictionary[Session, RunningSession] = WeakKeyDictionary()  # the test kit reads it after the end

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, session_id: str) -> Session | None:
        """Return the session with this id if it runs now."""
        return self._sessions.get(session_id)

    def __iter__(self) -> Iterator[Session]:
        """Iterate over a copy: sessions may end meanwhile."""
        return iter(list(self._sessions.values()))

    def begin(self, session: Session, renditions: RenditionSet) -> RunningSession:
        """Register a session that begins, with a share token of its own."""
        self._sessions[session.id] = session
        running_session = self._stages[session] = RunningSession(renditions, secrets.token_urlsafe(16))
        return running_session

    def end(self, session: Session) -> None:
        """Remove a session that is over; `running_session` still returns its record."""
        self._sessions.pop(session.id, None)

    def running_session(self, session: Session) -> RunningSession:
        """Return the record of a session."""
        return self._stages[session]

    def to_view(self, token: str | None) -> Session | None:
        """Return the session that a viewer may watch: the one of its token, or without a token the oldest that runs."""
        if token is None:
            return next(iter(self._sessions.values()), None)
        return self.shared(token)

    def shared(self, token: str) -> Session | None:
        """Return the session with this share token."""
        for session in self._sessions.values():
            if secrets.compare_digest(self._stages[session].share_token.encode(), token.encode()):
                return session
        return None

    def of_upload_token(self, token: str | None) -> Session | None:
        """Return the session with this upload token."""
        given = (token or "").encode()
        for session in self._sessions.values():
            known = None if session.uploads is None else session.uploads.token
            if known is not None and secrets.compare_digest(known.encode(), given):
                return session
        return None
