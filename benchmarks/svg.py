"""Line charts as SVG, readable on light and on dark pages: axes, ticks, a legend, and no more than the benchmarks need."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 820, 400
LEFT, RIGHT, TOP, BOTTOM = 62, 234, 44, 52
_INNER_WIDTH, _INNER_HEIGHT = WIDTH - LEFT - RIGHT, HEIGHT - TOP - BOTTOM
#: about as many ticks as an axis has
_TICKS = 6

#: of Okabe and Ito, told apart by colour-blind people, too; those for dark pages are lighter
_LIGHT = ("#0072b2", "#d55e00", "#008060", "#b0508a", "#b07800", "#444444", "#3399cc", "#7a3e9d")
_DARK = ("#56b4e9", "#ff8c42", "#3ecf9f", "#e39bc4", "#f0c04a", "#cccccc", "#9ad7ff", "#c79be8")
_DASHES = ("", "7 3", "2 3", "9 3 2 3")

_STYLE = (
    ".page{fill:#fff}.text{fill:#24292f;font:12px system-ui,sans-serif}.head{font-size:14px;font-weight:600}"
    ".grid,.axis{fill:none}.grid{stroke:#d8dee4}.axis{stroke:#57606a}"
    + "".join(f".s{n}{{stroke:{colour}}}.d{n}{{fill:{colour}}}" for n, colour in enumerate(_LIGHT))
    + "@media(prefers-color-scheme:dark){.page{fill:#0d1117}.text{fill:#e6edf3}.grid{stroke:#2d333b}.axis{stroke:#8b949e}"
    + "".join(f".s{n}{{stroke:{colour}}}.d{n}{{fill:{colour}}}" for n, colour in enumerate(_DARK))
    + "}"
)


@dataclass(frozen=True)
class Line:
    """Points in order; `dots` also marks each."""

    name: str
    points: Sequence[tuple[float, float]]
    dots: bool = False


@dataclass(frozen=True)
class Axis:
    """One direction of a chart.

    Attributes:
        log: whether equal ratios are equally far apart; all values are above 0 then.
        low, high: the ends; None: as the points need. Lines are cut off there.
        ticks: places and their labels; None: round numbers.
    """

    label: str
    log: bool = False
    low: float | None = None
    high: float | None = None
    ticks: Sequence[tuple[float, str]] | None = None


class _Scale:
    def __init__(self, axis: Axis, values: Sequence[float], begin: float, length: float, room: bool = False) -> None:
        if not values:
            raise ValueError(f"nothing to draw along {axis.label!r}")
        self._log, self._begin, self._length = axis.log, begin, length
        self.low = min(values) if axis.low is None else axis.low
        self.high = max(values) if axis.high is None else axis.high
        if axis.log and self.low <= 0:
            raise ValueError(f"{axis.label!r} has no logarithm at {self.low:g}")
        if self.high <= self.low:
            self.high = self.low + (abs(self.low) or 1.0)
        if room:  # between the lines and the ends that nobody gave
            less, more = (
                (self.low / 1.1, self.high * 1.1) if axis.log else (self.low, self.high + (self.high - self.low) / 20)
            )
            self.low, self.high = less if axis.low is None else axis.low, more if axis.high is None else axis.high
        ticks = axis.ticks or [(at, f"{at:g}") for at in (_decades if axis.log else _round)(self.low, self.high)]
        self.ticks = [(self(at), label) for at, label in ticks if self.low <= at <= self.high]

    def __call__(self, value: float) -> float:
        low, high, value = (math.log(v) if self._log else v for v in (self.low, self.high, max(value, self._least)))
        return self._begin + (value - low) / (high - low) * self._length

    @property
    def _least(self) -> float:
        return self.low / 10 if self._log else -math.inf


def _round(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / _TICKS
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10) if power * factor >= rough)
    return [round(n * step, 12) for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten, and 2 and 5 times those if they are few."""
    factors = (1, 2, 5) if high / low < 10**3 else (1,)
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    return [round(factor * 10.0**power, 12) for power in powers for factor in factors]


def chart(title: str, lines: Sequence[Line], x: Axis, y: Axis) -> str:
    """An SVG document. Raises ValueError if there is nothing to draw."""
    across = _Scale(x, [at for line in lines for at, _ in line.points], LEFT, _INNER_WIDTH)
    up = _Scale(y, [value for line in lines for _, value in line.points], TOP + _INNER_HEIGHT, -_INNER_HEIGHT, True)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">',
        f"<title>{escape(title)}</title><style>{_STYLE}</style>",
        f'<clipPath id="plot"><rect x="{LEFT}" y="{TOP}" width="{_INNER_WIDTH}" height="{_INNER_HEIGHT}"/></clipPath>',
        f'<rect class="page" width="{WIDTH}" height="{HEIGHT}"/>',
        _text(LEFT, 24, title, "head"),
        *_axes(across, up, x, y),
        '<g clip-path="url(#plot)" fill="none" stroke-width="2" stroke-linejoin="round">',
    ]
    for number, line in enumerate(lines):
        places = [(across(at), up(value)) for at, value in line.points]
        joined = " ".join(f"{h:.1f},{v:.1f}" for h, v in places)
        parts.append(f'<polyline {_stroke(number)} points="{joined}"/>')
    parts.append("</g>")
    for number, line in enumerate(lines):
        parts += _dots(number, line, across, up)
    parts += [*_legend(lines), "</svg>"]
    return "\n".join(parts) + "\n"


def _axes(across: _Scale, up: _Scale, x: Axis, y: Axis) -> Iterator[str]:
    bottom, right = TOP + _INNER_HEIGHT, LEFT + _INNER_WIDTH
    for at, label in across.ticks:
        yield f'<path class="grid" d="M{at:.1f} {TOP}V{bottom}"/>' + _text(at, bottom + 18, label, anchor="middle")
    for at, label in up.ticks:
        yield f'<path class="grid" d="M{LEFT} {at:.1f}H{right}"/>' + _text(LEFT - 7, at + 4, label, anchor="end")
    yield f'<path class="axis" d="M{LEFT} {TOP}V{bottom}H{right}"/>'
    yield _text(LEFT + _INNER_WIDTH / 2, HEIGHT - 12, x.label, anchor="middle")
    middle = TOP + _INNER_HEIGHT / 2
    yield _text(16, middle, y.label, anchor="middle", more=f' transform="rotate(-90 16 {middle:g})"')


def _dots(number: int, line: Line, across: _Scale, up: _Scale) -> Iterator[str]:
    if line.dots:
        for at, value in line.points:
            if across.low <= at <= across.high and up.low <= value <= up.high:
                yield f'<circle class="d{number % len(_LIGHT)}" cx="{across(at):.1f}" cy="{up(value):.1f}" r="3"/>'


def _legend(lines: Sequence[Line]) -> Iterator[str]:
    left = LEFT + _INNER_WIDTH + 14
    for number, line in enumerate(lines):
        at = TOP + 10 + 20 * number
        yield f'<path {_stroke(number)} stroke-width="2" d="M{left} {at}h26"/>' + _text(left + 33, at + 4, line.name)


def _stroke(number: int) -> str:
    dash = _DASHES[number % len(_DASHES)]
    return f'class="s{number % len(_LIGHT)}"' + (f' stroke-dasharray="{dash}"' if dash else "")


def _text(x: float, y: float, text: str, style: str = "", *, anchor: str = "start", more: str = "") -> str:
    words = " ".join(["text", style]).strip()
    return f'<text class="{words}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'
