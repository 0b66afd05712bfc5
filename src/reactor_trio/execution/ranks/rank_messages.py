"""The messages between rank 0, which leads, and the ranks that follow."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from reactor_trio.crossing.failures import Failure
from reactor_trio.execution.isolation.ipc_messages import IpcMessage
from reactor_trio.interface.files import UploadedFile

CallKind = Literal["begin", "hook", "command", "step", "close", "end"]


# ---- from rank 0 ---------------------------------------------------------------------------------------------------------


class RankCall(IpcMessage, frozen=True, tag=1):
    """Make this call of author code now.

    Attributes:
        number: counts calls.
        step: the number of the session's next step, for the log.
        name: of the hook or the command; for `begin`, the session's id.
        client, at: the client of a command, and its arrival; for `begin`, the controlling client, and when it joined.
        data, files: a command's arguments as the client sent them.
    """

    number: int
    kind: CallKind
    step: int = 0
    name: str = ""
    client: int = 0
    at: float = 0.0
    data: bytes = b""
    files: dict[str, UploadedFile] = msgspec.field(default_factory=dict)


class RuntimeAnswer(IpcMessage, frozen=True, tag=2):
    """The runtime's answer when author code on rank 0 asked for `key` in this call."""

    key: str
    value: Any


class LeaderFinished(IpcMessage, frozen=True, tag=3):
    """Rank 0 has made the newest call. No further `RuntimeAnswer` belongs to it."""


class CancelRankCall(IpcMessage, frozen=True, tag=4):
    """The newest call was cancelled while it waited."""


# ---- to rank 0 -----------------------------------------------------------------------------------------------------------


class RankCallDone(IpcMessage, frozen=True, tag=10):
    """A rank has made this call.

    Attributes:
        outcome: empty; `ended` for a generator that returned; or the type of the exception.
        failure: the exception.
    """

    number: int
    outcome: str = ""
    failure: Failure | None = None


FromLeader: TypeAlias = RankCall | RuntimeAnswer | LeaderFinished | CancelRankCall
