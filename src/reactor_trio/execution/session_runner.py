"""The life of a session on the model loop: when its hooks are called, and when its driver begins and ends.

Order at connect: fresh state, `@session_started`, `connected` set, `@connected` to its end, then the driver. Order at
disconnect: `connected` cleared, the step of an app ended, `@disconnected` with the state still readable, generator closed
and its `finally` run, `@session_ended`, state gone.

The disconnect cancels `run`'s own task, not the driver. The driver is shielded until `@disconnected` has run: otherwise a
step that happens to be at an `await` would unwind before that hook, and a step that happens to be at a yield after it.

The runtime opens no scope around a step. An author may hold a nursery open across a yield, and the scope would then be left
in another step than it was entered in. The two scopes that stop and protect the driver are entered before the generator
exists. They are armed later, by attribute.

An exception of author code is caught in the task that ran it, before a nursery can group it, and returned as a value.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import trio

from reactor_trio.concurrency import SessionOver, current_call, strip, with_twin
from reactor_trio.crossing.messages import Command
from reactor_trio.execution.author_failures import ends_model, without_cancellation
from reactor_trio.execution.driven_session import DrivenSession, Phase
from reactor_trio.execution.drivers.app_driver import AppDriver
from reactor_trio.execution.drivers.blocking_driver import BlockingDriver
from reactor_trio.execution.drivers.step_drivers import BatchDriver, Driver, GeneratorDriver, RunLoopDriver
from reactor_trio.execution.session_binding import SEEN_SESSION, SessionBinding
from reactor_trio.interface.model import Model
from reactor_trio.lost_part import LOST, ModelPartLost

log = logging.getLogger("reactor_trio.model")


#: seconds in which `@disconnected` and the closing of an async generator must end
CLOSE_TIMEOUT = 5.0


#: what an author reads whose code has left a cancel scope or a nursery open; Trio mends the stack and raises
LEFT_OPEN = (
    "model code left a cancel scope or a nursery open: leave it in the call that entered it, and leave an async generator "
    "with `async with aclosing(...)`"
)


class SessionRunner(DrivenSession):
    """Runs one session on the model loop.

    Args:
        binding: of the model that serves the session.
        own_model: makes a copy of `model` for this session; None: `model` itself serves it.
        dropped: see `DrivenSession`; None: the server counts.
        options: see `DrivenSession`.
    """

    binding: SessionBinding

    def __init__(
        self,
        *,
        model: Model,
        binding: SessionBinding,
        own_model: Callable[[Model], Model] | None = None,
        dropped: Callable[[str, str, int], object] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(
            model=model, binding=binding, turn=binding.turn, dropped=dropped or binding.count_drop, **options
        )
        self.output_pacer.on_first_frame = binding.stepped
        self._shared_model = model
        self._own_model = own_model
        #: set when the newest restart is over; None before the first
        self._restarted: trio.Event | None = None
        self._left = ""

    async def run(self) -> BaseException | None:
        """Run the session from its first to its last line of author code; returns the author's exception if one ended it.

        The model ends if the exception `ends_model`: SystemExit, and KeyboardInterrupt off the main thread.
        """
        try:
            return await self._run()
        except BaseException as raised:
            if not _only_misnesting(left := strip(raised, trio.Cancelled)):
                raise
            if self.error is None:
                self.error = RuntimeError(LEFT_OPEN)
                self.error.__cause__ = left
            return self._outcome()
        finally:
            self.let_go()

    def let_go(self) -> None:
        """Let go of what refers back to this object: the session is over, or has never begun.

        Then reference counting frees all that the session held. Author code may keep its `ClientInfo`.
        """
        self.binding.input_queue.close()
        if self._own_model is not None:
            self.binding.retire()
        if self.phase is not Phase.NEW:
            self._left = self._driver.what_is_left()
            del self._driver
        self._messages.close()
        self._channel.close()
        del self.author

    async def _run(self) -> BaseException | None:
        SEEN_SESSION.set(self)
        self.host.observer.begun(self.session_id, self)
        self._call = current_call()
        self._stop, self._guard = trio.CancelScope(shield=True), trio.CancelScope()
        self._driver = self._open_driver()
        try:
            if self._own_model is not None:
                self.model = self.author.model = self._own_model(self._shared_model)
            await self._renew_state()
        except BaseException as error:
            self.error = with_twin(error)
            self.phase = Phase.CLOSED
            self.binding.input_queue.close()
            self.turn.leave()
            return self._outcome()
        self.phase = Phase.OPEN
        self.binding.runner = self
        try:
            await self.call_hook("session_started")
            if self.error is None:
                await self._serve_client()
        finally:
            self.phase = Phase.ENDING
            self.output_pacer.close()
            self.binding.input_queue.close()
            await self._call_last_hook("session_ended")
            self._look_for_lost_part()
            self.phase = Phase.CLOSED
            self.state = None
            self.model = self.author.model = self._shared_model
            self.binding.runner = None
            if self.declaration.stepped:
                self.binding.forget_fps()
                self.turn.leave()
        return self._outcome()

    async def _serve_client(self) -> None:
        """Call `@connected`, run the driver until the client leaves or the driver ends the session, call `@disconnected`."""
        async with trio.open_nursery() as nursery:
            try:
                self.binding.connected.change(self)
                self.tell_values()
                await self.call_hook("connected")
                if self.error is None:
                    nursery.start_soon(self._drive, nursery.cancel_scope)
                    await trio.sleep(math.inf)
            finally:
                self.phase = Phase.ENDING
                self.binding.connected.change(None)
                self.output_pacer.close()
                with trio.move_on_after(CLOSE_TIMEOUT, shield=True) as limit:
                    await self._driver.at_boundary()
                    if self._restarted is not None:  # its hooks come in pairs
                        await self._restarted.wait()
                if limit.cancelled_caught:
                    self._took_too_long("the step that ran when the client left")
                await self._call_last_hook("disconnected")
                self.binding.input_queue.close()  # first: a generator in `read` ends by BufferClosed, not by Cancelled
                self._stop.cancel()
                self.stopped.set()

    async def _call_last_hook(self, kind: str) -> None:
        with trio.move_on_after(CLOSE_TIMEOUT, shield=True) as limit:
            await self.call_hook(kind)
        if limit.cancelled_caught:
            self._took_too_long(f"@{kind}")

    @property
    def generator(self) -> Generator[Any, None, None] | AsyncGenerator[Any, None] | None:
        """The author's generator; None before its first step, and after it has returned."""
        return None if self.phase is Phase.CLOSED else self._driver.generator

    def what_is_left(self) -> str:
        """What author code of this session still holds, in words; empty if it holds nothing."""
        match self.phase:
            case Phase.NEW:
                return ""
            case Phase.CLOSED:
                return self._left
        return "its model side has not unwound"

    async def steer(self, command: Command) -> None:
        """See `DrivenSession`. What came on the input tracks while the model stood still is too old for it."""
        self.binding.input_queue.keep_newest()
        match command.name:
            case "reactor.pause" if command.arguments["paused"]:
                self.output_pacer.stop()
            case "reactor.pause":
                self.output_pacer.go_on(math.inf, command.at)
            case "reactor.step":
                self.output_pacer.go_on(command.arguments["steps"], command.at)
            case "reactor.restart":
                self._restarted = trio.Event()
                try:
                    await self._restart(fresh=command.arguments["state"] == "fresh")
                finally:
                    self._restarted.set()

    def step_was_cancelled(self) -> None:
        """A cancellation reaches an async step: if it is the session's end, the cleanup of the step may await."""
        if self._stop.cancel_called:
            self._protect_closing()

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _restart(self, *, fresh: bool) -> None:
        """Close the generator; the next step makes a new one. With `fresh` author code sees a session's end and a new begin.

        All hooks run then, since any of them may have a part in the state. Raises what the closing raises, and SessionOver
        if a hook has ended the session.
        """
        self.output_pacer.flush(self.step, black=False)
        if fresh:
            self.binding.connected.change(None)
            await self.call_hook("disconnected")
        with self.calls.running("closing inference() has run"):
            try:
                await self._driver.close()
            except BaseException as error:  # a nursery that is open across a yield groups GeneratorExit
                if (raised := strip(error, GeneratorExit)) is not None:
                    raise raised from None
        if not fresh:
            return
        await self.call_hook("session_ended")
        await self._renew_state()
        await self.call_hook("session_started")
        if self.error is None:
            self.binding.connected.change(self)
            await self.call_hook("connected")
        if self.error is not None:
            raise SessionOver

    async def _renew_state(self) -> None:
        state = self.declaration.state
        self.state = state() if state is not None else None

    def _outcome(self) -> BaseException | None:
        if self.error is not None and self.host.is_interrupt(self.error):
            raise self.error
        return self.error

    def _look_for_lost_part(self) -> None:
        """End the model if author code has raised and a part that it needs is lost: later sessions would raise too."""
        raised = self.raised_unheard if self.error is None else not ends_model(self.error)
        if raised and (lost := LOST.what()) is not None:
            cause, self.error = self.error, ModelPartLost(lost)
            self.error.__cause__ = cause

    def _open_driver(self) -> Driver:
        match self.kind:
            case "blocking":
                return BlockingDriver(self)
            case "run_loop":
                return RunLoopDriver(self)
            case "app":
                return AppDriver(self)
        return BatchDriver(self) if self.declaration.batched else GeneratorDriver(self)

    async def _drive(self, session: trio.CancelScope) -> None:
        self.tell_values()
        with self._stop, self._guard as guard:
            cut_short = False
            try:
                await self._driver.drive()
            except BaseException as error:
                self._driving_failed(error)
                cut_short = self.error is None and strip(error, trio.Cancelled) is None and not self.over
            finally:
                self.turn.give_back()
                self._protect_closing()
                try:
                    await self._driver.close()
                except BaseException as error:
                    self._closing_failed(strip(error, GeneratorExit, SessionOver, trio.Cancelled, *self._ends))
            if cut_short and self.error is None:
                self.error = RuntimeError(
                    "inference() holds a cancel scope or nursery open across a yield, and that scope was cancelled"
                )
        if guard.cancel_called:  # not cancelled_caught: what the closing raised was taken above
            self._took_too_long("closing inference()")
        session.cancel()

    def _driving_failed(self, error: BaseException) -> None:
        raised = strip(error, SessionOver, trio.Cancelled, *self._ends)
        if raised is not None and not ends_model(raised):
            raised = with_twin(raised)
            if self.over:  # too late to end the session by it
                self.unheard(without_cancellation(raised), "session %s: the model raised after its end", self.session_id)
                raised = None
        self.error = self.error or raised

    def _protect_closing(self) -> None:
        if not self._guard.shield:
            self._guard.shield, self._guard.deadline = True, trio.current_time() + CLOSE_TIMEOUT

    def _closing_failed(self, error: BaseException | None) -> None:
        if error is None:
            return
        if self.error is None and not self.over:
            self.error = error
        else:
            self.unheard(error, "session %s: closing inference() raised", self.session_id)

    def _took_too_long(self, what: str) -> None:
        text = f"{what} took over {CLOSE_TIMEOUT:g} s and was cancelled"
        log.error("session %s: %s", self.session_id, text)
        self.host.observer.unheard(self.session_id, trio.TooSlowError(text))


def _only_misnesting(error: BaseException | None) -> bool:
    """Whether Trio raised it, and nothing else, because author code has left a cancel scope or a nursery open."""
    if isinstance(error, BaseExceptionGroup):
        return all(_only_misnesting(one) for one in error.exceptions)
    return isinstance(error, RuntimeError) and "stack corrupted" in str(error)
