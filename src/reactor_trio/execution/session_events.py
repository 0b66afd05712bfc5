"""What a session hears from its model's side, wherever that is."""

from __future__ import annotations

from typing import Any, Final, Protocol

import msgspec

#: Name of the command that is no client's: a file is complete. No event can have it.
FILE_UPLOADED: Final = "file_uploaded"


class Answer(msgspec.Struct, frozen=True):
    """What became of a command: applied, to be seen first by step `step`, or refused with `code`.

    `values`: the settings that have another value since, as JSON; see `StateWatch`.
    """

    numbers: tuple[int, ...]
    step: int
    reply: Any = None
    code: str | None = None
    message: str = ""
    values: dict[str, bytes] = msgspec.field(default_factory=dict)


class SessionEvents(Protocol):
    """The other half, on the I/O loop; each method is heard from the mailbox and must not raise."""

    def answered(self, answer: Answer) -> None:
        """Commands were applied or refused."""

    def tell(self, type: str, data: Any, client: int | None) -> None:  # noqa: A002 - the wire's words
        """A message for every client, or for one."""

    def state_changed(self, values: dict[str, bytes]) -> None:
        """Settings have other values, as JSON; see `StateWatch`."""
