"""The world: a landscape that is flown over. It turns actions into pictures and knows nothing of clients.

It stands for a learned world model: a network that makes the next frames from the past and an action could take its place.
A picture is drawn in numpy, column by column from front to back ("voxel space"): each cell of the map has a height and a
colour.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Picture = NDArray[np.uint8]

SKY = np.array([150, 190, 230], np.float32)
#: how far one sees, in cells, and how many rows of cells are drawn up to there
FAR, ROWS = 300.0, 100


@dataclass(frozen=True)
class Action:
    """What the world needs for one step.

    Attributes:
        turn: -1 (left) to 1 (right).
        climb: -1 (down) to 1 (up).
        speed: cells a second.
    """

    turn: float = 0.0
    climb: float = 0.0
    speed: float = 40.0


class Crash(Exception):
    """The pilot has flown into the ground."""


class World:
    """Flies over a map. `generate` makes the next frames of the flight.

    Args:
        batch: frames of each step.
    """

    def __init__(self, width: int, height: int, size: int, batch: int) -> None:
        self.width, self.height, self.size, self.batch = width, height, size, batch
        self.load_map(random_map(size, seed=3))

    def load_map(self, picture: Picture) -> None:
        """Take the landscape from a picture `(H, W, 3)`: its brightness is the height, its colours are the ground's."""
        rows, columns = (np.linspace(0, side - 1, self.size).astype(int) for side in picture.shape[:2])
        colours = picture[np.ix_(rows, columns)].astype(np.float32)
        bright = smooth(colours.mean(axis=2))
        self.heights = (bright - bright.min()) / max(1.0, np.ptp(bright)) * 90
        light = (np.roll(self.heights, 1, axis=1) - self.heights).clip(-2, 2) * 0.25 + 1  # the sun is in the east
        self.colours = (colours * light[..., None]).clip(0, 255)
        self.reset()

    def reset(self) -> None:
        """Begin again above the middle of the map."""
        self.place = np.array([self.size / 2, self.size / 2])
        self.altitude, self.heading = 95.0, 0.7

    def generate(self, action: Action, fps: float = 30.0) -> Picture:
        """Return the next frames, `(batch, height, width, 3)` uint8. Raises Crash if the flight ends in the ground."""
        frames = []
        for _ in range(self.batch):
            self.heading += action.turn * 1.2 / fps
            self.place += action.speed / fps * np.array([np.sin(self.heading), np.cos(self.heading)])
            self.altitude = min(160.0, self.altitude + action.climb * 30 / fps)
            y, x = (self.place.astype(int)) % self.size
            if self.altitude < self.heights[y, x] + 2:
                raise Crash
            frames.append(self.draw(action.turn))
        return np.stack(frames)

    def draw(self, turn: float = 0.0) -> Picture:
        """Return one picture of the world as it is now."""
        angles = self.heading + np.linspace(-0.6, 0.6, self.width)
        distances = np.geomspace(3, FAR, ROWS)[:, None]
        y = (self.place[0] + distances * np.sin(angles)).astype(int) % self.size
        x = (self.place[1] + distances * np.cos(angles)).astype(int) % self.size
        horizon = self.height * (0.25 + 0.05 * turn * np.linspace(-1, 1, self.width))
        tops = (self.altitude - self.heights[y, x]) / distances * self.height * 0.7 + horizon
        # The nearest ground that reaches up to a row of the picture hides what lies behind it.
        seen = np.minimum.accumulate(tops, axis=0)
        rows, columns = np.arange(self.height)[:, None], np.arange(self.width)[None]
        above = np.ceil(seen).clip(0, self.height).astype(int) * self.width + columns  # cells that begin below a row
        counts = np.bincount(above.ravel(), minlength=(self.height + 1) * self.width).reshape(-1, self.width)
        nearest = counts[::-1].cumsum(axis=0)[::-1][1:]
        ground = nearest < ROWS
        nearest = np.minimum(nearest, ROWS - 1)
        haze = (distances[nearest, 0] / FAR)[..., None] ** 1.5
        picture = self.colours[y[nearest, columns], x[nearest, columns]] * (1 - haze) + SKY * haze
        sky = SKY + (rows / self.height - 0.25)[..., None] * 120
        return np.where(ground[..., None], picture, sky).clip(0, 255).astype(np.uint8)


def smooth(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """Blur a map that repeats at its edges."""
    for axis in (0, 1):
        values = sum(np.roll(values, shift, axis) for shift in range(-1, 2)) / 3
    return values


def random_map(size: int, seed: int) -> Picture:
    """Return a landscape of hills, meadows, rock and snow, which repeats at its edges."""
    spectrum = np.fft.rfft2(np.random.default_rng(seed).normal(size=(size, size)))
    frequencies = np.hypot(np.fft.fftfreq(size)[:, None], np.fft.rfftfreq(size)[None])
    frequencies[0, 0] = np.inf
    hills = np.fft.irfft2(spectrum / frequencies**1.6, (size, size))
    hills = (hills - hills.min()) / np.ptp(hills)
    levels = [0.0, 0.3, 0.36, 0.6, 0.8, 1.0]
    colours = np.array([[30, 60, 110], [50, 100, 150], [80, 120, 60], [110, 130, 80], [140, 130, 120], [250, 250, 250]])
    return np.stack([np.interp(hills, levels, channel) for channel in colours.T], axis=2).astype(np.uint8)
