"""What rank 0 and the others say to each other, and what any of them says to the server besides what one process does."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.ipc_messages import Failure, File

Kind = Literal["begin", "hook", "command", "step", "close", "end"]


class _Word(msgspec.Struct, frozen=True, array_like=True, tag_field="word"):
    """One word."""


# ---- from rank 0 ---------------------------------------------------------------------------------------------------------


class Call(_Word, frozen=True, tag=1):
    """Make this call of author code now.

    Attributes:
        number: counts calls.
        step: the session's step that comes next, for the log.
        name: of the hook, or of the command; of `begin`: the session's id.
        client, at: whose command, and when it came; of `begin`: the controlling client, and when it joined.
        data, files: a command's arguments as the client sent them.
    """

    number: int
    kind: Kind
    step: int = 0
    name: str = ""
    client: int = 0
    at: float = 0.0
    data: bytes = b""
    files: dict[str, File] = {}


class Answer(_Word, frozen=True, tag=2):
    """What the runtime said when this call asked for `key`."""

    key: str
    value: Any


class Made(_Word, frozen=True, tag=3):
    """Rank 0 has made this call: it asks nothing more."""

    number: int


class Cancel(_Word, frozen=True, tag=4):
    """This call was cancelled where it waited."""

    number: int


# ---- to rank 0 -----------------------------------------------------------------------------------------------------------


class Done(_Word, frozen=True, tag=10):
    """This call was made.

    Attributes:
        outcome: empty; `ended` for a generator that returned; or the type of what it raised.
        failure: what it raised.
    """

    number: int
    outcome: str = ""
    failure: Failure | None = None


# ---- to the server -------------------------------------------------------------------------------------------------------


class Desynced(_Word, frozen=True, tag=60):
    """The ranks are apart, in words."""

    text: str


FromLead: TypeAlias = Call | Answer | Made | Cancel
FromRank: TypeAlias = ipc_messages.FromModel | Desynced
