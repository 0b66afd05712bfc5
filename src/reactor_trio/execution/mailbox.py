"""From one half of a session to the other, which lives on another loop: one queue, so one order.

A word that must be heard now wakes that loop. Others need not: as long as a frame is on screen, the playout looks here by
itself when that one ends, and the model's half looks here before each step. Waking a sleeping loop costs more than all else
that a small frame needs, so it is saved. What lies here is delivered in order whoever asks, so a message never falls behind
a frame that was made after it, and a command that came while a step kept its loop busy is there when that step ends: what
was posted to the loop would be heard a turn later, which may be after the next step.

The two loops touch the deque and the flag at the same time. Both operations of the deque are atomic; and the side that lies
down looks once more after it has raised the flag, so either it sees what was left, or the other side sees the flag.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable


class Mailbox:
    """Words for the other loop. `post` brings a function there; what is delivered must not raise."""

    def __init__(self, post: Callable[[Callable[[], object]], None], *, asleep: bool) -> None:
        self._post = post
        self._words: deque[tuple[Callable[..., object], tuple[object, ...]]] = deque()
        #: set by the loop that hears, while nothing would make it look here
        self.asleep = asleep

    def send(self, word: Callable[..., object], *args: object) -> None:
        """The loop that tells: to be delivered now."""
        self._words.append((word, args))
        self._post(self.deliver)

    def leave(self, word: Callable[..., object], *args: object) -> None:
        """The loop that tells: to be delivered when the other looks next; it is woken only if nothing else would."""
        self._words.append((word, args))
        if self.asleep:
            self._post(self.deliver)

    def deliver(self) -> None:
        """The loop that hears: hear what there is."""
        while self._words:
            word, args = self._words.popleft()
            word(*args)
