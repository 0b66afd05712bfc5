"""Commands that have reached the model loop and are not yet applied."""

from __future__ import annotations

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.crossing.messages import Command


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
