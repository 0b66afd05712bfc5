"""How many bits a second a track takes at full quality, and what an encoder is opened with to come near a target.

Nothing here encodes. Time is that of the frames, counted at the rate that the target states: an encoder reads no clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from reactor_trio.media.settings import CodecSettings

#: what no encoder is asked to go below, in bits per second
LEAST = 32_000

#: frame rates that encoders are opened with
_RATES = (1, 2, 3, 5, 8, 10, 12, 15, 20, 24, 25, 30, 40, 48, 50, 60, 72, 90, 120, 144, 180, 240, 360, 480, 600, 1000)


@dataclass(frozen=True, slots=True)
class Target:
    """What an encoder aims at.

    Attributes:
        bitrate: bits per second.
        fps: frames per second that it will be given; those dropped before encoding do not count.
        scale: of width and height, above 0 and at most 1.
    """

    bitrate: float
    fps: float
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Opening:
    """What an encoder is opened with: `bitrate` in bits per second for frames that come at `fps`."""

    bitrate: int
    fps: int


def full_bitrate(codec: str, width: int, height: int, fps: float, settings: CodecSettings) -> float:
    """Bits per second at which more would hardly be seen: what a link that carries everything is given.

    2 Mb/s for 640x480 and 5 Mb/s for 1280x720 at 30 frames per second in the codecs between frames, or what the settings
    say. JPEG takes what its declared quality takes on a grainy picture; raw and lossless take what they take.
    """
    pixels = width * height
    match codec:
        case "raw":
            return 24.0 * pixels * fps
        case "lossless":
            return 14.0 * pixels * fps
        case "jpeg":
            ceiling = 2.0 * (jpeg_scale(settings.jpeg_quality) / jpeg_scale(80)) ** -0.56 * pixels * fps
        case _:
            ceiling = 2e6 * (pixels / (640 * 480)) ** 0.834 * (fps / 30) ** 0.7
    return max(float(LEAST), ceiling if settings.bitrate is None else min(ceiling, float(settings.bitrate))
               if codec == "jpeg" else float(settings.bitrate))  # fmt: skip


def jpeg_scale(quality: float) -> float:
    """By how many hundredths libjpeg multiplies the standard quantisation tables at a quality."""
    quality = min(max(quality, 1.0), 99.5)
    return 5000 / quality if quality < 50 else 200 - 2 * quality


def nominal_fps(fps: float) -> int:
    """The frame rate to open an encoder with that is given `fps` frames a second: an even one, not below it."""
    return next((rate for rate in _RATES if rate >= fps / 1.02), _RATES[-1])


class Plan(ABC):
    """When an encoder is opened anew, and with what; each time costs a keyframe."""

    def __init__(self) -> None:
        self.opened: Opening | None = None

    def forget(self) -> None:
        """Open anew in any case, as for another size."""
        self.opened = None

    def decide(self, target: Target, full: float) -> Opening | None:
        """What to open the encoder with before the next frame; None: go on. `full` is the bitrate at full quality."""
        bitrate, fps = max(target.bitrate, LEAST), nominal_fps(target.fps)
        opened = self.opened
        if opened is not None and fps <= opened.fps and not self._outgrown(opened, bitrate, target.fps):
            return None
        self.opened = self._opening(bitrate, full, target.fps, fps)
        return self.opened

    @abstractmethod
    def _outgrown(self, opened: Opening, bitrate: float, fps: float) -> bool: ...

    @abstractmethod
    def _opening(self, bitrate: float, full: float, fps: float, nominal: int) -> Opening: ...

    def live(self, target: Target) -> int | None:
        """The bitrate to set on the open encoder; None for one that cannot change it."""
        return None


class LivePlan(Plan):
    """For an encoder with a constant bitrate that can be lowered and raised below the ceiling it was opened with.

    It gives each frame `bitrate / fps` bits with the frame rate it was opened with, whatever the times of the frames say, so
    the bitrate it is told is that of the target at this rate. The ceiling also bounds a keyframe (a quarter of a second of
    it), so for a thin link the encoder is opened with a low one. Between "above the ceiling" and "below a quarter of it"
    nothing is opened, and a new ceiling leaves room on both sides of the target, so it does not flap.
    """

    ROOM = 1.5
    ROOM_RISING = 2.0

    def _outgrown(self, opened: Opening, bitrate: float, fps: float) -> bool:
        wanted = bitrate * opened.fps / fps
        return not opened.bitrate / 4 <= wanted <= opened.bitrate * 1.1

    def _opening(self, bitrate: float, full: float, fps: float, nominal: int) -> Opening:
        full, opened = max(full, bitrate), self.opened
        if opened is not None and bitrate * opened.fps / fps > opened.bitrate:
            ceiling = min(full, bitrate * self.ROOM_RISING)
        else:
            ceiling = full if bitrate >= full / 4 else bitrate * self.ROOM
        return Opening(round(ceiling * nominal / fps), nominal)

    def live(self, target: Target) -> int | None:
        """The target's bitrate at the rate of the open encoder, its ceiling at most."""
        assert self.opened is not None
        return min(round(max(target.bitrate, LEAST) * self.opened.fps / target.fps), self.opened.bitrate)


class SteppedPlan(Plan):
    """For an encoder that keeps the bitrate it was opened with: opened anew at most once in 5 s, but at once for a drop
    to less than half.

    Args:
        timed: whether its rate control heeds the times of the frames; else it is as of `LivePlan`.
    """

    PAUSE = 5.0

    def __init__(self, timed: bool) -> None:
        super().__init__()
        self._timed = timed
        self._elapsed = 0.0

    def decide(self, target: Target, full: float) -> Opening | None:
        """To be asked once for each frame."""
        self._elapsed += 1 / target.fps
        opening = super().decide(target, full)
        if opening is not None:
            self._elapsed = 0.0
        return opening

    def _outgrown(self, opened: Opening, bitrate: float, fps: float) -> bool:
        ratio = (bitrate if self._timed else bitrate * opened.fps / fps) / opened.bitrate
        return ratio < 0.5 or (self._elapsed > self.PAUSE - 1e-6 and not 0.87 <= ratio <= 1.15)

    def _opening(self, bitrate: float, full: float, fps: float, nominal: int) -> Opening:
        return Opening(round(bitrate if self._timed else bitrate * nominal / fps), nominal)


class FixedPlan(Plan):
    """For an encoder without a bitrate."""

    def _outgrown(self, opened: Opening, bitrate: float, fps: float) -> bool:
        return False

    def _opening(self, bitrate: float, full: float, fps: float, nominal: int) -> Opening:
        return Opening(round(full), nominal)
