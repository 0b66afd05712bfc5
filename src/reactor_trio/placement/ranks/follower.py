"""A rank that follows: it makes the calls of rank 0, in their order, on its own instance of the model.

It has no session, no pacing and no output: what author code yields, replies and sends here is discarded. One task makes all
calls, so what an author's generator keeps in its task stays there. A generator may hold a nursery open across a yield, so
the scope around a session's calls is entered before the generator is made and left after it is closed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import trio

from reactor_trio.concurrency import ModelHost, SessionOver, strip
from reactor_trio.crossing.failures import Failure
from reactor_trio.crossing.file_pieces import FilePieces
from reactor_trio.crossing.messages import Command, FilePiece
from reactor_trio.crossing.socket_link import IpcLink, answered_within
from reactor_trio.execution.author_failures import ends_process, is_cancelled
from reactor_trio.execution.bare_binding import BareBinding
from reactor_trio.execution.performer import Performer
from reactor_trio.execution.step_loop import DONE
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.messages import ClientInfo, ModelMessage
from reactor_trio.interface.model import Model
from reactor_trio.kinds.table import kind_of
from reactor_trio.lifecycle import Action
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.ranks import rank_messages
from reactor_trio.placement.ranks.leader import GRACE, call_name, outcome_text
from reactor_trio.placement.ranks.rank_messages import LED, RankCall, RankCallDone
from reactor_trio.placement.ranks.replicated_answers import IN_CALL, ReplicatedAnswers

log = logging.getLogger("reactor_trio.model")


class Follower:
    """One rank that follows. `receive` is for the I/O loop, the rest for the model loop.

    Args:
        link: the link to rank 0.
        report: sends an IPC message to the server, on the I/O loop.
    """

    def __init__(self, rank: int, link: IpcLink, host: ModelHost, report: Callable[[object], object]) -> None:
        self._rank = rank
        self._link = link
        self._host = host
        self._report = report
        self._answers = ReplicatedAnswers(host)
        self._files = FilePieces()
        #: on the model loop. Rank 0 sends the next call when this rank has made the call before.
        self._next_call, self._calls = trio.open_memory_channel[tuple[RankCall, ReplicatedAnswers]](1)
        self._scope = trio.CancelScope()
        #: of the current session
        self._performer: Performer | None = None

    def receive(self, message: Any, _session: int) -> None:
        """Process a message of rank 0."""
        match message:
            case FilePiece():
                self._files.add(message)
            case RankCall():
                self._files.give(message.files)
                self._answers = ReplicatedAnswers(self._host)
                self._host.post(self._next_call.send_nowait, (message, self._answers))
            case rank_messages.RuntimeAnswer(key, value):
                self._answers.put(key, value)
            case rank_messages.LeaderFinished():
                self._answers.finish()
            case rank_messages.CancelRankCall():
                self._host.post(lambda: self._scope.cancel())

    async def run(self, model: Model, declaration: Declaration, binding: BareBinding) -> None:
        """Task: make the calls until cancelled. One scope holds the calls of a session, up to one that is cancelled."""
        self._model, self._declaration, self._binding = model, declaration, binding
        open_source = kind_of(declaration).source
        assert open_source is not None, "ranks make their steps when rank 0 says so"
        self._source = open_source(None)
        while True:
            with trio.CancelScope() as self._scope:
                over = False
                while not over:
                    try:  # a call that has come belongs to this scope, also if it is cancelled by now
                        call, answers = self._calls.receive_nowait()
                    except trio.WouldBlock:
                        call, answers = await self._calls.receive()
                    await self._carry_out(call, answers)
                    over = self._performer is None

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _carry_out(self, call: RankCall, answers: ReplicatedAnswers) -> None:
        token = IN_CALL.set(answers)
        try:
            outcome = "ended" if await self._make(call) is DONE else ""
        except BaseException as error:
            raised = error
        else:
            self._link.send(RankCallDone(call.number, outcome))
            return
        finally:
            IN_CALL.reset(token)
        if ends_process(raised):
            self._host.post_io(self._report, ipc_messages.ModelBroken(Failure.of(raised)))
            await trio.sleep_forever()
        if is_cancelled(raised):
            self._link.send(RankCallDone(call.number, "Cancelled"))
            if (failure := strip(raised, trio.Cancelled, SessionOver)) is not None:
                log.error("rank %d raised as %s was cancelled", self._rank, call_name(call), exc_info=failure)
            await trio.lowlevel.checkpoint_if_cancelled()
            return
        done = RankCallDone(call.number, type(raised).__name__, Failure.of(raised))
        self._link.send(done)
        # Rank 0 compares the exceptions when it has made the call. If it does not end the call, this rank reports that.
        if not await answered_within(GRACE, answers.wait_finished):
            log.error("rank %d raised alone", self._rank, exc_info=raised)
            text = f"in {call_name(call)} rank {self._rank} {outcome_text(done)}, and rank 0 goes on"
            self._host.post_io(self._report, ipc_messages.RanksOutOfStep(text))
            await trio.sleep_forever()

    async def _make(self, call: RankCall) -> Any:
        if call.kind == "perform" and self._performer is None:
            client = ClientInfo(call.client, call.at, _send_nothing)
            self._performer = Performer(self._model, self._declaration, client, self._binding, self._binding)
            self._performer.driver = self._source
        assert self._performer is not None, "a call outside of a session"
        match call.kind:
            case "perform":
                for action in LED[Action(call.name)]:
                    await self._performer.perform(action)
                if action is Action.LET_GO:
                    self._performer = None
            case "command":
                arguments = self._declaration.command(call.name).arguments.decode(call.data, call.files.__getitem__)
                command = Command(call.number, call.client, call.name, arguments, None, call.at)
                await self._performer.carry_out(command)
            case "file":
                await self._performer.file_uploaded(call.files)
            case "step":
                return await self._source.resume(self._model)
        return None


async def _send_nothing(_client: int, _message: ModelMessage) -> None:
    await trio.lowlevel.checkpoint()
