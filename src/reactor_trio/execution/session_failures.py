"""What becomes of what author code raises in one session: it ends the session, or the model, or it is only logged."""

from __future__ import annotations

import logging

import trio

from reactor_trio.concurrency import ModelHost, SessionOver, author_error, strip
from reactor_trio.errors import BufferClosed
from reactor_trio.execution.author_failures import ends_model, without_cancellation
from reactor_trio.lost_part import LOST, ModelPartLost
from reactor_trio.plain_text import sendable

log = logging.getLogger("reactor_trio.model")


class SessionFailures:
    """The exceptions of author code in one session, on the model loop.

    What catches an exception hands it to a method of this class. A variable of the function that called author code would
    keep the exception, whose traceback keeps that function's frame.

    Attributes:
        error: what has ended the session; None if nothing has.
        failed_hook: the hook that raised `error`, as `@connected`; empty if no hook did.
    """

    def __init__(self, session_id: str, host: ModelHost) -> None:
        self.error: BaseException | None = None
        self.failed_hook = ""
        self._raised_unheard = False
        self._session_id = session_id
        self._host = host

    def unheard(self, error: BaseException, message: str, *args: object) -> None:
        """Log an exception that ends no session and reaches no client; the test kit raises it."""
        self._raised_unheard = True
        error = author_error(error)
        self._host.failures.log(log, error, message, *args)
        self._host.observer.unheard(self._session_id, error)

    def took_too_long(self, what: str, seconds: float, so: str = " and was cancelled") -> None:
        """Log that a part of the session's end took over so many seconds, and what follows (`so`)."""
        text = f"{what} took over {seconds:g} s{so}"
        log.error("session %s: %s", self._session_id, text)
        self._host.observer.unheard(self._session_id, trio.TooSlowError(text))

    def could_not_be_cancelled(self, what: str, took: float, seconds: float) -> None:
        """Log that a part of the session's end has taken `took` seconds: it computed, or waited for the author's thread."""
        why = "session %s: %s took %.3g s; after %g s it is cancelled, but it computed, or waited for a handler that did"
        log.warning(why, self._session_id, what, took, seconds)

    def of_making(self, raised: BaseException) -> None:
        """Note what the copying of the model, or the making of the state, has raised."""
        self.error = author_error(raised)

    def of_hook(self, kind: str, raised: BaseException, over: bool) -> None:
        """Note an exception of a hook, without its cancellation; see `ServedPerformer.call_hook`."""
        error = strip(raised, SessionOver, trio.Cancelled, *_endings(over))
        if error is None:
            return
        needed = not over and kind in ("session_started", "connected")
        if self._note(error, needed, f"@{kind} raised"):
            self.failed_hook = f"@{kind}"

    def of_handler(self, command: str, raised: BaseException, over: bool) -> str | None:
        """Log an exception of a handler; returns its text. None if it only says that the session is over."""
        if strip(raised, *_endings(over)) is None:
            return None
        cause, self._raised_unheard = author_error(raised), True
        self._host.failures.log(log, cause, "session %s: the handler of %s raised", self._session_id, command)
        return f"{type(cause).__name__}: {sendable(cause)}"

    def of_driving(self, raised: BaseException, over: bool) -> bool:
        """Note what has ended the driver. True if that is no error, and no cancellation of the session either."""
        error = strip(raised, SessionOver, trio.Cancelled, *_endings(over))
        if error is not None:
            self._note(error, not over, "the model raised after its end")
        return self.error is None and strip(raised, trio.Cancelled) is None and not over

    def of_closing(self, raised: BaseException, over: bool) -> None:
        """Note what the closing of author code has raised."""
        error = strip(raised, GeneratorExit, SessionOver, trio.Cancelled, *_endings(over))
        if error is not None:
            self._note(error, not over, "closing inference() raised")

    def look_for_lost_part(self) -> None:
        """End the model if author code has raised and a part that it needs is lost: later sessions would raise too."""
        raised = self._raised_unheard if self.error is None else not ends_model(self.error)
        if raised and (lost := LOST.what()) is not None:
            cause, self.error = self.error, ModelPartLost(lost)
            self.error.__cause__ = cause

    def outcome(self) -> BaseException | None:
        """What has ended the session. Raises it if it is Ctrl-C in a test."""
        if self.error is not None and self._host.is_interrupt(self.error):
            raise self.error
        return self.error

    def _note(self, error: BaseException, needed: bool, what: str) -> bool:
        """Note an exception; returns whether it is now what ends the session.

        One that ends the model goes before one that ends the session; there it is the first. The others are logged.

        Args:
            needed: whether the session cannot go on without what has raised.
        """
        model = ends_model(error)
        error = author_error(error)
        if not model:
            error = without_cancellation(error)
        before = self.error
        if (model and (before is None or not ends_model(before))) or (needed and before is None):
            self.error, self.failed_hook = error, ""
            if before is not None:
                self.unheard(before, "session %s: the model raised", self._session_id)
            return True
        self.unheard(error, f"session %s: {what}", self._session_id)
        return False


def _endings(over: bool) -> tuple[type[BaseException], ...]:
    """Exceptions by which author code says that the session is over, if it is."""
    return (BufferClosed,) if over else ()
