"""A model without weights: moving coloured light, with one control for its brightness."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, Video


@dataclass
class MyOutput(Output):
    main_video: Video


@dataclass
class MyState(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="Brightness multiplier")


class MyModel(ReactorPipeline):
    state: MyState
    buffer_size = 8

    def load(self, config: dict[str, Any]) -> None:
        self.width = config.get("width", 640)
        self.height = config.get("height", 480)
        self.chunk_size = config.get("chunk_size", 4)

    def inference(self):
        frame_idx = 0
        while True:
            batch, frame_idx = render_batch(
                self.width, self.height, self.chunk_size,
                frame_idx, self.state.brightness,
            )
            yield MyOutput(main_video=batch)


# The functions below take the place of a neural network: they compute a batch of frames. Every pixel has a hue, which
# moves along the diagonal, and a light, which falls off around a moving spot. Both are small whole numbers that index a
# table of colours, so a frame costs one addition and one look-up, about a millisecond.

HUES = 256
LIGHTS = 128


def render_batch(width: int, height: int, chunk_size: int, start_idx: int, brightness: float) -> tuple[np.ndarray, int]:
    """Return the frames start_idx ... start_idx + chunk_size - 1, uint8 (N, H, W, 3), and the index after them."""
    colours = np.clip(colour_table() * brightness, 0, 255).astype(np.uint8)
    hue, light = hue_grid(width, height), light_grid(width, height)
    batch = np.empty((chunk_size, height, width, 3), np.uint8)
    for frame, index in zip(batch, range(start_idx, start_idx + chunk_size), strict=True):
        # The light's grid is twice as large as the picture: to move the spot, show another part of the grid.
        x = round(width * (0.5 + 0.3 * np.sin(index / 90)))
        y = round(height * (0.5 + 0.3 * np.cos(index / 70)))
        pixels = light[y : y + height, x : x + width] * HUES + (hue + index % HUES) % HUES
        np.take(colours, pixels, axis=0, out=frame, mode="clip")
    return batch, start_idx + chunk_size


@lru_cache(maxsize=1)
def colour_table() -> np.ndarray:
    """Return RGB colours: for each light, dark to bright, every hue around the colour circle."""
    angle = np.linspace(0, 2 * np.pi, HUES, endpoint=False)[:, None] + np.array([0.0, 2.1, 4.2])
    circle = 140 + 100 * np.cos(angle)
    light = np.linspace(0.25, 1.05, LIGHTS)[:, None, None]
    return (circle * light).reshape(LIGHTS * HUES, 3)


@lru_cache(maxsize=1)
def hue_grid(width: int, height: int) -> np.ndarray:
    y, x = np.mgrid[0:height, 0:width]
    return (HUES * (x / width + y / height) / 2).astype(np.uint16)


@lru_cache(maxsize=1)
def light_grid(width: int, height: int) -> np.ndarray:
    y, x = np.mgrid[-1 : 1 : 2j * height, -1 : 1 : 2j * width]
    return ((LIGHTS - 1) * np.exp(-4 * (x**2 + y**2))).astype(np.uint16)
