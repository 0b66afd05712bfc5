"""The messages between rank 0, which leads, and the ranks that follow."""

from __future__ import annotations

from typing import Any, Final, Literal, TypeAlias, get_args

import msgspec

from reactor_trio.crossing.failures import Failure
from reactor_trio.crossing.messages import FilePiece
from reactor_trio.execution.landing import Why
from reactor_trio.interface.files import UploadedFile
from reactor_trio.lifecycle import HOOKS, Action
from reactor_trio.placement.isolation.ipc_messages import IpcMessage, ModelStuck

#: what rank 0 has the others do with their parts of a world
WorldCall = Literal["capture", "pack", "unpack", "put", "put_back", "restored"]
CallKind = Literal["perform", "arguments", "command", "file", "step"] | WorldCall

#: calls that one rank may refuse alone: rank 0 then has the others take it back (`Leader.agree`)
REFUSABLE: Final = frozenset({"arguments", *get_args(WorldCall)})

#: actions that are a call of every rank
LED: Final = HOOKS | {Action.MAKE_STATE, Action.CLOSE_DRIVER, Action.RELEASE}
#: Actions without author code. Rank 0 performs them at once, also while a call runs. The other ranks perform them at the
#: begin of the next call.
AT_NEXT_CALL: Final = frozenset({
    Action.SET_CONNECTED, Action.CLEAR_CONNECTED, Action.CLOSE_OUTPUT, Action.CLOSE_INPUTS
})  # fmt: skip


# ---- from rank 0 ---------------------------------------------------------------------------------------------------------


class RankWorld(msgspec.Struct, frozen=True, array_like=True):
    """About which world a call is. Each rank keeps its own part of it.

    Attributes:
        number: counts the worlds that have been captured, or have come packed.
        released: the numbers of those to which nothing goes back any more.
        place: of `capture`, the `Place` of the world.
        why, same_process, version: of the other calls, see `Landing`.
    """

    number: int
    released: tuple[int, ...] = ()
    place: tuple[int, int, float] = (0, 0, 0.0)
    why: Why = "rewind"
    same_process: bool = True
    version: int | None = None


class RankCall(IpcMessage, frozen=True, tag=1):
    """Make this call of author code now.

    Attributes:
        number: counts calls.
        step: the number of the session's next step, for the log.
        action: of `perform`, what rank 0 performs (`LED`).
        command: of `arguments` and `command`, its name.
        before: the actions that come first (`AT_NEXT_CALL`).
        world: of calls about one.
        client, at: the client of a command, and its arrival; of an action, the controlling client, and when it joined.
        data, files: a command's arguments as the client sent them, unless a call `arguments` had them before; of `file`, the
            arguments of the hook. The data of the files goes ahead in pieces (`crossing.file_pieces`).
    """

    number: int
    kind: CallKind
    step: int = 0
    action: Action | None = None
    command: str = ""
    client: int = 0
    at: float = 0.0
    data: bytes = b""
    files: dict[str, UploadedFile] = msgspec.field(default_factory=dict)
    before: tuple[Action, ...] = ()
    world: RankWorld | None = None


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


class WorldPartPiece(IpcMessage, frozen=True, tag=5):
    """A piece of a rank's part of a world, packed (`worlds.unsigned`): to that rank in a call `unpack`, from it in `pack`.

    `RankLink` waits for room, so pieces need no window.

    Attributes:
        rest: bytes of the part that come behind it.
    """

    data: bytes
    rest: int


# ---- to rank 0 -----------------------------------------------------------------------------------------------------------


class RankCallDone(IpcMessage, frozen=True, tag=10):
    """A rank has made this call.

    Attributes:
        outcome: empty; `ended` for a generator that returned; or the type of the exception.
        failure: the exception.
        size: of `capture`, bytes of this rank's part.
    """

    number: int
    outcome: str = ""
    failure: Failure | None = None
    size: int = 0


FromLeader: TypeAlias = FilePiece | RankCall | RuntimeAnswer | LeaderFinished | CancelRankCall | WorldPartPiece
ToLeader: TypeAlias = RankCallDone | WorldPartPiece


# ---- to the server -------------------------------------------------------------------------------------------------------


def out_of_step(text: str, setting: str = "") -> ModelStuck:
    """Say that the ranks do not run the same code: how they differ, and which time limit a rank has exceeded."""
    return ModelStuck(f"its process group is out of step: {text}", setting)
