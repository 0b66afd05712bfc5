"""A rank that follows: it makes the calls of rank 0, in their order, on its own instance of the model.

It has no session, no pacing and no output: what author code yields, replies and sends here is discarded. One task makes all
calls, so what an author's generator keeps in its task stays there. A generator may hold a nursery open across a yield, so
the scope of a session's steps is entered before the generator is made and left after it is closed. Any other call has a
scope of its own. Nothing is cancelled between two calls: only the call itself, as long as this rank makes it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import trio

from reactor_trio.concurrency import ModelHost, SessionOver, author_error, log_author_error, raise_if_cancelled, strip
from reactor_trio.crossing.failures import Failure
from reactor_trio.crossing.file_pieces import FilePieces
from reactor_trio.crossing.messages import Command, FilePiece
from reactor_trio.crossing.socket_link import MessageLink, answered_within
from reactor_trio.crossing.world_pieces import PackedWorld, WorldPieces
from reactor_trio.execution.author_failures import ends_process, is_cancelled
from reactor_trio.execution.bare_binding import BareBinding
from reactor_trio.execution.driver_scopes import DriverScopes
from reactor_trio.execution.performer import Performer
from reactor_trio.execution.step_loop import DONE
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.messages import ClientInfo, ModelMessage
from reactor_trio.interface.model import Model
from reactor_trio.kinds.table import kind_of
from reactor_trio.lifecycle import Action
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.ranks import rank_messages
from reactor_trio.placement.ranks.leader import RAISED_TIMEOUT, call_name, outcome_text
from reactor_trio.placement.ranks.rank_messages import REFUSABLE, RankCall, RankCallDone, WorldPartPiece, out_of_step
from reactor_trio.placement.ranks.rank_worlds import RankWorlds, open_worlds
from reactor_trio.placement.ranks.replicated_answers import IN_CALL, ReplicatedAnswers
from reactor_trio.placement.ranks.world_parts import add_piece, send_part

log = logging.getLogger("reactor_trio.model")


class Follower:
    """One rank that follows. `receive` is for the I/O loop, the rest for the model loop.

    Args:
        link: the link to rank 0.
        report: sends an IPC message to the server, on the I/O loop.
    """

    def __init__(self, rank: int, link: MessageLink, host: ModelHost, report: Callable[[object], object]) -> None:
        self._rank = rank
        self._link = link
        self._host = host
        self._report = report
        #: of the newest call that has come, with its number
        self._answers, self._newest = ReplicatedAnswers(host), 0
        self._files = FilePieces()
        self._part = WorldPieces()
        #: on the model loop. Rank 0 sends the next call when this rank has made the call before.
        self._next_call, self._calls = trio.open_memory_channel[tuple[RankCall, ReplicatedAnswers]](1)
        self._part_came, self._parts = trio.open_memory_channel[PackedWorld](1)
        #: the call that this rank makes, by its number, and the scope that cancels it
        self._making: int | None = None
        self._scope = trio.CancelScope()
        self._cancelled = 0  # the call that rank 0 has cancelled last
        #: the arguments of the next command, if they were a call of their own
        self._decoded: dict[str, Any] = {}
        #: of the current session
        self._performer: Performer | None = None
        self._worlds: RankWorlds | None = None

    def receive(self, message: Any, _session: int) -> None:
        """Process a message of rank 0."""
        match message:
            case FilePiece():
                self._files.add(message)
            case RankCall(number):
                self._newest = number
                self._files.give(message.files)
                self._answers = ReplicatedAnswers(self._host)
                self._host.post(self._add_call, message, self._answers)
            case WorldPartPiece():
                if add_piece(self._part, message):
                    self._host.post(self._part_came.send_nowait, self._part.take())
            case rank_messages.RuntimeAnswer(number, key, value) if number == self._newest:
                self._answers.put(key, value)
            case rank_messages.LeaderFinished():
                self._answers.finish()
            case rank_messages.CancelRankCall(number):
                self._host.post(self._cancel, number)

    async def run(self, model: Model, declaration: Declaration, binding: BareBinding) -> None:
        """Task: make the calls until cancelled."""
        self._model, self._declaration, self._binding = model, declaration, binding
        open_source = kind_of(declaration).driving.source
        assert open_source is not None, "ranks make their steps when rank 0 says so"
        self._source = open_source(None)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._close_when_cancelled)
            with suppress(trio.EndOfChannel):
                while True:
                    scopes = DriverScopes()
                    scopes.stop.shield = False  # the end of the process cancels a step, too
                    with scopes.stop, scopes.guard:
                        try:
                            await self._make_calls(scopes)
                        finally:
                            await self._close_source()

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _close_when_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self._next_call.close()

    async def _close_source(self) -> None:
        """Close what is left of a generator that is cancelled, or whose process ends, before its scope is left.

        The cleanup of a step that was cancelled has what is left of its time. Each other wait is cancelled. For code that
        goes on even so, rank 0 waits as `Leader.level` says, and the server `RAISED_TIMEOUT` seconds when it ends the
        process.
        """
        try:
            await self._source.close()
        except BaseException as error:
            if (failure := strip(error, GeneratorExit, trio.Cancelled)) is not None:
                log_author_error(log, failure, "rank %d: closing inference() raised", self._rank)

    def _add_call(self, call: RankCall, answers: ReplicatedAnswers) -> None:
        with suppress(trio.ClosedResourceError):
            self._next_call.send_nowait((call, answers))

    def _cancel(self, number: int) -> None:
        self._cancelled = number
        if number == self._making:
            self._scope.cancel()

    async def _make_calls(self, scopes: DriverScopes) -> None:
        """Make the calls of a session, up to a step that is cancelled. Raises EndOfChannel if this rank is to end.

        Args:
            scopes: of what the generator does. The cleanup of a step that is cancelled may await, as on rank 0.
        """
        over = False
        while not over and not scopes.stop.cancel_called:
            with trio.CancelScope(shield=True):  # the generator may hold a nursery that is cancelled
                call, answers = await self._calls.receive()
            if call.kind == "step" or call.action is Action.CLOSE_DRIVER:
                self._scope = scopes.stop
                self._source.cancelled = scopes.step_was_cancelled if call.kind == "step" else _nothing
                await self._carry_out(call, answers)
            else:
                with trio.CancelScope() as self._scope:
                    await self._carry_out(call, answers)
            over = self._performer is None

    async def _carry_out(self, call: RankCall, answers: ReplicatedAnswers) -> None:
        token = IN_CALL.set(answers)
        try:
            made = await self._make(call, answers)
        except BaseException as error:
            raised = error
        else:
            size = made if call.kind == "capture" else 0
            self._link.send(RankCallDone(call.number, "ended" if made is DONE else "", size=size))
            return
        finally:
            IN_CALL.reset(token)
        if ends_process(raised):
            self._host.post_io(self._report, ipc_messages.ModelBroken(Failure.of(author_error(raised))))
            await trio.sleep_forever()
        if is_cancelled(raised) or self._scope.cancel_called:  # the cleanup may have raised
            self._link.send(RankCallDone(call.number, "Cancelled"))
            if (failure := strip(raised, trio.Cancelled, SessionOver)) is not None:
                log_author_error(log, failure, "rank %d raised as %s was cancelled", self._rank, call_name(call))
            await raise_if_cancelled()
            return
        done = RankCallDone(call.number, type(raised).__name__, Failure.of(author_error(raised)))
        self._link.send(done)
        if call.kind in REFUSABLE:  # rank 0 learns of the refusal and has the other ranks take the call back
            return
        # Rank 0 compares the exceptions when it has made the call. If it does not end the call, this rank reports that.
        if not await answered_within(RAISED_TIMEOUT, answers.wait_finished):
            log_author_error(log, raised, "rank %d raised alone", self._rank)
            text = f"in {call_name(call)} rank {self._rank} {outcome_text(done)}, and rank 0 goes on"
            self._host.post_io(self._report, out_of_step(text))
            await trio.sleep_forever()

    async def _make(self, call: RankCall, answers: ReplicatedAnswers) -> Any:
        answers.caller, self._making = trio.lowlevel.current_task(), call.number
        if self._cancelled == call.number:
            self._scope.cancel()
        try:
            return await self._call(call)
        finally:
            answers.caller, answers.made, self._making = None, True, None

    async def _call(self, call: RankCall) -> Any:
        if call.kind == "perform" and self._performer is None:
            client = ClientInfo(call.client, call.at, _send_nothing)
            self._performer = Performer(self._model, self._declaration, client, self._binding, self._binding)
            self._performer.driver = self._source
            self._binding.begin()
            self._worlds = open_worlds(self._declaration, partial(send_part, self._link), self._parts.receive)
        assert self._performer is not None, "a call outside of a session"
        for action in call.before:
            await self._performer.perform(action)
        match call.kind:
            case "perform":
                assert call.action is not None
                await self._performer.perform(call.action)
                if call.action is Action.RELEASE:
                    self._performer = self._worlds = None
            case "arguments":
                arguments = self._declaration.commands[call.command].arguments
                self._decoded = arguments.decode(call.data, call.files.__getitem__)
            case "command":
                given, self._decoded = self._decoded, {}
                command = Command(call.number, call.client, call.command, given, None, call.at, call.data, call.files)
                await self._performer.carry_out(command)
            case "file":
                await self._performer.file_uploaded(call.files)
            case "capture" | "pack" | "unpack" | "put" | "put_back" | "restored":
                assert call.world is not None
                assert self._worlds is not None, "rank 0 saves no worlds either"
                return await self._worlds.carry_out(call.kind, call.world, self._performer)
            case "step":
                return await self._source.resume(self._model)
        return None


def _nothing() -> None:
    """Of a call that is not to be protected when it is cancelled."""


async def _send_nothing(_client: int, _message: ModelMessage) -> None:
    await trio.lowlevel.checkpoint()
