"""The model's side of one session as its driver and its model see it: state, input, output and counts.

A `DrivenSession` lives on the model loop. A `SessionTasks` runs it, from its first hook to its last, and its
`ServedPerformer` calls author code. This module knows none of them, nor drivers or bindings, so all may import it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import nullcontext
from typing import Any, Protocol

import trio

from reactor_trio.concurrency import ModelHost, current_call
from reactor_trio.concurrency.model_host import Call
from reactor_trio.crossing.channel import ChannelEnd
from reactor_trio.crossing.message_flow import MessageFlow
from reactor_trio.crossing.messages import (
    BundleShown,
    Command,
    MessagesTaken,
    PauseSteps,
    SetFpsLimit,
    SetWatched,
    ShownUntil,
)
from reactor_trio.execution.call_monitor import CallMonitor
from reactor_trio.execution.command_queue import CommandQueue
from reactor_trio.execution.driver_scopes import DriverScopes
from reactor_trio.execution.emit_boundary import EmitBoundary
from reactor_trio.execution.fences import wait_for_fences
from reactor_trio.execution.input_queue import InputQueue
from reactor_trio.execution.output_pacer import OutputPacer
from reactor_trio.execution.performer import LifeBinding
from reactor_trio.execution.session_failures import SessionFailures
from reactor_trio.execution.turns import Turn
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.messages import ModelMessage, message_data
from reactor_trio.interface.model import Model, ModelBinding
from reactor_trio.lifecycle import SessionLife, State
from reactor_trio.media import Chunk, Origin


class ServedBinding(ModelBinding, LifeBinding, Protocol):
    """The binding of a model that is served; see `SessionBinding`."""

    turn: Turn
    input_queue: InputQueue

    def begin(self, session: DrivenSession) -> None:
        """Serve this session from now on."""

    def retire(self) -> None:
        """Let go of the input: the binding is a session's own, and that is over."""


class FollowsInput(Protocol):
    """What follows the input tracks of a session: its driver."""

    def input_arrived(self) -> None:
        """An input frame can be read."""

    def input_ended(self) -> None:
        """A reader of an input track gets BufferClosed."""


class DrivenSession:
    """The state, the commands and the output of one session, on the model loop. Every kind of model has all of it.

    What one kind needs has its driver (`kinds/`). `emit` is here because author code of each kind that awaits may emit, also
    outside of the driver's task.

    Args:
        session_id: for the log.
        model: the instance that serves the session.
        binding: through which the model reaches the session. It has the turn on the model thread.
        channel: the model's end of the session's channel.
        commands: those that are pending. Its `wakeup` wakes the driver, and whoever waits for room in the output.
        output_pacer: paces the frames.
    """

    def __init__(
        self,
        *,
        session_id: str,
        model: Model,
        binding: ServedBinding,
        declaration: Declaration,
        host: ModelHost,
        channel: ChannelEnd,
        commands: CommandQueue,
        output_pacer: OutputPacer,
    ) -> None:
        self.session_id = session_id
        self.host = host
        self.model = model
        self.binding = binding
        self.turn = binding.turn
        self.declaration = declaration
        #: the state, unless the model keeps it: see `AuthorCalls.keeper`
        self.state: Any = None
        self.life = SessionLife()
        self.scopes = DriverScopes()
        #: the client is served in it
        self.serving = trio.CancelScope()
        #: set when the session is over, before anything of its end is done
        self.ending = trio.Event()
        #: set when the driver is to end
        self.stopped = trio.Event()
        self.failures = SessionFailures(session_id, host)
        #: the calls of author code that run now
        self.calls = CallMonitor(host)
        self.wakeup = commands.wakeup
        self.commands = commands
        self.output_pacer = output_pacer
        #: number of the next step; only steps that make frames count
        self.step = 0
        #: how many steps made no frame; the test kit reads it beside `step`
        self.empty_steps = 0
        #: the driver of the session, while that is open
        self.driver: FollowsInput | None = None
        #: where the world of code that emits by itself is whole; None if its steps end elsewhere, or it saves no worlds
        self.boundary: EmitBoundary | None = None
        #: id of the controlling client's newest applied command
        self.newest_command: int | None = None
        #: in which the session runs on the model loop
        self.call = Call()
        self.channel = channel
        self._messages = MessageFlow(channel)
        channel.connect({
            Command: commands.add, SetFpsLimit: output_pacer.limit, SetWatched: output_pacer.watched,
            BundleShown: output_pacer.handed, ShownUntil: output_pacer.shown, MessagesTaken: self._messages.taken,
            PauseSteps: lambda message: output_pacer.pause(message.number),
        })  # fmt: skip
        self._waited: float | None = None
        #: when the newest command arrived, also one of playback
        self.newest_at = 0.0
        self._turn_waited = 0.0  # by code that emits in turns of its own, before what it computes now

    @property
    def over(self) -> bool:
        """Whether the session is over. True as soon as the client has left; any thread may read it."""
        return self.life.state >= State.LEAVING or self.call.cancel_requested

    def end(self) -> None:
        """End the session as if the client left, from within the driver."""
        self.serving.cancel()

    # ---- commands -----------------------------------------------------------------------------------------------------

    def command_applied(self, command: Command) -> None:
        """Note that a command is applied: the next step sees it."""
        if command.id is not None:
            self.newest_command, self.newest_at, self._waited = command.id, command.at, None

    def command_waited(self) -> float | None:
        """Seconds from the arrival of the newest command to the first call of this method, which is when a step sees it."""
        if self.newest_command is not None and self._waited is None:
            self._waited = trio.current_time() - self.newest_at
        return self._waited

    # ---- output -------------------------------------------------------------------------------------------------------

    async def emit(self, chunk: Chunk, compute_time: float | None, drop: bool) -> None:
        """Queue what author code emitted; a `run()` then takes its next turn if the model's thread is shared."""
        if self.boundary is not None and self.boundary.holds:
            await self._emit_unseen(chunk, self.boundary)
            return
        async with nullcontext() if self.boundary is None else self.boundary.emitting(chunk.length) as queued:
            step, command, waited = self.step, self.newest_command, self.command_waited()
            if chunk.length == 0:
                return
            self.step += 1
            with self.calls.running(f"step {step} has run"):
                device, cost = await self.until_computed(chunk, step)
            if compute_time is not None:
                compute_time += device  # the author's own clock stopped when the work was queued on the device
                compute_time = compute_time if cost is None else cost
            self.turn.give_back()
            origin = Origin(step, command, waited, compute_time or 0.0)
            self.output_pacer.accept(chunk, None if compute_time is None else compute_time + self._turn_waited)
            await self.output_pacer.queue(chunk, origin, trio.current_time(), "emit", drop)
            if queued is not None:
                await self.resumes()
                queued()
            self._turn_waited = 0.0
            if self.turn.of_this_task and not self.over:
                self._turn_waited = await self.turn.take(False)
            if queued is None and (costs := self.host.time.costs) is not None:
                await costs.run_loop_resumes()

    def open_boundary(self, step_ended: Callable[[int, bool], Awaitable[None]], *, holds: bool = False) -> EmitBoundary:
        """Keep and put the worlds of code that emits by itself inside its emits; see `EmitBoundary`."""
        self.boundary = EmitBoundary(self.wakeup, lambda: self.over, step_ended, self.resumes, holds=holds)
        return self.boundary

    async def _emit_unseen(self, chunk: Chunk, boundary: EmitBoundary) -> None:
        """Drop a frame from before the world at which the session begins, and return with that world."""
        async with boundary.emitting(chunk.length, stands=current_call() is not self.call):
            if chunk.length:
                await self.until_computed(chunk, self.step)
                self.output_pacer.dropped("buffer", "flushed", chunk.length)
            self.turn.give_back()
        if self.turn.of_this_task and not self.over:
            self._turn_waited = await self.turn.take(False)
        await self.resumes()

    async def resumes(self) -> None:
        """In a rendering: wait until the commands that the next frame sees are applied, or one waits for this emit."""
        if (costs := self.host.time.costs) is not None:
            await costs.run_loop_resumes()

    async def until_computed(self, chunk: Chunk, step: int) -> tuple[float, float | None]:
        """Wait until devices have computed the chunk.

        Returns the seconds that this took, and the cost of the step that a test or a rendering states, None without one.
        """
        if self.host.time.costs is None and not chunk.pending_fences:
            return 0.0, None
        return await self.turn.compute(self._until_computed, chunk, step)

    async def _until_computed(self, chunk: Chunk, step: int) -> tuple[float, float | None]:
        return await wait_for_fences(chunk), await self.spend(step)

    async def spend(self, step: int) -> float | None:
        """Have a step take the time that a test or a rendering states; returns it in seconds, None without one."""
        return None if (costs := self.host.time.costs) is None else await costs.spend(step)

    async def tell(self, type: str, data: Any, client: int | None = None) -> None:  # noqa: A002 - the wire's words
        """Send a message to all clients, or to one. Does nothing when the session is closed."""
        if self.life.state is not State.CLOSED:
            await self._messages.put(type, data, client)

    async def send_to(self, client: int, message: ModelMessage) -> None:
        """Send a message to one client. Does nothing when the session is closed."""
        data = message_data(message)
        await trio.lowlevel.checkpoint()
        await self.tell(type(message).__reactor_type__, data, client)

    def release(self) -> None:
        """Release what refers back to this object: the session is over, or has never begun."""
        self._messages.close()
        self.channel.close()
        self.driver = self.boundary = None
