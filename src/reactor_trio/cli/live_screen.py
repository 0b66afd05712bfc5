"""The layout of the live view of `reactor client`: turns statistics into something that rich can draw. No I/O.

Text from a server is shown, never interpreted, neither as escape sequences of the terminal nor as rich's markup.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np
import numpy.typing as npt
from rich.console import Group, RenderableType
from rich.segment import ControlType, Segment, Segments
from rich.table import Table
from rich.text import Text

from reactor_trio.client.statistics import Latency, Spread, Statistics
from reactor_trio.protocol import TrackInfo

_BARS = "▁▂▃▄▅▆▇█"
#: Most intervals in a sparkline.
SPARKLINE = 30
#: Most characters of a line, more than a screen shows: a server's text may have millions, at each of many drawings.
LONGEST = 1000
#: Columns that the table of tracks needs.
WIDE = 80


class Snapshot(msgspec.Struct):
    """Everything that one drawing of the screen shows.

    Attributes:
        bitrates: bits per second of each track, averaged over the last seconds.
        seconds: time since the view began.
        warnings: the runtime's messages about the session, newest last.
        commands: commands and their results, newest last.
        messages: messages of the model, newest last.
        typed: the text in the command line; None without a command line.
        picture: the newest frame, `(H, W, 3)` uint8; None if no picture is shown.
    """

    name: str
    session_id: str
    role: str
    tracks: Sequence[TrackInfo]
    statistics: Statistics
    bitrates: dict[str, float]
    seconds: float
    warnings: Sequence[str] = ()
    commands: Sequence[str] = ()
    messages: Sequence[str] = ()
    typed: str | None = None
    picture: npt.NDArray[np.uint8] | None = None


def draw(snapshot: Snapshot, width: int, height: int) -> RenderableType:
    """Lay out the screen, most important parts first, because it is cut at the bottom. The picture gets the rows left."""
    minutes, seconds = divmod(int(snapshot.seconds), 60)
    title = Text.assemble(
        (harmless(snapshot.name), "bold"), "  session ", (harmless(snapshot.session_id), "cyan"),
        f"  {harmless(snapshot.role)}  {minutes}:{seconds:02}", no_wrap=True, overflow="ellipsis",
    )  # fmt: skip
    parts: list[RenderableType] = [title]
    parts += [_line(f"! {warning}", "bold yellow") for warning in snapshot.warnings]
    tracks = _tracks(snapshot) if width < WIDE else [_table(snapshot, width)]
    parts += [Text(), *tracks, Text(), *_latencies(snapshot.statistics)]
    if snapshot.typed is not None:
        parts += [_prompt(snapshot.typed, width)]
    for heading, lines in (("commands", snapshot.commands), ("messages", snapshot.messages)):
        if lines:
            parts += [Text(heading, "dim"), *(_line(f"  {line}") for line in lines)]
    # A table is one part, which counts its heading; its rows come on top.
    rows = len(parts) + sum(part.row_count for part in tracks if isinstance(part, Table))
    if snapshot.picture is not None and (left := height - rows) >= 2:
        parts.append(_half_blocks(thumbnail(snapshot.picture, width, 2 * left), width))
    return Group(*parts)


def harmless(text: str) -> str:
    """Return the beginning of `text` in one line, with every unprintable character replaced."""
    shown = text[:LONGEST]
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in shown)


def sparkline(intervals: Sequence[float]) -> str:
    """Draw a bar for each of the newest intervals. Full height is the longest one, or twice the median if that is more."""
    newest = intervals[-SPARKLINE:]
    if not newest:
        return ""
    full = max(*newest, 2 * float(np.median(newest))) if len(newest) > 1 else newest[0]
    return "".join(_BARS[min(len(_BARS) - 1, int(len(_BARS) * value / full))] if full > 0 else _BARS[0] for value in newest)


def thumbnail(picture: npt.NDArray[np.uint8], columns: int, rows: int) -> npt.NDArray[np.uint8]:
    """Shrink `picture` into `columns` by `rows` pixels; keep its ratio, never enlarge. Returns `(h, w, 3)` uint8, h even."""
    height, width = picture.shape[:2]
    scale = min(columns / width, rows / height, 1.0)
    w, h = max(1, int(width * scale)), max(2, int(height * scale) // 2 * 2)
    # 3 by 3 samples for each pixel are enough, and cost the same for a picture of any size.
    y = (np.arange(3 * h) + 0.5) * height / (3 * h)
    x = (np.arange(3 * w) + 0.5) * width / (3 * w)
    sampled = picture[y.astype(int)[:, None], x.astype(int)[None]]
    mean: npt.NDArray[np.float64] = sampled.reshape(h, 3, w, 3, 3).mean(axis=(1, 3))
    return mean.astype(np.uint8)


def _half_blocks(pixels: npt.NDArray[np.uint8], width: int) -> Segments:
    """Pixels `(h, w, 3)`, h even, as half blocks: a character's foreground is the upper pixel, its background the lower.

    Each row is `width` blanks, a return to its start, and the pixels as one control code, which rich does not measure and
    writes on terminals only. A rich style for each character would cost a tenth of a second.
    """
    segments: list[Segment] = []
    for upper, lower in zip(pixels[::2].tolist(), pixels[1::2].tolist(), strict=True):
        coloured = Segment(f"\r{_row(upper, lower)}\x1b[0m", None, [(ControlType.CARRIAGE_RETURN,)])
        segments += (Segment(" " * width), coloured, Segment.line())
    return Segments(segments)


def _row(upper: list[list[int]], lower: list[list[int]]) -> str:
    cells, before = [], None
    for pair in zip(upper, lower, strict=True):
        if pair != before:
            (r, g, b), (R, G, B) = pair
            cells.append(f"\x1b[38;2;{r};{g};{b};48;2;{R};{G};{B}m")
            before = pair
        cells.append("▀")
    return "".join(cells)


def _tracks(snapshot: Snapshot) -> list[RenderableType]:
    """Two lines for each track, for a terminal too narrow for the table."""
    lines: list[RenderableType] = []
    for name, figures in snapshot.statistics.tracks.items():
        losses = f"{figures.missing} missing, {figures.dropped} dropped"
        lines.append(_line(f"{name} {figures.fps:.1f} fps, {losses}, jitter {_ms(figures.interval.std)}"))
        lines.append(_line(sparkline(figures.recent), "green"))
    return lines


def _table(snapshot: Snapshot, width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("track", no_wrap=True)
    table.add_column("codec", no_wrap=True)
    for heading in ("fps", "jitter", "p95", "missing", "dropped", "Mbit/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    with_intervals = width >= WIDE + SPARKLINE
    if with_intervals:
        table.add_column("intervals", no_wrap=True)
    for track in snapshot.tracks:
        figures = snapshot.statistics.tracks.get(track.name)
        if figures is None:
            continue
        size = f" {track.width}x{track.height}" if track.width is not None else ""
        cells: list[RenderableType] = [
            Text(harmless(track.name)), Text(harmless((track.codec or "-") + size)), f"{figures.fps:.1f}",
            _ms(figures.interval.std), _ms(figures.interval.p95), _count(figures.missing), _count(figures.dropped),
            f"{snapshot.bitrates.get(track.name, 0.0) / 1e6:.2f}",
        ]  # fmt: skip
        intervals = Text(sparkline(figures.recent), "green")
        if with_intervals:
            cells.append(intervals)
        table.add_row(*cells)
        if not with_intervals:
            table.add_row(Text(), intervals)
    return table


def _latencies(statistics: Statistics) -> list[RenderableType]:
    lines: list[RenderableType] = []
    spreads = (("command to ack", statistics.command_to_ack), ("command to picture", statistics.command_to_picture))
    for name, spread in spreads:
        if spread.count:
            lines.append(_line(f"{name:19}{_pair(spread)} ms  (p50/p95 of {spread.count})"))
    if (latency := statistics.latency) is not None:
        lines.append(_line("  ".join(f"{name} {_pair(getattr(latency, name))}" for name in Latency.__struct_fields__)))
    return lines or [_line("no commands yet, so no latency", "dim")]


def _prompt(typed: str, width: int) -> Text:
    shown = harmless(typed)[-(width - 4) :]
    prompt = Text.assemble(("> ", "bold"), shown, (" ", "reverse"), no_wrap=True, overflow="crop")
    if not shown:
        prompt.append("  set_field=0.5, jump={x: 1} or reset, then Enter; Ctrl-C to leave", "dim")
    return prompt


def _line(text: str, style: str = "") -> Text:
    return Text(harmless(text), style, no_wrap=True, overflow="ellipsis")


def _pair(spread: Spread) -> str:
    return f"{_number(spread.p50)}/{_number(spread.p95)}"


def _ms(seconds: float) -> str:
    return "-" if math.isnan(seconds) else f"{_number(seconds)} ms"


def _number(seconds: float) -> str:
    return "-" if math.isnan(seconds) else f"{seconds * 1000:.1f}"


def _count(number: int) -> Text:
    return Text(str(number), "bold yellow" if number else "")
