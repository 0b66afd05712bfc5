"""A pool of water for each client: several sessions on one model, computed together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from reactor_trio import InputField, InputState, Output, ReactorPipeline, Video, connected, event
from reactor_trio.interface import Saves

RADIUS = 0.03


class Picture(Output):
    main_video: Video


class Water(InputState):
    calm: float = InputField(default=0.01, ge=0.0, le=0.2, description="How soon waves die down")
    rain: bool = InputField(default=True, description="Drops fall by themselves")


class Pools(ReactorPipeline):
    state: Water
    fps = 30
    max_sessions = 8
    saves = Saves("water", "before", "dice")

    def load(self, config: dict[str, Any]) -> None:
        """Make the objects that all sessions share: the palette stands for a model's weights."""
        self.size = config.get("height", 120), config.get("width", 160)
        self.scale, self.rounds = config.get("scale", 4), config.get("rounds", 3)
        light = np.linspace(0, 1, 256)[:, None]
        self.palette = (np.hstack([light**3, light**1.5, 0.25 + 0.75 * light]) * 255).astype(np.uint8)

    @connected
    def fill(self) -> None:
        """Make the objects that belong to one session: `self` is this session's copy of the model."""
        self.water = np.zeros(self.size, np.float32)
        self.before = np.zeros(self.size, np.float32)
        self.dice = np.random.default_rng()

    @event(dedupe=True)
    def drop(
        self,
        x: float = InputField(ge=0, le=1),
        y: float = InputField(ge=0, le=1),
        radius: float = InputField(default=RADIUS, ge=0.01, le=0.3),
    ) -> None:
        """A drop of any size falls anywhere."""
        height, width = self.size
        down, across = np.ogrid[:height, :width]
        distance = ((across / width - x) ** 2 + (down / height - y) ** 2) / radius**2
        self.water += np.exp(-distance).astype(np.float32)

    @event
    def pointer_down(self, x: float = InputField(ge=0, le=1), y: float = InputField(ge=0, le=1)) -> None:
        """A drop falls where the pointer is."""
        self.drop(x, y, RADIUS)

    @event(dedupe=True)
    def pointer_move(self, x: float = InputField(ge=0, le=1), y: float = InputField(ge=0, le=1)) -> None:
        """Drops fall along the pointer's way."""
        self.drop(x, y, RADIUS)

    def batch_inference(self, sessions: list[Pools]) -> list[NDArray[np.uint8]]:
        """Compute one step of all pools that are due, in one stack of arrays."""
        for pool in sessions:
            if pool.state.rain and pool.dice.random() < 0.1:
                pool.drop(*pool.dice.random(2))
        water = np.stack([pool.water for pool in sessions])
        before = np.stack([pool.before for pool in sessions])
        keep = np.array([1 - pool.state.calm for pool in sessions], np.float32)[:, None, None]
        for _ in range(self.rounds):
            around = sum(np.roll(water, step, axis) for axis in (1, 2) for step in (-1, 1))
            water, before = (around / 2 - before) * keep, water
        for pool, now, then in zip(sessions, water, before, strict=True):
            pool.water, pool.before = now, then
        slope = water - np.roll(water, 1, 2)
        shade = np.clip(128 + 400 * slope, 0, 255).astype(np.uint8)
        pictures = self.palette[shade].repeat(self.scale, 1).repeat(self.scale, 2)
        return list(pictures)
