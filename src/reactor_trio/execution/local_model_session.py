"""The crossing between the I/O loop and the model loop of this process, for one session: `LocalModelSession`.

Two mailboxes carry the calls: `mailbox` to the I/O loop, another to the model loop. A call that the other loop must run now
wakes it; the other calls wait until that loop looks (`Mailbox`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

from reactor_trio.concurrency import ModelHost, forget_variables
from reactor_trio.execution.command_queue import Command
from reactor_trio.execution.driven_session import Phase
from reactor_trio.execution.drivers.call_watch import RunningCall
from reactor_trio.execution.mailbox import Mailbox
from reactor_trio.execution.model_session import PlayoutSide, SessionEvents
from reactor_trio.execution.session_runner import SessionRunner
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.protocol import EndReason

log = logging.getLogger("reactor_trio.model")

#: The place of a call that waits, say for a device, with no line of author code above that.
NO_LINE = "(no line of the model: it waits for what it has started)"


@dataclass(eq=False)
class LocalModelSession:
    """A `ModelSession` whose model runs on the model loop of this process.

    Args:
        make_runner: makes the model's side, given `session`, `playout`, `mailbox` and `replies`.
        stuck_after: seconds after which a call of author code is reported.
        closed: called when the session is over.
    """

    host: ModelHost
    make_runner: Callable[..., SessionRunner]
    stuck_after: float
    closed: Callable[[], object]
    reason: EndReason = field(default="done", init=False)
    raised: BaseException | None = field(default=None, init=False)
    _left: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self.mailbox = Mailbox(self.host.post_io, asleep=True)
        self._replies = Mailbox(self.host.post, asleep=False)

    def connect(self, session: SessionEvents, playout: PlayoutSide) -> None:
        """See `ModelSession`."""
        self._runner = self.make_runner(session=session, playout=playout, mailbox=self.mailbox, replies=self._replies)
        self._input_queue = self._runner.binding.input_queue
        self._input_queue_number = self._input_queue.begin()

    async def run(self) -> BaseException | None:
        """See `ModelSession`."""
        try:
            return await self.host.run(self._runner.run)
        finally:
            if self._runner.error is not None:
                forget_variables(self._runner.error)
            self.raised = self._runner.error

    def close(self) -> None:
        """See `ModelSession`. The session refers to this object, and its runner to the session."""
        self._left = self._runner.what_is_left()
        if self._runner.phase is Phase.NEW:
            self.host.post(self._runner.let_go)
        del self._runner
        self._replies.clear()
        self.closed()

    async def watch(self, tell: Callable[[str, float], object]) -> None:
        """See `ModelSession`."""
        await self._runner.calls.watch(self.stuck_after, self._report, tell)

    def _report(self, call: RunningCall) -> None:
        log.warning(
            "session %s: %s for %g s in %s, whose client is still there. It is here:\n%s",
            self._runner.session_id, call.what, self.stuck_after, type(self._runner.model).__name__, self._stack(call),
        )  # fmt: skip

    def stack(self) -> str:
        """See `ModelSession`."""
        return self._stack(self._runner.calls.oldest)

    def _stack(self, call: RunningCall | None) -> str:
        return (self.host.stack() if call is None else self.host.stack(call.task, call.thread)) or NO_LINE

    def what_is_left(self) -> str:
        """See `ModelSession`."""
        return self._left

    def pause(self, paused: bool) -> None:
        """See `ModelSession`."""
        self._replies.post(self._runner.output_pacer.pause, paused)

    def command(self, command: Command) -> None:
        """See `ModelSession`."""
        self._replies.post(self._runner.take_command, command)

    def take_input(self, track: str, frame: InputFrame) -> None:
        """See `ModelSession`."""
        self._input_queue.put(self._input_queue_number, track, frame)

    def limit(self, fps: float) -> None:
        """See `ModelSession`."""
        self._replies.post_lazily(self._runner.output_pacer.limit, fps)

    def handed(self, until: float, epoch: int, *, wake: bool) -> None:
        """See `ModelSession`."""
        deliver = self._replies.post if wake else self._replies.post_lazily
        deliver(self._runner.output_pacer.handed, until, epoch)

    def shown(self, until: float) -> None:
        """See `ModelSession`."""
        self._replies.post(self._runner.output_pacer.shown, until)
