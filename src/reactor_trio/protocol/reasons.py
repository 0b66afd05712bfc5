"""The reasons for which a session or connection ends: one closed set for the wire, the log and the metrics."""

from __future__ import annotations

from typing import Final, Literal, get_args

EndReason = Literal[
    "done", "client_left", "unclaimed", "expired", "idle", "taken_over", "revoked", "draining",
    "protocol_error", "too_slow", "flood",
    "too_big",
    "model_error", "model_restarting", "replica_failed",
    "no_room",
]  # fmt: skip

#: WebSocket close code of each reason (RFC 6455 section 7.4.1). Every other reason has 1001, "going away".
CLOSE_CODES: dict[EndReason, int] = {
    "protocol_error": 1008,
    "too_slow": 1008,
    "flood": 1008,
    "too_big": 1009,
    "model_error": 1011,
    "model_restarting": 1011,
    "replica_failed": 1011,
    "no_room": 1013,
}

#: The reason in `reactor.bye` for a client that the server refuses. No session ends for this reason.
REFUSED: Final = "refused"

#: Reasons for which a session ends without a fault of anyone.
ENDS_WITHOUT_FAULT: Final[tuple[EndReason, ...]] = ("done", "client_left", "expired", "idle", "draining")

END_REASONS: tuple[EndReason, ...] = get_args(EndReason)


def close_code(reason: EndReason) -> int:
    """Return the WebSocket close code of `reason`."""
    return CLOSE_CODES.get(reason, 1001)
