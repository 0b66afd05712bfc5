"""What a session asks of whoever watches it: a place to put frames and messages, and a way to say that it is over."""

from __future__ import annotations

from typing import Any, Protocol

from reactor_trio.media import Bundle
from reactor_trio.protocol import EndReason


class Flood(Exception):
    """A client left so many commands unanswered that it must be closed."""


class Attachment(Protocol):
    """A client attached to a session. No method waits: a slow client drops frames in its own lane."""

    number: int
    joined_at: float

    def offer(self, bundle: Bundle, pts: float) -> None:
        """A bundle is shown now; `pts` in seconds since the session began. Never raises."""

    def say(self, type: str, data: Any, id: int | None = None) -> None:  # noqa: A002 - the wire's words
        """Queue a text message. Never raises."""

    def end(self, reason: EndReason, message: str = "") -> None:
        """The session is over for this client: say so and close."""

    async def wait_free(self) -> None:
        """Return when a bundle offered now would replace nothing."""
