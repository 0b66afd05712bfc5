"""Who comes when, for how long, and how it leaves: all of it decided by a seed before the first one comes.

Pure: no clock, no server. Visit `n` of a seed is the same however many others there are, and the moments of its commands do
not depend on what it is answered. What the commands are is decided likewise, by `values.py`, once the server has said
which it takes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal

import msgspec

Arrival = Literal["poisson", "uniform", "all-at-once"]
Lengths = Literal["exponential", "fixed"]


class Shape(msgspec.Struct, frozen=True, kw_only=True):
    """What a load looks like.

    Attributes:
        sessions: clients that want a session.
        arrival: how they come: `poisson`, independently of each other; `uniform`, evenly; or `all-at-once`.
        rate: how many come a second.
        length: seconds for which one watches, on average.
        lengths: whether all watch as long (`fixed`), or each may leave at any moment (`exponential`).
        commands: commands a second of each session, on average, at moments that are independent of each other.
        vanish: share of the clients that are gone without a word instead of leaving.
        viewers: clients that watch each session besides.
        seed: with the same one everything above is the same again.
    """

    sessions: int = 10
    arrival: Arrival = "poisson"
    rate: float = 1.0
    length: float = 30.0
    lengths: Lengths = "exponential"
    commands: float = 0.0
    vanish: float = 0.0
    viewers: int = 0
    seed: int = 1


class Visit(msgspec.Struct, frozen=True):
    """One client: its number from 0, when it comes (seconds from the begin), how long it watches, whether it vanishes."""

    number: int
    at: float
    length: float
    vanishes: bool


def visits(shape: Shape) -> Iterator[Visit]:
    """All clients in the order in which they come."""
    arrivals, at = dice(shape.seed, "arrivals"), 0.0
    for number in range(shape.sessions):
        if number and shape.arrival != "all-at-once":
            at += arrivals.expovariate(shape.rate) if shape.arrival == "poisson" else 1 / shape.rate
        own = dice(shape.seed, number)
        length = own.expovariate(1 / shape.length) if shape.lengths == "exponential" else shape.length
        yield Visit(number, at, length, own.random() < shape.vanish)


def moments(shape: Shape, visit: Visit) -> Iterator[float]:
    """When the client sends its commands, in seconds from the begin of its session; none end them but its length."""
    if shape.commands <= 0:
        return
    own, at = dice(shape.seed, visit.number, "moments"), 0.0
    while (at := at + own.expovariate(shape.commands)) < visit.length:
        yield at


def choices(shape: Shape, visit: Visit) -> random.Random:
    """What decides which commands the client sends, and with which values."""
    return dice(shape.seed, visit.number, "commands")


def dice(*name: object) -> random.Random:
    """Chance by that name: the same each time, on every machine, and independent of others'."""
    return random.Random("/".join(map(str, name)))  # nosec B311 - a plan, and no secret
