"""Whose step comes next on a thread that several sessions share: deficit round robin by step time.

Each seat has a balance of seconds. A turn takes from it what the step took, which is known only afterwards; when none of
those who ask may go, all are given the same quantum, the shortest usual step among them, as often as it takes until one may.
So all who ask get the same time, whatever their steps take: of steps of 10 and 30 ms three of the one for each of the other.

A seat may go while it owes no more than half of its usual step. That is rounding: equal steps take turns strictly, though
each differs a little from the one before, and no seat ever goes twice where another could go once. Who does not ask saves
nothing up. A first step is often a compilation, so it is free and says nothing of what is usual; and one stall costs no more
than a few usual steps.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: How much a step counts for what is usual.
ALPHA = 0.3
#: The most that a seat may owe, in usual steps.
MOST_OWED = 4.0
#: The shortest quantum, in seconds: steps that take no time take turns all the same.
LEAST = 1e-6
#: Sums of the same times in another order differ by less than this.
EPSILON = 1e-9


@dataclass(slots=True)
class _Account:
    balance: float = 0.0  # seconds; negative: it owes
    usual: float = 0.0  # seconds of its usual step, 0 while nothing is known
    steps: int = 0
    spent: float = 0.0  # seconds since it asked last

    def may_go(self) -> bool:
        return self.balance >= -self.usual / 2 - EPSILON

    def settle(self) -> None:
        """Its step is over; one that took no time at all says nothing."""
        seconds, self.spent = self.spent, 0.0
        if seconds <= 0:
            return
        self.steps += 1
        if self.steps == 1:
            return
        if self.steps == 2:
            self.usual = seconds
        self.balance = max(self.balance - seconds, -MOST_OWED * self.usual)
        self.usual += ALPHA * (seconds - self.usual)


class RoundRobin:
    """The order of turns of any number of seats, known by their numbers."""

    def __init__(self) -> None:
        self._accounts: dict[int, _Account] = {}
        self._asking: set[int] = set()
        self._last = -1

    def ask(self, seat: int) -> None:
        """It wants a turn for its next step; a seat that was never heard of owes nothing."""
        self._accounts.setdefault(seat, _Account()).settle()
        self._asking.add(seat)

    def withdraw(self, seat: int) -> None:
        """It wants none any more."""
        self._asking.discard(seat)

    def leave(self, seat: int) -> None:
        """It is gone."""
        self._asking.discard(seat)
        self._accounts.pop(seat, None)

    def next(self) -> int | None:
        """Whose turn it is, None if nobody asks; that one asks no longer."""
        if not self._asking:
            return None
        asking = sorted(self._asking, key=lambda seat: (seat <= self._last, seat))
        able = [seat for seat in asking if self._accounts[seat].may_go()]
        if not able:
            self._give_rounds()
            able = [seat for seat in asking if self._accounts[seat].may_go()]
        self._last = able[0]
        self._asking.remove(self._last)
        return self._last

    def used(self, seat: int, seconds: float) -> None:
        """It has used the thread for so long, in its turn or outside of one."""
        if (account := self._accounts.get(seat)) is not None:
            account.spent += seconds

    def _give_rounds(self) -> None:
        accounts = [self._accounts[seat] for seat in self._asking]
        quantum = max(min(account.usual for account in accounts), LEAST)
        missing = min(-account.balance - account.usual / 2 for account in accounts)
        given = quantum * max(1, math.ceil((missing - EPSILON) / quantum))
        for seat, account in self._accounts.items():
            rich = account.balance + given
            account.balance = rich if seat in self._asking else min(rich, max(account.balance, 0.0))
