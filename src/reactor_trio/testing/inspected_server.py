"""A server in memory as a test inspects it: model, sessions, exceptions of author code, leftovers."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import trio
import trio.testing

from reactor_trio.client import Client
from reactor_trio.client.session_view import internals
from reactor_trio.concurrency import ExecutionObserver, ModelHost
from reactor_trio.connection import ServedSession
from reactor_trio.errors import ModelFailed, SessionEnded
from reactor_trio.execution.author_failures import ends_model
from reactor_trio.server.reactor_site import reactor_site
from reactor_trio.server.runtime import Runtime
from reactor_trio.session import Session
from reactor_trio.testing.activity import Mark, done_since, mark
from reactor_trio.testing.memory_exchange import HOST, answer_to, request_to

#: reasons of an end that the model caused
MODEL_FAILURES = ("model_error", "model_restarting")


class Failures(ExecutionObserver):
    """Exceptions of author code that a test has not seen, of all sessions of a server: kept until a block of the kit raises
    them.

    There are two kinds. `unheard` collects exceptions that no client can receive: a hook or the closing of a generator
    raised, or took too long. The others ended a session, and no client of the test has seen that, by an exception or by its
    `ended`.

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

    def forget(self, kept: Collection[str]) -> None:
        """Forget all sessions but those with these ids."""
        self.model_sessions = {name: one for name, one in self.model_sessions.items() if name in kept}
        self._unheard = {name: errors for name, errors in self._unheard.items() if name in kept}
        self._heard &= set(kept)

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


class InspectedServer:
    """A served model, as a test looks at it."""

    def __init__(self, runtime: Runtime, served: list[ServedSession], host: ModelHost) -> None:
        self.runtime = runtime
        #: every session that began, in order
        self.served = served
        #: the exception that ended the model, if one did
        self.failure: ModelFailed | None = None
        self._failure_seen = False
        self._failures = Failures()
        host.observer = self._failures
        self._clients: list[Client] = []
        self._host = host
        self._site = reactor_site(runtime, HOST)

    @property
    def sessions(self) -> list[Session]:
        """Every session that began, in order."""
        return [served.session for served in self.served]

    @property
    def model(self) -> Any:
        """The served model instance."""
        process = self.runtime.placement.process
        return self.runtime.model if process is None else process.loaded

    def http(self, path: str, method: str = "GET", headers: Mapping[str, str] | None = None) -> Any:
        """Return the server's answer to a plain request: status, content_type, body."""
        return answer_to(self._site, request_to(path, method, headers))

    async def drain(self) -> None:
        """Go down as on SIGTERM."""
        await self.runtime.drain()

    async def wait_left(self, client: Client) -> None:
        """Return when the session of `client` is over on the server's side."""
        for session in self.sessions:
            if session.id == client.session_id:
                await session.ended.wait()
        await self.settle()

    async def settle(self) -> None:
        """Return when both loops, the test's and the model's, have nothing more to do at this instant."""
        await trio.testing.wait_all_tasks_blocked()
        await self._host.run(self._host.time.settle, False)

    def model_error(self, ended: SessionEnded, client: Client) -> BaseException | None:
        """Return the author's exception behind a session of `client` that ended with `model_error`."""
        if ended.reason != "model_error":
            return None
        if self.runtime.journal.phase == "failed":
            self._failure_seen = True
        if (failure := self.failure or self.runtime.failure) is not None:
            cause = failure.__cause__
            return failure if cause is None or ends_model(cause) else cause
        return next((session.error for session in self.sessions if session.id == client.session_id), None)

    def check_failures(self, client: Client | None = None) -> None:
        """Raise exceptions of author code that the test has not seen, from this client's session or from all."""
        watched = [one for one in self._clients if internals(one).receiver.protocol.welcome is not None]
        for one in watched:
            receiver = internals(one).receiver
            if receiver.end_raised and receiver.ended in MODEL_FAILURES:
                self._failures.hear(one.session_id)
        sessions = (one for one in self.sessions if client is None or one.id == client.session_id)
        self._failures.check(sessions, {one.session_id for one in watched})

    def forget_past(self) -> None:
        """Forget the sessions that have ended, and all clients: for a test that looks at what is left of them.

        Raises the exceptions of author code that the test has not seen.
        """
        self.check_failures()
        self.served[:] = [served for served in self.served if served.running]
        self._failures.forget({session.id for session in self.sessions})
        self._clients.clear()

    def mark(self, client: Client) -> Mark:
        """Return the counters of the model of this client's session."""
        return mark(self._failures.model_sessions.get(client.session_id), self.runtime.metrics.drops())

    async def done_since(self, before: Mark, client: Client) -> str:
        """Describe what the model of this client's session did since `before`."""
        model_session, drops = self._failures.model_sessions.get(client.session_id), self.runtime.metrics.drops()
        came = {name: track.frames for name, track in client.statistics().tracks.items()}
        return await done_since(before, model_session, drops, self._host, came)

    def leftovers(self) -> list[str]:
        """Describe what past sessions have left behind: nothing, if the runtime has no leak."""
        left = [f"session {one.session.id}: {what}" for one in self.served for what in left_of(one)]
        if (calls := self._host.live_calls - self.runtime.placement.running) > 0:
            left.append(f"{calls} model-side calls still run")
        if clients := self.runtime.session_manager.clients:
            left.append(f"{len(clients)} clients are still connected")
        return left

    async def _watch(self, runtime: Runtime) -> None:
        try:
            await runtime.watch_model()
        except ModelFailed as failure:
            self.failure = failure


def left_of(served: ServedSession) -> list[str]:
    """What is left of a session that should have ended, in words."""
    session, encoders = served.session, served.renditions.leftovers()
    if served.running:
        return ["it has not ended", *encoders]
    queued = f"{len(session.playout)} queued bundles" if len(session.playout) else ""
    files = f"{len(session.uploads)} uploads" if session.uploads else ""
    return [what for what in (queued, files, *encoders) if what]
