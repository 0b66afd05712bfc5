"""A session's half on the model loop without a client: what a script says comes in its place, exactly where it says.

A *pipeline* is given its commands between two steps. A *run loop* is given them where it comes back from `emit()`, and a
blocking model where it comes back from a push: it goes on when they are applied. So each step sees the commands that are due
at it, unless the model's code takes its state elsewhere: before it waits for `connected`, or at another `await` than `emit`.
One command is handed over at a time, so none supersedes another.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import msgspec
import trio

from reactor_trio.concurrency import ClockHooks, ModelHost
from reactor_trio.errors import ReactorError
from reactor_trio.execution.command_queue import Command
from reactor_trio.execution.drivers.step_drivers import IDLE_WAIT
from reactor_trio.execution.session_binding import ConnectedSignal
from reactor_trio.execution.session_runner import SessionRunner
from reactor_trio.media import Chunk
from reactor_trio.offline.film_clock import EPSILON, FilmClock
from reactor_trio.offline.script import ScriptCommand

#: Asks in a row that a model may answer with Idle while nothing is to come: ten seconds of the film.
MOST_IDLE = 500
#: Seconds for which a step waits for a handler before it: one that itself waits for the next frame would wait for ever.
PATIENCE = 5.0

_IN_HANDLER: ContextVar[bool] = ContextVar("reactor_in_handler", default=False)


class StillIdle(ReactorError):
    """The model waits for something that will not come."""


class DueCommand(msgspec.Struct, frozen=True):
    """A command of a script whose arguments are decoded."""

    entry: ScriptCommand
    arguments: dict[str, Any]


class Feed:
    """Makes commands pending when they are due; stands in place of the words of another loop."""

    def __init__(self, commands: Sequence[DueCommand], clock: FilmClock) -> None:
        self._left = deque(enumerate(commands, start=1))
        self._clock = clock
        self.runner: UnpacedSessionRunner | None = None

    @property
    def next(self) -> ScriptCommand | None:
        """What comes next."""
        return self._left[0][1].entry if self._left else None

    def deliver(self) -> None:
        """Model loop: make the next command pending if it is due and none is."""
        runner, entry = self.runner, self.next
        if runner is None or entry is None or runner.commands or self._clock.enough:
            return
        due = entry.step is None or entry.step <= runner.next_step
        if due and entry.t is not None:
            due = entry.t <= self._clock.seconds + EPSILON
        if due:
            number, command = self._left.popleft()
            at = trio.current_time()
            runner.commands.add(Command(number, 1, entry.name, command.arguments, entry.id, at, place=number))


class UnpacedTime(ClockHooks):
    """Real time, in which the model waits for the sink's room and for commands.

    Args:
        threaded: whether the model loop is a thread, or a task of the I/O loop.
    """

    def __init__(self, *, threaded: bool) -> None:
        self.threaded = threaded
        self.runner: UnpacedSessionRunner | None = None

    async def spend(self, step: int) -> None:
        """What was made waits for room."""
        if self.runner is not None:
            await self.runner.wait_for_room()

    async def author_resumes(self) -> None:
        """A blocking model's thread begins, and goes on after each push, when what the next block sees is applied."""
        if self.runner is not None:
            await self.runner.commands_applied()


class HeldSignal(ConnectedSignal):
    """`connected` of a run loop: a wait for it ends when the commands before the first step are applied."""

    def __init__(self) -> None:
        super().__init__()
        self._held = True

    def release(self) -> None:
        """They are."""
        if self._held:
            self._held = False
            self._wakeup.set()

    async def wait(self) -> None:
        """Return when the session is there, and its first commands are applied. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while self._held or not self.is_set():
            await self._wakeup.wait()


class UnpacedSessionRunner(SessionRunner):
    """The model's side of a rendering.

    Args:
        once: whether it ends with the first generator that made something and returns.
        options: those of `SessionRunner`.
    """

    def __init__(
        self, feed: Feed, clock: FilmClock, time: UnpacedTime, host: ModelHost, *, once: bool, **options: Any
    ) -> None:
        super().__init__(replies=feed, forecast=clock, host=host, **options)  # a feed delivers, too
        self.once = once
        self.released = False
        self._feed = feed
        self._clock = clock
        self._caught_up = False
        self._idle_asks = self._made_when_idle = 0
        # A virtual clock may jump while a handler computes on a thread of its own, so it limits nothing.
        self._patience = PATIENCE if time.threaded else math.inf
        self._signal = HeldSignal()
        options["binding"].connected = self._signal
        feed.runner = time.runner = self

    @property
    def next_step(self) -> int:
        """Number of the step that sees what is applied now."""
        return self.step - 1 if self.kind == "blocking" else self.step

    # ---- posted by the I/O loop ---------------------------------------------------------------------------------------

    def taken(self) -> None:
        """The sink has room again."""
        self._clock.taken()
        self.wakeup.set()

    def release(self) -> None:
        """The rendering ends: nobody waits for a sink or a command any more."""
        self.released = True
        self.wakeup.set()

    # ---- for drivers and the timekeeper -------------------------------------------------------------------------------

    async def wait_for_room(self) -> None:
        """Return when the sink has room for what was made, or the rendering ends."""
        while not self.released and not self.over and (self._clock.full or self._clock.enough):
            self._clock.tell_enough()
            await self.wakeup.wait()

    async def commands_applied(self) -> None:
        """Return when every command that is due has been applied; at once in a handler, which is part of that."""
        if self.released or _IN_HANDLER.get():
            return
        self._caught_up = False
        self.wakeup.set()
        with trio.move_on_after(self._patience):
            while not self._caught_up and not self.released and not self.over:
                await self.wakeup.wait()

    async def apply_next(self) -> bool:
        """Apply the next command that is due."""
        self._feed.deliver()
        token = _IN_HANDLER.set(True)
        try:
            applied = await super().apply_next()
        finally:
            _IN_HANDLER.reset(token)
        if not applied:
            if not self._caught_up:
                self._caught_up = True
                self.wakeup.set()
            self._signal.release()
        return applied

    async def wait_for_command(self, deadline: float) -> None:
        """The model is idle: the film's time goes on, without a wait if a command comes by that.

        Raises StillIdle where nothing is to come.
        """
        before = self._feed.next
        self._clock.idle(IDLE_WAIT)
        if self._made_when_idle != self._clock.made:
            self._idle_asks, self._made_when_idle = 0, self._clock.made
        self._idle_asks += 1
        if before is not None and before.t is not None:
            await trio.lowlevel.checkpoint()
            return
        if self._idle_asks > MOST_IDLE:
            seconds = self._clock.seconds
            comes = "the script has no more commands"
            if before is not None:
                comes = f"{before.where} comes at step {before.step}, which the model does not reach"
            raise StillIdle(f"the model waits at step {self.step}, {seconds:.2f} s into the film, and {comes}")
        await super().wait_for_command(deadline if before is None else -math.inf)

    async def emit(self, chunk: Chunk, compute_time: float | None, drop: bool) -> None:
        """A run loop emitted; it goes on when what the next step sees is applied."""
        await super().emit(chunk, compute_time, drop)
        await self.commands_applied()
