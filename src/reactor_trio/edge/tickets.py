"""Signed tickets: JSON web tokens (RFC 7519, HS256) that a back end issues for one connection each.

| claim | | means |
|---|---|---|
| `exp` | required | seconds since 1970 at which it is void |
| `jti` | required | its own id; a ticket is good for one connection |
| `role` | required | `"control"` or `"viewer"` |
| `sub` | | who it is for |
| `max_session` | | seconds after which the session ends |
| `aud` | | the model's name, or a list of names; any other model refuses it |
| `nbf` | | seconds since 1970 before which it is not good yet |
| `session` | | id of the session that is reserved for its bearer (`server/leases.py`) |

The time of day is read here and nowhere else in the server: what has been issued elsewhere knows no other clock.
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

if TYPE_CHECKING:
    from jwt import PyJWS

#: Seconds by which the issuer's clock may differ from ours.
LEEWAY = 5.0
#: Seconds that a ticket may be good for at most: so long its id has to be remembered.
LONGEST = 30 * 86_400.0
#: Ids of used tickets that are remembered, each until it expires; with so many, no further one is taken.
SPENT = 65_536

_ALGORITHM = "HS256"
_LONGEST_REASON = 200  # it may quote the ticket
_PLAIN = r"^[^\x00-\x1f\x7f]*$"  # goes into logs


class Ticket(msgspec.Struct, frozen=True):
    """What a ticket says; see the module for its claims."""

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
        """What its bearer may do."""
        return Claims(role=self.role, subject=self.sub, session_length=self.max_session, session_id=self.session)


class TicketRefused(Exception):
    """A ticket that is not good; `reason` is a word for counting, the text a line for its bearer."""

    def __init__(self, reason: Literal["wrong", "expired", "used", "full"], message: str) -> None:
        super().__init__(message)
        self.reason: Literal["wrong", "expired", "used", "full"] = reason


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
    """A ticket for one connection, for a back end that knows who its users are.

    Args:
        key: one of the server's `runtime.auth.ticket_keys`, 32 bytes or more.
        role: the most that its bearer may be.
        expires: seconds for which it is good; the connection it opens may last longer.
        subject: who it is for.
        max_session: seconds after which the session ends.
        model: the `name` of the only model that it is good for.
        session: the id of the session that the server has reserved for its bearer.

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
    """Reads tickets and takes each one once.

    Args:
        keys: what they may be signed with.
        model: the served model's name.
        clock: the time of day, in seconds since 1970.
        room: ids of used tickets that are remembered.

    Raises ValueError for a key that cannot be one.
    """

    def __init__(
        self, keys: Sequence[bytes], model: str, clock: Callable[[], float] = time.time, room: int = SPENT
    ) -> None:
        self._keys = keys
        self._model = model
        self._clock = clock
        self._jws = _jws()
        self._spent = Spent(room)
        for key in keys:
            try:
                self._jws.encode(b"", key, _ALGORITHM)
            except Exception as error:
                raise ValueError(str(error)) from None

    def read(self, text: str) -> Ticket:
        """What the ticket `text` says, if it is good now and has not been used. Raises TicketRefused."""
        payload = self._verified(text)
        try:
            ticket = msgspec.json.decode(payload, type=Ticket)
        except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
            raise TicketRefused("wrong", f"this ticket is signed, but cannot be used: {_readable(error)}") from None
        self._check_time(ticket)
        names = [ticket.aud] if isinstance(ticket.aud, str) else ticket.aud
        if names is not None and self._model not in names:
            raise TicketRefused("wrong", "this ticket is for another model")
        self._spent.forget(self._clock() - LEEWAY)
        self._spent.check(ticket)
        return ticket

    def spend(self, ticket: Ticket) -> None:
        """Use `ticket`, which `read` gave. Raises TicketRefused if it has been used meanwhile, or none can be now."""
        self._spent.add(ticket)

    def _verified(self, text: str) -> bytes:
        from jwt import PyJWTError

        for key in self._keys:
            try:
                whole = self._jws.decode_complete(text, key, algorithms=[_ALGORITHM])
            except (PyJWTError, ValueError, RecursionError):
                continue
            if "crit" not in whole["header"]:  # RFC 7515 section 4.1.11: what must be understood and is not
                payload: bytes = whole["payload"]
                return payload
        raise TicketRefused("wrong", "this token or ticket is not one that this server knows")

    def _check_time(self, ticket: Ticket) -> None:
        now = self._clock()
        if ticket.exp + LEEWAY <= now:
            raise TicketRefused("expired", "this ticket has expired; ask for a new one")
        if ticket.exp - LEEWAY > now + LONGEST:
            raise TicketRefused("wrong", f"this ticket is good for more than {LONGEST / 86_400:.0f} days")
        if ticket.nbf is not None and ticket.nbf - LEEWAY > now:
            raise TicketRefused("expired", "this ticket is not good yet")


class Spent:
    """Ids of used tickets, each kept until its ticket has expired; `room` of them at most.

    A clock that jumps ahead and back must not make a used ticket new: what expires no later than an id that was forgotten
    counts as used.
    """

    def __init__(self, room: int) -> None:
        self._room = room
        self._ids: set[str] = set()
        self._by_end: list[tuple[float, str]] = []
        self._forgotten = 0.0

    def __len__(self) -> int:
        return len(self._ids)

    def forget(self, until: float) -> None:
        """Forget what expired before `until`, in seconds since 1970."""
        while self._by_end and self._by_end[0][0] < until:
            end, jti = heapq.heappop(self._by_end)
            self._ids.discard(jti)
            self._forgotten = max(self._forgotten, end)

    def check(self, ticket: Ticket) -> None:
        """Raises TicketRefused if `ticket` has been used."""
        if ticket.jti in self._ids or ticket.exp <= self._forgotten:
            raise TicketRefused("used", "this ticket has been used; each is good for one connection, ask for a new one")

    def add(self, ticket: Ticket) -> None:
        """Note that `ticket` is used. Raises TicketRefused if it was, or if there is no room to note it."""
        self.check(ticket)
        if len(self._ids) >= self._room:
            raise TicketRefused("full", "too many tickets are in use; try again later")
        self._ids.add(ticket.jti)
        heapq.heappush(self._by_end, (ticket.exp, ticket.jti))


def _jws() -> PyJWS:
    from jwt import PyJWS  # not needed by a server without tickets

    return PyJWS(algorithms=[_ALGORITHM])


def _readable(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    if isinstance(error, RecursionError):
        return "it is too deep"
    return re.sub(r"[`\s]+", " ", str(error)).strip()[:_LONGEST_REASON]
