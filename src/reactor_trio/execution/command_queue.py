"""Commands that have reached the model loop and are not yet applied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.crossing.messages import Command

if TYPE_CHECKING:  # a model that saves no worlds imports none of it
    from reactor_trio.worlds import World


class CommandQueue:
    """The pending commands of one session, in the order of their groups. A rendering takes them from a script.

    Args of the methods: `step` is the number of the session's next step.

    Attributes:
        wakeup: set when a command arrives.
    """

    def __init__(self) -> None:
        self.wakeup = RepeatedEvent()
        self._groups: dict[int, list[Command]] = {}

    def pending(self, step: int) -> bool:
        """Whether a command can be applied now."""
        return bool(self._groups)

    @property
    def begins_at_world(self) -> bool:
        """Whether the oldest command puts the world at which the session begins."""
        oldest = next(iter(self._groups.values()), None)
        return oldest is not None and oldest[0].name == "reactor.restore" and oldest[0].arguments["loaded"].why == "fork"

    def add(self, command: Command) -> None:
        """Put a command behind the others, or to those of its group."""
        self._groups.setdefault(command.group, []).append(command)
        self.wakeup.set()

    def take(self, step: int) -> list[Command]:
        """Remove the first group; returns its commands in the order of their arrival, none if nothing is pending."""
        return self._groups.pop(next(iter(self._groups))) if self._groups else []

    def saved(self, number: int, world: World) -> None:
        """The model has captured the world that the command of this number saves. A script may restore it later."""

    def idle(self, step: int, deadline: float) -> float:
        """The model waits for a command until `deadline`; returns how long it may wait."""
        return deadline
