"""Tracks: the named media channels that a model declares with `Output` (to the client) and `Input` (from the client)."""

from __future__ import annotations

import dataclasses
import itertools
import types
import typing
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias, dataclass_transform

import msgspec

from reactor_trio.errors import DeclarationError, OutputError
from reactor_trio.interface.author_code import calling_line
from reactor_trio.interface.dataclass_base import class_statement_frame, make_dataclass, resolved_hints
from reactor_trio.interface.later_names import names_from

if TYPE_CHECKING:
    # Authors pass a numpy array or a torch tensor; the marker only names the kind of track.
    Track: TypeAlias = Any
    Video: TypeAlias = Any
    Audio: TypeAlias = Any
else:

    class Track:
        """Base class of `Video` and `Audio`, as in Reactor 3.x; it marks no track itself."""

        kind: ClassVar[Literal["video", "audio"]]

    class Video(Track):
        """Marks a field as a video track: `uint8` RGB, `(H, W, 3)` or a batch `(N, H, W, 3)`."""

        kind = "video"

    class Audio(Track):
        """Marks a field as an audio track: `int16`, `(1, M)` at `sample_rate` Hz. Subclass it to change the rate."""

        kind = "audio"
        sample_rate: ClassVar[int] = 48_000


#: One frame's metadata, as in Reactor 3.x: a mapping that is JSON, or bytes that the model encoded itself.
Metadata: TypeAlias = dict[str, Any] | bytes


class TrackSpec(msgspec.Struct, frozen=True):
    """One declared track. A yield may omit a track that is `optional`."""

    name: str
    kind: Literal["video", "audio"]
    direction: Literal["out", "in"] = "out"
    sample_rate: int | None = None
    optional: bool = False


_serial = itertools.count()


@dataclass_transform(field_specifiers=(dataclasses.field,))
class _Tracks:
    """Base class of `Output` and `Input`: fields of a subclass become tracks."""

    __reactor_tracks__: ClassVar[tuple[TrackSpec, ...]] = ()
    #: as in Reactor 3.x: the tracks by name
    __tracks__: ClassVar[dict[str, TrackSpec]] = {}
    __reactor_markers__: ClassVar[dict[str, Any]] = {}
    __reactor_serial__: ClassVar[int] = -1
    #: the `__init__` that `@dataclass` generated for the nearest class whose author wrote none
    __reactor_init__: ClassVar[Any] = None
    _direction: ClassVar[Literal["out", "in"]] = "out"

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.__module__ == __name__:
            return
        own = cls.__dict__.get("__annotations__", {})
        for name, value in vars(cls).items():
            if name not in own and isinstance(value, type) and {Video, Audio} & set(value.__mro__):
                raise DeclarationError(f"{cls.__qualname__}.{name}: annotate it, `{name}: {value.__name__}`")
        hints = resolved_hints(cls, class_statement_frame())
        written = "__init__" in vars(cls)
        make_dataclass(cls)
        if not written:
            cls.__reactor_init__ = vars(cls)["__init__"]
        defaults = {field.name: field.default for field in dataclasses.fields(cls)}  # type: ignore[arg-type]
        cls.__reactor_tracks__ = tuple(_track(cls, name, hints[name], defaults[name] is None) for name in defaults)
        cls.__tracks__ = {track.name: track for track in cls.__reactor_tracks__}
        cls.__reactor_markers__ = {name: without_none(hints[name]) for name in defaults}
        cls.__reactor_serial__ = next(_serial)


class Output(_Tracks):
    """Base class of a model's output: each annotated field is a track to the clients, with the field's name.

    `@dataclass` on the subclass is optional. Source: Reactor's quickstart.
    """

    @property
    def __metadata__(self) -> dict[str, Any]:
        """As in Reactor 3.x: the metadata of each track that has a `TrackPayload` with metadata."""
        values = {track.name: getattr(self, track.name) for track in self.__reactor_tracks__}
        return {
            name: value.metadata
            for name, value in values.items()
            if isinstance(value, TrackPayload) and value.metadata is not None
        }

    if not TYPE_CHECKING:

        def __new__(cls, *_args, **tracks):  # noqa: D102 - `__init__`'s error for an unknown name would not list the known ones
            generated = cls.__init__ is cls.__reactor_init__  # an `__init__` of the author's may take any arguments
            fewer = 0 < len(_args) + len(tracks) < len(cls.__dataclass_fields__)  # 0: `copy` fills the attributes itself
            if generated and fewer and (left_out := _left_out(cls, len(_args), tracks)):
                silence = "; silence is zeros, np.zeros((1, sample_rate // fps), np.int16)"
                sound = next(track.kind for track in cls.__reactor_tracks__ if track.name == left_out) == "audio"
                error = OutputError(
                    f"{cls.__qualname__} needs {left_out} in each yield{silence if sound else ''}",
                    anchor="sound-type" if sound else "tracks",
                )
                error.name_location(calling_line())
                raise error
            for name in tracks if generated else ():
                if name not in cls.__dataclass_fields__:
                    names = ", ".join(track.name for track in cls.__reactor_tracks__) or "none"
                    error = OutputError(f"{cls.__qualname__} has no track {name!r}; its tracks: {names}")
                    error.name_location(calling_line())
                    raise error
            return super().__new__(cls)


def _left_out(cls: type, positional: int, given: Collection[str]) -> str:
    """The first track without a default that is not given; "" if none is, or if another name may be meant."""
    fields = dataclasses.fields(cls)
    if any(name not in {field.name for field in fields} for name in given):
        return ""
    needed = (
        field.name for field in fields[positional:]
        if field.init and field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
    )  # fmt: skip
    return next((name for name in needed if name not in given), "")


class Input(_Tracks):
    """Base class of a model's input: each annotated field is a track from the client.

    A model that annotates an attribute with the subclass, `input: Webcam`, finds an `InputBuffer` at `self.input.<track>`.
    """

    _direction = "in"


@dataclasses.dataclass(frozen=True)
class TrackPayload:
    """A video track's frames with metadata for the client, in place of the bare array: `Output(main=TrackPayload(...))`.

    Attributes:
        data: what the track takes: a frame, or a batch of frames.
        metadata: JSON data (a mapping) or bytes, for every frame of it; or a list with one for each frame of a batch.

    The runtime checks it at the yield or emit. An OutputError names what is wrong: a list of another length, data that is
    not JSON, metadata of an audio track.
    """

    data: Any
    metadata: Any = None


def with_buffers(inputs: Mapping[str, type[Input]], buffers: Mapping[str, Any]) -> dict[str, Input]:
    """Make an instance of each `Input` class, with the buffer of each track in the field of its name.

    Args:
        inputs: the model's attribute -> the class that annotates it.
        buffers: track name -> `InputBuffer`.
    """
    return {
        attribute: cls(**{track.name: buffers[track.name] for track in cls.__reactor_tracks__})
        for attribute, cls in inputs.items()
    }


def without_none(hint: Any) -> Any:
    """`Video | None` -> `Video`."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        members = [member for member in typing.get_args(hint) if member is not type(None)]
        return members[0] if len(members) == 1 else hint
    return hint


def _track(cls: type[_Tracks], name: str, hint: Any, optional: bool) -> TrackSpec:
    optional = optional or type(None) in typing.get_args(hint)
    hint = without_none(hint)
    kinds: tuple[type, ...] = hint.__mro__ if isinstance(hint, type) else ()
    if Video in kinds:
        return TrackSpec(name, "video", cls._direction, None, optional)
    if Audio in kinds:
        rate = hint.sample_rate
        if not isinstance(rate, int) or isinstance(rate, bool) or rate < 1:
            raise DeclarationError(f"{cls.__qualname__}.{name}: sample_rate must be a whole number above 0, not {rate!r}")
        return TrackSpec(name, "audio", cls._direction, rate, optional)
    raise DeclarationError(f"{cls.__qualname__}.{name}: a track is annotated Video or Audio, not {hint!r}")


if not TYPE_CHECKING:
    __getattr__ = names_from(__name__, {
        "INPUT_REGISTRY": "interface.INPUT_REGISTRY", "OUTPUT_REGISTRY": "interface.OUTPUT_REGISTRY",
        "MediaInput": "interface.MediaInput", "all_input_tracks": "interface.all_input_tracks",
        "all_output_tracks": "interface.all_output_tracks",
    })  # fmt: skip
