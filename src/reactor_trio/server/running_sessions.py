"""The sessions that run, what belongs to each besides the model's part, and by which token one is found."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from weakref import WeakKeyDictionary

import msgspec

from reactor_trio.connection import RenditionSet
from reactor_trio.server.session_recording import SessionRecording
from reactor_trio.session import Session


class RunningSession(msgspec.Struct):
    """How a session is watched.

    Attributes:
        tiers: its encoders.
        share_token: with it another client may watch.
        recording: what will write it to files, None if nothing does; taken off when it runs.
    """

    renditions: RenditionSet
    share_token: str
    recording: SessionRecording | None = None


class RunningSessions:
    """The sessions of one server, in the order in which they began."""

    def __init__(self) -> None:
        self._sessions: dict[str, Session] = {}
        self._stages: WeakKeyDictionary[Session, RunningSession] = WeakKeyDictionary()  # a test kit asks after the end

    def __len__(self) -> int:
        return len(self._sessions)

    def find(self, session_id: str) -> Session | None:
        """The session of this id that runs now."""
        return self._sessions.get(session_id)

    def __iter__(self) -> Iterator[Session]:
        """Over those that run now; they may end meanwhile."""
        return iter(list(self._sessions.values()))

    def begin(self, session: Session, renditions: RenditionSet) -> RunningSession:
        """A session begins; it gets a share token of its own."""
        self._sessions[session.id] = session
        running_session = self._stages[session] = RunningSession(renditions, secrets.token_urlsafe(16))
        return running_session

    def end(self, session: Session) -> None:
        """A session is over; its stage can still be looked at."""
        self._sessions.pop(session.id, None)

    def running_session(self, session: Session) -> RunningSession:
        """How a session is watched."""
        return self._stages[session]

    def to_view(self, token: str | None) -> Session | None:
        """The session that a viewer may watch: the one that its token names, else the one that runs, if one does."""
        if token is None:
            return next(iter(self._sessions.values()), None)
        return self.shared(token)

    def shared(self, token: str) -> Session | None:
        """The session that may be watched with `token`."""
        for session in self._sessions.values():
            if secrets.compare_digest(self._stages[session].share_token.encode(), token.encode()):
                return session
        return None

    def of_upload_token(self, token: str | None) -> Session | None:
        """The session whose client may upload with `token`."""
        given = (token or "").encode()
        for session in self._sessions.values():
            known = None if session.uploads is None else session.uploads.token
            if known is not None and secrets.compare_digest(known.encode(), given):
                return session
        return None
