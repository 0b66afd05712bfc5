"""The messages of a lease, from a server to its gate: `Granted`, `Claimed`, `Beat`s and `Ended`, or only `Unavailable`."""

from __future__ import annotations

import msgspec

from reactor_trio.protocol import EndReason

#: Seconds between two beats of a lease.
BEAT = 1.0


class Granted(msgspec.Struct, frozen=True, tag="Granted"):
    """The first message of a lease: a server has reserved a slot.

    Attributes:
        session_id: the id of the reserved session.
        url: the address to which the client connects.
        key: the secret that signs tickets for that server.
        claim_within: seconds within which the client must come.
        replica: the server's name, for logs and for `Lessor.silent`.
    """

    session_id: str
    url: str
    key: str
    claim_within: float
    replica: str

    def __repr__(self) -> str:
        return f"Granted({self.session_id} at {self.replica})"


class Claimed(msgspec.Struct, frozen=True, tag="Claimed"):
    """The client is connected and its session has begun."""


class Beat(msgspec.Struct, frozen=True, tag="Beat"):
    """The lease is still open."""


class Ended(msgspec.Struct, frozen=True, tag="Ended"):
    """The slot is free again. No event follows."""

    reason: EndReason


#: A message of a granted lease.
LeaseMessage = Granted | Claimed | Beat | Ended


class Unavailable(msgspec.Struct, frozen=True, tag="Unavailable"):
    """The only message of a lease that the server could not grant."""

    reason: str


#: encode a message as JSON, and decode it
encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder(LeaseMessage | Unavailable).decode
