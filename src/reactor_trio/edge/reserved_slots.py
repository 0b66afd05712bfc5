"""Reserved slots: a port that has all its connections still answers its probes, and the owners of sessions.

A connection above `runtime.limits.connections` gets a reserved slot until its first request is read. It keeps the slot for
a request to a probe's path, and becomes a connection like others for a request of an owner, who resumes a session or uploads
to one. Any other request is answered 503.

A connection that has sent no whole request loses the slot as soon as another one needs it, the oldest first, and after
`reserved_site.FIRST_REQUEST` seconds in any case. So connections that say nothing keep no probe out, however many there are:
a probe sends its request at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import trio

#: Reserved slots of a port, and how many of them one address has.
RESERVED, OF_ONE_ADDRESS = 8, 2

#: What a request in a reserved slot is good for: the probe of a server, or the owner of a session.
ReservedUse = Literal["probe", "owner"]


class ReservedSlot:
    """One connection in a reserved slot.

    Attributes:
        scope: cancelled when another connection gets the slot.
        use: None until a request has shown what the connection is for.
    """

    def __init__(self, address: str) -> None:
        self.address = address
        self.scope = trio.CancelScope()
        self.use: ReservedUse | None = None


class ReservedSlots:
    """The reserved slots of one port."""

    def __init__(self) -> None:
        self._taken: dict[ReservedSlot, None] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._taken)

    @contextmanager
    def slot(self, address: str) -> Iterator[ReservedSlot | None]:
        """Have a slot during the block; None if all are in use, or both of this address."""
        own = [slot for slot in self._taken if slot.address == address]
        full = own if len(own) >= OF_ONE_ADDRESS else list(self._taken) if len(self._taken) >= RESERVED else None
        if full is not None:
            silent = next((slot for slot in full if slot.use is None), None)
            if silent is None:
                yield None
                return
            self.release(silent)
            silent.scope.cancel()
        slot = ReservedSlot(address)
        self._taken[slot] = None
        try:
            with slot.scope:
                yield slot
        finally:
            self.release(slot)

    def release(self, slot: ReservedSlot) -> None:
        """Free a slot; its connection may go on."""
        self._taken.pop(slot, None)
