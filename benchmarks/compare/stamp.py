"""The model body that every system of the comparison runs, and the reading of its frames at the client. Needs numpy alone.

A frame carries, in rows of blocks that survive a codec and a change of size,

    row 0   its number, 32 bits, the most significant first, white is 1
    row 1   when it was drawn: CLOCK_MONOTONIC, which all processes of a machine share, in units of 100 us, modulo 2**32
    row 2   a strip as bright as the brightness it was made with

and below them a moving gradient times that brightness. A row is a thirtieth of the height, a block a 32nd of the width.
"""

from __future__ import annotations

import os
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

BITS = 32
TICK = 1e-4
#: the two levels that commands go between
LOW, HIGH = 0.3, 1.0

Frame = NDArray[np.uint8]


class Body:
    """What stands for a model: it takes `batch / rate` seconds for a step and draws at its end, as a forward pass does.

    Its settings come from the environment: BENCH_WIDTH, BENCH_HEIGHT, BENCH_BATCH, and BENCH_RATE in frames a second, 0 for
    a step that takes no longer than its drawing.
    """

    def __init__(self) -> None:
        self.width, self.height = int(os.environ["BENCH_WIDTH"]), int(os.environ["BENCH_HEIGHT"])
        self.frames = int(os.environ["BENCH_BATCH"])
        self.rate = float(os.environ["BENCH_RATE"])
        self._number = 1
        self._drawing = 0.001
        self._base = _gradient(self.width, self.height)
        self._scaled: dict[float, Frame] = {}
        for brightness in (LOW, HIGH):
            self._scale(brightness)

    @property
    def drawn(self) -> int:
        """Frames drawn so far."""
        return self._number - 1

    @property
    def seconds(self) -> float:
        """How long a step has to wait before it draws."""
        return max(0.0, self.frames / self.rate - self._drawing) if self.rate else 0.0

    def step(self, brightness: float) -> Frame:
        """Wait, then draw. uint8 (H, W, 3), or (N, H, W, 3) for a batch."""
        if self.seconds:
            time.sleep(self.seconds)
        return self.draw(brightness)

    def draw(self, brightness: float) -> Frame:
        """The next frames, without the wait."""
        began = time.monotonic()
        batch = np.empty((self.frames, self.height, self.width, 3), np.uint8)
        for picture in batch:
            draw(picture, self._scale(brightness), self._number, now(), brightness)
            self._number += 1
        self._drawing += 0.2 * (time.monotonic() - began - self._drawing)
        return batch if self.frames > 1 else batch[0]

    def _scale(self, brightness: float) -> Frame:
        key = round(float(brightness), 3)
        if key not in self._scaled:
            self._scaled[key] = np.clip(self._base * key, 0, 255).astype(np.uint8)
        return self._scaled[key]


def now() -> int:
    """The time as a frame carries it."""
    return int(time.monotonic() / TICK) & 0xFFFFFFFF


def draw(picture: Frame, scene: Frame, number: int, ticks: int, brightness: float) -> None:
    """Fill `picture` with frame `number` of a scene twice as wide."""
    height, width = picture.shape[:2]
    left = number * 4 % width
    np.copyto(picture, scene[:, left : left + width])
    row = height // 30
    for index, value in enumerate((number & 0xFFFFFFFF, ticks)):
        bits = np.array([value >> (BITS - 1 - bit) & 1 for bit in range(BITS)], np.uint8) * 255
        line = np.repeat(bits, width // BITS)
        picture[index * row : (index + 1) * row, : line.size] = line[None, :, None]
    picture[2 * row : 3 * row] = min(255, round(255 * brightness))


def read(pixels: Any, width: int, height: int, channels: int) -> tuple[int | None, int | None, float]:
    """Number, time and grey level of a packed frame, bytes or array, whose second channel is green.

    A frame without a stamp, for instance a black one, has no number and no time.
    """
    image = np.frombuffer(pixels, np.uint8).reshape(height, width, channels)
    row, column = height / 30, width / BITS
    centres = ((np.arange(BITS) + 0.5) * column).astype(int)

    def blocks(index: int) -> Any:
        y = int((index + 0.5) * row)
        line = image[y - 2 : y + 3, :, 1].mean(axis=0)
        return (line[centres - 2] + line[centres] + line[centres + 2]) / 3

    def value(index: int) -> int:
        bits = 0
        for bit in blocks(index) > 127:
            bits = bits << 1 | int(bit)
        return bits

    number, ticks, grey = value(0), value(1), float(blocks(2).mean())
    return (None, None, grey) if number == ticks == 0 else (number, ticks, grey)


def quality(pixels: Any, width: int, height: int, channels: int, number: int) -> float:
    """Peak signal-to-noise ratio of a received frame's green below the stamp, in dB, if it was made at full brightness."""
    image = np.frombuffer(pixels, np.uint8).reshape(height, width, channels)
    original = np.empty((height, width, 3), np.uint8)
    draw(original, np.clip(_gradient(width, height), 0, 255).astype(np.uint8), number, 0, HIGH)
    top = 3 * (height // 30) + 8
    error = image[top:, :, 1].astype(np.float64) - original[top:, :, 1]
    return float(10 * np.log10(255**2 / max(float(np.mean(error**2)), 1e-3)))


def _gradient(width: int, height: int) -> NDArray[np.float32]:
    x = np.arange(2 * width, dtype=np.float32)[None, :]
    y = np.arange(height, dtype=np.float32)[:, None]
    turn = 2 * np.pi / width
    red = np.sin((x + y) * turn)
    green = np.sin((x - y) * turn + 2.1)
    blue = np.sin(x * turn + y * (2 * np.pi / height) + 4.2)
    return (127.5 + 127.5 * np.stack([red, green, blue], axis=-1)).astype(np.float32)
