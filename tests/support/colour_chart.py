"""A flat chart to measure what a film does to colours: the corners of RGB, greys, and skin."""

from __future__ import annotations

import numpy as np

COLOURS = [
    (0, 0, 0), (255, 255, 255), (255, 0, 0), (0, 255, 0), (0, 0, 255), (0, 255, 255), (255, 0, 255), (255, 255, 0),
    (32, 32, 32), (96, 96, 96), (128, 128, 128), (200, 200, 200), (236, 188, 180), (198, 134, 66), (141, 85, 36),
    (80, 50, 40),
]  # fmt: skip
SIZES = [(854, 480), (1280, 720), (1920, 1080)]
#: from a patch's edge to where it is measured: further than a codec's filters reach
_MARGIN = 8


def chart(width: int, height: int) -> np.ndarray:
    """Four rows of four patches, `(height, width, 3)` uint8."""
    picture = np.empty((height, width, 3), np.uint8)
    for colour, (rows, columns) in zip(COLOURS, _patches(width, height), strict=True):
        picture[rows, columns] = colour
    return picture


def means(picture: np.ndarray) -> np.ndarray:
    """The mean of each patch, `(16, 3)`."""
    height, width = picture.shape[:2]
    inner = [
        picture[rows.start + _MARGIN : rows.stop - _MARGIN, columns.start + _MARGIN : columns.stop - _MARGIN]
        for rows, columns in _patches(width, height)
    ]
    return np.array([patch.mean((0, 1)) for patch in inner])


def furthest(seen: np.ndarray, expected: np.ndarray) -> int:
    """The greatest difference of two lists of means, in whole levels of 255."""
    return round(float(np.abs(seen - expected).max()))


def _patches(width: int, height: int) -> list[tuple[slice, slice]]:
    down, across = np.linspace(0, height, 5).astype(int), np.linspace(0, width, 5).astype(int)
    return [(slice(down[r], down[r + 1]), slice(across[c], across[c + 1])) for r in range(4) for c in range(4)]
