"""Tracks of a blocking model: attributes of the class that hold a `VideoOut` or an `AudioOut`; without any, one video track.

Source: the 1.x generation's `concepts/tracks`, as `spec/behaviour.md` section 2.1 tells it.
"""

from __future__ import annotations

import types
from dataclasses import dataclass
from typing import Any

from reactor_trio.errors import DeclarationError
from reactor_trio.interface.tracks import Audio, Output, Video

#: The track of a model that names none.
MAIN_TRACK = "main_video"


@dataclass(frozen=True)
class VideoOut:
    """Declares a video track to the client. `rate`: frames per second, fixed; None: measured from what is emitted."""

    rate: float | None = None


@dataclass(frozen=True)
class AudioOut:
    """Declares an audio track to the client, at 48 000 samples per second."""


def declared_output(cls: type) -> type[Output]:
    """The `Output` that stands for the tracks of a blocking model. Raises DeclarationError."""
    found: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, (VideoOut, AudioOut)):
                found[name] = Video if isinstance(value, VideoOut) else Audio
            elif value in (VideoOut, AudioOut):
                raise DeclarationError(f"{cls.__qualname__}.{name}: write {value.__name__}(), with parentheses")
    hints = found or {MAIN_TRACK: Video}

    def body(namespace: dict[str, Any]) -> None:
        namespace |= {"__annotations__": hints, "__module__": cls.__module__}

    output: type[Output] = types.new_class(f"{cls.__name__}Output", (Output,), exec_body=body)
    return output


def fixed_rate(cls: type) -> float | None:
    """The rate that a track of the class fixes, frames per second."""
    rates = {value.rate for base in cls.__mro__ for value in vars(base).values() if isinstance(value, VideoOut)}
    return next((rate for rate in rates if rate is not None), None)
