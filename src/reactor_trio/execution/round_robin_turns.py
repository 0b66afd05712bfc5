"""`RoundRobinTurns`: of several sessions on one model one steps at a time, in the order that `RoundRobin` chooses.

No task of its own grants turns. Of the tasks that wait for one, the *chooser* chooses the session that gets the next one:
a task that asks while no turn is out, or one that the end of a turn has woken. A session that has rested and finds the
thread free goes on at once, and from one session to the next the loop makes one round. A session that steps again at once,
and alone asks, lets the loop make two: the first finds the deadlines that passed in its step, and in the second their
sessions have asked. In virtual time all that is due has asked.
"""

from __future__ import annotations

import trio

from reactor_trio.concurrency import ClockHooks
from reactor_trio.execution.turns import SharedTurn, Turn, Turns
from reactor_trio.pacing import RoundRobin


class RoundRobinTurns(Turns):
    """Grants one turn at a time. A session pays for the time of its turns, and for what it computes without one."""

    def __init__(self, time: ClockHooks) -> None:
        super().__init__(time)
        self._robin = RoundRobin()
        #: of the tasks that wait, the one that is to choose the next session
        self._chooser: trio.lowlevel.Task | None = None

    async def until_granted(self, turn: SharedTurn, task: trio.lowlevel.Task, rested: bool) -> None:
        """See `Turns`. The task perhaps chooses whose turn it is."""
        while task in turn.waiting:
            if self._out or self._chooser not in (None, task):
                await turn.sleep(task)
                rested = True
                continue
            self._chooser = task
            try:
                await Turn.take(turn, rested)  # as the only session of a model does before each step
                if not rested and len(self._asking) == 1 and self._robin.several:
                    await trio.lowlevel.checkpoint()
            except trio.Cancelled:
                turn.withdraw(task)
                self._pass_on_choice()
                raise
            if task not in turn.waiting:  # its session is over
                break
            self._chooser = None
            self.grant(self._robin.next(self._asking))
        if self._chooser is task:
            self._pass_on_choice()

    def ask(self, turn: SharedTurn) -> None:
        """See `Turns`. The session pays for what it has used since it asked the last time."""
        self._asking[turn.number] = turn  # here and below not by `super`: a call less for each step
        self._robin.settle(turn.number)

    def returned(self, turn: SharedTurn, seconds: float) -> None:
        """See `Turns`. The session is charged."""
        self._out.remove(turn)
        self._robin.used(turn.number, seconds)

    def charge(self, turn: SharedTurn, seconds: float) -> None:
        """See `Turns`."""
        self._robin.used(turn.number, seconds)

    def forget(self, turn: SharedTurn) -> None:
        """See `Turns`."""
        self._robin.leave(turn.number)

    def grant_next(self) -> None:
        """See `Turns`: wake a task that waits and make it the chooser, unless there is one."""
        if self._asking and not self._out and self._chooser is None:
            self._chooser = next(iter(self._asking.values())).wake()

    def _pass_on_choice(self) -> None:
        self._chooser = None
        self.grant_next()
