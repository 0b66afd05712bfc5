"""Places that are promised to a gate, each for one session: from the promise until the slot is free again.

    Leases.open -> the slot counts as taken -> the client shows its ticket -> its session -> the slot is free: Ended
                                          '-> nobody comes within `ttl`: Ended("unclaimed")

Who opens a lease is told everything by the callback that it gave, last of all `Ended`. What ends a session ends its lease,
and nothing else does: a gate that is gone, or does not listen any more, changes nothing for a client that is there.

The tickets are signed with a key that this process made at its start, and of which the gate is told with each promise; so a
ticket for another process, or an earlier one, is worth nothing here.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec
import trio
from msgspec.structs import replace

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.configuration.settings import AuthSettings, Settings
from reactor_trio.protocol import EndReason
from reactor_trio.server.waiting_room import WaitingRoom

#: Seconds between two beats of a lease.
BEAT = 1.0


class Claimed(msgspec.Struct, frozen=True, tag="Claimed"):
    """The client has come, and its session has begun."""


class Beat(msgspec.Struct, frozen=True, tag="Beat"):
    """The lease goes on."""


class Ended(msgspec.Struct, frozen=True, tag="Ended"):
    """The slot is free again; nothing more is said."""

    reason: EndReason


#: what who has a lease is told, on the I/O loop
Told = Callable[[Claimed | Beat | Ended], object]


class Leases:
    """The leases of one server.

    Args:
        room: where slots are counted.
    """

    def __init__(self, room: WaitingRoom) -> None:
        self._room = room
        self._open: dict[str, Told] = {}
        self._wakeup = RepeatedEvent()
        self._reasons: dict[str, EndReason] = {}
        room.given_back = self._given_back

    def __len__(self) -> int:
        return len(self._open)

    def open(self, session_id: str, told: Told) -> None:
        """Reserve a slot for a session of this id. Raises Refused; then `told` is never called."""
        self._room.reserve(session_id)
        self._open[session_id] = told
        self._wakeup.set()

    def cancel(self, session_id: str) -> bool:
        """There is no client for this lease. One that is claimed goes on until its session ends: False."""
        if not self._room.release(session_id):
            return False
        self._end(session_id, "unclaimed")
        return True

    def begun(self, session_id: str) -> None:
        """The session of a client has begun."""
        if (told := self._open.get(session_id)) is not None:
            told(Claimed())

    def over(self, session_id: str, reason: EndReason) -> None:
        """A session is over; its slot is free in a moment."""
        if session_id in self._open:
            self._reasons[session_id] = reason

    async def run(self) -> None:
        """Task: tell each one that has a lease that it goes on, each second; until cancelled."""
        while True:
            while not self._open:
                await self._wakeup.wait()
            await trio.sleep(BEAT)
            for told in list(self._open.values()):
                told(Beat())

    def _given_back(self, session_id: str, reason: EndReason | None) -> None:
        self._end(session_id, reason or self._reasons.pop(session_id, "client_left"))

    def _end(self, session_id: str, reason: EndReason) -> None:
        if (told := self._open.pop(session_id, None)) is not None:
            told(Ended(reason))


def leased(settings: Settings) -> tuple[Settings, str]:
    """The settings of a server whose places a gate gives away, and the key for its tickets.

    Without a ticket nobody gets a session there, except with the server's own tokens. Its queue is the gate's, which has
    also looked at the origin before a client comes here.
    """
    key = secrets.token_hex(32)
    auth = settings.auth or AuthSettings()
    return replace(
        settings, auth=AuthSettings(auth.token, auth.viewer_token, (key,)), queue=0, origins=("*",), takeover="never"
    ), key
