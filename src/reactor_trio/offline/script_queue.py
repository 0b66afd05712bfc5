"""`ScriptQueue`: the commands of a session without a client come from a script, each when it is due.

A *pipeline* gets its commands between two steps. A *run loop* gets them before `emit()` returns, and a blocking model before
a push returns (`UnpacedTime`). Therefore each step sees the commands that are due at it, unless the model reads its state
elsewhere: before it waits for `connected`, or after another `await` than `emit`. The model gets one command at a time, so
that no command supersedes another.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from contextvars import ContextVar
from typing import TYPE_CHECKING

import trio

from reactor_trio.crossing.messages import Command
from reactor_trio.errors import ReactorError
from reactor_trio.execution.command_queue import CommandQueue
from reactor_trio.execution.step_loop import IDLE_WAIT
from reactor_trio.offline.film_room import EPSILON, FilmRoom
from reactor_trio.offline.script import ScriptCommand

if TYPE_CHECKING:  # a model that saves no worlds imports none of it
    from reactor_trio.worlds import World

#: Number of successive `Idle` that a model may yield when no command is left for it: ten seconds of the film.
MOST_IDLE = 500

_IN_HANDLER: ContextVar[bool] = ContextVar("reactor_in_handler", default=False)


class StillIdle(ReactorError):
    """The model waits for something that will not come."""


class ScriptQueue(CommandQueue):
    """See `CommandQueue`.

    Args:
        room: has the time of the film.
        computed: number of steps that the session has begun to compute before their number counts as the next one.

    Attributes:
        caught_up: whether every command that was due at the last look is applied.
        began: whether that has been so once.
    """

    def __init__(self, script: Sequence[ScriptCommand], room: FilmRoom, *, computed: int) -> None:
        super().__init__()
        self.caught_up = self.began = False
        self._script = deque(enumerate(script, start=1))
        restored = [entry.arguments["saved_before"] for entry in script if "saved_before" in entry.arguments]
        #: the number of each command that saves a world which the script restores
        self._wanted = {before.number for before in restored}
        self._saved: dict[int, World] = {}
        self._room = room
        self._computed = computed

    @property
    def in_handler(self) -> bool:
        """Whether the calling code is part of a command."""
        return _IN_HANDLER.get()

    @property
    def _next(self) -> ScriptCommand | None:
        return self._script[0][1] if self._script else None

    def pending(self, step: int) -> bool:
        """See `CommandQueue`."""
        entry = self._next
        if entry is None or self._room.enough:
            return False
        if entry.step is not None and entry.step > step - self._computed:
            return False
        return entry.t is None or entry.t <= self._room.seconds + EPSILON

    def take(self, step: int) -> list[Command]:
        """See `CommandQueue`. One command at a time, if it is due."""
        due = self.pending(step)
        _IN_HANDLER.set(due)
        if due:
            number, entry = self._script.popleft()
            arguments = dict(entry.arguments)
            if (before := arguments.pop("saved_before", None)) is not None:
                if before.number not in self._saved:  # it was refused, which ends the rendering
                    return []
                arguments["loaded"] = before.loaded(self._saved[before.number])
            return [Command(number, 1, entry.name, arguments, entry.id, trio.current_time(), group=number)]
        if not self.caught_up:
            self.caught_up = self.began = True
            self.wakeup.set()
        return []

    def saved(self, number: int, world: World) -> None:
        """See `CommandQueue`."""
        if number in self._wanted:
            self._saved[number] = world

    def idle(self, step: int, deadline: float) -> float:
        """Let the film's time go on while the model is idle. The model does not wait while the script has commands.

        Raises StillIdle if the model has been idle too long and nothing will change that.
        """
        entry, room = self._next, self._room
        room.idle(IDLE_WAIT)
        if room.idled > MOST_IDLE and (entry is None or entry.t is None):
            comes = "the script has no more commands"
            if entry is not None:
                comes = f"{entry.where} comes at step {entry.step}, which the model does not reach"
            raise StillIdle(f"the model waits at step {step}, {room.seconds:.2f} s into the film, and {comes}")
        return deadline if entry is None else -math.inf
