"""Runs a model's `run()`, which must go on for the model's life, and notices what ends the model."""

from __future__ import annotations

import logging
import math
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec
import trio

from reactor_trio.concurrency import SessionOver, author_error, log_author_error
from reactor_trio.placement.loading import LoadedModel
from reactor_trio.placement.model_instances import ModelInstance
from reactor_trio.plain_text import sendable

log = logging.getLogger("reactor_trio.server")


class ModelEnding(msgspec.Struct, frozen=True):
    """Why a model has ended.

    Attributes:
        what: in words.
        cause: the exception that ended it.
        restarts: whether it can be loaded again.
        advice: what its author can do; a sentence.
        in_first_step: whether it took too long before it had made a frame, so that the next load may end in the same way.
    """

    what: str
    cause: BaseException | None = None
    restarts: bool = False
    advice: str = ""
    in_first_step: bool = False


class ModelRun:
    """Runs the `run()` of one model, or the task that makes its batches, for the model's life.

    Attributes:
        running: calls of the model loop that go on for the server's life: each `run()`, or the making of batches.
    """

    def __init__(self, loaded: LoadedModel) -> None:
        self.running = 0
        self._host = loaded.host
        self._instances = loaded.instances
        self._author_run = loaded.kind.driving.run
        self._life = trio.CancelScope()
        self._ending: ModelEnding | None = None

    def killed(self, error: BaseException) -> None:
        """End the model: code of a session raised an exception that no program survives, such as SystemExit."""
        self._ending = ModelEnding(f"model code raised {type(error).__name__}: {sendable(error)}", error)
        self._life.cancel()

    async def until_ended(self) -> ModelEnding:
        """Run the model's own `run()`; returns when that, or the model, has ended."""
        with self._life:
            async with trio.open_nursery() as nursery:
                for instance in self._instances.run_loops:
                    nursery.start_soon(self._run, instance)
                if self._instances.batcher is not None:
                    nursery.start_soon(self._go_on, self._instances.batcher.run)
                await trio.sleep_forever()
        ending, self._ending = self._ending, None  # its cause has the frames of the author's code
        assert ending is not None
        return ending

    async def _go_on(self, function: Callable[[], Awaitable[None]]) -> None:
        self.running += 1
        try:
            await self._host.run(function)
        finally:
            self.running -= 1

    async def _run(self, instance: ModelInstance) -> None:
        assert self._author_run is not None
        ending = ModelEnding("run() returned; it must go on for the model's life")
        try:
            await self._go_on(partial(self._author_run, instance.model, instance.binding))
        except trio.Cancelled:
            raise
        except SessionOver as error:
            what = "check_cancelled() left run(): catch SessionOver around the step, or poll cancelled()"
            ending = ModelEnding(what, error)
        except BaseException as error:
            if self._host.is_interrupt(error):
                raise
            cause = author_error(error)
            ending = ModelEnding(f"run() raised {type(cause).__name__}: {sendable(cause)}", cause)
            if trio.current_effective_deadline() == -math.inf:  # the server ends already, and does not read the result
                log_author_error(log, cause, "%s while the server ended", ending.what)
        self._ending = self._ending or ending
        self._life.cancel()
