"""Rank 0 leads: each call of author code is said to the other ranks, then made here, and compared.

One call at a time, whoever makes it: a hook waits for the step that runs, a step for the handler before it. A call begins
when every rank has made the one before, so no rank is ever more than one call ahead, and whoever waits in a collective
operation waits for ranks that are in the same call.

What came of a call must be the same everywhere: it returned, the generator ended, or the type of what was raised (its words
may name a device). A rank that raises alone leaves the others in a collective operation that never ends, so who has raised
waits `GRACE` seconds for the others and no longer: then the ranks are *apart*. An exception that no process survives is not
compared; the ranks go with it. Who is apart says so to the server and waits: the server ends all ranks.

A cancelled call is cancelled on the others where they wait, which is not always where it waited here; nothing of it is
compared. Sessions end without it, as long as a call ends by itself (`runner`).
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from typing import Any, TypeVar

import msgspec
import trio

from reactor_trio.concurrency import ModelHost, SessionOver, strip
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.execution.drivers.step_drivers import DONE
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.process_link import Link
from reactor_trio.execution.isolation.remote_failure import ends_process, error_of, failure_of
from reactor_trio.execution.isolation.time_limit import within
from reactor_trio.execution.ranks.rank_messages import Answer, Call, Cancel, Desynced, Done, Made

log = logging.getLogger("reactor_trio.model")

T = TypeVar("T")

#: seconds for which a rank that raised waits for the others to raise, too
GRACE = 2.0
#: answers in one call, at most: code that asks without end must not fill the memory of ranks that compute
MOST_ANSWERS = 100_000

_LEADING: ContextVar[bool] = ContextVar("reactor_leading", default=False)


class Leader:
    """Leads the ranks behind `links`, from 1 on. All of it is for the model loop, but for `answer`.

    Args:
        say: says a word to the server, on the I/O loop.
        at_once: whether the others hear of a call before it is made here; else after, as a test in one loop needs it.
    """

    def __init__(
        self, links: Sequence[Link], host: ModelHost, say: Callable[[object], object], *, at_once: bool = True
    ) -> None:
        self.patience: float = float("inf")
        self._links = links
        self._host = host
        self._say = say
        self._at_once = at_once
        self._held: list[object] = []
        self._one_at_a_time = trio.Lock()
        self._call = Call(0, "end")
        self._outcome: str | None = ""
        self._told = ""  # what was raised here, in words
        self._done: list[Done] = [Done(0) for _ in links]
        self._wakeup = RepeatedEvent()
        self._asked = 0
        self._alone = trio.Event()

    @property
    def ranks(self) -> int:
        """How many there are, this one counted."""
        return 1 + len(self._links)

    async def run(self) -> None:
        """Task: hear the other ranks until cancelled; then they are told no more, and end."""
        try:
            async with trio.open_nursery() as nursery:
                for index, link in enumerate(self._links):
                    nursery.start_soon(link.hear, lambda word, _descriptor, index=index: self._hear(index, word))
                await trio.sleep_forever()
        finally:
            for link in self._links:
                link.close()

    def stop(self) -> None:
        """This process ends: nobody is waited for any longer."""
        self._alone.set()
        self._wakeup.set()

    def answer(self, key: str, found: Any) -> None:
        """Any thread: author code has asked the runtime for `key`. Raises RuntimeError where that has no end."""
        if not _LEADING.get():
            return
        self._asked += 1
        if self._asked > MOST_ANSWERS:
            raise RuntimeError(f"{call_name(self._call)} asked the runtime {MOST_ANSWERS} times; ask less often")
        self._tell(Answer(key, found))

    async def level(self) -> None:
        """Return when every rank has made the newest call, as this one did. A checkpoint only if it waits."""
        if not await within(self.patience, self._all_made) and (late := self._late()) is not None:
            await self._apart(f"rank {late} has not ended {call_name(self._call)} {self.patience:g} s after rank 0")
        await self._compare()

    async def idle(self) -> None:
        """Return when no call is under way."""
        async with self._one_at_a_time:
            pass

    async def call(self, call: Call, make: Callable[[], Awaitable[T]]) -> T:
        """Have every rank make the call, this one by `make`; its value or exception."""
        async with self._one_at_a_time:
            await self.level()
            self._call = call = msgspec.structs.replace(call, number=self._call.number + 1)
            self._asked = 0
            self._tell(call)
            token = _LEADING.set(True)
            try:
                value = await make()
            except BaseException as error:
                await self._raised(error)
                raise
            finally:
                _LEADING.reset(token)
            self._ended("ended" if value is DONE else "")
            return value

    # ---- inside -------------------------------------------------------------------------------------------------------

    async def _raised(self, error: BaseException) -> None:
        if strip(error, trio.Cancelled) is None or isinstance(error, GeneratorExit):
            self._tell(Cancel(self._call.number))
            self._ended(None)
            return
        self._told = f"raised {type(error).__name__}: {error}"
        if is_fatal(error):
            self._host.post_io(self._say, ipc_messages.Broken(failure_of(error)))
            await self._alone.wait()
        self._ended(type(error).__name__)
        if not await within(GRACE, self._all_made) and (late := self._late()) is not None:
            log.error("rank 0 raised alone", exc_info=error)
            await self._apart(f"in {call_name(self._call)} rank 0 {self._told}, and rank {late} goes on")
        await self._compare()

    def _ended(self, outcome: str | None) -> None:
        self._outcome = outcome
        self._tell(Made(self._call.number))
        if not self._at_once:
            held, self._held = self._held, []
            for word in held:
                self._send(word)

    async def _compare(self) -> None:
        if self._outcome is None or self._alone.is_set():
            return
        for rank, done in enumerate(self._done, start=1):
            if done.outcome == self._outcome:
                continue
            theirs = _words(done.outcome)
            if done.failure is not None:
                log.error("rank %d raised alone, or something else", rank, exc_info=error_of(done.failure))
                theirs = f"raised {done.failure.kind}: {done.failure.text}"
            mine = self._told if self._outcome not in ("", "ended") else _words(self._outcome)
            await self._apart(f"in {call_name(self._call)} rank {rank} {theirs}, and rank 0 {mine}")

    async def _apart(self, text: str) -> None:
        self._host.post_io(self._say, Desynced(text))
        await self._alone.wait()

    async def _all_made(self) -> None:
        while self._late() is not None:
            await self._wakeup.wait()

    def _late(self) -> int | None:
        if self._alone.is_set():
            return None
        return next((rank for rank, done in enumerate(self._done, start=1) if done.number < self._call.number), None)

    def _hear(self, index: int, word: Done) -> None:
        self._done[index] = word
        self._wakeup.set()

    def _tell(self, word: object) -> None:
        if self._at_once:
            self._send(word)
        else:
            self._held.append(word)

    def _send(self, word: object) -> None:
        for link in self._links:
            link.send(word)


def _words(outcome: str) -> str:
    return {"": "returned", "ended": "ended its generator"}.get(outcome, f"raised {outcome}")


def is_fatal(error: BaseException) -> bool:
    """Whether the ranks end with it; that `check_cancelled` left a step is no such thing."""
    left = strip(error, SessionOver, trio.Cancelled)
    return left is not None and ends_process(left)


def call_name(call: Call) -> str:
    """Which call it is, for the log."""
    match call.kind:
        case "step":
            return f"step {call.step}"
        case "hook":
            return f"@{call.name}"
        case "command":
            return f"the command {call.name} before step {call.step}"
        case "close":
            return "closing inference()"
    return f"the {call.kind} of a session"
