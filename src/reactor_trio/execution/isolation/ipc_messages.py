"""What the server's process and the model's say to each other, in order in either direction.

msgspec encodes them as arrays whose first item is the word's tag. Replies and messages of the model are JSON already: they
go on to the client as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from reactor_trio.interface.files import UploadedFile


class _Word(msgspec.Struct, frozen=True, array_like=True, tag_field="word"):
    """One word."""


class _SessionWord(_Word, frozen=True):
    """One word of the session with this id."""

    session: str


class Plane(msgspec.Struct, frozen=True, array_like=True):
    """One frame's values: in `segment` from `offset` on, or `inline`."""

    shape: tuple[int, ...]
    dtype: str
    segment: int = 0
    offset: int = 0
    inline: bytes = b""


class File(msgspec.Struct, frozen=True, array_like=True):
    """An uploaded file."""

    name: str
    mime_type: str
    size: int
    data: bytes


def files_to_say(files: Mapping[str, UploadedFile]) -> dict[str, File]:
    """Uploaded files as words."""
    return {key: File(file.name, file.mime_type, file.size, file.data) for key, file in files.items()}


def files_said(files: Mapping[str, File]) -> dict[str, UploadedFile]:
    """The uploaded files that the words are."""
    return {key: UploadedFile(file.name, file.mime_type, file.size, file.data) for key, file in files.items()}


class Failure(msgspec.Struct, frozen=True, array_like=True):
    """What author code raised: its type's name, its words, its traceback; whether it is an Exception."""

    kind: str
    text: str
    traceback: str
    exception: bool = True


# ---- either way ----------------------------------------------------------------------------------------------------------


class Segment(_Word, frozen=True, tag=1):
    """Memory of `size` bytes in which frames will lie; its descriptor comes with the word."""

    number: int
    size: int


class Gone(_Word, frozen=True, tag=2):
    """No frame will lie in this segment any more."""

    number: int


class Returned(_Word, frozen=True, tag=3):
    """The frames that lay there are not looked at any longer; a number stands once for each."""

    numbers: list[int]


Memory: TypeAlias = Segment | Gone | Returned


# ---- to the model's process ----------------------------------------------------------------------------------------------


class Load(_Word, frozen=True, tag=10):
    """Import and load the model.

    Attributes:
        model: `module:Class`.
        path: of modules, as this process has it.
        given: config, settings and folder of the weights, pickled: YAML knows dates, and an embedding program more.
    """

    model: str
    path: list[str]
    given: bytes


class Begin(_SessionWord, frozen=True, tag=11):
    """A session begins; its controlling client by number and joining time."""

    client: int
    joined_at: float


class Over(_SessionWord, frozen=True, tag=12):
    """A session is over: the model is to let go of it."""


class Said(_SessionWord, frozen=True, tag=13):
    """A command has come, with its arguments as the client sent them, or a file has (`files` holds it)."""

    number: int
    client: int
    name: str
    data: bytes
    files: dict[str, File]
    id: int | None
    at: float
    place: int


class Media(_SessionWord, frozen=True, tag=14):
    """A frame of an input track has come."""

    track: str
    plane: Plane
    pts: float


class Pause(_SessionWord, frozen=True, tag=43):
    """See `ModelSession.pause`."""

    paused: bool


class Limit(_SessionWord, frozen=True, tag=15):
    """See `ModelSession.limit`."""

    fps: float


class Handed(_SessionWord, frozen=True, tag=16):
    """See `ModelSession.handed`."""

    until: float
    epoch: int
    wake: bool


class Shown(_SessionWord, frozen=True, tag=17):
    """See `ModelSession.shown`."""

    until: float


class Ping(_Word, frozen=True, tag=18):
    """Does the model's loop still turn?"""

    number: int


class ShowStack(_SessionWord, frozen=True, tag=19):
    """Write to the log where the model's code is."""


class Stop(_Word, frozen=True, tag=20):
    """Nothing more comes."""


# ---- from the model's process --------------------------------------------------------------------------------------------


class Loaded(_Word, frozen=True, tag=30):
    """The model is loaded, and serves so many sessions at the same time."""

    max_sessions: int


class NotLoaded(_Word, frozen=True, tag=31):
    """It is not."""

    failure: Failure


class Put(_SessionWord, frozen=True, tag=32):
    """See `PlayoutSide.put`."""

    tracks: dict[str, Plane]
    seqs: dict[str, int]
    duration: float
    paced: bool
    origin: tuple[int, int | None, float | None, float, int | None]
    made: float
    epoch: int
    ready: float


class Flush(_SessionWord, frozen=True, tag=33):
    """See `PlayoutSide.flush`."""

    epoch: int


class Retime(_SessionWord, frozen=True, tag=34):
    """See `PlayoutSide.retime`."""

    interval: float


class Dropped(_Word, frozen=True, tag=35):
    """Frames were dropped there; of no session: input frames, or those of a loop without a client."""

    session: str | None
    place: str
    reason: str
    frames: int


class Answered(_SessionWord, frozen=True, tag=36):
    """See `SessionEvents.answered`."""

    numbers: tuple[int, ...]
    step: int
    reply: bytes
    code: str | None
    message: str
    values: dict[str, bytes]


class StateChanged(_SessionWord, frozen=True, tag=44):
    """See `SessionEvents.state_changed`."""

    values: dict[str, bytes]


class Told(_SessionWord, frozen=True, tag=37):
    """See `SessionEvents.tell`; `type` is the message's."""

    type: str
    data: bytes
    client: int | None


class Ended(_SessionWord, frozen=True, tag=38):
    """The model has let go of a session; `left`: what it still holds all the same, in words."""

    failure: Failure | None
    left: str


class Late(_SessionWord, frozen=True, tag=45):
    """See `ModelSession.watch`."""

    what: str
    since: float


class Broken(_Word, frozen=True, tag=42):
    """Author code raised what the model, or its device, does not survive; this process ends."""

    failure: Failure


class RunEnded(_Word, frozen=True, tag=39):
    """The model's own `run()` has ended: why, and what it raised."""

    what: str
    failure: Failure | None


class Pong(_Word, frozen=True, tag=40):
    """The model's loop turns."""

    number: int


class Logged(_Word, frozen=True, tag=41):
    """A log record of that process."""

    logger: str
    level: int
    message: str
    failure: Failure | None
    session: str | None
    extra: dict[str, Any]


ToModel: TypeAlias = (
    Memory | Load | Begin | Over | Said | Media | Limit | Pause | Handed | Shown | Ping | ShowStack | Stop
)
FromModel: TypeAlias = (
    Memory | Loaded | NotLoaded | Put | Flush | Retime | Dropped | Answered | StateChanged | Told | Ended
    | Late | RunEnded | Broken | Pong | Logged
)
