"""The messages between the server's process and the model's process that are about no session.

Those about a session are in `crossing.messages`. Each direction keeps its order.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from reactor_trio.crossing.failures import Failure
from reactor_trio.crossing.messages import FromModel, ProcessOfSession, SessionOfProcess, ToModel


class IpcMessage(msgspec.Struct, frozen=True, array_like=True, tag_field="tag"):
    """A message between two processes of one server."""


# ---- either way ----------------------------------------------------------------------------------------------------------


class FramesReturned(IpcMessage, frozen=True, tag=3):
    """Frames in these slots are no longer in use; a slot's number is there once for each frame."""

    numbers: list[int]


# ---- to the model's process ----------------------------------------------------------------------------------------------


class LoadModel(IpcMessage, frozen=True, tag=10):
    """Import and load the model.

    Attributes:
        model: `module:Class`.
        schema_hash: of the class that the server's process has imported; that of this process must declare the same.
        path: `sys.path` of the server's process.
        given: config, settings and files of the manifest, pickled: YAML has dates, and an embedding program may pass more.
        levels: of the loggers of the server's process, which hold in this process, too; see `log_lines.set_levels`.
    """

    model: str
    schema_hash: str
    path: list[str]
    given: bytes
    levels: dict[str, int]


class Ping(IpcMessage, frozen=True, tag=18):
    """Ask for a `Pong` from the model loop."""

    number: int


class FreeMemory(IpcMessage, frozen=True, tag=21):
    """Collect garbage, and return free memory to the system: no session has run for a while."""


class StopModelProcess(IpcMessage, frozen=True, tag=20):
    """End the process. No message follows."""


# ---- from the model's process --------------------------------------------------------------------------------------------


class ModelLoaded(IpcMessage, frozen=True, tag=30):
    """The model is loaded, and serves up to `max_sessions` sessions at the same time.

    `weights` identifies them in saved worlds; see `weights_of`.
    """

    max_sessions: int
    weights: str = ""


class LoadFailed(IpcMessage, frozen=True, tag=31):
    """Loading the model raised an exception."""

    failure: Failure


class LoadReported(IpcMessage, frozen=True, tag=46):
    """How far the load is, as its author says."""

    fraction: float | None
    text: str


class ModelBroken(IpcMessage, frozen=True, tag=42):
    """Author code raised what the model or its device does not survive. The process ends."""

    failure: Failure


class RunLoopEnded(IpcMessage, frozen=True, tag=39):
    """The model's own `run()` has ended. `what` says why, `failure` is what it raised."""

    what: str
    failure: Failure | None


class Pong(IpcMessage, frozen=True, tag=40):
    """The model loop has processed the `Ping` with this number."""

    number: int


class FirstStepMade(IpcMessage, frozen=True, tag=47):
    """A session has made its first frame."""


class LogLine(IpcMessage, frozen=True, tag=41):
    """A log record of the model's process."""

    logger: str
    level: int
    message: str
    failure: Failure | None
    session: str | None
    extra: dict[str, Any]


class FramesDropped(IpcMessage, frozen=True, tag=35):
    """The model has dropped so many frames at this place, for this reason."""

    place: str
    reason: str
    frames: int


class ModelStuck(IpcMessage, frozen=True, tag=60):
    """The model cannot go on, although no code of it has raised what it does not survive.

    Attributes:
        what: why, in words.
        setting: the time limit that was exceeded; empty: the reason is another one.
    """

    what: str
    setting: str = ""


ToProcess: TypeAlias = FramesReturned | LoadModel | Ping | FreeMemory | StopModelProcess | SessionOfProcess | ToModel
FromProcess: TypeAlias = (
    FramesReturned | ModelLoaded | LoadFailed | LoadReported | RunLoopEnded | ModelBroken | Pong | FirstStepMade | LogLine
    | FramesDropped | ModelStuck | ProcessOfSession | FromModel
)
