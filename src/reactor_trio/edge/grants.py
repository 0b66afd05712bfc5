"""`Secrets`: what each secret of a server opens, looked up by its digest.

Whatever makes a secret registers it here, and forgets it when the secret is no longer valid. A look-up costs a digest and an
access to a table, however many secrets there are. Its time does not depend on how much of a secret was guessed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any, Final, Literal

import msgspec

from reactor_trio.admission import Claims
from reactor_trio.edge.tickets import Ticket
from reactor_trio.transport import Refusal, Refused

#: What gave a client its rights: nothing, as on a server without authentication; a token of the server; a ticket; or a
#: secret of a session, to watch it, to upload to it, to resume it, or to get the pictures of its moments.
GrantKind = Literal["open", "server", "ticket", "share", "upload", "resume", "worlds"]

#: The kinds of credential that a route reads. Those of the server itself; those, and a share token; those, and a resume
#: token, to join a session; an upload token; the token of its moments' pictures.
Credentials = tuple[GrantKind, ...]
SERVER_CREDENTIALS: Final[Credentials] = ("server", "ticket")
SHARED_CREDENTIALS: Final[Credentials] = (*SERVER_CREDENTIALS, "share")
SESSION_CREDENTIALS: Final[Credentials] = (*SHARED_CREDENTIALS, "resume")
UPLOAD_CREDENTIALS: Final[Credentials] = ("upload",)
WORLD_CREDENTIALS: Final[Credentials] = ("worlds",)


class Grant(msgspec.Struct, frozen=True):
    """What a client may do.

    Attributes:
        ticket: its ticket, which is not used up yet.
        owner: the session whose secret it has shown (`connection.ServedSession`); None: the server's.
        refusal: why it may do nothing; None if it may.
    """

    kind: GrantKind = "open"
    claims: Claims = Claims()
    ticket: Ticket | None = None
    owner: Any = None
    refusal: Refusal | None = None

    def required(self) -> Grant:
        """Return this grant. Raises Refused if the client may do nothing."""
        if self.refusal is not None:
            raise Refused(self.refusal)
        return self


class Secrets:
    """The secrets of one server."""

    def __init__(self) -> None:
        self._grants: dict[bytes, tuple[Grant, Callable[[], bool]]] = {}

    def register(self, secret: str, grant: Grant, valid: Callable[[], bool] = lambda: True) -> None:
        """Have `secret` open `grant` until it is forgotten, while `valid` returns True."""
        self._grants[_digest(secret)] = grant, valid

    def forget_those_of(self, owner: object) -> None:
        """Have the secrets of `owner` open nothing any more."""
        self._grants = {digest: one for digest, one in self._grants.items() if one[0].owner is not owner}

    def find(self, shown: str | None, *kinds: GrantKind) -> Grant | None:
        """Return what `shown` opens, if it is a secret of one of these kinds."""
        if shown is None:
            return None
        grant, valid = self._grants.get(_digest(shown), (None, bool))
        return grant if grant is not None and grant.kind in kinds and valid() else None


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
