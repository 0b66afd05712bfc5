"""WebSocket facts (RFC 6455) that client and server share: close codes, and the limits of one connection."""

from __future__ import annotations

#: close codes (section 7.4.1)
NORMAL, GOING_AWAY, PROTOCOL_ERROR = 1000, 1001, 1002
#: two codes that no close frame carries: the frame has no code; the link ended without a close frame
NO_STATUS, ABNORMAL = 1005, 1006
INVALID_TEXT, TOO_BIG, INTERNAL_ERROR = 1007, 1009, 1011

#: most fragments of a message: empty ones add nothing to its size, so the size limit does not stop them
MAX_FRAGMENTS = 16_384
#: seconds that a polite close waits for the peer's close frame
CLOSE_WAIT = 1.0
