"""`Claims`: a client's rights, as the check of its token found them. Authentication makes it; admission reads it."""

from __future__ import annotations

from typing import Literal

import msgspec


class Claims(msgspec.Struct, frozen=True):
    """A client's rights. The default is a client of a server without authentication.

    Attributes:
        role: the client's highest role. A client with the role "control" may also watch.
        subject: the user's name, the same for all of its connections, or None if the token names none.
        session_length: seconds after which the client's session ends, if that is sooner than the server's own limit.
        session_id: the session that a gate has reserved for the client, or None if the client must wait for a slot.
    """

    role: Literal["control", "viewer"] = "control"
    subject: str | None = None
    session_length: float | None = None
    session_id: str | None = None
