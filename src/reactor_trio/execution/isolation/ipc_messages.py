"""The messages between the server's process and the model's process (IPC messages). Each direction keeps its order.

msgspec encodes a message as an array that begins with its tag. The model's replies and messages are JSON, for the client.
"""

from __future__ import annotations

import traceback
from typing import Any, TypeAlias

import msgspec

from reactor_trio.errors import ReactorError
from reactor_trio.execution.author_failures import ends_model
from reactor_trio.execution.command_queue import Command
from reactor_trio.execution.model_session import Answer
from reactor_trio.media import Origin


class IpcMessage(msgspec.Struct, frozen=True, array_like=True, tag_field="tag"):
    """A message between two processes of one server."""


class SessionMessage(IpcMessage, frozen=True):
    """A message about the session with this id."""

    session: str


class Plane(msgspec.Struct, frozen=True, array_like=True):
    """Where one frame's values lie: from byte `offset` of the shared memory on, or `inline` if `segment` is 0."""

    shape: tuple[int, ...]
    dtype: str
    segment: int = 0
    offset: int = 0
    inline: bytes = b""


# ---- exceptions of author code ------------------------------------------------------------------------------------------


class ModelCodeError(ReactorError):
    """Model code in another process raised an exception. An instance's class has the name of that exception's type."""


class _Traceback(Exception):
    """The cause of a `ModelCodeError`: with it, a log shows the traceback of the other process."""

    def __str__(self) -> str:
        return "\n" + str(self.args[0])


#: types of torch: an error of a CUDA context is permanent, and a process that ran out of memory may still hold most of it
_FATAL = ("AcceleratorError", "OutOfMemoryError")


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """An exception of author code, as a part of a message."""

    kind: str
    text: str
    traceback: str

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an exception for another process."""
        return cls(type(error).__name__, str(error), "".join(traceback.format_exception(error)))

    def error(self) -> ModelCodeError:
        """Make an exception of another process's description."""
        error: ModelCodeError = type(self.kind, (ModelCodeError,), {"__module__": ModelCodeError.__module__})(self.text)
        error.__cause__ = _Traceback(self.traceback)
        return error


def ends_process(error: BaseException) -> bool:
    """Whether the model cannot go on after this exception: it ends any program, or its device is lost."""
    fatal = isinstance(error, MemoryError) or type(error).__name__ in _FATAL or "CUDA error" in str(error)
    return fatal or ends_model(error)


# ---- either way ----------------------------------------------------------------------------------------------------------


class FramesReturned(IpcMessage, frozen=True, tag=3):
    """Frames in these segments are no longer in use; a segment's number is there once for each frame."""

    numbers: list[int]


# ---- to the model's process ----------------------------------------------------------------------------------------------


class LoadModel(IpcMessage, frozen=True, tag=10):
    """Import and load the model.

    Attributes:
        model: `module:Class`.
        path: `sys.path` of the server's process.
        given: config, settings and files of the manifest, pickled: YAML has dates, and an embedding program may pass more.
    """

    model: str
    path: list[str]
    given: bytes


class BeginSession(SessionMessage, frozen=True, tag=11):
    """A session begins. `client` and `joined_at` are the number and the joining time of its controlling client."""

    client: int
    joined_at: float


class EndSession(SessionMessage, frozen=True, tag=12):
    """A session is over: the model must let go of it."""


class CommandArrived(SessionMessage, frozen=True, tag=13):
    """A command has arrived, or a file (its only item in `files`). It has no `arguments`: its `data` holds them."""

    command: Command


class InputFrameArrived(SessionMessage, frozen=True, tag=14):
    """A frame of an input track has arrived."""

    track: str
    plane: Plane
    pts: float
    metadata: bytes | None
    capture_time_us: int | None


class SetPaused(SessionMessage, frozen=True, tag=43):
    """See `ModelSession.pause`."""

    paused: bool


class SetFpsLimit(SessionMessage, frozen=True, tag=15):
    """See `ModelSession.limit`."""

    fps: float


class BundleShown(SessionMessage, frozen=True, tag=16):
    """See `ModelSession.handed`."""

    until: float
    epoch: int
    wake: bool


class ShownUntil(SessionMessage, frozen=True, tag=17):
    """See `ModelSession.shown`."""

    until: float


class Ping(IpcMessage, frozen=True, tag=18):
    """Ask for a `Pong` from the model loop."""

    number: int


class LogStack(SessionMessage, frozen=True, tag=19):
    """Log the line at which the model's code is."""


class FreeMemory(IpcMessage, frozen=True, tag=21):
    """Collect garbage, and return free memory to the system: no session has run for a while."""


class StopModelProcess(IpcMessage, frozen=True, tag=20):
    """End the process. No message follows."""


# ---- from the model's process --------------------------------------------------------------------------------------------


class ModelLoaded(IpcMessage, frozen=True, tag=30):
    """The model is loaded, and serves up to `max_sessions` sessions at the same time."""

    max_sessions: int


class LoadFailed(IpcMessage, frozen=True, tag=31):
    """Loading the model raised an exception."""

    failure: Failure


class LoadReported(IpcMessage, frozen=True, tag=46):
    """See `Telemetry.loading`."""

    fraction: float | None
    text: str


class InputFramesTaken(SessionMessage, frozen=True, tag=48):
    """The model's process has taken the oldest `frames` of an input track, and needs their memory no longer."""

    track: str
    frames: int


class PutBundle(SessionMessage, frozen=True, tag=32):
    """See `PlayoutSide.put`."""

    tracks: dict[str, Plane]
    seqs: dict[str, int]
    duration: float
    paced: bool
    origin: Origin
    made: float
    epoch: int
    ready: float


class FlushPlayout(SessionMessage, frozen=True, tag=33):
    """See `PlayoutSide.flush`."""

    epoch: int


class RetimePlayout(SessionMessage, frozen=True, tag=34):
    """See `PlayoutSide.retime`."""

    interval: float


class FramesDropped(IpcMessage, frozen=True, tag=35):
    """The model's process dropped frames. `session` is None for input frames and for frames without a client."""

    session: str | None
    place: str
    reason: str
    frames: int


class ModelAnswered(SessionMessage, frozen=True, tag=36):
    """See `SessionEvents.answered`. The answer's reply is JSON."""

    answer: Answer


class StateValuesChanged(SessionMessage, frozen=True, tag=44):
    """See `SessionEvents.state_changed`."""

    values: dict[str, bytes]


class ModelMessageSent(SessionMessage, frozen=True, tag=37):
    """See `SessionEvents.tell`. `data` is JSON."""

    type: str
    data: bytes
    client: int | None


class SessionUnwound(SessionMessage, frozen=True, tag=38):
    """The model has let go of a session. `left` names what author code still holds; empty if it holds nothing."""

    failure: Failure | None
    left: str


class LateCall(SessionMessage, frozen=True, tag=45):
    """See `ModelSession.watch`."""

    what: str
    since: float


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
    """See `Telemetry.stepped`."""


class LogLine(IpcMessage, frozen=True, tag=41):
    """A log record of the model's process."""

    logger: str
    level: int
    message: str
    failure: Failure | None
    session: str | None
    extra: dict[str, Any]


class RanksOutOfStep(IpcMessage, frozen=True, tag=60):
    """The ranks do not run the same code. `text` says how they differ, `setting` which time limit a rank has exceeded."""

    text: str
    setting: str = ""


ToModel: TypeAlias = (
    FramesReturned | LoadModel | BeginSession | EndSession | CommandArrived | InputFrameArrived | SetFpsLimit | SetPaused
    | BundleShown | ShownUntil | Ping | LogStack | FreeMemory | StopModelProcess
)
FromModel: TypeAlias = (
    FramesReturned | ModelLoaded | LoadFailed | LoadReported | PutBundle | FlushPlayout | RetimePlayout | FramesDropped
    | ModelAnswered | StateValuesChanged | ModelMessageSent | SessionUnwound | LateCall | RunLoopEnded | ModelBroken
    | Pong | FirstStepMade | LogLine | RanksOutOfStep | InputFramesTaken
)
