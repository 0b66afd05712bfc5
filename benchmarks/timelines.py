"""Moving drawings of when things happen, from traces in virtual time: `python -m benchmarks.timelines docs/pictures`.

A model of blocks runs in the test kit, in virtual time, with the real server and the real client. What is drawn is what was
recorded there: the beginning and end of each step, and when the client got each frame.
tests/benchmarks/test_timelines.py keeps the files equal to what the traces say.
"""

from __future__ import annotations

import argparse
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import trio
import trio.testing

from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, Video
from reactor_trio.testing import Link, open_server, open_session

STEP, BLOCK = 0.4, 8
#: seconds after the session's first step in which the client sends its command, and what it sets
SENT, RED = 1.1, 255

LEFT, WIDTH, TOP, SCREEN = 118.0, 560.0, 46.0, 96
_T = TypeVar("_T")
#: a second of the trace takes so many seconds of the drawing, so that an eye can follow
SLOWER = 4

_STYLE = """
.page{fill:#fff}.text{fill:#24292f;font:12px system-ui,sans-serif}.label{font:12px system-ui,sans-serif;fill:#fff}
.small{font-size:11px;fill:#57606a}.head{font-size:14px;font-weight:600}.axis{stroke:#d8dee4}.now{stroke:#57606a;stroke-width:1.5}
.before{fill:#0072b2}.after{fill:#d55e00}.sent{stroke:#d55e00;stroke-width:2}
@media(prefers-color-scheme:dark){.page{fill:#0d1117}.text{fill:#e6edf3}.label{fill:#0d1117}.small{fill:#8b949e}
.axis{stroke:#2d333b}.now{stroke:#e6edf3}.before{fill:#56b4e9}.after{fill:#ff8c42}.sent{stroke:#ff8c42}}
@media(prefers-reduced-motion:reduce){*{animation:none!important}}
"""


@dataclass(frozen=True)
class Step:
    """Seconds at which a step began and gave its block, and what it had read."""

    begin: float
    end: float
    red: int


@dataclass
class Trace:
    """What happened, in seconds after the first step began."""

    steps: list[Step] = field(default_factory=list)
    shown: list[tuple[float, int]] = field(default_factory=list)
    acknowledged: float | None = None


async def trace(sent: float | None, frames: int) -> Trace:
    """Runs the model until its client has `frames` frames; at `sent` the client sets `red`."""
    found = Trace()

    class Picture(Output):
        main_video: Video

    class Settings(InputState):
        red: int = InputField(default=0, ge=0, le=255)

    class Blocks(ReactorPipeline):
        state: Settings

        async def inference(self):
            while True:
                red, begin = self.state.red, trio.current_time()
                await trio.sleep(STEP)
                found.steps.append(Step(begin, trio.current_time(), red))
                yield Picture(main_video=np.full((BLOCK, 4, 4, 3), red, np.uint8))

    async with open_session(Blocks) as client, trio.open_nursery() as nursery:

        async def command() -> None:
            await trio.sleep(sent or 0)
            await client.command("set_red", red=RED)
            found.acknowledged = trio.current_time()

        if sent is not None:
            nursery.start_soon(command)
        for _ in range(frames):
            (frame,) = await client.take(1)
            found.shown.append((trio.current_time(), int(frame.data[0, 0, 0])))
    return found


async def slow_link(frames: int) -> list[tuple[int, float, float]]:
    """Number, and seconds of making and arrival, of the pictures that a viewer gets by a link that needs 0.3 s for each."""
    found = []

    class Picture(Output):
        main_video: Video

    class Steady(ReactorPipeline):
        fps = 10

        def inference(self):
            while True:
                yield Picture(main_video=np.zeros((50, 50, 3), np.uint8))  # 7500 bytes as raw pixels

    async with open_server(Steady, step_cost=0.01) as server, server.connect():
        begin = trio.current_time()
        async with server.connect(role="viewer", feedback=True, link=Link(bits_per_second=200_000, delay=0.1)) as viewer:
            while len(found) < frames:
                (frame,) = await viewer.take(1)
                found.append((frame.seq, frame.pts, trio.current_time() - begin))
    return found


class _Page:
    """A drawing of the time from `low` to `high`: rows from top to bottom, and a line that moves over all of them."""

    def __init__(self, title: str, low: float, high: float) -> None:
        self._title, self._low, self._high = title, low, high
        self._parts: list[str] = []
        self._bottom = TOP

    def _x(self, seconds: float) -> float:
        inside = min(max(seconds, self._low), self._high)
        return LEFT + (inside - self._low) / (self._high - self._low) * WIDTH

    def row(self, name: str, below: str, height: float) -> float:
        """Adds a row with a name and a line of explanation, and returns where it begins."""
        top = self._bottom
        self._parts.append(f'<path class="axis" d="M8 {top}H{LEFT + WIDTH}"/>')
        self._parts.append(f'<text class="text" x="8" y="{top + 18}">{escape(name)}</text>')
        self._parts.append(f'<text class="text small" x="8" y="{top + 33}">{escape(below)}</text>')
        self._bottom = top + height
        return top

    def bar(self, begin: float, end: float, top: float, height: float, red: int, label: str = "") -> None:
        left, right = self._x(begin), self._x(end)
        if right <= left:
            return
        width = max(right - left - 1, 1)
        self._parts.append(
            f'<rect class="{_look(red)}" x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height}" rx="2"/>'
        )
        if label:
            self._parts.append(f'<text class="label" x="{left + 6:.1f}" y="{top + height - 7:.1f}">{escape(label)}</text>')

    def mark(self, seconds: float, label: str) -> None:
        """A line through all rows that are there, with its label at the top."""
        x = self._x(seconds)
        self._parts.append(f'<path class="sent" stroke-dasharray="4 3" d="M{x:.1f} {TOP - 4}V{self._bottom}"/>')
        self._parts.append(f'<text class="text small" x="{x + 5:.1f}" y="{TOP - 6}">{escape(label)}</text>')

    def document(self, shown: Sequence[tuple[float, int]], numbers: Sequence[int] | None = None) -> str:
        """The SVG, with a screen at the right that shows the frame of each moment, with its number."""
        moves, right, height = f"{(self._high - self._low) * SLOWER:g}s", LEFT + WIDTH + 24, self._bottom + 34
        film, keys = [], ["0%{transform:translateY(0)}"]  # nothing is shown before the first frame
        for number, (at, red) in zip(numbers or range(len(shown)), shown, strict=True):
            if not self._low <= at < self._high:
                continue
            y = len(keys) * SCREEN
            film.append(f'<rect class="{_look(red)}" y="{y}" width="{SCREEN}" height="{SCREEN}"/>')
            film.append(f'<text class="label" x="12" y="{y + 26}">frame {number}</text>')
            share = max((at - self._low) / (self._high - self._low) * 100, 0.01)
            keys.append(f"{share:.2f}%{{transform:translateY({-y}px)}}")
        style = (
            f".moves{{animation:moves {moves} linear infinite}}@keyframes moves{{to{{transform:translateX({WIDTH}px)}}}}"
            f".film{{animation:film {moves} step-end infinite}}@keyframes film{{{''.join(keys)}}}{_STYLE}"
        )
        below = self._bottom + 18
        ticks = [
            f'<text class="text small" text-anchor="middle" x="{self._x(at / 10):.1f}" y="{below}">{at / 10:g} s</text>'
            for at in range(round(self._low * 10), round(self._high * 10) + 1, 4)
        ]
        title = escape(self._title)
        size = f'viewBox="0 0 {right + SCREEN + 8} {height}" width="{right + SCREEN + 8}" height="{height}"'
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{title}"><style>{style}</style>',
            '<rect class="page" width="100%" height="100%"/>',
            f'<text class="text head" x="8" y="22">{title}</text>',
            *self._parts,
            *ticks,
            f'<path class="now moves" d="M{LEFT} {TOP}V{self._bottom}"/>',
            f'<text class="text small" x="{right}" y="{TOP + 10}">the client shows</text>',
            f'<svg x="{right}" y="{TOP + 18}" width="{SCREEN}" height="{SCREEN}"><g class="film">{"".join(film)}</g></svg>',
            "</svg>\n",
        ]
        return "".join(parts)


def _look(red: int) -> str:
    return "after" if red else "before"


def _rows(page: _Page, found: Trace, low: float, high: float) -> None:
    top = page.row("the model", "one step a block", 52)
    for number, step in enumerate(found.steps):
        if step.end > low and step.begin < high:
            page.bar(step.begin, step.end, top + 12, 26, step.red, f"step {number}")
    top = page.row("frames wait", "all made at once", BLOCK * 9 + 18)
    for number, (at, red) in enumerate(found.shown):
        step = found.steps[number // BLOCK]
        page.bar(step.end, at, top + 8 + number % BLOCK * 9, 6, red)
    top = page.row("the client", "evenly", 46)
    interval = STEP / BLOCK
    for at, red in found.shown:
        if low <= at < high:
            page.bar(at, at + interval, top + 12, 22, red)


def block_shown_evenly(found: Trace) -> str:
    """A step gives eight frames at once; the client sees them one after another, until the next block is there."""
    low, high = 0.0, 2.0
    page = _Page("A step makes eight frames at once. They are shown evenly.", low, high)
    _rows(page, found, low, high)
    return page.document(found.shown)


def which_block_an_input_reaches(found: Trace) -> str:
    """A command that comes in the middle of a step is applied before the next one, and shows when that one's block does."""
    low, high = 0.8, 2.4
    page = _Page("A command in the middle of step 2 reaches step 3.", low, high)
    _rows(page, found, low, high)
    page.mark(SENT, "command sent")
    return page.document(found.shown)


def newest_on_a_slow_link(found: list[tuple[int, float, float]]) -> str:
    """A link that carries every third picture: what arrives stays as young, because what could not go was replaced."""
    low, high, interval = 2.0, 4.4, 0.1
    page = _Page("A link that carries three pictures a second gets the newest each time.", low, high)
    top = page.row("the model", "ten a second", 46)
    sent = {number for number, _made, _arrived in found}
    for number in range(round(high / interval)):
        made = found[0][1] + number * interval
        if low <= made < high:
            page.bar(made, made + interval, top + 12, 22, number in sent)
    top = page.row("under way", "others: replaced", 62)
    for place, (_number, made, arrived) in enumerate(found):
        if low <= made:
            page.bar(made, arrived, top + 10 + place % 3 * 16, 12, True)
    top = page.row("the client", "", 50)
    for (number, _made, arrived), (_next, _m, until) in pairwise(found):
        if until > low:
            page.bar(arrived, until, top + 12, 26, True, str(number))
    shown, numbers = [(arrived, True) for _number, _made, arrived in found], [number for number, _made, _arrived in found]
    return page.document(shown, numbers)


def drawings() -> dict[str, str]:
    """Name and text of each drawing."""
    frames = 7 * BLOCK

    def in_virtual_time(traced: Callable[..., Awaitable[_T]], *arguments: Any) -> _T:
        return trio.run(traced, *arguments, clock=trio.testing.MockClock(autojump_threshold=0))

    return {
        "block-shown-evenly.svg": block_shown_evenly(in_virtual_time(trace, None, frames)),
        "which-block-an-input-reaches.svg": which_block_an_input_reaches(in_virtual_time(trace, SENT, frames)),
        "newest-on-a-slow-link.svg": newest_on_a_slow_link(in_virtual_time(slow_link, 16)),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    for name, text in drawings().items():
        (folder / name).write_text(text, encoding="utf-8")
        print(folder / name)


if __name__ == "__main__":
    main()
