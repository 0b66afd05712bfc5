"""`refusal`: what a client hears for which there is neither a slot nor a position in a queue, at a server and at a gate."""

from __future__ import annotations

from reactor_trio.admission import RefusalReason
from reactor_trio.transport import Refusal


def refusal(reason: RefusalReason, *, full: str, closed: Refusal) -> Refusal:
    """Return the refusal for this reason.

    Args:
        full: the text while all is taken.
        closed: the refusal while no client is admitted.
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
