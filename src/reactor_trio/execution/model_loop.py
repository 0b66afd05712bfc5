"""Runs a model's `run()`, which must go on for the model's life, and notices what ends the model."""

from __future__ import annotations

import inspect
import logging
import math
from functools import partial

import trio

from reactor_trio.concurrency import ModelHost, SessionOver, with_twin
from reactor_trio.execution.drivers.call_watch import WatchesPieces
from reactor_trio.execution.drivers.traced_awaitable import TracedAwaitable
from reactor_trio.execution.drivers.turns import SharedTurn, Turns
from reactor_trio.execution.session_binding import SessionBinding
from reactor_trio.execution.session_copies import SessionCopies, SessionCopy
from reactor_trio.interface.model import ReactorModel

log = logging.getLogger("reactor_trio.server")


class ModelLoop:
    """Runs the `run()` of one model, and the task that grants turns, for the model's life.

    Attributes:
        running: calls of the model loop that go on for the server's life: each `run()`, and the granting of turns.
    """

    def __init__(self, host: ModelHost) -> None:
        self.running = 0
        self._host = host
        self._killed = trio.Event()
        self._killer: BaseException | None = None

    def killed(self, error: BaseException) -> None:
        """End the model: code of a session raised an exception that no program survives, such as SystemExit."""
        self._killer = error
        self._killed.set()

    def is_interrupt(self, error: BaseException) -> bool:
        """Whether it is Ctrl-C in a test, where model code runs in the main thread."""
        return isinstance(error, KeyboardInterrupt) and self._host.thread is None

    async def until_ended(self, session_copies: SessionCopies) -> tuple[str, BaseException | None]:
        """Run the model until it ends; returns why it ended, in words, and its exception."""
        what: str = ""
        cause: BaseException | None = None

        async def run(session_copy: SessionCopy) -> None:
            nonlocal what, cause
            ended = await self._run(session_copy)
            if not what:
                what, cause = ended
            nursery.cancel_scope.cancel()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._until_killed, nursery.cancel_scope)
            if session_copies.turns is not None:
                nursery.start_soon(self._grant, session_copies.turns)
            for session_copy in session_copies.run_loops:
                nursery.start_soon(run, session_copy)
        if self._killer is not None:
            return f"model code raised {type(self._killer).__name__}: {self._killer}", self._killer
        return what, cause

    async def _until_killed(self, running: trio.CancelScope) -> None:
        await self._killed.wait()
        running.cancel()

    async def _grant(self, turns: Turns) -> None:
        self.running += 1
        try:
            await self._host.run(turns.run)
        finally:
            self.running -= 1

    async def _run(self, session_copy: SessionCopy) -> tuple[str, BaseException | None]:
        assert isinstance(session_copy.model, ReactorModel)
        self.running += 1
        try:
            await self._host.run(partial(_run, session_copy.model, session_copy.binding))
        except trio.Cancelled:
            raise
        except SessionOver as error:
            return "check_cancelled() left run(): catch SessionOver around the step, or poll cancelled()", error
        except BaseException as error:
            if self.is_interrupt(error):
                raise
            cause = with_twin(error) if isinstance(error, Exception) else error
            what = f"run() raised {type(cause).__name__}: {cause}"
            if trio.current_effective_deadline() == -math.inf:  # the server ends already, and does not read the result
                log.error("%s while the server ended", what, exc_info=cause)
            return what, cause
        finally:
            self.running -= 1
        return "run() returned; it must go on for the model's life", None


async def _run(model: ReactorModel, binding: SessionBinding) -> None:
    running: object = model.run()
    if not inspect.isawaitable(running):
        raise TypeError(f"run() must be async, it returned {type(running).__name__}")
    code = TracedAwaitable(running, observer=WatchesPieces(lambda: None if binding.runner is None else binding.runner.calls))
    await (binding.turn.run(code) if isinstance(binding.turn, SharedTurn) else code)
