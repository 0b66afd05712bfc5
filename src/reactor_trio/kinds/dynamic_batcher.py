"""`batch_inference()`: one call makes the steps of several sessions, for a model that can compute them together.

One task of its own makes these calls. Every session that is due when the thread is free joins the next batch. So batches
form where steps are slow, and a single session waits for no other. The batcher first grants a turn to each session that
asks, so that it applies its commands, in its own task. With its turn a session joins the batch, and gives the turn back.
A session whose handler waits for something gives it back too, and joins the batch after.

A batch ends for all its members at once. A member whose session ends meanwhile waits for that, since author code still uses
its model; when all members have left, the batch is cancelled. The member that left last raises what the batch raises then.

    DynamicBatcher   the members that have joined the next batch
    _Batch           the batch that runs: how many of its members are still there, and the scope of the call
    _Member          one session in one batch: it waits for the batch (`batch` is None), then for its end (`done`)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import trio

from reactor_trio.concurrency import ClockHooks, SessionOver
from reactor_trio.errors import BufferClosed, OutputError
from reactor_trio.execution.author_failures import each_its_own
from reactor_trio.execution.session_binding import SEEN_SESSION
from reactor_trio.execution.step_loop import StepMade
from reactor_trio.execution.traced_awaitable import TracedAwaitable
from reactor_trio.execution.turns import SharedTurn, Turn, Turns
from reactor_trio.interface.author_code import defining_line, plain_step
from reactor_trio.interface.model import Model


class _Batch:
    """The batch that runs."""

    def __init__(self, members: int) -> None:
        self.scope = trio.CancelScope()
        self._present = members

    def leave(self) -> bool:
        """Note that the session of a member is over; returns whether that holds for all. Then the batch is cancelled."""
        self._present -= 1
        if not self._present:
            self.scope.cancel()
        return not self._present


@dataclass(eq=False)
class _Member:
    """One session in one batch; `over` says whether the session is over."""

    model: Model
    over: Callable[[], bool]
    batch: _Batch | None = None
    done: trio.Event = field(default_factory=trio.Event)
    result: Any = None
    began: float = 0.0


class DynamicBatcher(Turns):
    """Grants the turns of one model's sessions, forms their batches, and calls `batch_inference`."""

    def __init__(self, time: ClockHooks, model: Model) -> None:
        super().__init__(time)
        self._model = model
        self._joined: dict[Turn, _Member] = {}
        self._count = 0
        #: the task of `run`, while it waits for turns
        self._granting = trio.lowlevel.ParkingLot()

    async def run(self) -> None:
        """Task: step batches until cancelled."""
        while True:  # no variable here: it would keep the last batch until a session steps again
            await self._step(await self._grant_all())

    # ---- for `SharedTurn` ---------------------------------------------------------------------------------------------

    async def until_granted(self, turn: SharedTurn, task: trio.lowlevel.Task, rested: bool) -> None:
        """See `Turns`. The task of `run` grants the turn."""
        self.grant_next()
        await turn.sleep(task)

    def grant_next(self) -> None:
        """See `Turns`."""
        if not self._out:
            self._granting.unpark_all()

    # ---- for the sessions' tasks --------------------------------------------------------------------------------------

    async def join(self, turn: Turn, model: Model, over: Callable[[], bool]) -> StepMade:
        """Be stepped in the next batch as `model`, by the task that has the turn, which is given back.

        Raises what ends the session. Returns when the batch is over, also if cancelled meanwhile. What a batch raises that
        all members have left is raised by the one that left last: no other is there to raise it.

        Args:
            over: whether the session is over.
        """
        member = self._joined[turn] = _Member(model, over)
        turn.give_back()
        try:
            await member.done.wait()
        except trio.Cancelled:
            if member.batch is None:
                del self._joined[turn]
                raise
            last = member.batch.leave()
            with trio.CancelScope(shield=True):
                await member.done.wait()
            if not last or not isinstance(member.result, BaseException):
                raise
        result, member.result = member.result, None
        if isinstance(result, BaseException):
            raise result
        return StepMade(result, began=member.began)

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _grant_all(self) -> list[SharedTurn]:
        """Wait until a session asks, and grant a turn to each that does; return these when all of them are given back."""
        rested = False
        while not self._asking:
            await self._granting.park()
            rested = True
        await self.time.settle(rested)  # all that is due at this instant has asked, in virtual time
        if not rested:  # and in real time, too: in this round the members of the batch before, and what came due in it
            await trio.lowlevel.checkpoint()
        granted = [self._asking[number] for number in sorted(self._asking)]
        for turn in granted:
            self.grant(turn.number)
        while self._out:
            await self._granting.park()
        return granted

    async def _step(self, granted: list[SharedTurn]) -> None:
        """Step the sessions that have joined with these turns."""
        members = [self._joined.pop(turn) for turn in granted if turn in self._joined]
        if not members:
            return
        batch, began = _Batch(len(members)), trio.current_time()
        results: list[Any] = [None] * len(members)
        for member in members:
            member.batch, member.began = batch, began
        SEEN_SESSION.set(None)
        try:
            with batch.scope:
                results = await call_batch(self._model, [member.model for member in members])
                if (costs := self.time.costs) is not None:
                    await costs.spend(self._count)
        except trio.Cancelled:
            raise
        except (SessionOver, BufferClosed) as error:
            if not any(member.over() for member in members):
                results = [error] * len(members)
        except BaseException as error:
            results = [error] * len(members)
        finally:
            self._count += 1
            for member, result in zip(members, each_its_own(results), strict=True):
                member.result = result
                member.done.set()


async def call_batch(model: Model, models: Sequence[Model]) -> list[Any]:
    """Call `model.batch_inference`; returns an output for each of `models`. Raises OutputError for any other result."""
    function = model.batch_inference  # type: ignore[attr-defined]
    results = plain_step(function, models, method="batch_inference")
    if inspect.isawaitable(results):
        results = await TracedAwaitable(results)
    if isinstance(results, (list, tuple)) and len(results) == len(models):
        return list(results)
    wrong = f"expected a list with one output for each session, got {type(results).__name__}"
    if isinstance(results, (list, tuple)):
        wrong = f"expected {len(models)} outputs, one for each session in their order, got {len(results)}"
    error = OutputError(f"{type(model).__qualname__}.batch_inference: {wrong}")
    error.name_location(defining_line(function))
    raise error
