"""Who comes on a simulated day, how long they would stay and wait, and how fast they take the place that they are given.

Arrivals are a Poisson process whose rate follows the hour: candidates come at the highest rate, and each is kept with the
probability that its moment's rate is of that (thinning). Lengths are log-normal, drawn again until they lie between the
shortest and the longest. All of it is decided by a seed before the day begins, so that every setting meets the same people.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass

HOUR = 3600.0
DAY = 24 * HOUR


@dataclass(frozen=True, kw_only=True)
class Traffic:
    """A day's people; times in seconds. The day begins at its quietest hour.

    Attributes:
        sessions: how many come, on average.
        seconds: how long people come.
        swing: the rate is `1 - swing` of its mean at the quietest, `1 + swing` at the busiest hour.
        crowds: moments at which a crowd comes, in seconds from the begin; for `crowd_seconds` the rate is then
            `crowd` times what it would be.
        median, sigma, shortest, longest: of the lengths of sessions.
        patience: mean of the exponential time after which one leaves the queue.
        no_shows: share of those who never take the place that they are given.
        slow, slow_claim: share of those who need up to so long to take it; others need `claim`.
    """

    sessions: float = 10_000
    seconds: float = DAY
    swing: float = 0.8
    crowds: tuple[float, ...] = (15 * HOUR,)
    crowd: float = 2.5
    crowd_seconds: float = 600.0
    median: float = 360.0
    sigma: float = 0.9
    shortest: float = 60.0
    longest: float = 1800.0
    patience: float = 180.0
    no_shows: float = 0.02
    slow: float = 0.05
    slow_claim: float = 12.0
    claim: float = 0.3

    def rate(self, at: float) -> float:
        """People a second at `at`, up to the factor that makes them `sessions` in all."""
        rate = 1 - self.swing * math.cos(2 * math.pi * at / self.seconds)
        return rate * (self.crowd if any(0 <= at - crowd < self.crowd_seconds for crowd in self.crowds) else 1.0)


@dataclass(frozen=True)
class Person:
    """One who comes `at`, for `length` seconds, and waits `patience` at most; `claim` seconds from place to session."""

    number: int
    at: float
    length: float
    patience: float
    claim: float


def people(traffic: Traffic, seed: int) -> list[Person]:
    """Everybody, in the order in which they come."""
    minutes = [traffic.rate(minute) for minute in range(0, int(traffic.seconds), 60)]
    scale = traffic.sessions / (sum(minutes) / len(minutes) * traffic.seconds)
    most = (1 + traffic.swing) * max(1.0, traffic.crowd if traffic.crowds else 1.0)
    arrivals, at, found = random.Random(f"{seed}/arrivals"), 0.0, list[Person]()
    while (at := at + arrivals.expovariate(most * scale)) < traffic.seconds:
        if arrivals.random() < traffic.rate(at) / most:
            found.append(_person(traffic, len(found), at, random.Random(f"{seed}/{len(found)}")))
    return found


def _person(traffic: Traffic, number: int, at: float, dice: random.Random) -> Person:
    length = 0.0
    while not traffic.shortest <= length <= traffic.longest:
        length = dice.lognormvariate(math.log(traffic.median), traffic.sigma)
    patience, kind = dice.expovariate(1 / traffic.patience), dice.random()
    claim = traffic.claim
    if kind < traffic.no_shows:
        claim = math.inf
    elif kind < traffic.no_shows + traffic.slow:
        claim = dice.uniform(0, traffic.slow_claim)
    return Person(number, at, length, patience, claim)
