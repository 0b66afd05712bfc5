"""`accents`: a model's own colour, made light or dark enough to be read on the viewer page."""

from __future__ import annotations

import re
from typing import Final

#: How a manifest writes a colour.
COLOUR: Final = re.compile(r"#[0-9a-fA-F]{6}")
#: The page's surfaces on which text is hardest to read: `--raised` of clients/web/page/style.css. What lies on the colour,
#: `--on-accent`, is lighter still or darker still.
_SURFACES: Final = {"light": "#e9edf2", "dark": "#1c222a"}
#: Least contrast of text (WCAG 2.2, AA).
_CONTRAST: Final = 4.5
_STEPS: Final = 100


def accents(colour: str) -> dict[str, str]:
    """Return `colour` for the page's light and dark theme, as "#rrggbb" by "light" and "dark".

    It is mixed with black or white, no more than needed for a contrast of 4.5 with the page's surfaces.
    """
    return {theme: _readable(colour, surface, 0 if theme == "light" else 255) for theme, surface in _SURFACES.items()}


def _readable(colour: str, surface: str, towards: int) -> str:
    parts = _parts(colour)
    for step in range(_STEPS + 1):
        mixed = [round(part + (towards - part) * step / _STEPS) for part in parts]
        if _contrast(mixed, _parts(surface)) >= _CONTRAST:
            break
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _parts(colour: str) -> list[int]:
    return [int(colour[at : at + 2], 16) for at in (1, 3, 5)]


def _contrast(one: list[int], other: list[int]) -> float:
    lighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(parts: list[int]) -> float:
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in (one / 255 for one in parts)]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
