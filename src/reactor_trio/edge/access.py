"""Who may come in: what a client shows, what that lets it do, and how refusals are told, counted and logged.

A client shows one thing: `token=` of the query, else `Authorization: Bearer`. That is the server's token or its viewers'
token, a ticket, or a session's share token (which the runtime knows, not this module).
"""

from __future__ import annotations

import hashlib
import hmac
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import msgspec

from reactor_trio.admission import Claims
from reactor_trio.configuration.credentials import read_key, read_token
from reactor_trio.configuration.settings import AuthSettings
from reactor_trio.edge.tickets import Ticket, TicketRefused, Tickets
from reactor_trio.errors import ManifestError
from reactor_trio.transport import Request, Response

log = logging.getLogger("reactor_trio.server")

#: Why somebody was not let in: showed nothing, something unknown, a ticket out of its time, a ticket used before, something
#: that does not allow what was asked for; or there is no room to note that a ticket is used.
DenialReason = Literal["missing", "wrong", "expired", "used", "not_allowed", "full"]

#: Seconds in which an address is named in the log once at most, and addresses so named in that time.
LOG_WINDOW, LOG_ADDRESSES = 60.0, 64


class Denied(Exception):
    """A request by somebody who may not make it; one line says why."""

    def __init__(self, reason: DenialReason, message: str) -> None:
        super().__init__(message)
        self.reason: DenialReason = reason
        self.message = message

    @property
    def response(self) -> Response:
        """401 for who may come back with something better, 403 for who is known and may not, 503 if there is no room."""
        match self.reason:
            case "not_allowed":
                return Response.plain(403, self.message)
            case "full":
                return Response.plain(503, self.message, {"retry-after": "60"})
        return Response.plain(401, self.message, {"www-authenticate": "Bearer"})


class Grant(msgspec.Struct, frozen=True):
    """What was shown is good: what its bearer may do, and the ticket that is still to be used, if it is one."""

    claims: Claims = Claims()
    ticket: Ticket | None = None


class Access:
    """What this server wants to be shown.

    Args:
        auth: None: nothing.
        model: the served model's name, for tickets that name one.

    Attributes:
        required: whether anything has to be shown.

    Raises ManifestError for a secret that cannot be read or used.
    """

    def __init__(self, auth: AuthSettings | None, model: str) -> None:
        self.required = auth is not None
        self._tokens: list[tuple[bytes, Claims]] = []
        self._tickets: Tickets | None = None
        self._held: set[str] = set()  # ids of tickets that `holding` keeps
        if auth is None:
            return
        if auth.token is not None:
            self._tokens.append((_digest(read_token(auth.token, "runtime.auth.token")), Claims()))
        if auth.viewer_token is not None:
            token = read_token(auth.viewer_token, "runtime.auth.viewer_token")
            self._tokens.append((_digest(token), Claims(role="viewer")))
        if len({digest for digest, _ in self._tokens}) < len(self._tokens):
            raise ManifestError("runtime.auth.viewer_token: the same as token; who has it would control")
        keys = ticket_keys(auth)
        if keys:
            try:
                self._tickets = Tickets(keys, model)
            except ValueError as error:
                raise ManifestError(f"runtime.auth.ticket_keys: a key that cannot sign: {error}") from None
        if not self._tokens and not keys:
            raise ManifestError(
                "runtime.auth: nobody could come in; give a token, a viewer_token or ticket_keys, or leave auth out"
            )

    def check(self, shown: str | None) -> Grant:
        """What its bearer may do. Raises Denied."""
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
        try:
            ticket = self._tickets.read(shown)
        except TicketRefused as refused:
            raise Denied(refused.reason, str(refused)) from None
        return Grant(ticket.claims, ticket)

    @contextmanager
    def holding(self, grant: Grant) -> Iterator[None]:
        """Keep the ticket of `grant`, if it is one, from other requests, while its bearer waits for a place.

        The ticket is good again afterwards, unless it was used. Raises Denied if another request holds it.
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
        """Use up the ticket of `grant`, if it is one; nothing may refuse the connection after that. Raises Denied."""
        if grant.ticket is not None and self._tickets is not None:
            try:
                self._tickets.spend(grant.ticket)
            except TicketRefused as refused:
                raise Denied(refused.reason, str(refused)) from None


class DenialLog:
    """A line for each address that is refused, but no more than a log can bear."""

    def __init__(self) -> None:
        self._until = 0.0
        self._named: set[str] = set()
        self._more = 0

    def note(self, address: str, denied: Denied, now: float) -> None:
        """Log that `address` was refused at `now` (Trio's clock), unless it was named in this window."""
        if now >= self._until:
            if self._more:
                log.warning("access: %d more requests were refused since", self._more)
            self._named.clear()
            self._until, self._more = now + LOG_WINDOW, 0
        if address in self._named or len(self._named) >= LOG_ADDRESSES:
            self._more += 1
            return
        self._named.add(address)
        log.warning("access: %s was refused: %s (further ones are counted)", address, denied.reason)


def shown_token(request: Request) -> str | None:
    """What a client shows, None if nothing. The query goes first: a proxy may have put its own token into the header."""
    if token := request.query.get("token"):
        return token
    scheme, _, token = (request.header("authorization") or "").partition(" ")
    return (token.strip() or None) if scheme.lower() == "bearer" else None


def ticket_keys(auth: AuthSettings) -> list[bytes]:
    """The keys of tickets, the one that signs first. Raises ManifestError."""
    return [read_key(text, f"runtime.auth.ticket_keys[{place}]") for place, text in enumerate(auth.ticket_keys)]


def _digest(secret: bytes) -> bytes:
    return hashlib.sha256(secret).digest()  # of one length, so that comparing takes one time
