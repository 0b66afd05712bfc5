"""What to give up first when a link carries less than full quality: detail, then frame rate, then size.

A picture at its codec's *least comfortable* bits per pixel still looks like itself; below that it falls apart, and fewer
pictures look better than worse ones. So each *rung* is a divisor of the frame rate and a scale of width and height, and
carries from its own full bitrate down to its least. Half of the rate costs no sharpness, hence divisors come first, down to
`FEWEST_FPS`; then sizes, down to `SHORTEST` pixels on the long side. Raw and lossless pictures cannot be made smaller by
quality, so for them only the divisor is left.

A rung is left downwards when the target falls below its least, and upwards only when the target is `HYSTERESIS` times the
least of a higher one. A size costs a keyframe, several times a frame, so two changes of size are at least `SIZE_HOLD`
seconds apart, and the bitrate alone follows meanwhile.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

#: bits per pixel below which a codec's pictures fall apart; a codec that is not here has no quality to lower
LEAST_BITS_PER_PIXEL = {"h264": 0.035, "vp8": 0.045, "vp9": 0.03, "av1": 0.03, "jpeg": 0.35}
DIVISORS = (1, 2, 3)
SCALES = (1.0, 0.75, 0.5, 0.375, 0.25)
FEWEST_FPS = 9.5
SHORTEST = 160
HYSTERESIS = 1.3
SIZE_HOLD = 1.0
#: of the threshold: sums of the same numbers in another order are not another rung
_EPSILON = 1e-9


@dataclass(frozen=True, slots=True)
class Quality:
    """What to aim at: `bitrate` bits per second for the encoder, one of `divisor` frames, `scale` of width and height.

    The default is what holds until a link has been described.
    """

    bitrate: float = 1e6
    divisor: int = 1
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class _Rung:
    divisor: int
    scale: float
    least: float  # bits per second


class BitrateLadder:
    """The rungs for one description of a track, and on which of them its viewer stands.

    Args:
        codec, width, height, fps: of the track at full quality; a size not known yet is 0, and is not changed.
        full: bits per second of full quality.
        before: the ladder that this one follows; the viewer stays on its rung where there is the same.
    """

    def __init__(
        self, codec: str, width: int, height: int, fps: float, full: float, before: BitrateLadder | None = None
    ) -> None:
        self.full = full
        bits = LEAST_BITS_PER_PIXEL.get(codec)
        least = self.full if bits is None else min(self.full, bits * width * height * fps)
        divisors = [d for d in DIVISORS if d == 1 or fps / d >= FEWEST_FPS]
        scales = [s for s in SCALES if s == 1 or (bits is not None and max(width, height) * s >= SHORTEST)]
        self._rungs = [_Rung(d, 1.0, least / d) for d in divisors]
        self._rungs += [_Rung(divisors[-1], s, least * s * s / divisors[-1]) for s in scales[1:]]
        self._at: int | None = None
        self._sized_at = -math.inf
        if before is not None and before._at is not None:
            at = before._rungs[before._at]
            same = (i for i, rung in enumerate(self._rungs) if (rung.divisor, rung.scale) == (at.divisor, at.scale))
            self._at = next(same, None)
            self._sized_at = before._sized_at

    def choose(self, target: float, now: float) -> Quality:
        """The quality for `target` bits per second from `now` on."""
        fits = self._first(target)
        if self._at is None:
            self._at = fits
        elif fits > self._at:
            self._step(fits, now)
        elif (up := 0 if target >= self.full else self._first(target / HYSTERESIS)) < self._at:
            self._step(up, now)
        rung = self._rungs[self._at]
        return Quality(min(target, self.most(rung.divisor, rung.scale)), rung.divisor, rung.scale)

    def most(self, divisor: int, scale: float) -> float:
        """Bits per second of full quality at that frame rate and size."""
        return self.full * scale * scale / divisor

    def _first(self, target: float) -> int:
        """The highest rung that `target` carries, else the lowest one."""
        carried = (i for i, rung in enumerate(self._rungs) if rung.least <= target * (1 + _EPSILON))
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
