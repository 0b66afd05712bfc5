"""The messages of one session between its I/O side and its model's side. Each direction keeps its order.

Within a process the very object crosses. Between two processes msgspec encodes it as an array that begins with its tag; no
message names its session, since the link does that (`socket_link`).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias, get_args

import msgspec
import numpy as np

from reactor_trio.crossing.failures import Failure
from reactor_trio.interface.files import UploadedFile
from reactor_trio.media import Bundle


class Message(msgspec.Struct, frozen=True, array_like=True, tag_field="tag"):
    """A message.

    Attributes:
        wakes: whether the receiving loop takes it at once. If not, it takes it when it looks next, for instance when the
            frame on screen ends: waking a sleeping loop costs more than all else that a small frame needs.
    """

    wakes: ClassVar[bool] = True


# ---- to the model --------------------------------------------------------------------------------------------------------


class BeginSession(Message, frozen=True, tag=11):
    """A session begins.

    Attributes:
        client, joined_at: the number and the joining time of its controlling client.
        at_world: whether it begins at a saved world: then it begins when the command has come that puts it.
    """

    session_id: str
    client: int
    joined_at: float
    at_world: bool = False


class EndSession(Message, frozen=True, tag=12):
    """The session is over: the model must let go of it."""


class WorldToPut(msgspec.Struct, frozen=True, array_like=True):
    """What is said between two processes of a saved world that a command puts. Its bytes go ahead in pieces.

    Attributes:
        why: what brings it, see `Landing`.
        version: the `Saves.version` it was saved with.
        warnings: what may make a difference.
    """

    why: Literal["restore", "fork"]
    version: int
    warnings: list[str]


class WorldToSave(msgspec.Struct, frozen=True, array_like=True):
    """What is said between two processes of a world that a save has captured. Its bytes follow in pieces.

    Attributes:
        step, age, size: see `World`.
    """

    step: int
    age: float
    size: int


class Command(Message, frozen=True, tag=13):
    """A valid command of a client, or a complete upload, from its arrival to its answer.

    Attributes:
        number: counts the session's commands from 1.
        client: number of the client.
        arguments: validated and decoded. Empty on the way between two processes, since `data` has them;
            `AuthorCalls.carry_out` decodes them again.
        id: the client's own id, for the acknowledgement; None if it wants none.
        at: when the command arrived, in `trio.current_time()` seconds.
        data: the arguments as the client sent them, JSON.
        files: the uploaded files that the arguments name, by the id of their upload. On the way between two processes they
            have no data: that goes ahead in pieces.
        group: commands of one group supersede each other: only the newest is carried out, at the place of the first one, and
            all are answered with it. `CommandLedger` chooses it.
        traceparent: the trace that the client says the command is part of.
        shown_step: the step whose frame was on screen when the command arrived, -1 before the first.
        world: the world that it puts, on the way between two processes.
    """

    number: int
    client: int
    name: str
    arguments: dict[str, Any]
    id: int | None
    at: float = 0.0
    data: bytes = b""
    files: dict[str, UploadedFile] = msgspec.field(default_factory=dict)
    group: int = 0
    traceparent: str | None = None
    shown_step: int = -1
    world: WorldToPut | None = None


class PauseSteps(Message, frozen=True, tag=24):
    """Begin no step from now on. The command of this number, which pauses, follows in its turn: it may wait behind others.

    Those may have a `reactor.pause` that resumes, or a `reactor.step`: this pause is newer, and they let no step begin.
    """

    number: int


class InputArrived(Message, frozen=True, tag=14):
    """A frame of an input track; the fields are those of `InputFrame`. `InputLanes` bounds how many are under way."""

    track: str
    frame: np.ndarray
    pts: float
    metadata: bytes | None
    capture_time_us: int | None


class FilePiece(Message, frozen=True, tag=23):
    """Bytes of an uploaded file, before the command that names it; see `file_pieces`."""

    data: bytes


class WorldPiece(Message, frozen=True, tag=51):
    """Bytes of a world, before the command that puts it, or behind the answer of a save; see `world_pieces`.

    Attributes:
        rest: bytes that follow.
    """

    data: np.ndarray
    rest: int


class SetFpsLimit(Message, frozen=True, tag=15):
    """Cap the rate at `fps`, which is what the viewers' encoders can take, from the next step on."""

    wakes: ClassVar[bool] = False
    fps: float


class BundleShown(Message, frozen=True, tag=16):
    """The oldest bundle, of this epoch, is shown until `until`.

    `wakes`: whether the model must be woken for it, because it cannot know the time by itself.
    """

    until: float
    epoch: int
    wakes: bool  # type: ignore[misc]


class ShownUntil(Message, frozen=True, tag=17):
    """The bundle on screen ends at `until`."""

    until: float


class LogStack(Message, frozen=True, tag=19):
    """Log the line at which the model's code is."""


class MessagesTaken(Message, frozen=True, tag=22):
    """The I/O loop has taken so many further messages of the model, of so many bytes; see `MessageFlow`."""

    messages: int
    size: int


class SetWatched(Message, frozen=True, tag=43):
    """Whether the session has a viewer from now on. Without one no step begins and no frame is taken."""

    watched: bool


# ---- from the model ------------------------------------------------------------------------------------------------------


class FlushPlayout(Message, frozen=True, tag=33):
    """Drop the bundles of epochs before `epoch`."""

    epoch: int


class RetimePlayout(Message, frozen=True, tag=34):
    """Show each frame whose duration is not fixed for `interval` seconds."""

    interval: float


class Answer(Message, frozen=True, tag=36):
    """The answer to the commands of one group.

    Attributes:
        numbers: the numbers of the commands.
        step: the first step that sees them, if they were applied.
        reply: of the handler, JSON.
        code, message: why they were refused; `code` is None if they were applied.
        values: the settings that have changed since, as JSON; see `StateChanges`.
        world: that a save has captured, within a process.
        crosses: the same, on the way between two processes.
    """

    numbers: tuple[int, ...]
    step: int
    reply: bytes = b"null"
    code: str | None = None
    message: str = ""
    values: dict[str, bytes] = msgspec.field(default_factory=dict)
    world: Any = None
    crosses: WorldToSave | None = None


class ModelMessageSent(Message, frozen=True, tag=37):
    """A message of the model to every client, or to one. `data` is JSON."""

    type: str
    data: bytes
    client: int | None


class SessionClosed(Message, frozen=True, tag=38):
    """The model has let go of the session.

    Attributes:
        failure: what author code has raised.
        fault: what the runtime has raised.
        failed_hook: the hook that has raised `failure`, as `@connected`; empty if no hook has.
    """

    failure: Failure | None
    fault: Failure | None = None
    failed_hook: str = ""


class StateValuesChanged(Message, frozen=True, tag=44):
    """Settings that author code has changed, as JSON; see `StateChanges`."""

    wakes: ClassVar[bool] = False
    values: dict[str, bytes]


class Rewound(Message, frozen=True, tag=50):
    """The world is that of an earlier moment from the step `step` on, which is the next one.

    Attributes:
        moment: the step after which it was taken.
        age: seconds of the world's own time at that moment.
        size: bytes of the world.
        why: what has brought it back.
        from_age: seconds of the world's own time at the step that was on screen; None if the two are not of one past.
        seqs: the numbers of frames that are left for the picture of the moment, by track.
    """

    step: int
    moment: int
    age: float
    size: int
    why: str = "rewind"
    from_age: float | None = None
    seqs: dict[str, int] = msgspec.field(default_factory=dict)


class LateCall(Message, frozen=True, tag=45):
    """The call of author code that runs for longer than `stuck_after`, and since when; empty: none does any more."""

    what: str
    since: float


class InputTaken(Message, frozen=True, tag=48):
    """The model's process has taken the oldest `frames` of an input track, of so many bytes, and needs them no longer."""

    track: str
    frames: int
    size: int


class PiecesTaken(Message, frozen=True, tag=49):
    """The other process has taken so many further pieces of files or of a world, of so many bytes; see `CommandLane`."""

    pieces: int
    size: int


# ---- which side takes which ----------------------------------------------------------------------------------------------

#: what the model's side of a session takes
ToModel: TypeAlias = Command | PauseSteps | SetFpsLimit | BundleShown | ShownUntil | MessagesTaken | SetWatched
#: what the I/O side of a session takes
FromModel: TypeAlias = (
    Bundle | FlushPlayout | RetimePlayout | Answer | ModelMessageSent | StateValuesChanged | Rewound | LateCall
)
#: further messages between two processes about one session
SessionOfProcess: TypeAlias = BeginSession | EndSession | InputArrived | FilePiece | WorldPiece | PiecesTaken | LogStack
ProcessOfSession: TypeAlias = SessionClosed | InputTaken | WorldPiece | PiecesTaken

TO_MODEL: tuple[type, ...] = get_args(ToModel)
FROM_MODEL: tuple[type, ...] = get_args(FromModel)
