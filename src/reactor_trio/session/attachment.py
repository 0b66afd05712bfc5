"""What a session asks of whoever watches it: a place to put frames and messages, and a way to say that it is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from reactor_trio.media import Bundle
from reactor_trio.protocol import EndReason
from reactor_trio.session.upload_store import Upload


class Flood(Exception):
    """A client left so many commands unanswered that it must be closed."""


class Journal(Protocol):
    """Is told what happens in a session besides its frames. No method waits or raises."""

    def commanded(self, name: str, data: bytes, id: int | None, step: int, superseded: bool) -> None:  # noqa: A002
        """A command, as the client sent it (JSON), was applied; `step` is the first that sees it.

        A superseded one shares the place of a newer one of its name, and only that was carried out.
        """

    def refused(self, name: str, data: bytes, id: int | None, code: str, message: str) -> None:  # noqa: A002
        """A command was refused and changed nothing."""

    def told(self, type: str, data: Any, client: int | None) -> None:  # noqa: A002 - the wire's word
        """The model said something to all clients, or to the one of this number."""

    def uploaded(self, upload: Upload) -> None:
        """A client's file has come."""


class Attachment(Protocol):
    """A client attached to a session. No method waits: a slow client drops frames in its own lane.

    Attributes:
        watches: whether somebody is there to see it.
    """

    number: int
    joined_at: float
    watches: bool

    def offer(self, bundle: Bundle, pts: float) -> bool | None:
        """A bundle is shown now; `pts` in seconds since the session began. Never raises.

        Returns whether it replaced one that waited for nothing but its encoder. None: it replaced one that this client's
        link held up, or the client takes no pictures.
        """

    def say(self, type: str, data: Any, id: int | None = None) -> None:  # noqa: A002 - the wire's words
        """Queue a text message. Never raises."""

    def say_values(self, values: dict[str, Any], sent: Callable[[], object]) -> None:
        """Queue `reactor.state`; `sent` is called when it has left. Never raises."""

    def end(self, reason: EndReason, message: str = "") -> None:
        """The session is over for this client: say so and close."""

    async def wait_free(self) -> None:
        """Return when a bundle offered now would replace nothing."""
