"""From what a session saw to figures. Times in seconds; distributions are lists, for whoever pools or draws them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from benchmarks.compare.stamp import TICK

#: a frame whose age reads as more was misread
OLDEST = 60.0


@dataclass
class Steady:
    """The steady part of one session."""

    seconds: float
    #: frames received, by their number
    frames: int
    #: frames the body drew between the first and the last one
    generated: int
    gaps: list[float]
    ages: list[float]
    #: server's processor seconds meanwhile
    cpu: float
    #: server's resident memory at its end, MiB
    resident: float
    bits_per_second: float

    @property
    def fps(self) -> float:
        """Frames a second."""
        return 1 / float(np.mean(self.gaps))

    @property
    def deviation(self) -> float:
        """Standard deviation of the time between two frames."""
        return float(np.std(self.gaps, ddof=1))

    @property
    def freezes(self) -> int:
        """Gaps above max(3 x the mean, the mean + 150 ms), as W3C's webrtc-stats counts them."""
        mean = float(np.mean(self.gaps))
        return sum(gap > max(3 * mean, mean + 0.15) for gap in self.gaps)

    @property
    def missing(self) -> int:
        """Frames drawn and not received."""
        return self.generated - self.frames


@dataclass
class Commands:
    """The commands of one session."""

    pictures: list[float] = field(default_factory=list)
    acks: list[float] = field(default_factory=list)
    #: from the end of the step that ran when the command was sent to the ack
    beyond_step: list[float] = field(default_factory=list)
    #: from that moment to the picture: the step that saw the command, and what is not the model's
    after_step: list[float] = field(default_factory=list)
    missed: int = 0
    errors: list[str] = field(default_factory=list)


def steady(session: dict[str, Any]) -> Steady:
    """Of the frames between `from` and `until`, each counted once."""
    seen: dict[int, tuple[float, int]] = {}
    for at, number, ticks, _grey in session["frames"]:
        if number is not None and session["from"] <= at < session["until"]:
            seen.setdefault(number, (at, ticks))
    arrivals = [at for at, _ in seen.values()]
    ages = [_age(at, ticks) for at, ticks in seen.values()]
    seconds = session["until"] - session["from"]
    return Steady(
        seconds=seconds,
        frames=len(seen),
        generated=max(seen) - min(seen) + 1 if seen else 0,
        gaps=[float(gap) for gap in np.diff(arrivals)],
        ages=[age for age in ages if age < OLDEST],
        cpu=session["cpu"],
        resident=session["resident"],
        bits_per_second=8 * (session["after"]["bytes"] - session["before"]["bytes"]) / seconds,
    )


def commands(session: dict[str, Any]) -> Commands:
    """Of the commands that it sent."""
    drawn = sorted({at - _age(at, ticks) for at, number, ticks, _ in session["frames"] if number is not None})
    result = Commands()
    for entry in session["commands"]:
        sent = entry["sent"]
        if "error" in entry:
            result.errors.append(entry["error"])
        ended = next((at for at in drawn if at > sent), None)
        if "missed" in entry:
            result.missed += 1
        else:
            result.pictures.append(entry["seen"] - sent)
            if ended is not None:
                result.after_step.append(entry["seen"] - ended)
        if "acked" in entry:
            result.acks.append(entry["acked"] - sent)
            if ended is not None:
                result.beyond_step.append(entry["acked"] - ended)
    return result


def _age(at: float, ticks: int) -> float:
    return ((int(at / TICK) - ticks) & 0xFFFFFFFF) * TICK
