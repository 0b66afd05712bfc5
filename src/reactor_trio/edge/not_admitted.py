"""`refusal`: the refusal of a client that gets neither a slot nor a position in a queue, at a server and at a gate."""

from __future__ import annotations

from reactor_trio.admission import RefusalReason
from reactor_trio.transport import Refusal


def refusal(reason: RefusalReason, *, full: str, closed: Refusal) -> Refusal:
    """Return the refusal for this reason.

    Args:
        full: the text for a client if all slots and positions are taken.
        closed: the refusal if the server or gate admits no client now.
    """
    match reason:
        case "full":
            return Refusal("full", full)
        case "address_full":
            return Refusal("address_waiting")
        case "unclaimed":
            return Refusal("unclaimed", "this session is not reserved any more; ask the gate for another")
        case "draining" | "not_ready":
            return closed
