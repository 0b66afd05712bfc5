"""When clients arrive, how long they watch and how they leave: a plan that a seed decides before the first arrival.

The plan is pure: it has no clock and no server. Visit `n` of a seed does not depend on the number of visits, and the times
of its commands do not depend on their answers. `random_commands.py` chooses the commands by the same seed, once the server's
schema is known.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal

import msgspec


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """The shape of a load.

    Attributes:
        sessions: number of clients that want a session.
        arrival: how they arrive: `poisson`, independently of each other; `uniform`, evenly; or `all-at-once`.
        rate: arrivals per second.
        length: mean seconds that a client watches.
        lengths: `fixed`, all clients watch equally long; or `exponential`, a client may leave at any moment.
        commands: mean commands per second of each session, at independent moments.
        vanish: share of the clients that break the connection instead of leaving politely.
        viewers: number of viewers of each session.
        seed: the same seed gives the same plan.
    """

    sessions: int = 10
    arrival: Literal["poisson", "uniform", "all-at-once"] = "poisson"
    rate: float = 1.0
    length: float = 30.0
    lengths: Literal["exponential", "fixed"] = "exponential"
    commands: float = 0.0
    vanish: float = 0.0
    viewers: int = 0
    seed: int = 1


class Visit(msgspec.Struct, frozen=True):
    """One client: its number from 0, when it arrives (seconds from the start), how long it watches, whether it vanishes."""

    number: int
    at: float
    length: float
    vanishes: bool


def visits(shape: Shape) -> Iterator[Visit]:
    """Return all clients in order of arrival."""
    arrivals, at = seeded_random(shape.seed, "arrivals"), 0.0
    for number in range(shape.sessions):
        if number and shape.arrival != "all-at-once":
            at += arrivals.expovariate(shape.rate) if shape.arrival == "poisson" else 1 / shape.rate
        own = seeded_random(shape.seed, number)
        length = own.expovariate(1 / shape.length) if shape.lengths == "exponential" else shape.length
        yield Visit(number, at, length, own.random() < shape.vanish)


def moments(shape: Shape, visit: Visit) -> Iterator[float]:
    """Return when the client sends its commands, in seconds from the start of its session."""
    if shape.commands <= 0:
        return
    own, at = seeded_random(shape.seed, visit.number, "moments"), 0.0
    while (at := at + own.expovariate(shape.commands)) < visit.length:
        yield at


def choices(shape: Shape, visit: Visit) -> random.Random:
    """Return the random source that chooses the client's commands and their values."""
    return seeded_random(shape.seed, visit.number, "commands")


def seeded_random(*name: object) -> random.Random:
    """Return the random source of that name: the same sequence on every machine, independent of other names."""
    return random.Random("/".join(map(str, name)))  # nosec B311 - a plan, not a secret
