"""Commands that have reached the model loop and are not yet applied."""

from __future__ import annotations

from typing import Any

import msgspec

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.interface.files import UploadedFile


class Command(msgspec.Struct, frozen=True):
    """A valid command of a client, from its arrival to its answer, on both loops.

    Attributes:
        number: counts the session's commands from 1.
        client: number of the client.
        arguments: validated and decoded.
        id: the client's own id, for the acknowledgement; None if it wants none.
        at: when the command arrived, in `trio.current_time()` seconds.
        data: the arguments as the client sent them, JSON.
        files: the uploaded files that the arguments name, by the id of their upload.
        place: the command's place in the order. Commands with the same place supersede each other: only the newest is
            carried out, and all are answered with it. `CommandLedger` chooses it.
        traceparent: the trace that the client says the command is part of.
    """

    number: int
    client: int
    name: str
    arguments: dict[str, Any]
    id: int | None
    at: float = 0.0
    data: bytes = b""
    files: dict[str, UploadedFile] = msgspec.field(default_factory=dict)
    place: int = 0
    traceparent: str | None = None


class CommandQueue:
    """The pending commands of one session, in the order of their places; `wakeup` is set when a command arrives."""

    def __init__(self, wakeup: RepeatedEvent) -> None:
        self._wakeup = wakeup
        self._places: dict[int, list[Command]] = {}

    def __len__(self) -> int:
        return len(self._places)

    def add(self, command: Command) -> None:
        """Put a command behind the others, or to the commands that have its place."""
        self._places.setdefault(command.place, []).append(command)
        self._wakeup.set()

    def take(self) -> list[Command]:
        """Remove the first place; returns its commands in the order of their arrival, none if nothing is pending."""
        return self._places.pop(next(iter(self._places))) if self._places else []
