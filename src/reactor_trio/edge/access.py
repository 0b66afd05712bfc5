"""`Access`: checks the token or ticket of a request and returns what its client may do.

A client sends one token: `token=` in the query, or else `Authorization: Bearer`. It is the server's token, the server's
viewer token, a ticket, or the share token of a session. The runtime, not this module, knows share tokens.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from reactor_trio.admission import Claims
from reactor_trio.configuration.credentials import read_key, read_token
from reactor_trio.configuration.settings import AuthSettings
from reactor_trio.edge.denial import Denied
from reactor_trio.edge.tickets import Ticket, Tickets
from reactor_trio.errors import ManifestError
from reactor_trio.transport import Request


class Grant(msgspec.Struct, frozen=True):
    """What the client may do, and its ticket, which is not used up yet, if it sent one."""

    claims: Claims = Claims()
    ticket: Ticket | None = None


class Access:
    """The authentication of one server.

    Args:
        auth: the secrets; None: clients need no token.
        model: the served model's name, which a ticket may require.

    Attributes:
        required: whether clients need a token.

    Raises ManifestError for a secret that cannot be read or used.
    """

    def __init__(self, auth: AuthSettings | None, model: str) -> None:
        self.required = auth is not None
        self._tokens: list[tuple[bytes, Claims]] = []
        self._tickets: Tickets | None = None
        self._held: set[str] = set()  # ids of the tickets in `holding`
        if auth is None:
            return
        given = ("token", auth.token, Claims()), ("viewer_token", auth.viewer_token, Claims(role="viewer"))
        for key, text, claims in given:
            if text is not None:
                self._tokens.append((_digest(read_token(text, f"runtime.auth.{key}")), claims))
        if len({digest for digest, _ in self._tokens}) < len(self._tokens):
            raise ManifestError("runtime.auth.viewer_token: the same as token; a client that has it would control")
        keys = ticket_keys(auth)
        if keys:
            try:
                self._tickets = Tickets(keys, model)
            except ValueError as error:
                raise ManifestError(f"runtime.auth.ticket_keys: a key that cannot sign: {error}") from None
        if not self._tokens and not keys:
            raise ManifestError(
                "runtime.auth: no client could connect; give a token, a viewer_token or ticket_keys, or leave auth out"
            )

    def check(self, shown: str | None) -> Grant:
        """Return what a client with this token may do. Raises Denied."""
        if not self.required:
            return Grant()
        if shown is None:
            raise Denied("missing", "this server wants a token: Authorization: Bearer TOKEN, or token=TOKEN in the query")
        digest = _digest(shown.encode())
        good = [claims for known, claims in self._tokens if hmac.compare_digest(known, digest)]
        if good:
            return Grant(good[0])
        if self._tickets is None:
            raise Denied("wrong", "this token is not one that this server knows")
        ticket = self._tickets.read(shown)
        return Grant(ticket.claims, ticket)

    @contextmanager
    def holding(self, grant: Grant) -> Iterator[None]:
        """Reserve the ticket of `grant`, if there is one, while its client waits for a place.

        Afterwards another request may use the ticket, unless `use` was called. Raises Denied if another request holds it.
        """
        if grant.ticket is None:
            yield
            return
        jti = grant.ticket.jti
        if jti in self._held:
            raise Denied("used", "another request with this ticket asks for a place now; each is good for one connection")
        self._held.add(jti)
        try:
            yield
        finally:
            self._held.discard(jti)

    def use(self, grant: Grant) -> None:
        """Use up the ticket of `grant`, if there is one. Nothing may refuse the connection after that. Raises Denied."""
        if grant.ticket is not None and self._tickets is not None:
            self._tickets.spend(grant.ticket)


def shown_token(request: Request) -> str | None:
    """Return the token of a request, or None. The query comes first: a proxy may have put its own token into the header."""
    if token := request.query.get("token"):
        return token
    scheme, _, token = (request.header("authorization") or "").partition(" ")
    return (token.strip() or None) if scheme.lower() == "bearer" else None


def ticket_keys(auth: AuthSettings) -> list[bytes]:
    """Read the ticket keys; the first one signs. Raises ManifestError."""
    return [read_key(text, f"runtime.auth.ticket_keys[{place}]") for place, text in enumerate(auth.ticket_keys)]


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()  # digests have one length, so that a comparison always takes the same time
