"""The admission state machine on a Trio loop: who waits is woken, told its place, or sent away."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import trio

from reactor_trio.admission import Admission, Change
from reactor_trio.protocol import EndReason


@dataclass(eq=False)
class Place:
    """One client's place; whoever entered releases it, whatever became of it."""

    sid: str
    room: WaitingRoom
    moved: Callable[[int, int], None]
    sent_away: Callable[[EndReason], None]
    admitted: trio.Event = field(default_factory=trio.Event)

    def claim(self) -> None:
        """Take the reserved slot. Raises Refused."""
        self.room.admission.claim(self.sid, trio.current_time())

    def release(self) -> None:
        """Give back what is held."""
        self.room.leave(self)


class WaitingRoom:
    """Drives an `Admission`; its methods do not wait."""

    def __init__(self, admission: Admission) -> None:
        self.admission = admission
        self._places: dict[str, Place] = {}

    def enter(
        self, sid: str, moved: Callable[[int, int], None], sent_away: Callable[[EndReason], None]
    ) -> Place:
        """A place in a slot or in the queue. Raises Refused.

        Args:
            moved: told position and total, from 1, at once if the client has to wait and again when that changes.
            sent_away: told if the client will not be admitted after all.
        """
        place = Place(sid, self, moved, sent_away)
        changes = self.admission.reserve(sid, trio.current_time())
        self._places[sid] = place
        self._tell(changes)
        return place

    def leave(self, place: Place) -> None:
        """End what `place` holds and let the next in."""
        if self._places.pop(place.sid, None) is not None:
            self._tell(self.admission.release(place.sid, trio.current_time()))

    def drain(self) -> None:
        """Nobody is admitted any more."""
        self._tell(self.admission.drain())

    def tell_again(self) -> None:
        """Why they wait has changed."""
        self._tell(self.admission.tell_again())

    def _tell(self, changes: Iterable[Change]) -> None:
        for change in changes:
            place = self._places.get(change.sid)
            if place is None:
                continue
            if change.kind == "admitted":
                place.admitted.set()
            elif change.kind == "moved":
                place.moved(change.position, change.total)
            else:
                place.sent_away(change.kind)
