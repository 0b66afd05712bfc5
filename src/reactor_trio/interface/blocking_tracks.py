"""Tracks of a blocking model: class attributes that hold a `VideoOut`, `AudioOut`, `VideoIn` or `AudioIn`.

A class that declares no output track has one, `main_video`. A class that overrides `on_frame` and declares no input track
has one, `camera`. All four classes take `rate` and `default`, as in Reactor 1.x.

Source: `concepts/tracks` of the Reactor 1.x documentation.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any, TypeVar

from reactor_trio.errors import DeclarationError
from reactor_trio.interface.tracks import Audio, Input, Output, Video

T = TypeVar("T")

#: The output track of a model that declares none.
MAIN_TRACK = "main_video"
#: The input track of a model that overrides `on_frame` and declares none.
CAMERA_TRACK = "camera"


@dataclass(frozen=True)
class VideoOut:
    """Declares a video track to the client.

    Attributes:
        rate: fixed frames per second; None or 0: the runtime measures the rate of the emitted frames.
        default: whether `get_track()` without a name returns this track.
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
    """Declares an audio track from the client, at `rate` samples per second; 0 means 48 000."""

    rate: float = 0
    default: bool = False


TRACKS = (VideoOut, AudioOut, VideoIn, AudioIn)


def declared_output(cls: type) -> type[Output]:
    """Return an `Output` class with a blocking model's output tracks. Raises DeclarationError."""
    default_track(cls)
    return _tracks(cls, Output, _found(cls, (VideoOut, AudioOut)) or {MAIN_TRACK: Video})


def declared_input(cls: type, takes_frames: bool) -> type[Input] | None:
    """Return an `Input` class with a blocking model's input tracks, None if it has none. Raises DeclarationError."""
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
    """Return the marker class of an audio track with `rate` samples per second."""
    samples = int(rate) or Audio.sample_rate
    return Audio if samples == Audio.sample_rate else type(f"Audio{samples}", (Audio,), {"sample_rate": samples})


def _tracks(cls: type, base: type[T], hints: dict[str, Any]) -> type[T]:
    def body(namespace: dict[str, Any]) -> None:
        namespace |= {"__annotations__": hints, "__module__": cls.__module__}

    made: type[T] = types.new_class(f"{cls.__name__}{base.__name__}", (base,), exec_body=body)
    return made


def fixed_rate(cls: type) -> float | None:
    """Return the frame rate that a video output track of the class fixes, in frames per second; None if none does."""
    rates = {value.rate for base in cls.__mro__ for value in vars(base).values() if isinstance(value, VideoOut)}
    return next((rate for rate in rates if rate), None)


def default_track(cls: type) -> str | None:
    """Return the name of the track declared with `default=True`, if any. Raises DeclarationError if there are several."""
    declared = {name: getattr(cls, name) for base in reversed(cls.__mro__) for name, value in vars(base).items()
                if isinstance(value, TRACKS)}  # fmt: skip
    marked = [name for name, track in declared.items() if getattr(track, "default", False)]
    if len(marked) > 1:
        raise DeclarationError(f"{cls.__qualname__}: {' and '.join(marked)} are both the default track")
    return marked[0] if marked else None
