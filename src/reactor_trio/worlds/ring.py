"""The ring of moments of one session: what it may go back to, within a budget of bytes.

The moments stand in the order of the world's own time. The *place* is the one that the world goes on from; those after it,
from before a rewind, are *ahead* until the world has made a step. The world from before a rewind is kept for a while, so
that the rewind can be taken back (`undo`).

Over the budget, the moment goes whose removal leaves the smallest gap for its age, so the past is the sparser the older it
is: from 32 moments on, a gap that was made so is at most half as long as what came after its older end. Moments share the
memory that did not change between them, and it counts once.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np

from reactor_trio.worlds.nodes import World, blob_bytes

#: seconds for which a rewind can be taken back
UNDO_FOR: Final = 60.0


class _Undo(msgspec.Struct, frozen=True, eq=False):
    """The world from before a rewind, the numbers of the steps that were its past, and until when it is kept."""

    world: World
    past: frozenset[int]
    until: float


class Ring:
    """The moments of one session.

    Args:
        most_bytes: the budget.
        seconds: how far back moments reach, in seconds of the world's own time.

    Attributes:
        bytes: what is kept, in bytes; never above the budget.
        released: called with each world that the ring has kept, once it keeps it no more.
    """

    released: Callable[[World], object] = staticmethod(lambda _world: None)

    def __init__(self, most_bytes: int, seconds: float) -> None:
        self.bytes = 0
        self._most_bytes = most_bytes
        self._seconds = seconds
        self._moments: list[World] = []
        #: their ages
        self._ages = array("d")
        #: how many of them are the past, the place included
        self._past = 0
        self._undo: _Undo | None = None
        #: whether the world has made no step since the last rewind, of which `undo` takes back the whole row
        self._rewinding = False
        #: id of a world or blob -> how many hold it
        self._holders: dict[int, int] = {}

    @property
    def past(self) -> list[World]:
        """The moments up to the place, the oldest first."""
        return self._moments[: self._past]

    @property
    def ahead(self) -> list[World]:
        """The moments after the place, from before the last rewind."""
        return self._moments[self._past :]

    @property
    def most_bytes(self) -> int:
        """The budget."""
        return self._most_bytes

    def add(self, world: World, now: float) -> bool:
        """Keep the moment after a step that the world has made; what was ahead of the place goes.

        False if the moment alone is larger than the budget: then it is not kept.
        """
        self.undo(now)
        self.forget_ahead()
        if world.size > self._most_bytes:
            return False
        self._append(world)
        while self._past > 1 and world.age - self._ages[0] > self._seconds:
            self._remove(0)
        self._fit()
        return True

    def forget_ahead(self) -> None:
        """Forget what is ahead of the place: the world has made a step."""
        self._rewinding = False
        while len(self._moments) > self._past:
            self._remove(self._past)

    def rewind(self, world: World, before: World, now: float) -> None:
        """Make a moment of this ring, or the one of `undo`, the place. `before` is the world as it was until now.

        Of rewinds without a step between them, `undo` is the world from before the first: a hand that holds a key, or drags,
        makes many.
        """
        if self._undo is not None and world is not self._undo.world:  # an undo that began in time may take long
            self.undo(now)
        undo = self._undo
        past = frozenset(each.step for each in self.past)
        if undo is not None and world is undo.world and world not in self._moments:
            for index in reversed(range(len(self._moments))):
                if self._moments[index].step not in undo.past:
                    self._remove(index)
            self._past = len(self._moments)
            self._append(world)
        self._past = self._moments.index(world) + 1
        taken_back = undo is not None and world is undo.world
        if self._rewinding and undo is not None and not taken_back:
            self.released(before)
            before, past = undo.world, undo.past
        self._rewinding = not taken_back
        self._set_undo(_Undo(before, past, now + UNDO_FOR))
        self._fit()

    def begin_at(self, world: World, before: World, now: float) -> None:
        """Make a world the place that is no moment of this ring; the others go, but for `before`, the world until now."""
        while self._moments:
            self._remove(0)
        if world.size <= self._most_bytes:
            self._append(world)
        else:
            self.released(world)
        self._set_undo(_Undo(before, frozenset(), now + UNDO_FOR))
        self._rewinding = False
        self._fit()

    def undo(self, now: float) -> World | None:
        """Return the world from before the last rewinds, None if there was none, or if its time is over."""
        if self._undo is not None and now >= self._undo.until:
            self._set_undo(None)
        return None if self._undo is None else self._undo.world

    def at_step(self, step: int) -> World | None:
        """Return the newest moment at or before a step of the session, also one that is ahead; else the oldest, if any."""
        return self._newest([each for each in self._moments if each.step <= step])

    def at_steps(self, steps: int) -> World | None:
        """Return the newest moment of the past with at most so many steps of the world; else the oldest, if any."""
        return self._newest([each for each in self.past if each.steps <= steps])

    def at_age(self, age: float) -> World | None:
        """Return the newest moment of the past of at most this age; else the oldest, if any."""
        return self._newest([each for each in self.past if each.age <= age])

    def _newest(self, fitting: list[World]) -> World | None:
        if fitting:
            return fitting[-1]
        return self._moments[0] if self._moments else None

    def _append(self, world: World) -> None:
        self._moments.append(world)
        self._ages.append(world.age)
        self._past += 1
        self._hold(world)

    def _remove(self, index: int) -> None:
        self._release(self._moments.pop(index))
        del self._ages[index]
        self._past -= index < self._past

    def _set_undo(self, undo: _Undo | None) -> None:
        if undo is not None:
            self._hold(undo.world)
        if self._undo is not None:
            self._release(self._undo.world)
        self._undo = undo

    def _hold(self, world: World) -> None:
        for name, size in _parts(world):
            count = self._holders.get(name, 0)
            self._holders[name] = count + 1
            self.bytes += 0 if count else size

    def _release(self, world: World) -> None:
        for name, size in _parts(world):
            count = self._holders.pop(name) - 1
            if count:
                self._holders[name] = count
            else:
                self.bytes -= size
        if id(world) not in self._holders:
            self.released(world)

    def _fit(self) -> None:
        """Remove moments until the rest is within the budget; the place stays."""
        while self.bytes > self._most_bytes:
            if len(self._moments) > 2:
                self._remove(self._least_missed())
            elif len(self._moments) == 2:
                self._remove(0 if self._past == 2 else 1)
            else:
                self._set_undo(None)

    def _least_missed(self) -> int:
        """Return the index of the moment whose removal leaves the smallest gap for its age; not an end, nor the place."""
        ages = np.frombuffer(self._ages)
        newest = ages[-1] + 1e-9  # moments of one age are as good as each other
        ratios = (ages[2:] - ages[:-2]) / (newest - ages[:-2])
        place = self._past - 2
        if 0 <= place < len(ratios):
            if len(ratios) == 1:
                return 0
            ratios[place] = np.inf
        return int(np.argmin(ratios)) + 1


def _parts(world: World) -> list[tuple[int, int]]:
    """What a world consists of, each part with its size: it and others may hold the blobs."""
    blobs = ((name, blob_bytes(blob)) for name, blob in world.blobs.items())
    return [(id(world), world.small_bytes + world.elsewhere), *blobs]
