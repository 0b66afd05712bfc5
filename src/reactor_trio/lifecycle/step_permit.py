"""`StepPermit`: whether the next step of a session may begin, and what becomes of output meanwhile.

A client pauses its session and lets it go on (`reactor.pause`), and asks a paused session for single steps
(`reactor.step`). A session without a viewer rests too. `Stepping` names the four states, and the table `TRANSITIONS` has
every change. Both sides of a session use the table: the I/O side for the picture, the model's side for the steps.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final


class Stepping(enum.Enum):
    """Whether the model steps, and why not."""

    FREE = enum.auto()
    #: the client pauses the session
    PAUSED = enum.auto()
    #: the controlling client is away and no viewer watches
    UNWATCHED = enum.auto()
    PAUSED_UNWATCHED = enum.auto()

    @property
    def paused(self) -> bool:
        """Whether the client pauses the session."""
        return self in (Stepping.PAUSED, Stepping.PAUSED_UNWATCHED)

    def after(self, event: SteppingEvent) -> Stepping:
        """The state that follows."""
        return TRANSITIONS[self][event]


class SteppingEvent(enum.Enum):
    """What changes it."""

    PAUSE = enum.auto()
    RESUME = enum.auto()
    #: the last viewer has gone
    UNWATCH = enum.auto()
    #: there is a viewer again
    WATCH = enum.auto()


#: state -> event -> next state
TRANSITIONS: Final[Mapping[Stepping, Mapping[SteppingEvent, Stepping]]] = MappingProxyType({
    Stepping.FREE: {
        SteppingEvent.PAUSE: Stepping.PAUSED, SteppingEvent.RESUME: Stepping.FREE,
        SteppingEvent.UNWATCH: Stepping.UNWATCHED, SteppingEvent.WATCH: Stepping.FREE,
    },
    Stepping.PAUSED: {
        SteppingEvent.PAUSE: Stepping.PAUSED, SteppingEvent.RESUME: Stepping.FREE,
        SteppingEvent.UNWATCH: Stepping.PAUSED_UNWATCHED, SteppingEvent.WATCH: Stepping.PAUSED,
    },
    Stepping.UNWATCHED: {
        SteppingEvent.PAUSE: Stepping.PAUSED_UNWATCHED, SteppingEvent.RESUME: Stepping.UNWATCHED,
        SteppingEvent.UNWATCH: Stepping.UNWATCHED, SteppingEvent.WATCH: Stepping.FREE,
    },
    Stepping.PAUSED_UNWATCHED: {
        SteppingEvent.PAUSE: Stepping.PAUSED_UNWATCHED, SteppingEvent.RESUME: Stepping.UNWATCHED,
        SteppingEvent.UNWATCH: Stepping.PAUSED_UNWATCHED, SteppingEvent.WATCH: Stepping.PAUSED,
    },
})  # fmt: skip


class OutputRule(enum.Enum):
    """What holds for frames that the model has made."""

    #: they wait for room in the buffer
    ROOM = enum.auto()
    #: they wait until the session is watched again
    WAIT = enum.auto()
    #: they wait for no room: nothing is shown that would make some, and a waiting `emit` would keep the command that ends
    #: the pause from being applied. What an `emit` queues has a bound instead (`pacing.playout_forecast.MOST_HELD`).
    HOLD = enum.auto()


class StepPermit:
    """The permit of one session's steps, on the model loop.

    A pause may come before commands that the client has sent earlier (`PauseSteps`). So each command has its number, and one
    that is older than the newest pause lets no step begin.

    Attributes:
        stepping: the state.
        steps: number of steps that the client of a paused session has asked for and that have not ended.
        may_begin: whether a step may begin.
        output: what holds for frames meanwhile.
    """

    def __init__(self) -> None:
        self.stepping = Stepping.FREE
        self.steps = 0
        self.may_begin = True
        self.output = OutputRule.ROOM
        self._newest_pause = 0

    def pause(self, number: int) -> None:
        """Pause the session by the command of this number, and take back the steps that were asked for."""
        self._newest_pause = max(self._newest_pause, number)
        self.steps = 0
        self._change(SteppingEvent.PAUSE)

    def resume(self, number: int) -> None:
        """Let the steps begin again, by the command of this number."""
        if number > self._newest_pause:
            self.steps = 0
            self._change(SteppingEvent.RESUME)

    def allow(self, number: int, steps: int) -> None:
        """Let a paused session make so many steps more, by the command of this number."""
        if self.stepping.paused and number > self._newest_pause:
            self.steps += steps
            self._follow()

    def take_back(self) -> None:
        """Take back the steps that the client has asked for."""
        self.steps = 0
        self._follow()

    def watch(self, watched: bool) -> None:
        """Note whether the session has a viewer."""
        self._change(SteppingEvent.WATCH if watched else SteppingEvent.UNWATCH)

    def ended(self) -> None:
        """Note that a step has ended. It is one of the steps that the client has asked for, if there are any."""
        if self.steps:
            self.steps -= 1
            self._follow()

    def _change(self, event: SteppingEvent) -> None:
        self.stepping = self.stepping.after(event)
        self._follow()

    def _follow(self) -> None:
        match self.stepping:
            case Stepping.FREE:
                self.may_begin, self.output = True, OutputRule.ROOM
            case Stepping.PAUSED:
                self.may_begin = self.steps > 0
                self.output = OutputRule.ROOM if self.may_begin else OutputRule.HOLD
            case Stepping.UNWATCHED | Stepping.PAUSED_UNWATCHED:
                self.may_begin, self.output = False, OutputRule.WAIT
