"""What a client has shown of itself: the word between who checks tokens and who gives sessions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Claims:
    """What a client may do. The default is a client of a server that asks nobody who they are.

    Attributes:
        role: the most that it may be; who may control may also watch.
        subject: who it is, the same for each of its connections; None if nobody said.
        session_length: seconds after which its session ends, if that is sooner than the server's own limit.
        session_id: of the session that a gate has reserved for it; None if it has to ask for a place.
    """

    role: Literal["control", "viewer"] = "control"
    subject: str | None = None
    session_length: float | None = None
    session_id: str | None = None
