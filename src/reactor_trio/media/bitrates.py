"""How many bits per second a track needs at full quality, and how to open an encoder for a target bitrate.

Nothing here encodes. Time is counted in frames at the rate that the target states: an encoder reads no clock.
"""

from __future__ import annotations

import msgspec

from reactor_trio.media.codec_settings import CodecSettings
from reactor_trio.pacing import Quality

#: the lowest bitrate that any encoder is asked for, in bits per second
MIN_BITRATE = 32_000

#: an encoder that heeds timestamps takes frames this many times faster than it was opened for; no divisor is larger
TIMED_FASTER = 3

#: the frame rates that encoders are opened with
_RATES = (1, 2, 3, 5, 8, 10, 12, 15, 20, 24, 25, 30, 40, 48, 50, 60, 72, 90, 120, 144, 180, 240, 360, 480, 600, 1000)


class Opening(msgspec.Struct, frozen=True):
    """The parameters that an encoder is opened with: `bitrate` in bits per second, for frames that come at `fps`."""

    bitrate: int
    fps: int


def full_bitrate(codec: str, width: int, height: int, fps: float, settings: CodecSettings) -> float:
    """The bitrate of full quality in bits per second, above which a viewer would hardly see a difference.

    The codecs with inter frames get 2 Mb/s for 640x480 and 5 Mb/s for 1280x720 at 30 frames per second, or the bitrate of
    the settings. JPEG gets what its declared quality needs for a grainy picture. Raw and lossless get what they need.
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
    if settings.bitrate is not None:
        ceiling = min(ceiling, settings.bitrate) if codec == "jpeg" else settings.bitrate
    return float(max(MIN_BITRATE, ceiling))


def jpeg_scale(quality: float) -> float:
    """The percentage by which libjpeg scales the standard quantisation tables at `quality`."""
    quality = min(max(quality, 1.0), 99.5)
    return 5000 / quality if quality < 50 else 200 - 2 * quality


def nominal_fps(fps: float) -> int:
    """The frame rate to open an encoder with for `fps` frames per second: the next common rate that is not lower."""
    return next((rate for rate in _RATES if rate >= fps / 1.02), _RATES[-1])


class Plan:
    """Decides when to reopen an encoder, and with which parameters. Each reopening costs a keyframe.

    This base class is for an encoder that ignores bitrates; only a higher frame rate reopens it.

    Args:
        timed: the encoder's rate control heeds the timestamps of frames. Otherwise it gives each frame `bitrate / fps` bits
            with the frame rate of its opening, so every bitrate is converted to that frame rate.
    """

    def __init__(self, timed: bool = False) -> None:
        self.opened: Opening | None = None
        self._timed = timed

    def forget(self) -> None:
        """Make the next `decide` reopen the encoder, as for another picture size."""
        self.opened = None

    def decide(self, target: Quality, full: float, keyframe: bool = False) -> Opening | None:
        """The parameters to open the encoder with before the next frame; None: keep it open. Call it once for each frame.

        Args:
            target: the present target.
            full: the bitrate of full quality.
            keyframe: the next frame is a keyframe anyway.
        """
        bitrate, fps, opened = max(target.bitrate, MIN_BITRATE), nominal_fps(target.fps), self.opened
        if opened is not None and fps <= self._most_fps(opened):
            wanted = self._converted(bitrate, target.fps, opened.fps)
            if not self._outgrown(opened, wanted, keyframe):
                return None
        self.opened = Opening(round(self._converted(self._ceiling(bitrate, full, target.fps), target.fps, fps)), fps)
        return self.opened

    def live(self, target: Quality) -> int | None:
        """The bitrate to set on the open encoder; None for an encoder that cannot change it."""
        return None

    def _converted(self, bitrate: float, fps: float, opened_fps: float) -> float:
        """`bitrate` at `fps` as an encoder counts it that was opened for `opened_fps`."""
        return bitrate if self._timed else bitrate * opened_fps / fps

    def _most_fps(self, opened: Opening) -> float:
        """The highest frame rate that the open encoder can take."""
        return opened.fps

    def _outgrown(self, opened: Opening, wanted: float, keyframe: bool) -> bool:
        """Whether the open encoder is unsuitable for the bitrate `wanted`, as the encoder counts it."""
        return False

    def _ceiling(self, bitrate: float, full: float, fps: float) -> float:
        """The bitrate to open the encoder for."""
        return full


class LivePlan(Plan):
    """For an encoder whose constant bitrate can change while it is open, below the ceiling that it was opened with.

    The ceiling also bounds a keyframe (to a quarter of a second of the ceiling), so for a thin link the encoder is opened
    with a low one. The encoder is reopened if the target is above the ceiling or below a quarter of it. The new ceiling
    leaves room on both sides of the target, so that the encoder is not reopened again at once. If a keyframe is due anyway,
    a target below half of the ceiling is reason enough: after a still picture the encoder's buffer is full, and the keyframe
    would use all of it, which is two thirds of a second of a link that carries a quarter of the ceiling.
    """

    ROOM = 1.5
    ROOM_RISING = 2.0

    def live(self, target: Quality) -> int | None:
        """The target's bitrate, converted to the frame rate of the open encoder; at most its ceiling."""
        assert self.opened is not None
        wanted = self._converted(max(target.bitrate, MIN_BITRATE), target.fps, self.opened.fps)
        return min(round(wanted), self.opened.bitrate)

    def _outgrown(self, opened: Opening, wanted: float, keyframe: bool) -> bool:
        return not opened.bitrate / (2 if keyframe else 4) <= wanted <= opened.bitrate * 1.1

    def _ceiling(self, bitrate: float, full: float, fps: float) -> float:
        full, opened = max(full, bitrate), self.opened
        if opened is not None and self._converted(bitrate, fps, opened.fps) > opened.bitrate:
            return min(full, bitrate * self.ROOM_RISING)
        if opened is not None or bitrate < full / 4:
            return min(full, bitrate * self.ROOM)
        return full


class SteppedPlan(Plan):
    """For an encoder that keeps the bitrate it was opened with, so that each change costs a keyframe.

    The encoder is reopened at once for less than half of its bitrate, and for any lower one if a keyframe is due anyway.
    Otherwise it is reopened `PAUSE` seconds after the last change. A rise is a guess, and on a thin link a wrong one: the
    link's limit shows only when more is sent. After a rise that had to be taken back, the next rise waits twice as long, at
    most `LONGEST`.
    """

    PAUSE, LONGEST = 5.0, 20.0

    def __init__(self, timed: bool) -> None:
        super().__init__(timed)
        self._elapsed = 0.0
        self._rose = False
        self._patience = self.PAUSE

    def decide(self, target: Quality, full: float, keyframe: bool = False) -> Opening | None:
        """Decide as `Plan` does, and count the time by frames."""
        self._elapsed += 1 / target.fps
        before = self.opened
        opening = super().decide(target, full, keyframe)
        if opening is not None:
            if before is not None:
                self._learn(opening.bitrate > self._converted(before.bitrate, before.fps, opening.fps))
            self._elapsed = 0.0
        return opening

    def _learn(self, rises: bool) -> None:
        """Adapt the patience to a reopening with a higher or a lower bitrate."""
        if self._rose:
            taken_back = not rises and self._elapsed <= 2 * self.PAUSE
            self._patience = min(2 * self._patience, self.LONGEST) if taken_back else self.PAUSE
        self._rose = rises

    def _most_fps(self, opened: Opening) -> float:
        return opened.fps * (TIMED_FASTER if self._timed else 1)

    def _outgrown(self, opened: Opening, wanted: float, keyframe: bool) -> bool:
        if wanted > 1.15 * opened.bitrate:
            return self._waited(self.PAUSE if self._rose else self._patience)
        return wanted < 0.5 * opened.bitrate or (wanted < 0.87 * opened.bitrate and (keyframe or self._waited(self.PAUSE)))

    def _waited(self, seconds: float) -> bool:
        return self._elapsed > seconds - 1e-6

    def _ceiling(self, bitrate: float, full: float, fps: float) -> float:
        return bitrate
