"""`batch_inference()`: one call makes the steps of several sessions, for a model that can compute them together.

One task of its own makes these calls. Every session that is due when the thread is free joins the next batch. So batches
form where steps are slow, and a single session waits for no other. The batcher first wakes the members to apply their
commands, each in its own task. A session whose handler waits for something is not ready, and joins the batch after.

A batch ends for all its members at once. A member whose session ends meanwhile waits for that, since author code still uses
its model; when all members have left, the batch is cancelled.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import trio

from reactor_trio.concurrency import ClockHooks, SessionOver
from reactor_trio.errors import BufferClosed, OutputError
from reactor_trio.execution.author_failures import each_its_own
from reactor_trio.execution.drivers.traced_awaitable import TracedAwaitable
from reactor_trio.execution.drivers.turns import SharedTurn, Turns
from reactor_trio.execution.session_binding import SEEN_SESSION
from reactor_trio.interface.author_code import defining_line, plain_step
from reactor_trio.interface.model import Model


class BatchTurn(SharedTurn):
    """The turn of a session that is stepped in batches: its place in the next batch."""

    def __init__(self, batches: DynamicBatcher, number: int) -> None:
        super().__init__(batches, number)
        self._batches = batches
        self._done: trio.Event | None = None
        self._result: Any = None
        #: when the newest batch began, in `trio.current_time()` seconds
        self.began = 0.0
        #: what is stepped, while the session waits for a batch, its commands applied; else None
        self.model: Model | None = None
        self.over: Callable[[], bool] = lambda: False

    async def join(self, model: Model, over: Callable[[], bool]) -> Any:
        """Be stepped with the other members as `model`; returns its output, and raises what ends the session.

        Returns when the batch is over, also if cancelled meanwhile. `over`: whether the session is over.
        """
        self.model, self.over = model, over
        done = self._done = trio.Event()
        try:
            try:
                await done.wait()
            except trio.Cancelled:
                if self._batches.left(self):
                    with trio.CancelScope(shield=True):
                        await done.wait()
                raise
        finally:
            self.model = self._done = None
            self.over = lambda: True
            result, self._result = self._result, None
        if isinstance(result, BaseException):
            raise result
        return result

    def finish(self, result: Any, began: float) -> None:
        """End the batch for this session."""
        self._result, self.began = result, began
        if self._done is not None:
            self._done.set()


class DynamicBatcher(Turns):
    """Forms the batches of one model, and calls its `batch_inference`."""

    def __init__(self, time: ClockHooks, model: Model) -> None:
        super().__init__(time)
        self._model = model
        self._members: list[BatchTurn] = []
        self._present = 0
        self._scope = trio.CancelScope()
        self._count = 0

    def open(self) -> BatchTurn:
        """See `Turns`."""
        return BatchTurn(self, next(self._numbers))

    async def run(self) -> None:
        """Task: step batches until cancelled."""
        while True:
            while not self._asking:
                await self._wakeup.wait()
            await self.time.settle(True)
            called = [self._asking[number] for number in sorted(self._asking)]
            for turn in called:
                self.withdraw(turn)
                turn.granted()
            await self.time.settle(False)
            await self.time.settle(False)  # two turns of the loop: one to apply commands, one to look again
            while any(turn.looking for turn in called):
                await self.time.settle(False)
            for turn in called:
                assert isinstance(turn, BatchTurn)
                turn.held = False  # a session that is not ready asks again
                if turn.model is not None:
                    self._members.append(turn)
            if self._members:
                await self._step()

    def left(self, turn: BatchTurn) -> bool:
        """Note that the session is over; returns whether it is in the batch that runs."""
        if turn not in self._members:
            return False
        self._present -= 1
        if not self._present:
            self._scope.cancel()
        return True

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _step(self) -> None:
        members, began = self._members, trio.current_time()
        results: list[Any] = [None] * len(members)
        self._present, self._scope = len(members), trio.CancelScope()
        SEEN_SESSION.set(None)
        try:
            with self._scope:
                results = await call_batch(self._model, [turn.model for turn in members])
                await self.time.spend(self._count)
        except trio.Cancelled:
            raise
        except (SessionOver, BufferClosed) as error:
            if not any(turn.over() for turn in members):
                results = [error] * len(members)
        except BaseException as error:
            results = [error] * len(members)
        finally:
            self._members = []
            self._count += 1
            for turn, result in zip(members, each_its_own(results), strict=True):
                turn.finish(result, began)


async def call_batch(model: Model, models: Sequence[Model | None]) -> list[Any]:
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
    error.name_place(defining_line(function))
    raise error
