"""Commands that have arrived and are not yet applied, in order, with what supersedes what.

Consecutive `set_<field>` of one field share one place: only the last counts, and all are answered with it. Of the pending
commands of a `dedupe` event from one client the newest runs, at the place of the first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from reactor_trio.interface.declaration import Sharing
from reactor_trio.interface.files import UploadedFile


class Command(msgspec.Struct, frozen=True):
    """A validated command, as plain data for the way between the loops.

    `number` counts the session's commands; `at` is when it arrived, in `trio.current_time()` seconds. `data` holds the
    arguments as the client sent them, JSON, and `files` those that they name, by the id of their upload.
    """

    number: int
    client: int
    name: str
    arguments: dict[str, Any]
    id: int | None
    at: float = 0.0
    data: bytes = b""
    files: dict[str, UploadedFile] = msgspec.field(default_factory=dict)


@dataclass(slots=True)
class QueuedCommand:
    """One place in the order: the command that counts, and the numbers of all that are answered with it."""

    command: Command
    numbers: list[int] = field(default_factory=list)


class CommandQueue:
    """The pending commands of one session. `sharing` says how commands of a name share a place."""

    def __init__(self, sharing: Callable[[str], Sharing]) -> None:
        self._sharing = sharing
        self._places: deque[QueuedCommand] = deque()

    def __len__(self) -> int:
        return len(self._places)

    def add(self, command: Command) -> None:
        """A command has arrived."""
        place = self._shared_place(command)
        if place is None:
            self._places.append(QueuedCommand(command, [command.number]))
        else:
            place.command = command
            place.numbers.append(command.number)

    def take(self) -> QueuedCommand | None:
        """The next to apply."""
        return self._places.popleft() if self._places else None

    def _shared_place(self, command: Command) -> QueuedCommand | None:
        sharing = self._sharing(command.name)
        if sharing == "none":
            return None
        candidates = list(self._places) if sharing == "anywhere" else list(self._places)[-1:]
        key = (command.name, command.client)
        return next((p for p in candidates if (p.command.name, p.command.client) == key), None)
