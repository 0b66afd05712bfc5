"""How many bits a second a track takes at full quality, and what an encoder is opened with to come near a target.

Nothing here encodes. Time is that of the frames, counted at the rate that the target states: an encoder reads no clock.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import msgspec

from reactor_trio.media.codec_settings import CodecSettings

#: what no encoder is asked to go below, in bits per second
LEAST = 32_000

#: how much faster frames may come than an encoder was opened for that heeds their times: as of the slowest divisor
TIMED_FASTER = 3

#: frame rates that encoders are opened with
_RATES = (1, 2, 3, 5, 8, 10, 12, 15, 20, 24, 25, 30, 40, 48, 50, 60, 72, 90, 120, 144, 180, 240, 360, 480, 600, 1000)


class Target(msgspec.Struct, frozen=True):
    """What an encoder aims at.

    Attributes:
        bitrate: bits per second.
        fps: frames per second that it will be given; those dropped before encoding do not count.
        scale: of width and height, above 0 and at most 1.
    """

    bitrate: float
    fps: float
    scale: float = 1.0


class Opening(msgspec.Struct, frozen=True):
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

    def decide(self, target: Target, full: float, keyframe: bool = False) -> Opening | None:
        """What to open the encoder with before the next frame; None: go on.

        Args:
            target: what is aimed at.
            full: the bitrate at full quality.
            keyframe: whether the next frame is a keyframe anyway.
        """
        bitrate, fps = max(target.bitrate, LEAST), nominal_fps(target.fps)
        opened = self.opened
        if opened is not None and fps <= self._most_fps(opened):
            outgrown = self._outgrown(opened, bitrate, target.fps, keyframe)
            if not outgrown:
                return None
        self.opened = self._opening(bitrate, full, target.fps, fps)
        return self.opened

    def _most_fps(self, opened: Opening) -> float:
        """Up to which frame rate the open encoder will do."""
        return opened.fps

    @abstractmethod
    def _outgrown(self, opened: Opening, bitrate: float, fps: float, keyframe: bool) -> bool: ...

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
    nothing is opened, and a new ceiling leaves room on both sides of the target, so it does not flap. A keyframe that is
    wanted anyway pays for a new ceiling already below half of it: after a still picture the buffer is full, and all of it
    would be the keyframe's, two thirds of a second of a link that carries a quarter of the ceiling.
    """

    ROOM = 1.5
    ROOM_RISING = 2.0

    def _outgrown(self, opened: Opening, bitrate: float, fps: float, keyframe: bool) -> bool:
        wanted = bitrate * opened.fps / fps
        return not opened.bitrate / (2 if keyframe else 4) <= wanted <= opened.bitrate * 1.1

    def _opening(self, bitrate: float, full: float, fps: float, nominal: int) -> Opening:
        full, opened = max(full, bitrate), self.opened
        if opened is not None and bitrate * opened.fps / fps > opened.bitrate:
            ceiling = min(full, bitrate * self.ROOM_RISING)
        elif opened is not None or bitrate < full / 4:
            ceiling = min(full, bitrate * self.ROOM)
        else:
            ceiling = full
        return Opening(round(ceiling * nominal / fps), nominal)

    def live(self, target: Target) -> int | None:
        """The target's bitrate at the rate of the open encoder, its ceiling at most."""
        assert self.opened is not None
        return min(round(max(target.bitrate, LEAST) * self.opened.fps / target.fps), self.opened.bitrate)


class SteppedPlan(Plan):
    """For an encoder that keeps the bitrate it was opened with, so that each change costs a keyframe.

    It follows at once to less than half, and to anything below it with a keyframe that is wanted anyway; else `PAUSE`
    seconds after the last change. A rise is a guess, on a thin link one that fails: the link says what it carries only when
    it is asked for more. After a rise that had to be taken back the next one waits twice as long, `LONGEST` at most.

    Args:
        timed: whether its rate control heeds the times of the frames; else it is as of `LivePlan`.
    """

    PAUSE, LONGEST = 5.0, 20.0

    def __init__(self, timed: bool) -> None:
        super().__init__()
        self._timed = timed
        self._elapsed = 0.0
        self._rose = False
        self._patience = self.PAUSE

    def decide(self, target: Target, full: float, keyframe: bool = False) -> Opening | None:
        """To be asked once for each frame."""
        self._elapsed += 1 / target.fps
        before = self.opened
        opening = super().decide(target, full, keyframe)
        if opening is not None:
            if before is not None:
                self._learn(self._asks(opening) > self._asks(before))
            self._elapsed = 0.0
        return opening

    def _learn(self, rises: bool) -> None:
        """The encoder is opened with a higher or a lower bitrate."""
        if self._rose:
            taken_back = not rises and self._elapsed <= 2 * self.PAUSE
            self._patience = min(2 * self._patience, self.LONGEST) if taken_back else self.PAUSE
        self._rose = rises

    def _outgrown(self, opened: Opening, bitrate: float, fps: float, keyframe: bool) -> bool:
        ratio = (bitrate if self._timed else bitrate * opened.fps / fps) / opened.bitrate
        if ratio > 1.15:
            return self._waited(self.PAUSE if self._rose else self._patience)
        return ratio < 0.5 or (ratio < 0.87 and (keyframe or self._waited(self.PAUSE)))

    def _most_fps(self, opened: Opening) -> float:
        return opened.fps * (TIMED_FASTER if self._timed else 1)

    def _asks(self, opening: Opening) -> float:
        return opening.bitrate / (1 if self._timed else opening.fps)

    def _waited(self, seconds: float) -> bool:
        return self._elapsed > seconds - 1e-6

    def _opening(self, bitrate: float, full: float, fps: float, nominal: int) -> Opening:
        return Opening(round(bitrate if self._timed else bitrate * nominal / fps), nominal)


class FixedPlan(Plan):
    """For an encoder without a bitrate."""

    def _outgrown(self, opened: Opening, bitrate: float, fps: float, keyframe: bool) -> bool:
        return False

    def _opening(self, bitrate: float, full: float, fps: float, nominal: int) -> Opening:
        return Opening(round(full), nominal)
