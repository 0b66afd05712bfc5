"""The messages between rank 0, which leads, and the ranks that follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from reactor_trio.crossing.failures import Failure
from reactor_trio.crossing.messages import FilePiece
from reactor_trio.interface.files import UploadedFile
from reactor_trio.lifecycle import HOOKS, Action
from reactor_trio.placement.isolation.ipc_messages import IpcMessage, ModelStuck

CallKind = Literal["perform", "command", "file", "step"]

#: What the other ranks perform when rank 0 performs an action. On rank 0 `connected` changes at once, whatever they do; on
#: the others it changes with a call.
LED: Final[Mapping[Action, tuple[Action, ...]]] = {action: (action,) for action in HOOKS} | {
    Action.MAKE_STATE: (Action.MAKE_STATE, Action.SET_CONNECTED),
    Action.DISCONNECTED: (Action.CLEAR_CONNECTED, Action.DISCONNECTED),
    Action.CLOSE_DRIVER: (Action.CLOSE_DRIVER,),
    Action.LET_GO: (Action.LET_GO,),
}


# ---- from rank 0 ---------------------------------------------------------------------------------------------------------


class RankCall(IpcMessage, frozen=True, tag=1):
    """Make this call of author code now.

    Attributes:
        number: counts calls.
        step: the number of the session's next step, for the log.
        name: of the action that rank 0 performs (`LED`), or of the command.
        client, at: the client of a command, and its arrival; of an action, the controlling client, and when it joined.
        data, files: a command's arguments as the client sent them; of `file`, the arguments of the hook. The data of the
            files goes ahead in pieces (`crossing.file_pieces`).
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
    """The runtime's answer when author code on rank 0 asked for `key` in the call `number`."""

    number: int
    key: str
    value: Any


class LeaderFinished(IpcMessage, frozen=True, tag=3):
    """Rank 0 has made the newest call. No further `RuntimeAnswer` belongs to it."""


class CancelRankCall(IpcMessage, frozen=True, tag=4):
    """This call was cancelled while it waited. A rank that has made it ignores this."""

    number: int


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


FromLeader: TypeAlias = FilePiece | RankCall | RuntimeAnswer | LeaderFinished | CancelRankCall


# ---- to the server -------------------------------------------------------------------------------------------------------


def out_of_step(text: str, setting: str = "") -> ModelStuck:
    """Say that the ranks do not run the same code: how they differ, and which time limit a rank has exceeded."""
    return ModelStuck(f"its process group is out of step: {text}", setting)
