"""The data of the runtime's messages that a client sends: what the server decodes, and the AsyncAPI document describes."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec

from reactor_trio.errors import CommandError
from reactor_trio.protocol.text import readable

#: codecs, best first, or `["none"]`
CodecList = Annotated[list[Annotated[str, msgspec.Meta(max_length=32)]], msgspec.Meta(min_length=1, max_length=16)]


class Keyframe(msgspec.Struct):
    """Data of `reactor.keyframe`, in both directions."""

    track: int


class Feedback(msgspec.Struct):
    """Data of `reactor.feedback`."""

    track: int
    seq: int
    held_us: Annotated[int, msgspec.Meta(ge=0, le=60_000_000)] | None = None


class Cadence(msgspec.Struct):
    """Data of `reactor.cadence`: microseconds between two acknowledgements of a track; 0: acknowledge each frame."""

    track: int
    every_us: Annotated[int, msgspec.Meta(ge=0, le=10_000_000)]


class VideoChoice(msgspec.Struct):
    """Data of `reactor.video`. `tracks` has the codecs of single tracks by name; all others use `video`."""

    video: CodecList
    tracks: dict[str, CodecList] = {}


#: steps that one `reactor.step` may ask for
MOST_STEPS: Final = 1000


class Pause(msgspec.Struct):
    """Data of `reactor.pause`."""

    paused: bool


class Step(msgspec.Struct):
    """Data of `reactor.step`."""

    steps: Annotated[int, msgspec.Meta(ge=1, le=MOST_STEPS)]


class Restart(msgspec.Struct):
    """Data of `reactor.restart`."""

    state: Literal["kept", "fresh"]


class Rewind(msgspec.Struct, omit_defaults=True):
    """Data of `reactor.rewind`: one of its fields. `steps` and `seconds` count back from what is shown."""

    step: Annotated[int, msgspec.Meta(ge=0)] | None = None
    steps: Annotated[int, msgspec.Meta(ge=1)] | None = None
    seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    undo: Literal[True] | None = None

    def __post_init__(self) -> None:
        if sum(getattr(self, name) is not None for name in self.__struct_fields__) != 1:
            raise ValueError("expected one of step, steps, seconds, undo")


#: what a name of a saved world, or an id, may have in characters
MOST_NAME: Final = 128


class Save(msgspec.Struct, omit_defaults=True):
    """Data of `reactor.save`. `step`: save the newest moment at or before it, instead of the world between two steps."""

    name: Annotated[str, msgspec.Meta(max_length=MOST_NAME)] = ""
    step: Annotated[int, msgspec.Meta(ge=0)] | None = None


class SavedWorld(msgspec.Struct):
    """Data of `reactor.restore` and `reactor.forget`: the id of a saved world."""

    world: Annotated[str, msgspec.Meta(max_length=MOST_NAME)]


class Fork(msgspec.Struct, omit_defaults=True):
    """Data of `reactor.fork`: where the new session begins, and for how many seconds its token is good.

    `step`: at the newest moment at or before it, `world`: at a saved world; without both at the world between two steps.
    """

    step: Annotated[int, msgspec.Meta(ge=0)] | None = None
    world: Annotated[str, msgspec.Meta(max_length=MOST_NAME)] | None = None
    seconds: Annotated[float, msgspec.Meta(gt=0)] = 86_400.0

    def __post_init__(self) -> None:
        if self.step is not None and self.world is not None:
            raise ValueError("expected one of step, world")


class ListWorlds(msgspec.Struct):
    """Data of `reactor.worlds`."""


#: Playback, on the wire called `transport`: what the controlling client may do with a model that is stepped. A message of it
#: is counted, ordered and answered as a command is.
PLAYBACK: Final[dict[str, type[msgspec.Struct]]] = {
    "reactor.pause": Pause, "reactor.step": Step, "reactor.restart": Restart, "reactor.rewind": Rewind,
    "reactor.save": Save, "reactor.restore": SavedWorld, "reactor.forget": SavedWorld, "reactor.fork": Fork,
    "reactor.worlds": ListWorlds,
}  # fmt: skip

_playback = {name: msgspec.json.Decoder(data) for name, data in PLAYBACK.items()}


def playback_arguments(name: str, data: bytes) -> dict[str, Any]:
    """Return the fields of a message of playback, from its JSON. Raises CommandError."""
    try:
        return msgspec.structs.asdict(_playback[name].decode(data))
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise CommandError("invalid_command", readable(error)) from None
