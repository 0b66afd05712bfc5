"""The run of one session on the model loop of this process: `LocalSessionRun`."""

from __future__ import annotations

import logging
from collections.abc import Callable

import trio

from reactor_trio.concurrency import ModelHost, forget_variables
from reactor_trio.crossing.local_channel import LocalEnd, Wake, open_local_channel
from reactor_trio.crossing.messages import LateCall
from reactor_trio.errors import ERRORS_PAGE
from reactor_trio.execution.call_monitor import RunningCall
from reactor_trio.execution.session_tasks import SessionTasks
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.lifecycle import State
from reactor_trio.protocol import EndReason

log = logging.getLogger("reactor_trio.model")

#: given what wakes the I/O loop and the model loop, returns both ends
OpenChannel = Callable[[Wake, Wake], tuple[LocalEnd, LocalEnd]]
#: Where a call is that waits, say for a device, with no line of author code above that.
NO_LINE = "(no line of the model: it waits for what it has started)"
#: what the author can do
_SLEEPS = "time.sleep stops the model and all of its sessions: write `await trio.sleep(seconds)` in an async method"
_TAKES_LONG = (
    "The picture stands still until it ends: make its steps shorter, or bound the wait, in an async method with "
    "trio.move_on_after"
)


class LocalSessionRun:
    """A `SessionRun` whose model runs on the model loop of this process.

    Args:
        make_tasks: makes the model's side, given its end `channel` of the channel.
        stuck_after: seconds after which a call of author code is reported.
        closed: called when the session is over.
        open_channel: opens the session's channel; see `open_local_channel`.
    """

    def __init__(
        self,
        host: ModelHost,
        make_tasks: Callable[..., SessionTasks],
        stuck_after: float,
        closed: Callable[[], object],
        open_channel: OpenChannel = open_local_channel,
    ) -> None:
        self._host = host
        self._stuck_after = stuck_after
        self._closed = closed
        self.reason: EndReason = "done"
        self.raised: BaseException | None = None
        self.failed_hook = ""
        self.channel, model_end = open_channel(host.post_io, host.post)
        self._tasks = make_tasks(channel=model_end)
        self._driven = self._tasks.session
        self._input_queue = self._driven.binding.input_queue
        self._input_queue_number = self._input_queue.begin()

    @property
    def session_id(self) -> str:
        """The session's id."""
        return self._driven.session_id

    async def run(self) -> None:
        """Run the session on the model loop, and report each call of author code that takes longer than `stuck_after`."""
        driven = self._driven
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(driven.calls.run, self._stuck_after, self._report, self._late)
                await self._host.run(self._tasks.run)
                nursery.cancel_scope.cancel()
        finally:
            if driven.failures.error is not None:
                forget_variables(driven.failures.error)
            self.raised, self.failed_hook = driven.failures.error, driven.failures.failed_hook

    def close(self) -> None:
        """Let go of the tasks: they refer to the session, which refers to this object."""
        if self._driven.life.state is State.NEW:
            self._host.post(self._tasks.release)
        del self._tasks, self._driven
        self.channel.close()
        self._closed()

    def _report(self, call: RunningCall) -> None:
        log.warning(
            "session %s: %s for %g s in %s, whose client is still there. %s (%s#step-too-long). It is here:\n%s",
            self.session_id, call.what, self._stuck_after, type(self._driven.model).__name__,
            _remedy(stack := self._stack(call)), ERRORS_PAGE, stack,
        )  # fmt: skip

    def _late(self, what: str, since: float) -> None:
        self.channel.deliver(LateCall(what, since))

    def stack(self) -> str:
        """The stack of the call that has run for the longest time."""
        return self._stack(self._driven.calls.oldest)

    def _stack(self, call: RunningCall | None) -> str:
        return (self._host.stack() if call is None else self._host.stack(call.task, call.thread)) or NO_LINE

    def take_input(self, track: str, frame: InputFrame) -> None:
        """Queue the frame for the model loop; dropped if the session is over."""
        self._input_queue.put(self._input_queue_number, track, frame)


def _remedy(stack: str) -> str:
    return _SLEEPS if "time.sleep(" in stack.rpartition("  File ")[2] else _TAKES_LONG
