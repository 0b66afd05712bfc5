"""How a session sees the clients that are attached to it, and the recorder of its commands and messages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from reactor_trio.media import Bundle
from reactor_trio.pacing import EncoderPace
from reactor_trio.protocol import EndReason
from reactor_trio.session.upload_store import StoredUpload


class Flood(Exception):
    """A client has so many unanswered commands that it must be closed."""


class Journal(Protocol):
    """Records what happens in a session besides its frames. No method waits or raises."""

    def commanded(self, name: str, data: bytes, id: int | None, step: int, superseded: bool) -> None:  # noqa: A002
        """Record a command that was applied, as the client sent it (JSON); `step` is the first step that sees it.

        A superseded command is in the group of a newer one of its name; only that one was carried out.
        """

    def refused(self, name: str, data: bytes, id: int | None, code: str, message: str) -> None:  # noqa: A002
        """Record a command that was refused and changed nothing."""

    def told(self, type: str, data: Any, client: int | None) -> None:  # noqa: A002 - the wire's word
        """Record a message of the model to all clients, or to the client with this number."""

    def uploaded(self, upload: StoredUpload) -> None:
        """Record a complete upload."""

    def saved(self, digest: str | None, code: str | None) -> None:
        """Record that the world of the newest save or fork has a file with this digest, or why it has none."""


class Attachment(Protocol):
    """A client attached to a session. Only `wait_free` waits: a slow client drops frames in its own down track.

    Attributes:
        watches: whether the client is connected, and not only expected back.
        follows_worlds: whether the client understands `reactor.moment`.
    """

    number: int
    joined_at: float
    watches: bool
    follows_worlds: bool

    def offer(self, bundle: Bundle, pts: float) -> EncoderPace:
        """Show a bundle now; `pts` in seconds since the session began. Returns the pace of its encoders. Never raises."""

    def say(self, type: str, data: Any, id: int | None = None) -> None:  # noqa: A002 - the wire's words
        """Queue a text message. Never raises."""

    def say_values(self, values: dict[str, Any], sent: Callable[[], object]) -> None:
        """Queue `reactor.state`; call `sent` when it has been written to the socket. Never raises."""

    def end(self, reason: EndReason, message: str = "") -> None:
        """End the session for this client: queue the goodbye and close."""

    async def wait_free(self) -> None:
        """Return when a bundle offered now would replace nothing."""
