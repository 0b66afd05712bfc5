"""Which session runs its step next on a shared thread: deficit round robin by step time.

Each session has a balance in seconds. A turn costs what its step took, which is known only afterwards. If no session that
asks may go, all of them get the same quantum, the shortest usual step among them, as often as needed until one may go. All
sessions that ask thus get the same time, whatever their steps take: with steps of 10 ms and 30 ms, the first runs three
steps for each step of the second.

A session may go while it owes no more than half of its usual step. This absorbs rounding: sessions with equal steps strictly
alternate although each step differs a little, and no session goes twice where another could go once. A session that does not
ask saves nothing up. The first step is often a compilation, so it is free and does not count towards the usual step. One
stall costs no more than a few usual steps.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import msgspec

#: The weight of a new step in the usual step.
ALPHA = 0.3
#: The largest debt, in usual steps.
MOST_OWED = 4.0
#: The shortest quantum in seconds, so that steps that take no time still take turns.
LEAST = 1e-6
#: Rounding errors in sums of times are smaller than this.
EPSILON = 1e-9


class _Account(msgspec.Struct):
    balance: float = 0.0  # seconds; negative is a debt
    usual: float = 0.0  # the smoothed step time in seconds; 0 before the second step
    steps: int = 0
    spent: float = 0.0  # seconds used since the last `settle`

    def may_go(self) -> bool:
        return self.balance >= -self.usual / 2 - EPSILON

    def settle(self) -> None:
        """Charge the finished step. A step that took no time is ignored."""
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
    """The order of turns among sessions, which are known by their seat numbers.

    It keeps what each seat has used. Which seats ask, its owner knows.
    """

    def __init__(self) -> None:
        self._accounts: dict[int, _Account] = {}
        self._last = -1

    @property
    def several(self) -> bool:
        """Whether more than one seat has asked for turns and has not left."""
        return len(self._accounts) > 1

    def settle(self, seat: int) -> None:
        """Charge what `seat` has used since it asked the last time: it asks again. A new seat owes nothing."""
        self._accounts.setdefault(seat, _Account()).settle()

    def leave(self, seat: int) -> None:
        """Remove `seat` and its balance."""
        self._accounts.pop(seat, None)

    def next(self, asking: Collection[int]) -> int:
        """Choose the seat whose turn it is, of those that ask: at least one."""
        if (able := self._first_able(asking)) is None:
            self._give_rounds(asking)
            able = self._first_able(asking)
            assert able is not None
        self._last = able
        return able

    def used(self, seat: int, seconds: float) -> None:
        """Record that `seat` used the thread for `seconds`, in its turn or outside it."""
        if (account := self._accounts.get(seat)) is not None:
            account.spent += seconds

    def _first_able(self, asking: Collection[int]) -> int | None:
        """The first seat after the last one, in their circle, that asks and may go. A loop: `next` runs for each step."""
        first: int | None = None
        for seat in asking:
            if not self._accounts[seat].may_go():
                continue
            if first is None or (seat <= self._last, seat) < (first <= self._last, first):
                first = seat
        return first

    def _give_rounds(self, asking: Collection[int]) -> None:
        usual = missing = math.inf
        for seat in asking:
            account = self._accounts[seat]
            usual = min(usual, account.usual)
            missing = min(missing, -account.balance - account.usual / 2)
        quantum = max(usual, LEAST)
        given = quantum * max(1, math.ceil((missing - EPSILON) / quantum))
        for seat, account in self._accounts.items():
            rich = account.balance + given
            account.balance = rich if seat in asking else min(rich, max(account.balance, 0.0))
