"""A session's half on the model loop: its state, when its hooks and handlers are called, and the driver of its generator
or run loop.

Order at connect: fresh state, `connected` set, `@connected` to its end, then the driver. Order at disconnect: `connected`
cleared, `@disconnected` with the state still readable, generator closed and its `finally` run, state gone.

The disconnect reaches `run`'s own task, not the driver, which is shielded until `@disconnected` has run: otherwise a step
that happens to be at an `await` would unwind before that hook, and one that happens to be at a yield after it.

No scope of the runtime is opened around a step, since an author may hold a nursery open across a yield, whose scope then
is left in another step than it was entered. The two scopes that stop and protect the driver are entered before the
generator exists and armed later, by attribute.

An exception of author code is caught in the task that ran it, before a nursery can group it, and returned as a value.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import trio
from msgspec.structs import replace

from reactor_trio.concurrency import ModelHost, SessionOver, current_call, strip, with_twin
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.errors import BufferClosed, CommandError
from reactor_trio.execution.command_queue import Command, CommandQueue, QueuedCommand
from reactor_trio.execution.drivers.author_calls import AuthorCalls
from reactor_trio.execution.drivers.block_numbers import Blocks
from reactor_trio.execution.drivers.blocking_driver import BlockingDriver
from reactor_trio.execution.drivers.call_watch import CallWatch
from reactor_trio.execution.drivers.device_fence import wait_for_fences
from reactor_trio.execution.drivers.step_drivers import BatchDriver, Driver, GeneratorDriver, RunLoopDriver
from reactor_trio.execution.mailbox import Mailbox
from reactor_trio.execution.output_pacer import OutputPacer, PlayoutSide
from reactor_trio.execution.session_binding import SessionBinding, serve_session
from reactor_trio.execution.session_events import FILE_UPLOADED, Answer, SessionEvents
from reactor_trio.execution.state_watch import StateWatch
from reactor_trio.interface.declaration import Declaration, Sharing
from reactor_trio.interface.events import Handler
from reactor_trio.interface.messages import ClientInfo, ModelMessage, message_data
from reactor_trio.interface.model import Model
from reactor_trio.media import Chunk, Origin
from reactor_trio.pacing import Cadence, PlayoutForecast
from reactor_trio.protocol import sendable

log = logging.getLogger("reactor_trio.model")

class SessionRunner:
    """The model's side of one session.

    Args:
        session_id: for the log.
        client: number and joining time of the controlling client.
        own_model: makes of `model` the one of this session; None: `model` itself serves it.
        close_timeout: seconds in which `@disconnected` and the closing of an async generator must end.
    """

    #: whether a generator that has made something and returns ends the session; else a new one follows it
    once = False

    def __init__(
        self,
        *,
        session_id: str,
        model: Model,
        binding: SessionBinding,
        declaration: Declaration,
        host: ModelHost,
        session: SessionEvents,
        playout: PlayoutSide,
        mailbox: Mailbox,
        replies: Mailbox,
        client: tuple[int, float],
        cadence: Cadence,
        forecast: PlayoutForecast,
        own_model: Callable[[Model], Model] | None = None,
        close_timeout: float = 5.0,
    ) -> None:
        self.session_id = session_id
        self.host = host
        self.model = model
        self.kind = declaration.kind
        self.outputs = declaration.outputs
        self.inputs = declaration.inputs
        self.state: Any = None
        self.author = AuthorCalls(model, declaration, ClientInfo(client[0], client[1], self._send_to))
        self.wakeup = RepeatedEvent()
        #: which author code runs
        self.calls = CallWatch(host)
        self.pending = CommandQueue(self._sharing)
        self.turn = binding.turn
        self.author.observer = self.turn.observer if declaration.kind == "pipeline" else None
        self.output_pacer = OutputPacer(
            mailbox, replies, playout, declaration, cadence, forecast, self.wakeup, self.turn.give_back
        )
        #: number of the step that comes next; counts steps that made frames
        self.step = 0
        #: steps that made none
        self.empty_steps = 0
        #: id of the controlling client's newest command applied
        self.newest_command: int | None = None
        #: false as long as the I/O loop was cancelled before `run` had its first turn: then no author code saw the session
        self.began = False
        self.closed = False
        #: set when the driver is to end
        self.stopped = trio.Event()
        self.error: BaseException | None = None
        #: name of the hook that raised `error`; empty if none did
        self.failed_hook = ""
        self.binding = binding
        self._own_model = own_model
        self._shared_model = model
        self._declaration = declaration
        self._session = session
        self._mailbox = mailbox
        self._close_timeout = close_timeout
        self._disconnected = False
        self._watch = StateWatch(declaration.settings)
        #: what a blocking model computes
        self.blocks = Blocks(self)
        self._newest_at = 0.0
        self._waited: float | None = None
        self._turn_waited = 0.0  # by a run loop, before the step that runs now
        self._idle = False  # the generator waits for something to happen

    @property
    def over(self) -> bool:
        """Whether the session is over; true at once when the client has left, readable from any thread."""
        return self._disconnected or self._call.cancel_requested

    async def run(self) -> BaseException | None:
        """The session from its first to its last line of author code; returns the author's exception if one ended it.

        One that is no Exception (SystemExit, and KeyboardInterrupt off the main thread) means the end of the model.
        """
        self.began = True
        serve_session(self)
        self.host.observer.begun(self.session_id, self)
        self._call = current_call()
        self._stop, self._guard = trio.CancelScope(shield=True), trio.CancelScope()
        self._driver = self._open_driver()
        try:
            if self._own_model is not None:
                self.model = self.author.model = self._own_model(self._shared_model)
            state = self._declaration.state
            self.state = state() if state is not None else None
        except BaseException as error:
            self.error = with_twin(error) if isinstance(error, Exception) else error
            self.closed = True
            self.binding.input_queue.close()
            self.turn.leave()
            return self._outcome()
        self.binding.runner = self
        try:
            async with trio.open_nursery() as nursery:
                try:
                    self.binding.connected.change(self)
                    self.tell_values()
                    await self._hook("connected", self._declaration.connected)
                    if self.error is None:
                        nursery.start_soon(self._drive, nursery.cancel_scope)
                        await trio.sleep(math.inf)  # until the disconnect, or until the driver ends the session
                finally:
                    self._disconnected = True
                    self.binding.connected.change(None)
                    self.output_pacer.close()
                    with trio.move_on_after(self._close_timeout, shield=True) as limit:
                        await self._hook("disconnected", self._declaration.disconnected)
                    if limit.cancelled_caught:
                        self._took_too_long("@disconnected")
                    self.binding.input_queue.close()  # first: a generator in `read` ends by BufferClosed, not by Cancelled
                    self._stop.cancel()
                    self.stopped.set()
        finally:
            self.closed = True
            self.state = None
            self.model = self.author.model = self._shared_model
            self.binding.runner = None
            if self._declaration.kind == "pipeline":
                self.binding.forget_fps()
                self.turn.leave()
        return self._outcome()

    @property
    def declaration(self) -> Declaration:
        """What the model declares."""
        return self._declaration

    @property
    def generator(self) -> Generator[Any, None, None] | AsyncGenerator[Any, None] | None:
        """The author's generator, if there is one now."""
        return self._driver.generator

    @property
    def raised(self) -> BaseException | None:
        """What author code raised, if that ended the session; also if `run` was cancelled after that."""
        return self.error

    def what_is_left(self) -> str:
        """What author code of this session still holds, in words; empty if all is let go."""
        if not self.began:
            return ""
        if not self.closed:
            return "its model half has not unwound"
        return self._driver.what_is_left()

    # ---- for the driver and the port ----------------------------------------------------------------------------------

    async def apply_next(self) -> bool:
        """Apply the oldest pending command and answer it; False if there is none."""
        place = self.pending.take()
        if place is None:
            return False
        await self._apply(place)
        return True

    async def wait_for_command(self, deadline: float) -> None:
        """Return when a command is pending or an input frame arrives, or at `deadline`. Always a checkpoint."""
        self._idle = True
        await trio.lowlevel.checkpoint()
        while self._idle and not self.pending and trio.current_time() < deadline:
            await self.wakeup.wait(deadline)
        self._idle = False

    def command_waited(self) -> float | None:
        """How long the newest command waited, in seconds; it does so no longer, for now a step sees it."""
        if self.newest_command is not None and self._waited is None:
            self._waited = trio.current_time() - self._newest_at
        return self._waited

    async def emit(self, chunk: Chunk, compute_time: float | None, drop: bool) -> None:
        """A run loop emitted."""
        step, command, waited = self.step, self.newest_command, self.command_waited()
        if chunk.length == 0:
            return
        self.step += 1
        with self.calls.running(f"step {step} has run"):
            device, cost = await self.turn.compute(self.made, chunk, step)
        if compute_time is not None:
            compute_time += device  # the author's own clock stopped when the work was queued
            compute_time = compute_time if cost is None else cost
        self.turn.give_back()
        origin = Origin(step, command, waited, compute_time or 0.0)
        if compute_time is not None:
            compute_time += self._turn_waited
        await self.output_pacer.emit(chunk, compute_time, origin, drop)
        self._turn_waited = 0.0
        if self.turn.of_this_task and not self.over:
            self._turn_waited = await self.turn.take(False)

    async def made(self, chunk: Chunk, step: int) -> tuple[float, float | None]:
        """Wait until devices have computed the chunk: the seconds that this took, and the stated cost of the step if any."""
        return await wait_for_fences(chunk), await self.host.time.spend(step)

    def unheard(self, error: BaseException, message: str, *args: object) -> None:
        """Log that `message % args` raised `error`, which ends no session and reaches no client; a test kit raises it."""
        self.host.failures.log(log, error, message, *args)
        self.host.observer.unheard(self.session_id, error)

    def tell(self, type: str, data: Any, client: int | None) -> None:  # noqa: A002 - the wire's words
        """A message to all clients, or to one."""
        self._mailbox.send(self._session.tell, type, data, client)

    def tell_values(self) -> None:
        """Tell which settings have other values since the last look, if any: after a step, and after a hook."""
        if changed := self._changed_values():
            self._mailbox.leave(self._session.state_changed, changed)

    # ---- posted by the I/O loop ---------------------------------------------------------------------------------------

    def command(self, command: Command) -> None:
        """A command has arrived."""
        self.pending.add(command)
        self.wakeup.set()

    def input_arrived(self) -> None:
        """An input frame can be read."""
        if self._idle:
            self._idle = False
            self.wakeup.set()

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _outcome(self) -> BaseException | None:
        if isinstance(self.error, KeyboardInterrupt) and self.host.thread is None:
            raise self.error  # Ctrl-C in a test, where model code runs in the main thread
        return self.error

    def _open_driver(self) -> Driver:
        if self.kind == "blocking":
            return BlockingDriver(self, self.host.author_threads)
        if self.kind == "run_loop":
            return RunLoopDriver(self)
        return BatchDriver(self) if self._declaration.batched else GeneratorDriver(self)

    def _changed_values(self) -> dict[str, bytes]:
        return self._watch.changes(self.state, trio.current_time()) if self._declaration.settings else {}

    async def _drive(self, session: trio.CancelScope) -> None:
        self.tell_values()
        with self._stop, self._guard as guard:
            cut_short = False
            try:
                await self._driver.drive()
            except BaseException as error:
                raised = strip(error, SessionOver, trio.Cancelled, *self._ends)
                if isinstance(raised, Exception):
                    raised = with_twin(raised)
                    if self.over:  # too late to end the session by it
                        if isinstance(raised.__context__, trio.Cancelled):
                            raised.__context__ = None  # that the session was over is no news
                        self.unheard(raised, "session %s: the model raised after its end", self.session_id)
                        raised = None
                self.error = self.error or raised
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

    async def _hook(self, kind: str, handler: Handler | None, arguments: dict[str, Any] | None = None) -> None:
        """Call a hook, if there is one.

        What `@connected` raises ends the session, as an exception of a step does: without it the session has half a state.
        An Exception of another hook is logged and goes no further. What is no Exception ends the model. That the session
        is over is no error.
        """
        try:
            with self.calls.running(f"@{kind} has run", self.author.thread):
                await self.author.hook(kind, handler, arguments)
        except trio.Cancelled:
            raise
        except BaseException as raised:
            error = strip(raised, SessionOver, *self._ends)
            if isinstance(error, BaseExceptionGroup) and error.subgroup(trio.Cancelled) is not None:
                raise
            if isinstance(error, Exception):
                error = with_twin(error)
                if isinstance(error.__context__, trio.Cancelled):
                    error.__context__ = None  # that the session was over is no news
                if kind != "connected":
                    self.unheard(error, "session %s: @%s raised", self.session_id, kind)
                    return
            if self.error is None and error is not None:
                self.error, self.failed_hook = error, kind

    @property
    def _ends(self) -> tuple[type[BaseException], ...]:
        """Exceptions by which author code says that the session is over, if it is."""
        return (BufferClosed,) if self.over else ()

    def input_ended(self) -> None:
        """A reader gets BufferClosed; as after a cancellation, a generator's cleanup may await."""
        if self.kind == "pipeline":
            self.step_was_cancelled()

    def step_was_cancelled(self) -> None:
        """A cancellation reaches an async step; if it is the session's end, the step's cleanup may await."""
        if self._stop.cancel_called:
            self._protect_closing()

    def _protect_closing(self) -> None:
        if not self._guard.shield:
            self._guard.shield, self._guard.deadline = True, trio.current_time() + self._close_timeout

    def _closing_failed(self, error: BaseException | None) -> None:
        if error is None:
            return
        if self.error is None and not self.over:
            self.error = error
        else:
            self.unheard(error, "session %s: closing inference() raised", self.session_id)

    def _took_too_long(self, what: str) -> None:
        text = f"{what} took over {self._close_timeout:g} s and was cancelled"
        log.error("session %s: %s", self.session_id, text)
        self.host.observer.unheard(self.session_id, trio.TooSlowError(text))

    async def _apply(self, place: QueuedCommand) -> None:
        command, numbers = place.command, tuple(place.numbers)
        if command.name == FILE_UPLOADED:
            await self._hook(FILE_UPLOADED, self._declaration.file_uploaded, command.arguments)
            self.tell_values()
            return
        try:
            with self.calls.running(f"the handler of {command.name} has run", self.author.thread):
                reply = await self.author.carry_out(command, self.state)
        except CommandError as error:
            answer = Answer(numbers, self.step, code=sendable(error.code), message=sendable(error.message))
        except Exception as raised:
            cause = with_twin(raised)
            if strip(raised, *self._ends) is None:
                return  # the client has left; nobody waits for the answer
            self.host.failures.log(log, cause, "session %s: the handler of %s raised", self.session_id, command.name)
            answer = Answer(numbers, self.step, code="internal_error", message=sendable(f"{type(cause).__name__}: {cause}"))
        else:
            if command.id is not None:
                self.newest_command, self._newest_at, self._waited = command.id, command.at, None
                if self.kind != "pipeline":
                    self.command_waited()  # what a run loop or a blocking model computes now may see it already
            next_block = self.blocks.next
            answer = Answer(numbers, self.step if next_block is None else next_block, reply)
        self._mailbox.send(self._session.answered, replace(answer, values=self._changed_values()))

    async def _send_to(self, client: int, message: ModelMessage) -> None:
        data = message_data(message)
        await trio.lowlevel.checkpoint()
        if not self.closed:
            self.tell(type(message).__reactor_type__, data, client)

    def _sharing(self, name: str) -> Sharing:
        return "none" if name == FILE_UPLOADED else self._declaration.commands[name].sharing
