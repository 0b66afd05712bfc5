"""Rank 0 leads: it sends each call of author code to the other ranks, makes the call, and compares the results.

There is one call at a time: a hook waits for the running step, a step for the handler before it. A call begins when every
rank has made the call before. So no rank is ever more than one call ahead, and ranks that meet in a collective operation are
in the same call.

The result of a call must be the same on all ranks: it returned, or its generator ended, or it raised this type of exception
(the texts may differ, as they may name a device). A rank that raises alone leaves the others in a collective operation that
never ends. So a rank that raised waits `RAISED_TIMEOUT` seconds for the others, and then the ranks are *out of step*.
Only arguments, before the call that has them, and worlds may be refused by one rank alone (`Leader.agree`).
An exception that no process survives is not compared, because all ranks end with it. A rank that finds the ranks out of
step reports that to the server and waits: the server ends all ranks.

If a call is cancelled, it is cancelled on the other ranks where they wait, which may be another place than here. Its results
are not compared. The scopes decide, not the exception: the cleanup of a cancelled call may raise one of its own. A session
ends without cancelling, as long as the running call returns in time (`leading_performer`).
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import msgspec
import trio

from reactor_trio.concurrency import ModelHost, author_error, log_author_error
from reactor_trio.crossing.failures import Failure
from reactor_trio.crossing.file_pieces import pieces_of, without_data
from reactor_trio.crossing.socket_link import MessageLink, answered_within
from reactor_trio.crossing.world_pieces import WorldPieces
from reactor_trio.errors import CommandError
from reactor_trio.execution.author_failures import ends_process, is_cancelled
from reactor_trio.execution.driver_scopes import CLOSE_TIMEOUT
from reactor_trio.execution.step_loop import DONE
from reactor_trio.lifecycle import Action
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.ranks import rank_messages
from reactor_trio.placement.ranks.rank_messages import REFUSABLE, out_of_step
from reactor_trio.placement.ranks.world_parts import add_piece
from reactor_trio.plain_text import sendable

log = logging.getLogger("reactor_trio.model")

T = TypeVar("T")

#: seconds for which a rank that raised waits for the others
RAISED_TIMEOUT = 2.0
#: answers in one call at most: endless asking must not fill the memory of ranks that compute
MOST_ANSWERS = 100_000

#: names of actions that are no hooks
_ACTIONS = {
    Action.MAKE_STATE: "the begin of a session",
    Action.CLOSE_DRIVER: "closing inference()",
    Action.RELEASE: "the end of a session",
}

#: calls of a session's end; rank 0 has `CLOSE_TIMEOUT` for each, so the others have no more
_OF_END = frozenset({Action.DISCONNECTED, Action.CLOSE_DRIVER, Action.SESSION_ENDED})

#: the number of the call in which this code began; tasks and threads keep it when the call is over
_IN_CALL: ContextVar[int | None] = ContextVar("reactor_in_call", default=None)


class Leader:
    """Leads the ranks at the other ends of `links`, from rank 1 on. Only `answer` may be called off the model loop.

    `run` receives from the links, on the model loop, and closes them.

    Args:
        report: sends an IPC message to the server, on the I/O loop.
    """

    def __init__(self, links: Sequence[MessageLink], host: ModelHost, report: Callable[[object], object]) -> None:
        #: seconds for which rank 0 waits for the others in the first step since the load, and later
        self.first_step_timeout = self.step_timeout = math.inf
        self._stepped = False  # since the load, on all ranks
        self._made_frame = False  # a session has made its first frame in the newest call
        self.links = links
        self._host = host
        self._report = report
        self._one_at_a_time = trio.Lock()
        self._call = rank_messages.RankCall(0, "perform", action=Action.RELEASE)
        #: the actions that the other ranks perform at the next call
        self._before: list[Action] = []
        #: the number of the call that runs on this rank
        self._running: int | None = None
        #: the newest call's result on this rank; None while it runs, and if it was cancelled
        self._result: rank_messages.RankCallDone | None = None
        self._done: list[rank_messages.RankCallDone] = [rank_messages.RankCallDone(0) for _ in links]
        self._news = trio.lowlevel.ParkingLot()  # tasks that wait for the other ranks
        self._asked = 0
        #: the parts of a world that the other ranks send in a call `pack`, one of each rank, until they are taken
        self.parts: Sequence[WorldPieces] = ()
        self._stopped = trio.Event()

    async def run(self) -> None:
        """Task: receive the results of the other ranks until cancelled; then close the links, which ends those ranks."""
        try:
            async with trio.open_nursery() as nursery:
                for index, link in enumerate(self.links):
                    nursery.start_soon(link.receive, lambda message, _session, index=index: self._receive(index, message))
                await trio.sleep_forever()
        finally:
            for link in self.links:
                link.close()

    def stop(self) -> None:
        """End every wait for other ranks: this process ends, and its sessions are about to unwind."""
        self._stopped.set()
        self._news.unpark_all()

    def answer(self, key: str, found: Any) -> None:
        """Send the other ranks what the runtime answers to `key` in this call. For any thread.

        What began in a call that is over asks outside of a call. Raises RuntimeError if one call asks more than
        `MOST_ANSWERS` times.
        """
        number = _IN_CALL.get()
        if number is not None and number == self._running:
            self._asked += 1
            if self._asked > MOST_ANSWERS:
                raise RuntimeError(f"{call_name(self._call)} asked the runtime {MOST_ANSWERS} times; ask less often")
            self._send(rank_messages.RuntimeAnswer(number, key, found))

    def made_frame(self) -> None:
        """A session has made its first frame on rank 0; the others may still compute it."""
        self._made_frame = True

    async def level(self, *, over: bool = False) -> None:
        """Return when every rank, this one too, has made the newest call, with the same result. It yields only if it waits.

        Args:
            over: whether the session is over, and its end waits for this.
        """
        if self._running is not None:  # a call that was just cancelled, and that other ranks may have made
            await self.idle()
        timeout = self.step_timeout if self._stepped else self.first_step_timeout
        setting = "step_timeout" if self._stepped else "first_step_timeout"
        if over and self._call.action in _OF_END and timeout > CLOSE_TIMEOUT:
            timeout, setting = CLOSE_TIMEOUT, ""
        if not await answered_within(timeout, self._all_done) and (late := self._late()) is not None:
            text = f"rank {late} has not ended {call_name(self._call)} {timeout:g} s after rank 0"
            await self._out_of_step(text, setting)
        await self._compare()
        if self._made_frame:
            self._made_frame, self._stepped = False, True
            self._host.post_io(self._report, ipc_messages.FirstStepMade())

    async def agree(self, code: str) -> int:
        """Return when every rank has made the newest call, which is one of `REFUSABLE`.

        Returns the bytes of the largest part of a world on another rank. Raises what a rank has raised alone; a CommandError
        gets this code.
        """
        call = self._call  # a hook may begin the next one as soon as every rank has made this one
        await self.level()
        for rank, done in enumerate(self._done, start=1):
            if done.number == call.number and done.failure is not None:
                if done.failure.kind != CommandError.__name__:
                    raise done.failure.error()
                text = done.failure.text
                raise refusal(code, text if call.world is None else f"rank {rank}: {text}", done.failure.place)
        return max((done.size for done in self._done), default=0)

    def performed(self, action: Action) -> None:
        """This rank has performed an action of `AT_NEXT_CALL`."""
        self._before.append(action)

    async def idle(self) -> None:
        """Return when no call is running."""
        async with self._one_at_a_time:
            pass

    async def call(self, call: rank_messages.RankCall, make: Callable[[], Awaitable[T]], cancelled: Callable[[], bool]) -> T:
        """Have every rank make the call, this one by `make`; return or raise what `make` does.

        Args:
            cancelled: says, in the task that makes the call, whether a call that has raised was cancelled.
        """
        async with self._next_call(shield=call.kind == "perform"):
            self._call = call = msgspec.structs.replace(call, number=self._call.number + 1, before=tuple(self._before))
            self._before.clear()
            self._asked = 0
            for piece in pieces_of(call.files):
                self._send(piece)
            self._send(msgspec.structs.replace(call, files=without_data(call.files)))
            self._running, self._result = call.number, None
            if call.kind == "pack":
                self.parts = [WorldPieces() for _ in self.links]
            token = _IN_CALL.set(call.number)
            try:
                value = await make()
            except BaseException as error:
                is_over = isinstance(error, GeneratorExit) or is_cancelled(error) or cancelled()
                # Shielded: a cancellation in this wait would take the place of what author code has raised.
                with trio.CancelScope(shield=True):
                    await self._raised(error, cancelled=is_over)
                raise
            finally:
                _IN_CALL.reset(token)
            self._finish("ended" if value is DONE else "")
            return value

    # ---- inside -------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _next_call(self, *, shield: bool) -> AsyncIterator[None]:
        """Wait until the next call may begin.

        Args:
            shield: for an action of the session's life. A cancellation leaves none out: hooks come in pairs, and a generator
                that holds a nursery which is cancelled must be closed even so.
        """
        with trio.CancelScope(shield=shield):
            await self._one_at_a_time.acquire()
        try:
            with trio.CancelScope(shield=shield):
                await self.level()
            yield
        finally:
            self._one_at_a_time.release()

    async def _raised(self, error: BaseException, *, cancelled: bool) -> None:
        if ends_process(error):
            self._host.post_io(self._report, ipc_messages.ModelBroken(Failure.of(author_error(error))))
            await self._stopped.wait()
        if cancelled:
            self._send(rank_messages.CancelRankCall(self._call.number))
            self._finish(None)
            return
        self._finish(type(error).__name__, Failure.of(author_error(error)))
        if self._call.kind in REFUSABLE:  # the next call waits for the others, as long as for a step
            return
        if not await answered_within(RAISED_TIMEOUT, self._all_done) and (late := self._late()) is not None:
            log_author_error(log, error, "rank 0 raised alone")
            text = f"raised {type(error).__name__}: {sendable(error)}"
            await self._out_of_step(f"in {call_name(self._call)} rank 0 {text}, and rank {late} goes on")
        await self._compare()

    def _finish(self, outcome: str | None, failure: Failure | None = None) -> None:
        self._running = None
        self._result = None if outcome is None else rank_messages.RankCallDone(self._call.number, outcome, failure)
        self._send(rank_messages.LeaderFinished())

    async def _compare(self) -> None:
        if self._result is None or self._stopped.is_set() or self._call.kind in REFUSABLE:  # see `agree`
            return
        for rank, done in enumerate(self._done, start=1):
            if done.outcome == self._result.outcome:
                continue
            if done.failure is not None:
                log_author_error(log, done.failure.error(), "rank %d raised alone, or something else", rank)
            theirs, mine = outcome_text(done), outcome_text(self._result)
            await self._out_of_step(f"in {call_name(self._call)} rank {rank} {theirs}, and rank 0 {mine}")

    async def _out_of_step(self, text: str, setting: str = "") -> None:
        self._host.post_io(self._report, out_of_step(text, setting))
        await self._stopped.wait()

    async def _all_done(self) -> None:
        while self._late() is not None:
            await self._news.park()

    def _late(self) -> int | None:
        if self._stopped.is_set():
            return None
        return next((rank for rank, done in enumerate(self._done, start=1) if done.number < self._call.number), None)

    def _receive(self, index: int, message: rank_messages.ToLeader) -> None:
        if isinstance(message, rank_messages.WorldPartPiece):
            if self.parts:
                add_piece(self.parts[index], message)
            return
        self._done[index] = message
        self._news.unpark_all()

    def _send(self, message: object) -> None:
        for link in self.links:
            link.send(message)


def refusal(code: str, text: str, place: str) -> CommandError:
    """A CommandError that another rank has raised at this place, `file:line`."""
    error = CommandError(code, text)
    error.location = place  # type: ignore[attr-defined]
    return error


def outcome_text(done: rank_messages.RankCallDone) -> str:
    """Say what came of a call on a rank, for the log."""
    if done.failure is not None:
        return f"raised {done.failure.kind}: {done.failure.text}"
    return {"": "returned", "ended": "ended its generator"}.get(done.outcome, f"raised {done.outcome}")


def call_name(call: rank_messages.RankCall) -> str:
    """Name a call, for the log."""
    match call.kind:
        case "step":
            return f"step {call.step}"
        case "command":
            return f"the command {call.command} before step {call.step}"
        case "arguments":
            return f"decoding the arguments of {call.command} before step {call.step}"
        case "file":
            return "@file_uploaded"
        case "capture":
            return f"the capture of the world before step {call.step}"
        case "pack" | "unpack":
            return f"the {call.kind}ing of a world before step {call.step}"
        case "put" | "put_back":
            return f"the put of a world before step {call.step}"
        case "restored":
            return "@restored"
    assert call.action is not None
    return _ACTIONS.get(call.action, f"@{call.action.value}")
