"""`ServedPerformer`: a `Performer` for a session under a server or a rendering: with commands, output, clients, a turn."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
import trio

from reactor_trio.concurrency import SessionOver, raise_if_cancelled
from reactor_trio.crossing.messages import Answer, Command, Rewound, StateValuesChanged
from reactor_trio.errors import CommandError, ModelFailed
from reactor_trio.execution.author_failures import is_failure
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.driver import Driver
from reactor_trio.execution.landing import Landing, LoadedWorld
from reactor_trio.execution.performer import Performer
from reactor_trio.execution.session_run import FILE_UPLOADED
from reactor_trio.execution.state_changes import StateChanges
from reactor_trio.execution.step_loop import StepSource
from reactor_trio.interface.messages import ClientInfo
from reactor_trio.interface.model import Model
from reactor_trio.lifecycle import Action, Event
from reactor_trio.plain_text import sendable
from reactor_trio.protocol import PLAYBACK, WorldMoment

if TYPE_CHECKING:  # a model that saves no worlds imports none of it
    from reactor_trio.execution.session_moments import SessionMoments
    from reactor_trio.worlds import World


class ServedPerformer(Performer):
    """See `Performer`. It also applies the commands of the session, on the model loop.

    Args:
        controller: number and joining time of the controlling client.
        new_driver: opens the driver of the session.
        restart: carries out a restart, or the landing on another world, given its event.
        moments: keeps the moments of the session; None if the model saves no worlds.
        own_model: makes a copy of the model for this session; None: the model itself serves it.
    """

    driver: Driver

    def __init__(
        self,
        session: DrivenSession,
        controller: tuple[int, float],
        new_driver: Callable[[ServedPerformer], Driver],
        restart: Callable[[Event, Landing | None], Awaitable[None]],
        own_model: Callable[[Model], Model] | None = None,
        moments: SessionMoments | None = None,
    ) -> None:
        client = ClientInfo(*controller, session.send_to)
        super().__init__(session.model, session.declaration, client, session.binding, session)
        self.session = session
        self._new_driver = new_driver
        self._restart = restart
        self._own_model = own_model
        self.moments = moments
        #: set when the newest restart is over; None before the first
        self._restarted: trio.Event | None = None
        self._shared_model = session.model
        self._watch = StateChanges(session.declaration.settings)

    def open_driver(self) -> None:
        """Open the driver of the session, on the model loop."""
        self.session.driver = self.driver = driver = self._new_driver(self)
        self.observer, self.call_handler, self.thread = driver.observer, driver.call_handler, driver.thread
        self.session.life.whole_steps = driver.whole_steps
        if self.moments is not None and driver.emits_alone:
            self._hold_emits()

    def _hold_emits(self) -> None:
        """If the session begins at a world, have no frame of its own beginning shown. `run()` may emit from now on."""
        session = self.session
        session.channel.take()
        if session.commands.begins_at_world:
            session.open_boundary(self.step_ended, holds=True)

    def steps(self, of_author: StepSource) -> StepSource:
        """The steps of the author's code that the driver makes."""
        return of_author

    # ---- commands -----------------------------------------------------------------------------------------------------

    async def apply_next(self) -> bool:
        """Apply the oldest pending command and answer its group; False if none is pending."""
        session = self.session
        commands = session.commands.take(session.step)
        if not commands:
            return False
        command, numbers = commands[-1], tuple(command.number for command in commands)
        if command.name == FILE_UPLOADED:
            await self.call_hook(FILE_UPLOADED, partial(self.file_uploaded, command.arguments))
            if session.failures.error is not None:
                raise SessionOver
            self.tell_values()
            return True
        try:
            if command.name in PLAYBACK:
                reply = await self._steer(command)
                session.newest_at = command.at  # what an earlier command waited for in a pause is no latency
            else:
                with session.calls.running(f"the handler of {command.name} has run", self.thread):
                    reply = await self.carry_out(command)
        except CommandError as error:
            answer = Answer(numbers, session.step, code=sendable(error.code), message=sendable(error.message))
        except BaseException as raised:
            if command.name in PLAYBACK or not is_failure(raised):
                raise
            text = session.failures.of_handler(command.name, raised, session.over)
            if text is None:
                return True  # the client has left and expects no answer
            answer = Answer(numbers, session.step, code="internal_error", message=text)
        else:
            answer = self._applied(command, numbers, reply)
        self._answer(answer)
        return True

    def tell_values(self) -> None:
        """Report the settings that have changed since the last look, if any."""
        if self._declaration.settings and (changed := self._changed_values()):
            self.session.channel.send(StateValuesChanged(changed))

    async def step_ended(self, frames: int, whole: bool = True) -> None:
        """Keep the moment after a step that has made so many frames, for a model that saves its worlds."""
        assert self.moments is not None
        session = self.session
        step, seconds = session.step - 1 - self.driver.steps_ahead, frames * session.output_pacer.frame_duration
        await self.moments.step_ended(self, step, seconds, whole)

    async def put_world(self, landing: Landing) -> None:
        """Put a world, or note in `landing` why that cannot be; the output that is queued is of a future that is over."""
        session, world = self.session, landing.world
        assert self.moments is not None
        with session.calls.running("the return to an earlier moment has run", self.thread):
            landing.refused = await self.moments.put(self, landing)
        if landing.refused is None:
            seqs = session.output_pacer.rewound(session.step)
            moment = world.step, world.age, world.size
            session.channel.send(Rewound(self._next_step, *moment, landing.why, landing.from_age, seqs))

    # ---- the life of the session --------------------------------------------------------------------------------------

    async def call_hook(self, kind: str, call: Callable[[], Awaitable[None]]) -> None:
        """Call a hook of this kind, by `call`.

        An exception of `@session_started` or `@connected` ends the session, as an exception of a step does: without that
        hook the session has half a state. An exception of another hook is logged and goes no further, unless it ends the
        model. An exception that only says that the session is over is no error.
        """
        session = self.session
        try:
            with session.calls.running(f"@{kind} has run", self.thread):
                await call()
        except trio.Cancelled:
            raise
        except BaseException as raised:  # a group may have a cancellation, which goes on below
            session.failures.of_hook(kind, raised, session.over)
        else:
            return
        await raise_if_cancelled()

    async def ready_for(self, action: Action) -> None:
        """Wait for what must end before an action of a session's end, outside of that action's time limit. Shielded."""

    def _copy_model(self) -> None:
        if self._own_model is not None:
            self.session.model = self.model = self._own_model(self._shared_model)

    def _flush(self) -> None:
        self.session.output_pacer.flush(self.session.step, black=False)

    async def _end_step(self) -> None:
        await self.driver.at_boundary()
        if self._restarted is not None and not self._restarted.is_set():  # its hook runs to its end
            await self._restarted.wait()

    def _drop_copy(self) -> None:
        self._drop_state()
        self.session.model = self.model = self._shared_model

    PERFORMS: ClassVar = {
        **Performer.PERFORMS,
        Action.COPY_MODEL: _copy_model, Action.TELL_VALUES: tell_values, Action.FLUSH: _flush, Action.END_STEP: _end_step,
        Action.RELEASE: _drop_copy,
    }  # fmt: skip

    def release(self) -> None:
        """Have the binding let go of the input, if it is the session's own."""
        if self._own_model is not None:
            self.session.binding.retire()

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _steer(self, command: Command) -> Any:
        """Carry out a command of playback or of worlds; returns the reply.

        Raises CommandError, and what ends the session.

        What came on the input tracks while the model stood still is too old for it.
        """
        session = self.session
        if command.name == "reactor.worlds":
            assert self.moments is not None, "Session refuses it for a model that saves no worlds"
            return self.moments.listing()
        session.binding.input_queue.keep_newest()
        match command.name:
            case "reactor.pause" if command.arguments["paused"]:
                session.output_pacer.pause(command.number)
            case "reactor.pause":
                session.output_pacer.resume(command.number, command.at)
            case "reactor.step":
                session.output_pacer.resume(command.number, command.at, command.arguments["steps"])
            case "reactor.restart":
                await self._close_and_go_on(Event.RESTART_FRESH if command.arguments["state"] == "fresh" else Event.RESTART)
            case "reactor.rewind":
                return await self._rewind(command)
            case "reactor.fork" if command.arguments["world"] is not None:
                return {}
            case "reactor.save" | "reactor.fork":
                return await self._captured(command)
            case "reactor.restore":
                return await self._restore(command)
            case "reactor.forget":
                return {}
        return None

    async def _close_and_go_on(self, event: Event, landing: Landing | None = None) -> None:
        self._restarted = restarted = trio.Event()
        try:
            await self._restart(event, landing)
        finally:
            restarted.set()

    async def _rewind(self, command: Command) -> Any:
        assert self.moments is not None, "Session refuses it for a model that saves no worlds"
        async with self._between_steps():  # looked for there, since a step that ends meanwhile changes which are kept
            landing = Landing(self.moments.landing(command.arguments, command.shown_step), "rewind")
            landing.from_age = self.moments.age_of(command.shown_step)
            return await self._land(landing)

    async def _captured(self, command: Command) -> World:
        """The world that a save means. Raises CommandError."""
        assert self.moments is not None, "Session refuses it for a model that saves no worlds"
        async with self._between_steps():
            with self.session.calls.running("@saving has run", self.thread):
                return await self.moments.to_save(self, command.arguments["step"])

    async def _restore(self, command: Command) -> Any:
        loaded: LoadedWorld = command.arguments["loaded"]
        declared = self._declaration.world
        assert declared is not None, "Session refuses it for a model that saves no worlds"
        try:
            world = loaded.unpacked(declared.classes)
            async with self._between_steps():
                reply = await self._land(Landing(world, loaded.why, same_process=False, version=loaded.version))
        except CommandError as error:
            if loaded.why == "restore":
                raise
            raise ModelFailed(f"the session cannot begin at its world: {error.message}") from error
        return reply | {"warnings": loaded.warnings}

    async def _land(self, landing: Landing) -> dict[str, Any]:
        """Go on from another world; returns the reply. Raises CommandError if that cannot be, and what ends the session."""
        await self._close_and_go_on(Event.PUT, landing)
        if landing.refused is not None:
            raise landing.refused
        return {"moment": WorldMoment(landing.world.step, landing.world.age, landing.world.size)}

    def _between_steps(self) -> AbstractAsyncContextManager[None]:
        """In its block no step of author code runs. Raises CommandError if that cannot be had, and SessionOver."""
        return nullcontext() if (boundary := self.session.boundary) is None else boundary.reached()

    def _applied(self, command: Command, numbers: tuple[int, ...], reply: Any) -> Answer:
        """Note that a command is applied; the answer to its group."""
        session = self.session
        session.command_applied(command)
        if command.name in ("reactor.save", "reactor.fork") and reply != {}:
            session.commands.saved(command.number, reply)
            return Answer(numbers, self._next_step, world=reply)
        return Answer(numbers, self._next_step, msgspec.json.encode(reply))

    @property
    def _next_step(self) -> int:
        """The number of the step that is the first to see a command that is applied now."""
        return self.session.step if self.driver.next_block is None else self.driver.next_block

    def _answer(self, answer: Answer) -> None:
        self.session.channel.send(msgspec.structs.replace(answer, values=self._changed_values()))

    def _changed_values(self) -> dict[str, bytes]:
        return self._watch.changes(self.keeper.state, trio.current_time()) if self._declaration.settings else {}
