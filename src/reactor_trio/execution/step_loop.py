"""The step loop: makes the steps of a session one after the other, each in a turn of the session.

What a step is, its `StepSource` knows. Each kind of model whose steps the runtime makes has a class of them (`kinds/`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Any, Final, Literal, TypeAlias

import msgspec
import trio

from reactor_trio.errors import OutputError
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.driver import AppliesCommands, Driver
from reactor_trio.execution.fences import wait_for_fences
from reactor_trio.execution.silent_steps import SilentSteps
from reactor_trio.interface.model import Idle
from reactor_trio.interface.steps import StepOutcome
from reactor_trio.media import Chunk, Origin, chunk_from_output

#: Seconds for which a model that had nothing to make waits for a command before its next step.
IDLE_WAIT = 0.02

#: Seconds between the begins of two steps at least, if the first made no media.
EMPTY_STEP = 0.005


#: What a step was that has made no frame: there was nothing to make, its media were empty, or author code has returned. The
#: next step begins such code again.
NoFrame: TypeAlias = Literal["idle", "empty", "done"]


class StepMade(msgspec.Struct, frozen=True):
    """One step of author code.

    Attributes:
        output: its media; None or Idle without.
        no_frame: what the step was, if its output has no frame.
        began: when it began, if its cost is spent; None if the step loop spends that.
        outcome: what `generate` of an app came to; None if it was not called.
        refused: the text of the ApplicationError by which an app refused it; None if it did not.
    """

    output: Any = None
    no_frame: NoFrame = "idle"
    began: float | None = None
    outcome: StepOutcome | None = None
    refused: str | None = None


#: A step in which author code has returned.
DONE: Final = StepMade(no_frame="done")


class StepSource(ABC):
    """The steps of one session's author code. It serves the step loop, a rank that follows and a program that steps by hand.

    Attributes:
        whole_steps: see `SessionLife`.
        ready: waited for before the commands of each step are applied; None: nothing.
        cancelled: called when a cancellation reaches author code at an await.
    """

    whole_steps: bool = False
    ready: Callable[[], Awaitable[None]] | None = None
    cancelled: Callable[[], object] = staticmethod(lambda: None)

    @abstractmethod
    async def resume(self, model: Any) -> StepMade:
        """Make the next step of `model`. Raises what ends the session."""

    @property
    def of_author(self) -> StepSource:
        """What makes the steps on this rank: this source, unless that has the other ranks make them too."""
        return self

    @abstractmethod
    def location(self, model: Any) -> str:
        """`file:line` of the author's code that gave the output of the newest step."""

    async def close(self) -> None:  # noqa: B027 - nothing is left open between two steps of most models
        """End what is left of author code."""


class StepLoop(Driver):
    """Makes the steps of a session.

    Args:
        source: makes each step.
        once: whether author code that has made a frame and returns ends the session. If not, it is begun again.
    """

    #: whether author code, which has given no frame, waits for a command or an input frame
    _idle = False

    #: the task of `drive`
    _task: trio.lowlevel.Task | None = None

    def __init__(self, session: DrivenSession, source: StepSource, *, once: bool = False) -> None:
        super().__init__(session)
        self.source = source
        self.observer = session.turn.observer
        self.whole_steps = source.whole_steps
        self._once = once
        self._silent_steps = SilentSteps()

    async def drive(self, commands: AppliesCommands) -> None:
        """Make one step after the other."""
        session, self._task = self._session, trio.lowlevel.current_task()
        produced = False  # whether author code has made a frame since it was begun
        queued_at: float | None = None  # when the frame of the step before was queued; None: that made no frame
        while (begin := await self._until_next_step(commands, queued_at)) is not None:
            # One look at the clock serves all that happens until the author's code runs, and one all that follows it.
            began, late, between, turn_waited = begin
            command, waited = session.newest_command, session.command_waited()
            call = session.calls.begins(f"step {session.step} has run", began)
            try:
                chunk, seconds, ended, no_frame = await self._step(began)
            finally:
                session.calls.ends(call)
            commands.tell_values()
            if chunk is not None:
                if not produced:
                    self._silent_steps.made_frame()
                produced = True
                session.output_pacer.stepped(chunk, late, seconds + turn_waited, between, ended)
                origin = Origin(session.step - 1, command, waited, seconds)
                queued_at = await session.output_pacer.queue(chunk, origin, ended)
                if commands.moments is not None:
                    await commands.step_ended(chunk.length)
                del chunk  # a large value, which this frame would hold until the next step has made another
                continue
            queued_at = None
            session.empty_steps += 1
            match no_frame:
                case "done" if produced:  # if it made no frame it must not spin
                    if self._once:
                        return
                    produced = False
                case "empty":
                    session.output_pacer.permit.ended()
                    if commands.moments is not None:
                        await commands.step_ended(0)
                    session.turn.give_back()
                    await trio.sleep_until(began + EMPTY_STEP)
                case _:
                    session.turn.give_back()
                    await self._rest()

    async def close(self) -> None:
        """Close what the source has open."""
        await self.source.close()

    def input_arrived(self) -> None:
        """Have the next step of code that is idle begin: it may read the frame."""
        if self._idle:
            self._idle = False
            self._session.wakeup.set()

    def input_ended(self) -> None:
        """Have the step that reads end as if it were cancelled."""
        self._session.scopes.step_was_cancelled()

    async def at_boundary(self) -> None:
        """Return when no step and no handler runs, if steps are whole."""
        if self.whole_steps:
            await self._session.calls.until_none_of(self._task)

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _until_next_step(
        self, commands: AppliesCommands, queued_at: float | None
    ) -> tuple[float, float, float, float] | None:
        """Apply commands as they come, until it is time for a step and none is pending; None when the session is over.

        Returns the present time, and seconds: for which the step could have begun already, if the model waited for it; for
        which the model was busy without a step, with handlers and this runtime, since `queued_at`, 0 if it has waited; for
        which the step has waited for those of other sessions.

        From the last look at the commands to the step nothing is awaited, so the step sees each acknowledged command.
        """
        session, rested, planned, turn_waited = self._session, False, math.inf, 0.0
        now = queued_at
        if self.source.ready is not None:
            await self.source.ready()
            now = None
        if now is None:
            now = trio.current_time()
        session.turn.give_back()  # that of the step before
        while True:
            at = session.output_pacer.step_at(now)
            if at > now and not session.commands.pending(session.step) and not session.over:
                planned, queued_at, turn_waited = at, None, 0.0
                session.turn.give_back()
                await session.wakeup.wait(at)  # at its deadline it may raise no cancellation; then `session.over` ends this
                now, rested = trio.current_time(), True
                continue
            turn_waited += await session.turn.take(rested)
            rested = applied = False
            while not session.over and await commands.apply_next():
                applied = True
            if session.over:
                # The disconnect is on its way; it comes as a cancellation, unless author code has just swallowed that.
                session.turn.give_back()
                await session.stopped.wait()
                return None
            now = trio.current_time()
            if not applied and session.output_pacer.step_at(now) <= now and not session.commands.pending(session.step):
                between = 0.0 if queued_at is None else now - queued_at - turn_waited
                return now, max(0.0, now - planned - turn_waited), between, turn_waited

    async def _rest(self) -> None:
        """Wait for a command or an input frame, `IDLE_WAIT` seconds at most. Always a checkpoint."""
        session = self._session
        deadline = session.commands.idle(session.step, trio.current_time() + IDLE_WAIT)
        self._idle = True
        await trio.lowlevel.checkpoint()
        while self._idle and not session.commands.pending(session.step) and trio.current_time() < deadline:
            await session.wakeup.wait(deadline)
        self._idle = False

    async def _step(self, began: float) -> tuple[Chunk | None, float, float, NoFrame]:
        """Make one step, which begins now.

        Returns what it made, None without a frame; its compute time in seconds; when it ended; see `StepMade.no_frame`.
        """
        session = self._session
        made = await self.source.resume(session.model)
        output, no_frame, began_itself = made.output, made.no_frame, made.began
        del made  # `chunk_from_output` counts who else has the output
        if output is None or output is Idle:
            if output is None and no_frame == "idle":
                self._silent_steps.made_none(began, lambda: self.source.location(session.model))
            else:
                self._silent_steps.idled()
            return None, 0.0, began, no_frame
        try:
            chunk = chunk_from_output(output, session.declaration.outputs, of_step=True)
        except OutputError as error:
            error.name_location(self.source.location(session.model))
            raise
        if chunk.length == 0:
            return None, 0.0, began, no_frame
        cost = None
        if began_itself is None:
            _, cost = await session.until_computed(chunk, session.step)
        else:
            began = began_itself
            await wait_for_fences(chunk)
        ended = trio.current_time()
        session.step += 1
        return chunk, ended - began if cost is None else cost, ended, no_frame
