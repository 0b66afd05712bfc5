"""A model without weights: coloured light that moves, and a tone that follows its brightness."""

from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from reactor_trio import Audio, InputField, InputState, Output, ReactorPipeline, Video
from reactor_trio.interface import Saves


@dataclass
class MyOutput(Output):
    main_video: Video
    main_audio: Audio | None = None


class Voice:
    """A tone that glides from one pitch and loudness to the next, without a jump in the wave."""

    def __init__(self) -> None:
        self.angle = self.level = 0.0
        self.pitch: float | None = None

    def sing(self, samples: int, pitch: float, level: float) -> np.ndarray | None:
        """The next samples, int16 (1, samples), with the given pitch in Hz and level at their end; None if it is silent."""
        if self.level == level == 0:
            self.pitch = None
            return None
        way = np.arange(1, samples + 1) / samples
        hertz = (self.pitch or pitch) * (1 - way) + pitch * way
        angle = self.angle + np.cumsum(hertz) * 2 * np.pi / Audio.sample_rate
        loudness = self.level * (1 - way) + level * way
        self.angle, self.pitch, self.level = angle[-1] % (2 * np.pi), pitch, level
        wave = loudness * (np.sin(angle) + 0.3 * np.sin(2 * angle))
        return (wave / 1.3 * 32767).astype(np.int16)[None]


@dataclass
class MyState(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=2.0, description="From black to twice as bright")
    tone: float = InputField(
        default=0.0, ge=0.0, le=1.0, group="Sound", description="Loudness of a tone whose pitch is the brightness"
    )
    _frame_idx: int = 0
    _voice: Voice = field(default_factory=Voice)


class MyModel(ReactorPipeline):
    state: MyState
    saves = Saves(types=(Voice,))
    buffer_size = 8

    def load(self, config: dict[str, Any]) -> None:
        self.width = config.get("width", 640)
        self.height = config.get("height", 480)
        self.chunk_size = config.get("chunk_size", 4)

    def inference(self):
        state = self.state
        while True:
            batch, state._frame_idx = render_batch(
                self.width, self.height, self.chunk_size,
                state._frame_idx, state.brightness,
            )
            # Samples for as long as the batch is shown; with them a batch lasts as long as its sound.
            samples = round(len(batch) / self.output_buffer.fps * Audio.sample_rate)
            sound = state._voice.sing(samples, 220 * 2 ** state.brightness, 0.2 * state.tone)
            yield MyOutput(main_video=batch, main_audio=sound)


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
