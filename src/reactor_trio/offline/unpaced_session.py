"""`UnpacedSession`: a session on the model loop without a client. A script's commands take the client's place.

A *pipeline* gets its commands between two steps. A *run loop* gets them before `emit()` returns, and a blocking model before
a push returns. Therefore each step sees the commands that are due at it, unless the model reads its state elsewhere: before
it waits for `connected`, or after another `await` than `emit`. The model gets one command at a time, so that no command
supersedes another.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

import trio

from reactor_trio.concurrency import ClockHooks
from reactor_trio.crossing.local_channel import LocalEnd
from reactor_trio.crossing.messages import Command
from reactor_trio.errors import ReactorError
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.drivers.step_drivers import IDLE_WAIT
from reactor_trio.execution.session_binding import ConnectedSignal
from reactor_trio.interface.context import set_during
from reactor_trio.media import Chunk
from reactor_trio.offline.film_clock import EPSILON, FilmClock
from reactor_trio.offline.script import ScriptCommand

#: Number of successive `Idle` that a model may yield when no command is left for it: ten seconds of the film.
MOST_IDLE = 500
#: Seconds that a step waits for handlers at most: a handler that itself waits for the next frame would never end.
PATIENCE = 5.0

_IN_HANDLER: ContextVar[bool] = ContextVar("reactor_in_handler", default=False)


class StillIdle(ReactorError):
    """The model waits for something that will not come."""


class UnpacedTime(ClockHooks):
    """The hooks in real time, at which the model waits for room in the sink and for commands.

    Args:
        threaded: whether the model loop runs on a thread; if not, it is a task of the I/O loop.
    """

    spends = True

    def __init__(self, *, threaded: bool) -> None:
        self.threaded = threaded
        self.session: UnpacedSession | None = None

    async def spend(self, step: int) -> None:
        """Wait for room in the sink."""
        if self.session is not None:
            await self.session.wait_for_room()

    async def author_resumes(self) -> None:
        """Wait until the commands that the next block sees are applied: at the start, and after each push."""
        if self.session is not None:
            await self.session.commands_applied()


class HeldSignal(ConnectedSignal):
    """`connected` of a rendering. Its `wait` returns when the commands before the first step are applied."""

    def __init__(self) -> None:
        super().__init__()
        self._held = True

    def release(self) -> None:
        """Report that these commands are applied."""
        self._held = False
        self._wakeup.set()

    async def wait(self) -> None:
        """Wait for the session and its first commands. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while self._held or not self.is_set():
            await self._wakeup.wait()


class _ScriptedEnd:
    """The model's end of a rendering's channel. Each look for messages also looks for the next command of the script."""

    asleep = False

    def __init__(self, end: LocalEnd, look: Callable[[], object]) -> None:
        self._end = end
        self._look = look
        self.connect, self.send = end.connect, end.send

    def take(self) -> None:
        """See `ChannelEnd`."""
        self._end.take()
        self._look()

    def close(self) -> None:
        """See `ChannelEnd`."""
        self._end.close()
        self._look = _nothing


def _nothing() -> None:
    """Of a session that is over."""


class UnpacedSession(DrivenSession):
    """The model's side of a rendering.

    Args:
        script: its commands come when they are due.
        channel: see `DrivenSession`. The commands of the script come with its messages.
        once: end the session when a generator that has made a frame returns.
        options: those of `DrivenSession`.
    """

    def __init__(
        self,
        script: Sequence[ScriptCommand],
        clock: FilmClock,
        time: UnpacedTime,
        *,
        once: bool,
        channel: LocalEnd,
        **options: Any,
    ) -> None:
        super().__init__(channel=_ScriptedEnd(channel, self._deliver), forecast=clock, **options)
        self.once = once
        self.released = False
        self._script = deque(enumerate(script, start=1))
        self._clock = clock
        self._caught_up = False
        # A virtual clock may jump while a handler computes on a thread of its own; then there is no limit.
        self._patience = PATIENCE if time.threaded else math.inf
        self._signal = HeldSignal()
        options["binding"].connected = self._signal
        time.session = self

    @property
    def next_step(self) -> int:
        """The number of the step that sees a command that is applied now."""
        return self.step - 1 if self.kind == "blocking" else self.step

    @property
    def next_command(self) -> ScriptCommand | None:
        """The next command, None at the end of the script."""
        return self._script[0][1] if self._script else None

    def _deliver(self) -> None:
        """Queue the next command if it is due and no command is queued."""
        entry = self.next_command
        if entry is None or self.commands or self._clock.enough:
            return
        due = entry.step is None or entry.step <= self.next_step
        if due and entry.t is not None:
            due = entry.t <= self._clock.seconds + EPSILON
        if due:
            number, _ = self._script.popleft()
            at = trio.current_time()
            self.commands.add(Command(number, 1, entry.name, dict(entry.arguments), entry.id, at, place=number))

    # ---- posted by the I/O loop ---------------------------------------------------------------------------------------

    def taken(self) -> None:
        """Record that the sink has taken a bundle."""
        self._clock.taken()
        self.wakeup.set()

    def release(self) -> None:
        """End the rendering: no step waits for the sink or for a command any more."""
        self.released = True
        self.wakeup.set()

    # ---- for drivers and clock hooks ----------------------------------------------------------------------------------

    async def wait_for_room(self) -> None:
        """Wait until the sink has room, or the rendering ends."""
        while not self.released and not self.over and (self._clock.full or self._clock.enough):
            self._clock.tell_enough()
            await self.wakeup.wait()

    async def commands_applied(self) -> None:
        """Wait until every command that is due is applied. Returns at once in a handler, which is part of a command."""
        if self.released or _IN_HANDLER.get():
            return
        self._caught_up = False
        self.wakeup.set()
        with trio.move_on_after(self._patience):
            while not self._caught_up and not self.released and not self.over:
                await self.wakeup.wait()

    async def apply_next(self) -> bool:
        """See `DrivenSession`. Queues the next command first, if it is due."""
        self._deliver()
        with set_during(_IN_HANDLER, True):
            applied = await super().apply_next()
        if not applied:
            if not self._caught_up:
                self._caught_up = True
                self.wakeup.set()
            self._signal.release()
        return applied

    async def wait_for_command(self, deadline: float) -> None:
        """Let the film's time go on while the model is idle. Does not wait if the next command comes at a time.

        Raises StillIdle if the model has been idle too long and nothing will change that.
        """
        before = self.next_command
        self._clock.idle(IDLE_WAIT)
        if before is not None and before.t is not None:
            await trio.lowlevel.checkpoint()
            return
        if self._clock.idled > MOST_IDLE:
            seconds = self._clock.seconds
            comes = "the script has no more commands"
            if before is not None:
                comes = f"{before.where} comes at step {before.step}, which the model does not reach"
            raise StillIdle(f"the model waits at step {self.step}, {seconds:.2f} s into the film, and {comes}")
        await super().wait_for_command(deadline if before is None else -math.inf)

    async def emit(self, chunk: Chunk, compute_time: float | None, drop: bool) -> None:
        """See `DrivenSession`. Returns when the commands that the next step sees are applied."""
        await super().emit(chunk, compute_time, drop)
        await self.commands_applied()
