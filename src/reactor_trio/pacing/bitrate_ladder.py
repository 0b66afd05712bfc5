"""A bitrate ladder: which quality to give up first when a link carries less than full quality.

The order is detail, then frame rate, then size. Above its codec's *least comfortable* bits per pixel a picture still looks
right; below that it falls apart, and fewer pictures look better than worse ones. Each *rung* is a divisor of the frame rate
and a scale of width and height. It covers the bitrates from its own full bitrate down to its least. Halving the frame rate
costs no sharpness, so the divisors come first, down to `FEWEST_FPS`. The sizes follow, down to `SHORTEST` pixels on the
longer side. Raw and lossless pictures have no quality to lower, so only the divisor can change.

The ladder steps down when the target falls below the least bitrate of the present rung. It steps up only when the target is
`HYSTERESIS` times the least bitrate of a higher rung. A change of size costs a keyframe, which is several times as large as
a frame, so two of them are at least `SIZE_HOLD` seconds apart. Meanwhile only the bitrate follows the target.
"""

from __future__ import annotations

import math
from typing import NamedTuple

#: bits per pixel below which a codec's pictures fall apart; a codec that is not listed has no quality to lower
LEAST_BITS_PER_PIXEL = {"h264": 0.035, "vp8": 0.045, "vp9": 0.03, "av1": 0.03, "jpeg": 0.35}
DIVISORS = (1, 2, 3)
SCALES = (1.0, 0.75, 0.5, 0.375, 0.25)
FEWEST_FPS = 9.5
SHORTEST = 160
HYSTERESIS = 1.3
SIZE_HOLD = 1.0
#: relative tolerance, so that rounding errors do not change the rung
_EPSILON = 1e-9


class Quality(NamedTuple):
    """The quality to send at: what a link carries, what a rendition has, and what an encoder is configured with.

    Attributes:
        bitrate: bits per second.
        fps: frames per second that the encoder will receive; frames dropped before encoding do not count.
        scale: of width and height, above 0 and at most 1.
        divisor: one frame of every `divisor` of the track's is sent.
        share: the bitrate as a share of full quality's, at most 1; it compares qualities of different codecs and sizes.
    """

    bitrate: float
    fps: float = 30.0
    scale: float = 1.0
    divisor: int = 1
    share: float = 1.0

    def at(self, full: float, fps: float) -> Quality:
        """The same quality where full quality is `full` bits per second at `fps` frames per second."""
        return Quality(self.share * full, fps / self.divisor, self.scale, self.divisor, self.share)


class BitrateLadder:
    """The rungs for one track, and the present rung of one viewer.

    Args:
        codec, width, height, fps: the track at full quality. A size of 0 is not yet known, and the scale is then always 1.
        full: the bitrate of full quality in bits per second.
        before: the previous ladder of the same viewer. The viewer keeps its rung if this ladder has the same one.
    """

    def __init__(
        self, codec: str, width: int, height: int, fps: float, full: float, before: BitrateLadder | None = None
    ) -> None:
        self.full = full
        self._fps = fps
        bits = LEAST_BITS_PER_PIXEL.get(codec)
        least = self.full if bits is None else min(self.full, bits * width * height * fps)
        divisors = [d for d in DIVISORS if d == 1 or fps / d >= FEWEST_FPS]
        scales = [s for s in SCALES if s == 1 or (bits is not None and max(width, height) * s >= SHORTEST)]
        #: each with its least bitrate
        self._rungs = [Quality(least / d, fps / d, divisor=d) for d in divisors]
        lowest = divisors[-1]
        self._rungs += [Quality(least * s * s / lowest, fps / lowest, s, lowest) for s in scales[1:]]
        self._at: int | None = None
        self._sized_at = -math.inf
        if before is not None and before._at is not None:
            at = before._rungs[before._at]
            same = (i for i, rung in enumerate(self._rungs) if (rung.divisor, rung.scale) == (at.divisor, at.scale))
            self._at = next(same, None)
            self._sized_at = before._sized_at

    def choose(self, target: float, now: float) -> Quality:
        """Choose the quality for `target` bits per second at `now`, and remember its rung."""
        fits = self._first(target)
        if self._at is None:
            self._at = fits
        elif fits > self._at:
            self._step(fits, now)
        elif (up := 0 if target >= self.full else self._first(target / HYSTERESIS)) < self._at:
            self._step(up, now)
        rung = self._rungs[self._at]
        return self.quality(target, rung.divisor, rung.scale)

    def quality(self, target: float, divisor: int, scale: float) -> Quality:
        """The quality with that divisor and scale, for `target` bits per second or the bitrate of full quality there."""
        bitrate = min(target, self.full * scale * scale / divisor)
        return Quality(bitrate, self._fps / divisor, scale, divisor, min(1.0, bitrate / self.full))

    def _first(self, target: float) -> int:
        """The index of the highest rung that fits into `target`; the lowest rung if none fits."""
        carried = (i for i, rung in enumerate(self._rungs) if rung.bitrate <= target * (1 + _EPSILON))
        return next(carried, len(self._rungs) - 1)

    def _step(self, to: int, now: float) -> None:
        assert self._at is not None
        scale = self._rungs[self._at].scale
        if self._rungs[to].scale != scale:
            if now - self._sized_at < SIZE_HOLD:
                same = [i for i, rung in enumerate(self._rungs) if rung.scale == scale]
                to = min(max(to, same[0]), same[-1])
            else:
                self._sized_at = now
        self._at = to
