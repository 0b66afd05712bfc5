"""Calls from one loop to the other for one session, in one order.

A mailbox is a queue of calls. `post` wakes the other loop. `post_lazily` does not: as long as a frame is on screen, the
playout looks into its mailbox when that frame ends, and the model side looks before each step. Waking a sleeping loop costs
more than all else that a small frame needs. A look delivers all calls in their order, so a message never falls behind a
frame that was made after it. A command that came while a step kept its loop busy is there when that step ends; as a function
posted to that loop it would run a turn later, perhaps after the next step.

Both loops touch the deque and the flag at the same time. Each operation of the deque is atomic. The loop that goes to sleep
looks once more after it has set the flag: so either it finds the call, or the other loop finds the flag.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Mailbox:
    """Calls for another loop, which must not raise. `wake` runs a function on that loop.

    Attributes:
        asleep: set by the receiving loop while nothing would make it look here.
    """

    def __init__(self, wake: Callable[[Callable[[], object]], object], *, asleep: bool) -> None:
        self._wake = wake
        self._calls: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        self.asleep = asleep

    def post(self, function: Callable[..., object], *args: object) -> None:
        """Queue a call and wake the other loop."""
        self._calls.append((function, args))
        self._wake(self.deliver)

    def post_lazily(self, function: Callable[..., object], *args: object) -> None:
        """Queue a call without waking the other loop, unless that is `asleep`. It runs when that loop looks next."""
        self._calls.append((function, args))
        if self.asleep:
            self._wake(self.deliver)

    def clear(self) -> None:
        """Forget the queued calls, with what they refer to: nothing will look here again."""
        self._calls.clear()

    def deliver(self) -> None:
        """Make the queued calls; on the receiving loop."""
        while self._calls:
            function, args = self._calls.popleft()
            function(*args)
