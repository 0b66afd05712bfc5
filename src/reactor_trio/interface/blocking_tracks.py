"""Tracks of a blocking model: class attributes that hold a `VideoOut`, `AudioOut`, `VideoIn` or `AudioIn`.

A class that declares no output track has one, `main_video`. A class that overrides `on_frame` and declares no input track
has one, `camera`. All four classes take `rate` and `default`, as in Reactor 1.x.

Source: `concepts/tracks` of the Reactor 1.x documentation.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from reactor_trio.errors import DeclarationError
from reactor_trio.interface.tracks import Audio, Input, Output, Video

T = TypeVar("T")
B = TypeVar("B", bound="BlockingTrack")

#: The output track of a model that declares none.
MAIN_TRACK = "main_video"
#: The input track of a model that overrides `on_frame` and declares none.
CAMERA_TRACK = "camera"


class BlockingTrack(msgspec.Struct, frozen=True):
    """Base class of the four kinds of track.

    Attributes:
        rate: frames per second of video, samples per second of audio; 0 and None mean that the subclass's rule decides.
        default: whether `get_track()` without a name returns this track.
    """

    rate: float | None = 0
    default: bool = False


class VideoOut(BlockingTrack, frozen=True):
    """Declares a video track to the client. Without a `rate` the runtime measures the rate of the emitted frames."""

    rate: float | None = None


class AudioOut(BlockingTrack, frozen=True):
    """Declares an audio track to the client, at `rate` samples per second."""

    rate: float | None = 48_000


class VideoIn(BlockingTrack, frozen=True):
    """Declares a video track from the client. Frames come at the client's rate, whatever `rate` says."""


class AudioIn(BlockingTrack, frozen=True):
    """Declares an audio track from the client, at `rate` samples per second, 48 000 by default."""


def declared_output(cls: type) -> type[Output]:
    """Return an `Output` class with a blocking model's output tracks. Raises DeclarationError."""
    default_track(cls)
    return _tracks(cls, Output, _markers(cls, (VideoOut, AudioOut)) or {MAIN_TRACK: Video})


def declared_input(cls: type, takes_frames: bool) -> type[Input] | None:
    """Return an `Input` class with a blocking model's input tracks, None if it has none. Raises DeclarationError."""
    markers = _markers(cls, (VideoIn, AudioIn)) or ({CAMERA_TRACK: Video} if takes_frames else {})
    return _tracks(cls, Input, markers) if markers else None


def fixed_rate(cls: type) -> float | None:
    """Return the frame rate that a video output track of the class fixes, in frames per second; None if none does."""
    return next((track.rate for track in _declared(cls, VideoOut).values() if track.rate), None)


def default_track(cls: type) -> str | None:
    """Return the name of the track declared with `default=True`, if any. Raises DeclarationError if there are several."""
    marked = [name for name, track in _declared(cls, BlockingTrack).items() if track.default]
    if len(marked) > 1:
        raise DeclarationError(f"{cls.__qualname__}: {' and '.join(marked)} are both the default track")
    return marked[0] if marked else None


def _declared(cls: type, kinds: type[B] | tuple[type[B], ...]) -> dict[str, B]:
    """Return the declarations of these kinds by attribute; those of a subclass replace those of its bases."""
    attributes = [item for base in reversed(cls.__mro__) for item in vars(base).items()]
    for name, value in attributes:
        if isinstance(value, type) and issubclass(value, kinds):
            raise DeclarationError(f"{cls.__qualname__}.{name}: write {value.__name__}(), with parentheses")
    return {name: value for name, value in attributes if isinstance(value, kinds)}


def _markers(cls: type, kinds: tuple[type[BlockingTrack], ...]) -> dict[str, Any]:
    """Return the marker class, `Video` or `Audio`, of each declared track."""
    declared = _declared(cls, kinds).items()
    return {name: _audio(track.rate) if isinstance(track, (AudioOut, AudioIn)) else Video for name, track in declared}


def _audio(rate: float | None) -> Any:
    """Return the marker class of an audio track with `rate` samples per second."""
    samples = int(rate or Audio.sample_rate)
    return Audio if samples == Audio.sample_rate else type(f"Audio{samples}", (Audio,), {"sample_rate": samples})


def _tracks(cls: type, base: type[T], hints: dict[str, Any]) -> type[T]:
    body = {"__annotations__": hints, "__module__": cls.__module__}
    return type(f"{cls.__name__}{base.__name__}", (base,), body)
