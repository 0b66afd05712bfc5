"""`REFUSALS`: each code with which a server or a gate refuses a request, one closed set.

The code goes out in the header `reactor-refusal`, and as `code` in the `reactor.bye` of a refusal. Programs read it. The
text is for people and may change. `docs/reference/protocol.md` has the same table.
"""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final, Literal, NamedTuple, get_args

import msgspec

from reactor_trio.protocol.reasons import EndReason

RefusalCode = Literal[
    "bad_request", "token_missing", "token_wrong", "token_expired", "token_early", "token_used", "unclaimed", "not_allowed",
    "wrong_origin", "not_found", "wrong_model", "no_world", "method_not_allowed", "request_timeout",
    "session_over", "length_required",
    "too_large", "expectation_failed", "wrong_host", "upgrade_required", "too_many_files", "uploads_under_way",
    "address_connections",
    "address_handshakes", "address_requests", "address_failures", "address_waiting", "head_too_large", "internal",
    "connections", "loading", "failed", "draining", "full", "no_session", "not_decided", "tickets_full", "disk_full",
]  # fmt: skip

#: The header with the code of a refusal.
REFUSAL_HEADER: Final = "reactor-refusal"


#: Why a request was denied, as `reactor_access_denied` counts it.
DenialReason = Literal["missing", "wrong", "expired", "used", "not_allowed", "full"]


#: The limit by which a connection, request or client was refused, as `reactor_connections_refused` counts it: the server has
#: too many connections; an address has too many, makes too many handshakes or other requests, has shown too many wrong
#: credentials, or has too many clients in the queue.
LimitKind = Literal[
    "connections", "address_connections", "address_handshakes", "address_requests", "address_failures", "address_waiting"
]

#: What may let the refused client in: the same request later, or one with another token or ticket.
Retry = Literal["later", "credential"]


class RefusalKind(NamedTuple):
    """What a code means.

    Attributes:
        status: of the HTTP response.
        meaning: in words, for whoever runs the server.
        setting: the setting that changes this; empty without one.
        text: for the client, where that is always the same; empty if each refusal has its own.
        after: seconds after which the client may try again; None: it need not.
        denied: the reason that is counted, if the credential of the request is at fault, or is missing; else None.
        limit: the limit that is counted, if it has no room; else None.
        by_phase: whether the phase of the server is the reason, which the log has already.
        guess: whether the client has shown a credential that is not good. An address has a limit of these.
        end: the reason in the close frame of a client that has its WebSocket already; None: the text.
        ends_connection: whether the HTTP connection ends with it, also if the request was read whole: the client must ask
            in another way, has asked too often, or has met a bug.
        retry: what may let this client in; None: nothing that it can do by itself.
    """

    status: int
    meaning: str
    setting: str = ""
    text: str = ""
    after: int | None = None
    denied: DenialReason | None = None
    limit: LimitKind | None = None
    by_phase: bool = False
    guess: bool = False
    end: EndReason | None = None
    ends_connection: bool = False
    retry: Retry | None = None

    @property
    def close_code(self) -> int:
        """The WebSocket close code after it: 1013 if the same may succeed later, 1011 for a server's fault, else 1008."""
        if self.retry == "later":
            return 1013
        return 1011 if self.status >= 500 else 1008


REFUSALS: Final[Mapping[RefusalCode, RefusalKind]] = MappingProxyType({
    "bad_request": RefusalKind(400, "it is not a request that this server understands"),
    "token_missing": RefusalKind(401, "it has no token, and this takes one", denied="missing", retry="credential"),
    "token_wrong": RefusalKind(
        401, "this server does not know its token, ticket or link", denied="wrong", guess=True, retry="credential"
    ),
    "token_expired": RefusalKind(401, "its ticket has expired", denied="expired", guess=True, retry="credential"),
    "token_early": RefusalKind(401, "its ticket is not valid yet", denied="expired", guess=True, retry="credential"),
    "token_used": RefusalKind(401, "its ticket has been used", denied="used", guess=True, retry="credential"),
    "unclaimed": RefusalKind(
        401, "the session that its ticket names is not reserved any more", denied="expired", retry="credential"
    ),
    "not_allowed": RefusalKind(403, "its token does not allow this", denied="not_allowed"),
    "wrong_origin": RefusalKind(
        403, "a page may connect if its origin is the server's own, or listed", "runtime.origins (--origin)"
    ),
    "not_found": RefusalKind(404, "there is nothing at its path"),
    "wrong_model": RefusalKind(404, "it asks for another model"),
    "no_world": RefusalKind(404, "it asks for a session that begins at a saved world, and may not, or cannot, have that"),
    "method_not_allowed": RefusalKind(405, "its path takes another method"),
    "request_timeout": RefusalKind(
        408, "it was not complete in time", "runtime.limits.handshake, runtime.uploads.time", retry="later"
    ),
    "session_over": RefusalKind(410, "the session of its file is over"),
    "length_required": RefusalKind(411, "it does not say the size of its file"),
    "too_large": RefusalKind(413, "its body, or its file, is larger than this server takes", "runtime.uploads"),
    "expectation_failed": RefusalKind(417, "it expects something else than 100-continue"),
    "wrong_host": RefusalKind(
        421, "it called the server by a name that is not the server's, nor listed", "runtime.hosts (--allow-host)"
    ),
    "upgrade_required": RefusalKind(426, "it asked for the WebSocket without being one", ends_connection=True),
    "too_many_files": RefusalKind(
        429, "its session has as many files as it may have", "runtime.uploads", ends_connection=True
    ),
    "uploads_under_way": RefusalKind(
        429, "its session sends as many files at once as it may", "runtime.uploads", ends_connection=True, retry="later"
    ),
    "address_connections": RefusalKind(
        429, "its address has all the connections that it may have", "runtime.limits.connections_per_address",
        "this address has all the connections that it may have", 1, limit="address_connections", ends_connection=True,
        retry="later",
    ),
    "address_handshakes": RefusalKind(
        429, "its address asks too often", "runtime.limits.handshakes_per_minute",
        "this address asks too often; wait a little", limit="address_handshakes", ends_connection=True, retry="later",
    ),
    "address_requests": RefusalKind(
        429, "its address sends too many requests", "runtime.limits.http_per_minute",
        "this address sends too many requests; wait a little", limit="address_requests", ends_connection=True, retry="later",
    ),
    "address_failures": RefusalKind(
        429, "its address has shown too many wrong credentials",
        text="this address has shown too many wrong credentials; wait a little", limit="address_failures",
        ends_connection=True, retry="later",
    ),
    "address_waiting": RefusalKind(
        429, "its address has as many clients in the queue as it may have", "runtime.limits.waiting_per_address",
        "this address has as many clients in the queue as it may have", 1, limit="address_waiting", ends_connection=True,
        retry="later",
    ),
    "head_too_large": RefusalKind(431, "its head is too large", "runtime.limits.http_head"),
    "internal": RefusalKind(
        500, "please report this; the traceback stands above", text="internal error", ends_connection=True
    ),
    "connections": RefusalKind(
        503, "the server has all the connections that it may have", "runtime.limits.connections",
        "the server has all the connections that it may have", 1, limit="connections", retry="later",
    ),
    "loading": RefusalKind(503, "the model is still loading", after=1, by_phase=True, retry="later"),
    "failed": RefusalKind(503, "the model did not load", after=1, by_phase=True, retry="later"),
    "draining": RefusalKind(503, "the server is going down", after=1, by_phase=True, end="draining", retry="later"),
    "full": RefusalKind(
        503, "each session and each place in the queue is taken", "runtime.queue", after=1, end="no_room", retry="later"
    ),
    "no_session": RefusalKind(503, "no session runs that a viewer could watch", after=1, retry="later"),
    "not_decided": RefusalKind(
        503, "the server did not decide in time whether to take it", "runtime.limits.handshake", after=1, retry="later",
    ),
    "tickets_full": RefusalKind(
        503, "as many used tickets are remembered as can be", after=60, denied="full", retry="later"
    ),
    "disk_full": RefusalKind(507, "there is no room on the disk for its file", "runtime.uploads.folder"),
})  # fmt: skip

REFUSAL_CODES: Final[tuple[RefusalCode, ...]] = get_args(RefusalCode)


class Refusal(msgspec.Struct, frozen=True):
    """Why a request is not served, and what its client gets.

    Attributes:
        code: the code, whose row in `REFUSALS` has the rest.
        text: one line for the client; empty: that of the row.
        extra_headers: headers of the response besides those of every refusal of this kind.
        after: seconds after which the client may try again; None: those of the row.
        client: what the log says of the client besides its address, in printable ASCII.
        denial_counted: whether it has been counted as a denial already.
    """

    code: RefusalCode
    text: str = ""
    extra_headers: Mapping[str, str] = {}
    after: int | None = None
    client: str = ""
    denial_counted: bool = False

    @property
    def kind(self) -> RefusalKind:
        """Its row in `REFUSALS`."""
        return REFUSALS[self.code]

    @property
    def message(self) -> str:
        """The line for the client."""
        return self.text or self.kind.text

    @property
    def retry_after(self) -> int | None:
        """Seconds after which the client may try again; None: it need not."""
        return self.kind.after if self.after is None else self.after

    @property
    def headers(self) -> dict[str, str]:
        """The headers that make an HTTP response this refusal."""
        retry = {} if self.retry_after is None else {"retry-after": str(self.retry_after)}
        asks = {"www-authenticate": "Bearer"} if self.kind.status == HTTPStatus.UNAUTHORIZED else {}
        return {**retry, **asks, **self.extra_headers, REFUSAL_HEADER: self.code}


class Refused(Exception):
    """Raised for a request that is not served, with its `refusal`."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.code)
        self.refusal = refusal
