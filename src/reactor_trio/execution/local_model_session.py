"""The crossing between the I/O loop and the model loop of this process, for one session: `LocalModelSession`.

Two mailboxes carry the calls: `mailbox` to the I/O loop, another to the model loop. A call that the other loop must run now
wakes it; the other calls wait until that loop looks (`Mailbox`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from reactor_trio.concurrency import ModelHost
from reactor_trio.execution.command_queue import Command
from reactor_trio.execution.driven_session import Phase
from reactor_trio.execution.drivers.call_watch import RunningCall
from reactor_trio.execution.input_queue import InputQueue
from reactor_trio.execution.mailbox import Mailbox
from reactor_trio.execution.output_pacer import PlayoutSide
from reactor_trio.execution.session_events import SessionEvents
from reactor_trio.execution.session_runner import SessionRunner
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.protocol import EndReason

log = logging.getLogger("reactor_trio.model")

#: The place of a call that waits, say for a device, with no line of author code above that.
NO_LINE = "(no line of the model: it waits for what it has started)"


class LocalModelSession:
    """A `ModelSession` whose model runs on the model loop of this process.

    Args:
        input_queue: of the model that serves the session.
        make_runner: makes the model's side, given `session`, `playout`, `mailbox` and `replies`.
        stuck_after: seconds after which a call of author code is reported.
        closed: called when the session is over.
    """

    def __init__(
        self,
        host: ModelHost,
        input_queue: InputQueue,
        make_runner: Callable[..., SessionRunner],
        stuck_after: float,
        closed: Callable[[], object],
    ) -> None:
        self.mailbox = Mailbox(host.post_io, asleep=True)
        self.reason: EndReason = "done"
        self._replies = Mailbox(host.post, asleep=False)
        self._host = host
        self._input_queue = input_queue
        self._make_runner = make_runner
        self._stuck_after = stuck_after
        self._closed = closed

    def connect(self, session: SessionEvents, playout: PlayoutSide) -> None:
        """See `ModelSession`."""
        self._runner = self._make_runner(session=session, playout=playout, mailbox=self.mailbox, replies=self._replies)
        self._input_queue_number = self._input_queue.begin()

    async def run(self) -> BaseException | None:
        """See `ModelSession`."""
        return await self._host.run(self._runner.run)

    def close(self) -> None:
        """See `ModelSession`."""
        if self._runner.phase is Phase.NEW:
            self._host.post(self._input_queue.close)
        self._closed()

    @property
    def raised(self) -> BaseException | None:
        """See `ModelSession`."""
        return self._runner.error

    async def watch(self, tell: Callable[[str, float], object]) -> None:
        """See `ModelSession`."""
        await self._runner.calls.watch(self._stuck_after, self._report, tell)

    def _report(self, call: RunningCall) -> None:
        log.warning(
            "session %s: %s for %g s in %s, whose client is still there. It is here:\n%s",
            self._runner.session_id, call.what, self._stuck_after, type(self._runner.model).__name__, self._stack(call),
        )  # fmt: skip

    def stack(self) -> str:
        """See `ModelSession`."""
        return self._stack(self._runner.calls.oldest)

    def _stack(self, call: RunningCall | None) -> str:
        return (self._host.stack() if call is None else self._host.stack(call.task, call.thread)) or NO_LINE

    def what_is_left(self) -> str:
        """See `ModelSession`."""
        return self._runner.what_is_left()

    def pause(self, paused: bool) -> None:
        """See `ModelSession`."""
        self._replies.post(self._runner.output_pacer.pause, paused)

    def command(self, command: Command) -> None:
        """See `ModelSession`."""
        self._replies.post(self._runner.commands.add, command)

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
