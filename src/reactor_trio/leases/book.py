"""Leases: slots that the server has promised to a gate, each for one session, from the promise until the slot is free.

    Leases.open -> the slot counts as taken -> the client shows its ticket -> its session -> the slot is free: Ended
                                          '-> no client comes within `ttl`: Ended("unclaimed")

The gate gives a callback with each lease and gets every event through it; the last event is `Ended`. Only the end of the
session ends its lease: a client that is connected notices nothing when its gate disappears.

This process signs tickets with a key that it makes at its start and sends to the gate with each promise. So a ticket of
another process, or of an earlier one, is not valid here.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Protocol

import trio
from msgspec.structs import replace

from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.configuration.settings import AuthSettings, Settings
from reactor_trio.leases.messages import BEAT, Beat, Claimed, Ended
from reactor_trio.protocol import EndReason

#: receives the events of one lease, on the I/O loop
Told = Callable[[Claimed | Beat | Ended], object]


class Slots(Protocol):
    """Counts a server's slots: its `WaitingRoom`.

    Attributes:
        given_back: called with a session id when its slot is free again, and with the reason if no client claimed the slot.
    """

    given_back: Callable[[str, EndReason | None], object]

    def reserve(self, sid: str) -> None:
        """Reserve a slot for a session whose client will come. Raises NotAdmitted if none is free now."""

    def release(self, sid: str) -> bool:
        """Free a slot that was reserved ahead. Returns False if its client has come already."""


class Leases:
    """The leases of one server.

    Args:
        room: counts the slots.
    """

    def __init__(self, room: Slots) -> None:
        self._room = room
        self._open: dict[str, Told] = {}
        self._wakeup = RepeatedEvent()
        self._reasons: dict[str, EndReason] = {}
        room.given_back = self._given_back

    def open(self, session_id: str, told: Told) -> None:
        """Reserve a slot for the session with this id. Raises NotAdmitted; `told` is not called then."""
        self._room.reserve(session_id)
        self._open[session_id] = told
        self._wakeup.set()

    def cancel(self, session_id: str) -> bool:
        """End a lease that no client has claimed. A claimed lease lasts until its session ends: returns False."""
        if not self._room.release(session_id):
            return False
        self._end(session_id, "unclaimed")
        return True

    def begun(self, session_id: str) -> None:
        """Report that the session of this lease has begun."""
        if (told := self._open.get(session_id)) is not None:
            told(Claimed())

    def over(self, session_id: str, reason: EndReason) -> None:
        """Note why the session ended. Its slot becomes free a moment later."""
        if session_id in self._open:
            self._reasons[session_id] = reason

    async def run(self) -> None:
        """Task: send a `Beat` for each open lease every second, until cancelled."""
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

    Clients need a ticket or one of the server's own tokens. The server has no queue and checks no origin, because the gate
    does both before a client comes here.
    """
    key = secrets.token_hex(32)
    auth = settings.auth or AuthSettings()
    return replace(
        settings, auth=AuthSettings(auth.token, auth.viewer_token, (key,)), queue=0, origins=("*",), takeover="never"
    ), key
