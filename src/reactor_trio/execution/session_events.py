"""What the model's side of a session reports to the session on the I/O loop: answers, messages, changed settings."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

#: Name of the command that the runtime itself makes when an upload is complete. No event can have this name.
FILE_UPLOADED: Final = "file_uploaded"


class Answer(msgspec.Struct, frozen=True):
    """The answer to commands that share a place.

    Attributes:
        numbers: the numbers of the commands.
        step: the first step that sees them, if they were applied.
        reply: of the handler, as plain JSON data.
        code, message: why they were refused; `code` is None if they were applied.
        values: the settings that have changed since, as JSON; see `StateWatch`.
    """

    numbers: tuple[int, ...]
    step: int
    reply: Any = None
    code: str | None = None
    message: str = ""
    values: dict[str, bytes] = msgspec.field(default_factory=dict)


class SessionEvents(Protocol):
    """The session as its model's side sees it. The mailbox calls these methods on the I/O loop; they must not raise."""

    def answered(self, answer: Answer) -> None:
        """Answer commands that were applied or refused."""

    def tell(self, type: str, data: Any, client: int | None) -> None:  # noqa: A002 - the wire's words
        """Send a message of the model to every client, or to one."""

    def state_changed(self, values: dict[str, bytes]) -> None:
        """Take over changed settings, as JSON; see `StateWatch`."""
