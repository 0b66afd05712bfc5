"""The model's own colour on a light and a dark page: close to what the author wrote, and dark or light enough to be read."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import pytest

from reactor_trio.configuration.accent import accents

STYLE = Path(__file__).parents[2] / "clients" / "web" / "page" / "style.css"


def luminance(colour: str) -> float:
    """As WCAG 2.2 defines it."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize(
    ("colour", "light", "dark"),
    [
        ("#0a63c9", "#0a63c9", "#4a8cd7"),
        ("#ffff00", "#6e6e00", "#ffff00"),
        ("#000000", "#000000", "#8a8a8a"),
        ("#FFFFFF", "#6b6b6b", "#ffffff"),
    ],
)
def test_a_colour_changes_no_more_than_it_must(colour: str, light: str, dark: str) -> None:
    assert accents(colour) == {"light": light, "dark": dark}


def test_every_colour_can_be_read_on_every_surface_of_the_page() -> None:
    found = re.findall(r"--(ground|surface|raised|on-accent): light-dark\((#\w+), (#\w+)\)", STYLE.read_text())
    assert len(found) == 4
    whole = {name: [part if len(part) == 7 else "#" + "".join(sign * 2 for sign in part[1:]) for part in parts]
             for name, *parts in found}  # fmt: skip
    for parts in product((0, 51, 102, 153, 204, 255), repeat=3):
        colour = "#" + "".join(f"{part:02x}" for part in parts)
        for theme, accent in enumerate(accents(colour).values()):
            for surface in whole.values():
                assert contrast(accent, surface[theme]) >= 4.5, (colour, accent, surface[theme])
