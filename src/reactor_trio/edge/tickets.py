"""Signed tickets: JSON web tokens (RFC 7519, HS256) that a back end issues, each for one connection.

| claim | | means |
|---|---|---|
| `exp` | required | when it expires, in seconds since 1970 |
| `jti` | required | its id; a ticket is valid for one connection |
| `role` | required | `"control"` or `"viewer"` |
| `sub` | | who it is for |
| `max_session` | | seconds after which the session ends |
| `aud` | | the model's name, or a list of names; other models refuse it |
| `nbf` | | from when on it is valid, in seconds since 1970 |
| `session` | | id of the session that is reserved for its client (`leases`) |

It reads the time of day, because the issuer of a ticket knows no other clock.
"""

from __future__ import annotations

import heapq
import re
import secrets
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from reactor_trio.admission import Claims
from reactor_trio.protocol.refusals import Refusal, Refused

if TYPE_CHECKING:
    from jwt import PyJWS

#: Seconds by which the issuer's clock may differ from ours.
LEEWAY = 5.0
#: Seconds for which a ticket may be valid at most, since the server remembers its id that long.
LONGEST = 30 * 86_400.0
#: Ids of used tickets that the server remembers, each until it expires. With so many, it refuses further tickets.
SPENT = 65_536

_ALGORITHM = "HS256"
_LONGEST_REASON = 200  # characters; the reason may quote the ticket
_PLAIN = r"^[^\x00-\x1f\x7f]*$"  # for texts that go into logs


class Ticket(msgspec.Struct, frozen=True):
    """The claims of a ticket; the module's docstring explains them."""

    exp: Annotated[float, Meta(gt=0)]
    jti: Annotated[str, Meta(min_length=1, max_length=128)]
    role: Literal["control", "viewer"]
    sub: Annotated[str, Meta(max_length=256, pattern=_PLAIN)] | None = None
    max_session: Annotated[float, Meta(gt=0)] | None = None
    aud: str | list[str] | None = None
    nbf: float | None = None
    session: Annotated[str, Meta(min_length=1, max_length=64, pattern=_PLAIN)] | None = None

    @property
    def claims(self) -> Claims:
        """What its client may do."""
        return Claims(role=self.role, subject=self.sub, session_length=self.max_session, session_id=self.session)


def issue_ticket(
    key: str | bytes,
    *,
    role: Literal["control", "viewer"] = "control",
    expires: float = 60.0,
    subject: str | None = None,
    max_session: float | None = None,
    model: str | None = None,
    session: str | None = None,
) -> str:
    """Issue a ticket for one connection. A back end that knows its users calls this.

    Args:
        key: one of the server's `runtime.auth.ticket_keys`, 32 bytes or more.
        role: the highest role that its client may have.
        expires: seconds for which it is valid; the connection that it opens may last longer.
        subject: who it is for.
        max_session: seconds after which the session ends.
        model: the `name` of the only model that accepts it.
        session: the id of the session that the server has reserved for its client.

    Raises ValueError for a key that is too short, or another value that the server would refuse.
    """
    secret = key.encode() if isinstance(key, str) else key
    if len(secret) < 32:
        raise ValueError(f"key: {len(secret)} bytes, a key needs 32 or more")
    if not 0 < expires <= LONGEST:
        raise ValueError(f"expires: expected seconds, above 0 and {LONGEST:.0f} at most, got {expires!r}")
    claims = {
        "exp": time.time() + expires, "jti": secrets.token_urlsafe(16), "role": role, "sub": subject,
        "max_session": max_session, "aud": model, "session": session,
    }  # fmt: skip
    given = {name: value for name, value in claims.items() if value is not None}
    try:
        msgspec.convert(given, Ticket)
    except msgspec.ValidationError as error:
        raise ValueError(str(error)) from None
    return _jws().encode(msgspec.json.encode(given), secret, _ALGORITHM, headers={"typ": "JWT"})


class Tickets:
    """Reads tickets, and accepts each one once.

    Args:
        keys: the keys that may have signed a ticket.
        model: the served model's name.
        clock: returns the time of day, in seconds since 1970.
        most: used tickets that are remembered.

    Raises ValueError for a key that cannot sign.
    """

    def __init__(
        self, keys: Sequence[bytes], model: str, clock: Callable[[], float] = time.time, most: int = SPENT
    ) -> None:
        self._keys = keys
        self._model = model
        self._clock = clock
        self._jws = _jws()
        self._spent = Spent(most)
        for key in keys:
            try:
                self._jws.encode(b"", key, _ALGORITHM)
            except Exception as error:
                raise ValueError(str(error)) from None

    def read(self, text: str) -> Ticket:
        """Return the ticket `text` if it is valid now and has not been used. Raises Refused."""
        payload = self._verified(text)
        try:
            ticket = msgspec.json.decode(payload, type=Ticket)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise Refused(Refusal("token_wrong", f"this ticket is signed, but cannot be used: {_readable(error)}")) from None
        self._check_time(ticket)
        names = [ticket.aud] if isinstance(ticket.aud, str) else ticket.aud
        if names is not None and self._model not in names:
            raise Refused(Refusal("token_wrong", "this ticket is for another model"))
        self._spent.forget(self._clock() - LEEWAY)
        self._spent.check(ticket)
        return ticket

    def spend(self, ticket: Ticket) -> None:
        """Use up `ticket`, which `read` returned. Raises Refused if it has been used meanwhile, or if there is no room."""
        self._spent.add(ticket)

    def give_back(self, ticket: Ticket) -> None:
        """Let `ticket`, which `spend` used up, be used again: its client was refused after all."""
        self._spent.discard(ticket)

    def _verified(self, text: str) -> bytes:
        from jwt import PyJWTError

        for key in self._keys:
            try:
                whole = self._jws.decode_complete(text, key, algorithms=[_ALGORITHM])
            except (PyJWTError, ValueError, RecursionError):
                continue
            if "crit" not in whole["header"]:  # RFC 7515 section 4.1.11: refuse extensions that we do not know
                payload: bytes = whole["payload"]
                return payload
        raise Refused(Refusal("token_wrong", "this token or ticket is not one that this server knows"))

    def _check_time(self, ticket: Ticket) -> None:
        now = self._clock()
        if ticket.exp + LEEWAY <= now:
            raise Refused(Refusal("token_expired", "this ticket has expired; ask for a new one"))
        if ticket.exp - LEEWAY > now + LONGEST:
            raise Refused(Refusal("token_wrong", f"this ticket is good for more than {LONGEST / 86_400:.0f} days"))
        if ticket.nbf is not None and ticket.nbf - LEEWAY > now:
            raise Refused(Refusal("token_early", "this ticket is not valid yet"))


class Spent:
    """The ids of used tickets, each kept until its ticket has expired; `most` of them.

    A clock that jumps ahead and back must not make a used ticket valid again. Therefore a ticket counts as used if it
    expires no later than a ticket whose id was forgotten.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._ids: set[str] = set()
        self._by_end: list[tuple[float, str]] = []
        self._forgotten = 0.0

    def __len__(self) -> int:
        return len(self._ids)

    def forget(self, until: float) -> None:
        """Forget the tickets that expired before `until`, in seconds since 1970."""
        while self._by_end and self._by_end[0][0] < until:
            end, jti = heapq.heappop(self._by_end)
            self._ids.discard(jti)
            self._forgotten = max(self._forgotten, end)

    def check(self, ticket: Ticket) -> None:
        """Raises Refused if `ticket` has been used."""
        if ticket.jti in self._ids or ticket.exp <= self._forgotten:
            why = "this ticket has been used; each is good for one connection, ask for a new one"
            raise Refused(Refusal("token_used", why))

    def add(self, ticket: Ticket) -> None:
        """Remember that `ticket` is used. Raises Refused if it was used before, or if there is no room."""
        self.check(ticket)
        if len(self._ids) >= self._most:
            raise Refused(Refusal("tickets_full", "too many tickets are in use; try again later"))
        self._ids.add(ticket.jti)
        heapq.heappush(self._by_end, (ticket.exp, ticket.jti))

    def discard(self, ticket: Ticket) -> None:
        """Take back an `add`. Without effect if the ticket was forgotten meanwhile."""
        if ticket.jti in self._ids:
            self._ids.remove(ticket.jti)
            self._by_end.remove((ticket.exp, ticket.jti))
            heapq.heapify(self._by_end)


def _jws() -> PyJWS:
    from jwt import PyJWS  # not needed by a server without tickets

    return PyJWS(algorithms=[_ALGORITHM])


def _readable(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, RecursionError):
        return "it is too deep"
    return re.sub(r"[`\s]+", " ", str(error)).strip()[:_LONGEST_REASON]
