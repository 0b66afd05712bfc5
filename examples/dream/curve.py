"""Draws the log of a training: python curve.py [training/log.csv] [training.svg]"""

import csv
import math
import sys
from pathlib import Path

WIDTH, HEIGHT, LEFT, TOP, GAP = 300, 170, 50, 34, 62
PANELS = {  # title: the columns, each with its colour
    "loss": {"loss": "#c0392b"},
    "next picture, dB": {"psnr": "#2471a3", "psnr_of_repeating": "#909497"},
    "cells from the game after 150 steps": {"place_off": "#1e8449"},
}
NAMES = {"psnr": "the network", "psnr_of_repeating": "the last picture again"}


def panel(title: str, columns: dict[str, str], rows: list[dict[str, str]], left: int) -> list[str]:
    """One diagram over the samples of the training; its values are on a logarithmic scale, except dB."""

    def scale(value: float) -> float:
        return value if "dB" in title else math.log10(max(value, 1e-3))

    samples = [int(row["samples"]) for row in rows]
    values = {column: [scale(float(row[column])) for row in rows] for column in columns}
    low, high = min(map(min, values.values())), max(map(max, values.values()))
    high = max(high, low + 1e-6)

    def y(value: float) -> float:
        return TOP + HEIGHT * (high - value) / (high - low)

    parts = [f'<text x="{left}" y="{TOP - 12}" font-weight="bold">{title}</text>']
    for value in (low, (low + high) / 2, high):
        number = value if "dB" in title else 10**value
        parts.append(f'<path d="M{left} {y(value):.1f}h{WIDTH}" stroke="#8884"/>')
        parts.append(f'<text x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{number:.3g}</text>')
    for column, colour in columns.items():
        points = " ".join(
            f"{left + WIDTH * sample / samples[-1]:.1f},{y(value):.1f}"
            for sample, value in zip(samples, values[column], strict=True)
        )
        parts.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2"/>')
        if column in NAMES:
            place = y(values[column][-1]) + (18 if column == "psnr" else -8)
            style = f'fill="{colour}" text-anchor="end"'
            parts.append(f'<text x="{left + WIDTH}" y="{place:.1f}" {style}>{NAMES[column]}</text>')
    end = f"{samples[-1] / 1000:.0f} 000 samples"
    parts.append(f'<text x="{left + WIDTH}" y="{TOP + HEIGHT + 18}" text-anchor="end">{end}</text>')
    return parts


def draw(log: Path, picture: Path) -> None:
    rows = list(csv.DictReader(log.open()))
    width, height = len(PANELS) * (WIDTH + GAP) + 20, TOP + HEIGHT + 30
    font = 'font-family="sans-serif" font-size="12"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" {font}>']
    parts.append(f'<rect width="{width}" height="{height}" fill="white"/>')
    for number, (title, columns) in enumerate(PANELS.items()):
        parts += panel(title, columns, rows, LEFT + number * (WIDTH + GAP))
    picture.write_text("\n".join([*parts, "</svg>\n"]))


if __name__ == "__main__":
    paths = [Path(argument) for argument in sys.argv[1:]]
    draw(*paths) if paths else draw(Path("training/log.csv"), Path("training.svg"))
