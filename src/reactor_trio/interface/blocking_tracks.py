"""Tracks of a blocking model: attributes of the class that hold a `VideoOut`, `AudioOut`, `VideoIn` or `AudioIn`.

Without a track to the client there is one, `main_video`; a class that overrides `on_frame` and names no track from the
client has one, `camera`. All of them take `rate` and `default`, as 1.x has them.

Source: the documentation of Reactor 1.x, `runtime/concepts/tracks`.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any, TypeVar

from reactor_trio.errors import DeclarationError
from reactor_trio.interface.tracks import Audio, Input, Output, Video

T = TypeVar("T")

#: The track of a model that names none.
MAIN_TRACK = "main_video"
#: The track from the client of a model that takes frames and names none.
CAMERA_TRACK = "camera"


@dataclass(frozen=True)
class VideoOut:
    """Declares a video track to the client.

    Attributes:
        rate: frames per second, fixed; None or 0: measured from what is emitted.
        default: whether `get_track()` without a name gives this one; without such a track it gives `main_video`.
    """

    rate: float | None = None
    default: bool = False


@dataclass(frozen=True)
class AudioOut:
    """Declares an audio track to the client, at `rate` samples per second; `default` as for `VideoOut`."""

    rate: float = 48_000
    default: bool = False


@dataclass(frozen=True)
class VideoIn:
    """Declares a video track from the client. Frames come at the client's rate, whatever `rate` says."""

    rate: float = 0
    default: bool = False


@dataclass(frozen=True)
class AudioIn:
    """Declares an audio track from the client, at `rate` samples per second; 0: 48 000."""

    rate: float = 0
    default: bool = False


TRACKS = (VideoOut, AudioOut, VideoIn, AudioIn)


def declared_output(cls: type) -> type[Output]:
    """The `Output` that stands for a blocking model's tracks to the client. Raises DeclarationError."""
    default_track(cls)
    return _tracks(cls, Output, _found(cls, (VideoOut, AudioOut)) or {MAIN_TRACK: Video})


def declared_input(cls: type, takes_frames: bool) -> type[Input] | None:
    """The `Input` that stands for those from it, None if there are none. Raises DeclarationError."""
    found = _found(cls, (VideoIn, AudioIn)) or ({CAMERA_TRACK: Video} if takes_frames else {})
    return _tracks(cls, Input, found) if found else None


def _found(cls: type, markers: tuple[type, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, markers):
                found[name] = _audio(value.rate) if isinstance(value, (AudioOut, AudioIn)) else Video
            elif isinstance(value, type) and value in markers:
                raise DeclarationError(f"{cls.__qualname__}.{name}: write {value.__name__}(), with parentheses")
    return found


def _audio(rate: float) -> Any:
    """The marker of an audio track of `rate` samples per second."""
    samples = int(rate) or Audio.sample_rate
    return Audio if samples == Audio.sample_rate else type(f"Audio{samples}", (Audio,), {"sample_rate": samples})


def _tracks(cls: type, base: type[T], hints: dict[str, Any]) -> type[T]:
    def body(namespace: dict[str, Any]) -> None:
        namespace |= {"__annotations__": hints, "__module__": cls.__module__}

    made: type[T] = types.new_class(f"{cls.__name__}{base.__name__}", (base,), exec_body=body)
    return made


def fixed_rate(cls: type) -> float | None:
    """The rate that a track of the class fixes, frames per second."""
    rates = {value.rate for base in cls.__mro__ for value in vars(base).values() if isinstance(value, VideoOut)}
    return next((rate for rate in rates if rate), None)


def default_track(cls: type) -> str | None:
    """The track that the class marks as its default. Raises DeclarationError if it marks several."""
    declared = {name: getattr(cls, name) for base in reversed(cls.__mro__) for name, value in vars(base).items()
                if isinstance(value, TRACKS)}  # fmt: skip
    marked = [name for name, track in declared.items() if getattr(track, "default", False)]
    if len(marked) > 1:
        raise DeclarationError(f"{cls.__qualname__}: {' and '.join(marked)} are both the default track")
    return marked[0] if marked else None
