"""Draws what a viewer sees of a trace, the time from frame to frame, by our pacer and by the plain rules.

    python -m benchmarks.draw_traces DIR [TRACE ...]

Writes `pacing-TRACE.svg` for each trace of a model that declares no rate, by default `jittery` and `stall`.
"""

from __future__ import annotations

import argparse
from html import escape
from itertools import pairwise
from pathlib import Path

from benchmarks.pacing_rules import Trace, scores
from benchmarks.traces import RULES, ours, traces

WIDTH, LEFT, RIGHT, HEIGHT, TOP, PANEL = 900, 64, 290, 96, 34, 20
#: a picture ends here, in milliseconds
CUT = 150
RULES_DRAWN = ("fixed, 10", "last step, 10", "at once")
STYLE = (
    "<style>text{font:13px system-ui,sans-serif;fill:#333}.small{font-size:11px;fill:#666}.title{font-weight:600}"
    "path{fill:none;stroke-width:1.3}.axis{stroke:#ccc}.ours{stroke:#0a7d4f}.rule{stroke:#b3541e}"
    "@media (prefers-color-scheme:dark){text{fill:#ddd}.small{fill:#aaa}.axis{stroke:#555}.ours{stroke:#4fd39a}"
    ".rule{stroke:#f0955b}}</style>"
)


def draw(trace: Trace, first: int, last: int) -> str:
    """The SVG: a panel for each rule, frames `first` to `last` from left to right, all on one scale."""
    played = {"ours": ours(trace), **{name: RULES[name](trace) for name in RULES_DRAWN}}
    gaps = {name: [1000 * (b - a) for a, b in pairwise(one.shown)][first:last] for name, one in played.items()}
    longest = max(max(of_rule) for of_rule in gaps.values())
    most = min(longest, CUT)
    cut = f", cut at {CUT}, the longest {longest:.0f}" if longest > CUT else ""
    across = (WIDTH - LEFT - RIGHT) / (last - first)
    parts = [f'<text class="title" x="8" y="20">{escape(trace.name)}: milliseconds from frame to frame{cut}</text>']
    for row, (name, of_rule) in enumerate(gaps.items()):
        bottom = TOP + (row + 1) * (HEIGHT + PANEL) - PANEL
        seen = scores(trace, played[name])
        for mark in (0, 1000 / 30, most):
            y = bottom - HEIGHT * mark / most
            parts.append(f'<path class="axis" d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}"/>')
            parts.append(f'<text class="small" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{mark:.0f}</text>')
        heights = (bottom - HEIGHT * min(gap, most) / most for gap in of_rule)
        line = "L".join(f"{LEFT + i * across:.1f} {y:.1f}" for i, y in enumerate(heights))
        parts.append(f'<path class="{"ours" if name == "ours" else "rule"}" d="M{line}"/>')
        words = (
            (name, "title"), (f"deviation {seen['gap sd']:.1f} ms, freezes {seen['freezes']:.0f}", "small"),
            (f"delay {seen['delay p50']:.0f} ms, at p95 {seen['delay p95']:.0f} ms", "small"),
        )  # fmt: skip
        for number, (text, kind) in enumerate(words):
            at = f'x="{WIDTH - RIGHT + 16}" y="{bottom - HEIGHT + 30 + 20 * number}"'
            parts.append(f'<text class="{kind}" {at}>{escape(text)}</text>')
    height = TOP + len(gaps) * (HEIGHT + PANEL)
    box = f'viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{STYLE}{"".join(parts)}</svg>\n'


def main() -> None:
    """A file for each."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.draw_traces", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("traces", nargs="*", default=["jittery", "stall"])
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for _, trace in traces(600):
        if trace.name in options.traces and trace.batch == 1 and trace.fps is None and trace.between == 0:
            file = options.folder / f"pacing-{trace.name.replace(' ', '-')}.svg"
            file.write_text(draw(trace, 240, 360))
            print(file)


if __name__ == "__main__":
    main()
