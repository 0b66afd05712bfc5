"""The channel between the two loops of one process, for one session.

A message that `wakes` has the other loop take it at once. Another message does not: as long as a frame is on screen, the
playout looks for messages when that frame ends, and the model's side looks before each step. A look takes all messages in
their order, so a message never falls behind a frame that was made after it. A command that came while a step kept its loop
busy is there when that step ends; as a function posted to that loop it would run a turn later, perhaps after the next step.

Both loops touch the deque and the flag at the same time. Each operation of the deque is atomic. The loop that goes to sleep
looks once more after it has set the flag: so either it finds the message, or the other loop finds the flag.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from reactor_trio.crossing.channel import ChannelEnd, DroppedMessages

#: runs a function on the loop of an end
Wake = Callable[[Callable[[], object]], object]


class LocalEnd(ChannelEnd):
    """See `ChannelEnd`. `send` may be called from any thread, everything else on the loop of this end.

    Args:
        wake: runs a function on the loop of this end.
    """

    #: the other end
    peer: LocalEnd

    def __init__(self, wake: Wake, *, asleep: bool) -> None:
        self._wake = wake
        self.asleep = asleep
        self._dropped = DroppedMessages()
        self._came: deque[Any] = deque()

    def send(self, message: Any) -> None:
        """Queue the message for the other end, and wake its loop if it must not wait."""
        peer = self.peer
        peer._came.append(message)
        if message.wakes or peer.asleep:
            peer._wake(peer.take)

    def take(self) -> None:
        """Have all messages taken that have come, in their order."""
        came, handlers = self._came, self._handlers
        while came:
            message = came.popleft()
            handlers[type(message)](message)

    def deliver(self, message: Any) -> None:
        """Have a message taken, behind those that have come."""
        self._came.append(message)
        self.take()

    def close(self) -> None:
        """Drop what waits here and what comes later, and let go of the other end."""
        self._dropped.messages += len(self._came)
        self._came, self._handlers = self._dropped, {}
        self.peer = LocalEnd(_wake_nothing, asleep=False)  # so two ends that are closed do not refer to each other
        self.peer._came = self._dropped


def _wake_nothing(_take: Callable[[], object]) -> None:
    """Of the peer of an end that is closed: it takes nothing."""


def open_local_channel(wake_io: Wake, wake_model: Wake) -> tuple[LocalEnd, LocalEnd]:
    """Open a channel; returns the end of the I/O loop, which nothing wakes by itself yet, and that of the model loop."""
    io_end, model_end = LocalEnd(wake_io, asleep=True), LocalEnd(wake_model, asleep=False)
    io_end.peer, model_end.peer = model_end, io_end
    return io_end, model_end
