"""Reserved slots: a port that has all its connections still answers its probes, and the owners of sessions.

A connection above `runtime.limits.connections` gets a reserved slot until its first request is read. It keeps the slot for
a request to a probe's path, and becomes a connection like others for a request of an owner, who resumes a session, uploads
to one or gets the pictures of its moments. Any other request is answered 503.

    no request yet --take--> has a request --its answer is written--> answered
         |                        '-- of an owner: the slot is free, and the connection goes on without it

A connection without a request, and one that is answered, loses the slot as soon as another one needs it: first that of the
address with the most slots, then the oldest. Without a request it ends after `FIRST_REQUEST` seconds. So silent connections
cannot keep probes out: a probe sends its request at once, and then its slot is safe. With TLS another connection may take it
during the handshake of a probe. The port of `runtime.management` has no TLS.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import trio

from reactor_trio.transport import Exchange, Refusal, Refused, Refusing

#: Reserved slots of a port, and how many of them one address has.
RESERVED, OF_ONE_ADDRESS = 8, 2
#: Seconds in which a connection in a reserved slot must have sent the head of a request.
FIRST_REQUEST = 2.0
#: The secrets that the owner of a session has.
OWNERS = ("upload", "resume", "worlds")


class ReservedSlot:
    """One connection in a reserved slot.

    Attributes:
        address: None if many clients may share it: loopback, or a proxy.
        scope: cancelled when another connection gets the slot.
        exchange: that of its request; None until that is read.
        heard: whether the connection has sent a request, also one whose head is refused.
    """

    def __init__(self, address: str | None, release: Callable[[ReservedSlot], None]) -> None:
        self.address = address
        self.scope = trio.CancelScope()
        self.exchange: Exchange | None = None
        self.heard = False
        self._release = release

    @property
    def takeable(self) -> bool:
        """Whether another connection may have the slot."""
        return self.exchange is None or self.exchange.answered

    def read(self, exchange: Exchange) -> None:
        """Take the request of the connection. From here to its answer no other connection gets the slot."""
        self.exchange, self.heard = exchange, True

    def take(self, *, owner: bool, probe: bool) -> None:
        """Use the slot for that request. That of an owner becomes free. Raises Refused if the slot is not for it."""
        if owner:
            self._release(self)
        elif not probe:
            raise Refused(Refusal("connections"))

    def noting(self, refused: Refusing) -> Refusing:
        """Return `refused` for a head that is refused on this connection: that is a request, too."""

        def note(peer: str, address: str | None, refusal: Refusal) -> Refusal:
            self.heard = True
            return refused(peer, address, refusal)

        return note


class ReservedSlots:
    """The reserved slots of one port."""

    def __init__(self) -> None:
        self._taken: dict[ReservedSlot, None] = {}  # the oldest first

    def __len__(self) -> int:
        return len(self._taken)

    @contextmanager
    def slot(self, address: str | None) -> Iterator[ReservedSlot | None]:
        """Have a slot during the block; None if all are in use, or both of this address."""
        own = [slot for slot in self._taken if slot.address == address is not None]
        full = own if len(own) >= OF_ONE_ADDRESS else list(self._taken) if len(self._taken) >= RESERVED else None
        if full is not None:
            takeable = [slot for slot in full if slot.takeable]
            if not takeable:
                yield None
                return
            taken = max(takeable, key=self._share)  # the first of equals: the oldest
            self.release(taken)
            taken.scope.cancel()
        slot = ReservedSlot(address, self.release)
        self._taken[slot] = None
        try:
            with slot.scope:
                yield slot
        finally:
            self.release(slot)

    def _share(self, slot: ReservedSlot) -> int:
        """How many slots its address has."""
        return 1 if slot.address is None else sum(one.address == slot.address for one in self._taken)

    def release(self, slot: ReservedSlot) -> None:
        """Free a slot; its connection may go on."""
        self._taken.pop(slot, None)
