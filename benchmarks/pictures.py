"""Moving, grainy pictures, and a stamp in them that tells when each was made, also after a codec and at a smaller size.

A stamp is four rows of eight blocks, black or white, at the top left: three bytes of time in quarter milliseconds of
CLOCK_MONOTONIC, which all processes of a machine share, and their sum as a check. A block is an eighth of the width and a
twentieth of the height.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

TICK = 0.00025
_MOD = 1 << 24
_ROWS, _BITS, _HEIGHTS = 4, 8, 20


def clip(width: int, height: int, frames: int = 60) -> list[NDArray[np.uint8]]:
    """A pan over a photo-like scene with grain, without a jump where it begins again; read-only RGB pictures."""
    rng = np.random.default_rng(1)
    wide = width + 128
    x, y = np.meshgrid(np.linspace(0, 12, wide), np.linspace(0, 9, height + 64))
    scene = np.stack([np.sin(x + 2.1 * k) * np.cos(y - k) * 55 + np.sin(5 * x * y / 9 + k) * 25 + 120 for k in range(3)], 2)
    for _ in range(40):  # edges, as things have
        left, top, size = rng.integers(0, wide), rng.integers(0, height), int(rng.integers(height // 30, height // 6))
        scene[top : top + size, left : left + size] = rng.integers(20, 235, 3)
    grain = rng.normal(0, 5, (height + 64, width + 64, 1)).astype(np.float32)
    pictures = []
    for number in range(frames):
        turn = 2 * np.pi * number / frames
        left, top = round(64 + 60 * np.sin(turn)), round(32 + 30 * np.cos(turn))
        gx, gy = rng.integers(0, 64, 2)
        noisy = scene[top : top + height, left : left + width] + grain[gy : gy + height, gx : gx + width]
        picture = np.clip(noisy, 0, 255).astype(np.uint8)
        picture.flags.writeable = False
        pictures.append(picture)
    return pictures


def clip_model(width: int, height: int, fps: int) -> str:
    """The source of a model, `Model`, whose track `main_video` plays the clip without an end."""
    return f"""
import sys
sys.path.insert(0, {str(Path(__file__).parents[1])!r})
from benchmarks.pictures import clip
from reactor_trio import *

class Picture(Output):
    main_video: Video

class Model(ReactorPipeline):
    output: Picture
    fps = {fps}

    def load(self, config):
        self.clip = clip({width}, {height})

    def inference(self):
        while True:
            yield from self.clip
"""


def stamped(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A read-only copy that says when it was made."""
    copy = picture.copy()
    now = int(time.monotonic() / TICK) % _MOD
    height, width = copy.shape[:2]
    for row, value in enumerate(_values(now)):
        for bit in range(_BITS):
            top, left = row * height // _HEIGHTS, bit * width // _BITS
            white = value >> (_BITS - 1 - bit) & 1
            copy[top : (row + 1) * height // _HEIGHTS, left : (bit + 1) * width // _BITS] = 235 if white else 16
    copy.flags.writeable = False
    return copy


def age(picture: NDArray[Any], now: float) -> float | None:
    """Seconds from the stamp to `now` in `time.monotonic()`; None if it cannot be read."""
    height, width = picture.shape[:2]
    values = []
    for row in range(_ROWS):
        y = round((row + 0.5) * height / _HEIGHTS)
        value = 0
        for bit in range(_BITS):
            x = round((bit + 0.5) * width / _BITS)
            value = value << 1 | int(picture[y - 1 : y + 2, x - 2 : x + 3].mean() > 125)
        values.append(value)
    made = values[0] << 16 | values[1] << 8 | values[2]
    if values != _values(made):
        return None
    return (now / TICK - made) % _MOD * TICK


def _values(ticks: int) -> list[int]:
    parts = [ticks >> 16, ticks >> 8 & 255, ticks & 255]
    return [*parts, (sum(parts) ^ 0x5A) & 255]
