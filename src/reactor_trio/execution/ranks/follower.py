"""A rank that follows: it makes the calls that rank 0 says, in their order, on its own instance of the model.

It has no session, no pacing and no output: what it yields, replies and sends is not looked at. One task makes all calls, so
what an author's generator keeps in its task stays there; the scope around a session's calls is entered before its generator
is made and left after it is closed, since a generator may hold a nursery open across a yield.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import trio

from reactor_trio.concurrency import ModelHost, strip
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.execution.command_queue import Command
from reactor_trio.execution.drivers.author_calls import AuthorCalls
from reactor_trio.execution.drivers.step_drivers import DONE, Steps
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.process_link import Link
from reactor_trio.execution.isolation.remote_failure import failure_of
from reactor_trio.execution.isolation.time_limit import within
from reactor_trio.execution.ranks.leader import GRACE, call_name, is_fatal
from reactor_trio.execution.ranks.rank_messages import Answer, Call, Cancel, Desynced, Done, Made
from reactor_trio.execution.ranks.replicated_answers import IN_CALL, Answers
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.messages import ClientInfo, ModelMessage
from reactor_trio.interface.model import Model

log = logging.getLogger("reactor_trio.model")


class Follower:
    """One rank that follows. `hear` is for the I/O loop, the rest for the model loop.

    Args:
        link: to rank 0.
        say: says a word to the server, on the I/O loop.
    """

    def __init__(self, rank: int, link: Link, host: ModelHost, say: Callable[[object], object]) -> None:
        self.state: Any = None
        self.connected = False
        self._rank = rank
        self._link = link
        self._host = host
        self._say = say
        self._answers = Answers(host)
        self._next: Call | None = None
        self._wakeup = RepeatedEvent()
        self._scope = trio.CancelScope()
        self._author: AuthorCalls | None = None
        self._steps = Steps(_unwatched)

    def hear(self, word: Any, _descriptor: int | None) -> None:
        """Rank 0 says something."""
        match word:
            case Call():
                self._answers = Answers(self._host)
                self._host.post(self._take, word, self._answers)
            case Answer(key, value):
                self._answers.put(key, value)
            case Made():
                self._answers.made()
            case Cancel():
                self._host.post(self._cancel)

    async def run(self, model: Model, declaration: Declaration) -> None:
        """Task: make the calls until cancelled."""
        while True:
            with trio.CancelScope() as self._scope:
                await self._session(model, declaration)

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _take(self, call: Call, answers: Answers) -> None:
        self._next, self._next_answers = call, answers
        self._wakeup.set()

    def _cancel(self) -> None:
        self._scope.cancel()

    async def _session(self, model: Model, declaration: Declaration) -> None:
        """Its calls to the last, or until one is cancelled."""
        while True:
            while self._next is None:
                await self._wakeup.wait()
            call, self._next = self._next, None
            await self._carry_out(call, self._next_answers, model, declaration)
            if call.kind == "end":
                return

    async def _carry_out(self, call: Call, answers: Answers, model: Model, declaration: Declaration) -> None:
        token, raised = IN_CALL.set(answers), None
        outcome = ""
        try:
            outcome = "ended" if await self._make(call, model, declaration) is DONE else ""
        except BaseException as error:
            raised = error
            if strip(error, trio.Cancelled) is None:
                self._link.send(Done(call.number, "Cancelled"))
                raise
        finally:
            IN_CALL.reset(token)
        if raised is None:
            self._link.send(Done(call.number, outcome))
            return
        if is_fatal(raised):
            self._host.post_io(self._say, ipc_messages.Broken(failure_of(raised)))
            await trio.sleep_forever()
        self._link.send(Done(call.number, type(raised).__name__, failure_of(raised)))
        await self._until_made_there(call, answers, raised)

    async def _until_made_there(self, call: Call, answers: Answers, raised: BaseException) -> None:
        """Rank 0 compares what was raised when it has made the call; that it does not is for this rank to say."""
        if not await within(GRACE, answers.wait_made):
            log.error("rank %d raised alone", self._rank, exc_info=raised)
            told = f"raised {type(raised).__name__}: {raised}"
            self._host.post_io(self._say, Desynced(f"in {call_name(call)} rank {self._rank} {told}, and rank 0 goes on"))
            await trio.sleep_forever()

    async def _make(self, call: Call, model: Model, declaration: Declaration) -> Any:
        match call.kind:
            case "begin":
                self.state = declaration.state() if declaration.state is not None else None
                self.connected = True
                client = ClientInfo(call.client, call.at, _nowhere)
                self._author = AuthorCalls(model, declaration, client)
            case "hook":
                handler = getattr(declaration, call.name)
                self.connected = self.connected and call.name != "disconnected"
                assert self._author is not None
                files = ipc_messages.files_said(call.files)
                await self._author.call_hook(call.name, handler, files)
            case "command":
                await self._command(call, declaration)
            case "step":
                return await self._steps.resume(model)
            case "close":
                await self._steps.close()
            case "end":
                self.state, self.connected, self._author = None, False, None
        return None

    async def _command(self, call: Call, declaration: Declaration) -> None:
        assert self._author is not None
        files = ipc_messages.files_said(call.files)
        arguments = declaration.decode(call.name, call.data, files.__getitem__)[1]
        command = Command(call.number, call.client, call.name, arguments, None, call.at)
        await self._author.carry_out(command, self.state)


async def _unwatched(code: Any) -> Any:
    return await code


async def _nowhere(_client: int, _message: ModelMessage) -> None:
    await trio.lowlevel.checkpoint()
