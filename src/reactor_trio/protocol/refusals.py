"""`REFUSALS`: each code with which a server or a gate refuses a request, one closed set.

The code goes out in the header `reactor-refusal`, and as `code` in the `reactor.bye` of a refusal. Programs read it. The
text is for people and may change. `docs/protocol.md` has the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, get_args

RefusalCode = Literal[
    "bad_request", "token_missing", "token_wrong", "token_expired", "token_used", "not_allowed", "wrong_origin", "not_found",
    "wrong_model", "method_not_allowed", "request_timeout", "session_over", "length_required", "too_large",
    "expectation_failed", "wrong_host", "upgrade_required", "too_many_files", "address_connections", "address_handshakes",
    "address_requests", "address_failures", "address_waiting", "head_too_large", "internal", "connections", "loading",
    "failed", "draining", "full", "no_session", "not_decided", "tickets_full", "disk_full",
]  # fmt: skip

#: The header with the code of a refusal.
REFUSAL_HEADER: Final = "reactor-refusal"


class RefusalKind(NamedTuple):
    """What a code means.

    Attributes:
        status: of the HTTP response.
        meaning: in words, for whoever runs the server.
        setting: the setting that changes this; empty without one.
    """

    status: int
    meaning: str
    setting: str = ""


REFUSALS: Final[Mapping[RefusalCode, RefusalKind]] = MappingProxyType({
    "bad_request": RefusalKind(400, "it is not a request that this server understands"),
    "token_missing": RefusalKind(401, "it has no token, and this takes one"),
    "token_wrong": RefusalKind(401, "this server does not know its token, ticket or link"),
    "token_expired": RefusalKind(401, "its ticket, or its reserved place, is over, or its ticket is not valid yet"),
    "token_used": RefusalKind(401, "its ticket has been used"),
    "not_allowed": RefusalKind(403, "its token does not allow this"),
    "wrong_origin": RefusalKind(
        403, "a page may connect if its origin is the server's own, or listed", "runtime.origins (--origin)"
    ),
    "not_found": RefusalKind(404, "there is nothing at its path"),
    "wrong_model": RefusalKind(404, "it asks for another model"),
    "method_not_allowed": RefusalKind(405, "its path takes another method"),
    "request_timeout": RefusalKind(408, "it was not complete in time", "runtime.limits.handshake, runtime.uploads.time"),
    "session_over": RefusalKind(410, "the session of its file is over"),
    "length_required": RefusalKind(411, "it does not say the size of its file"),
    "too_large": RefusalKind(413, "its body, or its file, is larger than this server takes", "runtime.uploads"),
    "expectation_failed": RefusalKind(417, "it expects something else than 100-continue"),
    "wrong_host": RefusalKind(
        421, "it called the server by a name that is not the server's, nor listed", "runtime.hosts (--allow-host)"
    ),
    "upgrade_required": RefusalKind(426, "it asked for the WebSocket without being one"),
    "too_many_files": RefusalKind(429, "its session has as many files, or uploads, as it may have", "runtime.uploads"),
    "address_connections": RefusalKind(
        429, "its address has all the connections that it may have", "runtime.limits.connections_per_address"
    ),
    "address_handshakes": RefusalKind(429, "its address asks too often", "runtime.limits.handshakes_per_minute"),
    "address_requests": RefusalKind(429, "its address sends too many requests", "runtime.limits.http_per_minute"),
    "address_failures": RefusalKind(429, "its address has shown too many wrong credentials"),
    "address_waiting": RefusalKind(
        429, "its address has as many clients in the queue as it may have", "runtime.limits.waiting_per_address"
    ),
    "head_too_large": RefusalKind(431, "its head is too large", "runtime.limits.http_head"),
    "internal": RefusalKind(500, "please report this; the traceback stands above"),
    "connections": RefusalKind(503, "the server has all the connections that it may have", "runtime.limits.connections"),
    "loading": RefusalKind(503, "the model is still loading"),
    "failed": RefusalKind(503, "the model did not load"),
    "draining": RefusalKind(503, "the server is going down"),
    "full": RefusalKind(503, "each session and each place in the queue is taken", "runtime.queue"),
    "no_session": RefusalKind(503, "no session runs that a viewer could watch"),
    "not_decided": RefusalKind(503, "the server did not decide in time whether to take it", "runtime.limits.handshake"),
    "tickets_full": RefusalKind(503, "as many used tickets are remembered as can be"),
    "disk_full": RefusalKind(507, "there is no room on the disk for its file", "runtime.uploads.folder"),
})

REFUSAL_CODES: Final[tuple[RefusalCode, ...]] = get_args(RefusalCode)
