"""Two chemicals that feed on each other (Gray-Scott): patterns grow, divide and die while you stir them.

This is a model with a loop of its own. Unlike a pipeline it keeps its dish between clients: a client finds the dish as the
one before left it.
"""

import time
from typing import Any, Literal

import numpy as np

from reactor_trio import InputField, MessageField, ModelMessage, Output, ReactorModel, Video, connected, event
from reactor_trio.interface import Moment, Saves, restored

Pattern = Literal["coral", "spots", "worms", "maze"]

#: feed and kill rate of each pattern
RATES: dict[Pattern, tuple[float, float]] = {
    "coral": (0.0545, 0.062),
    "spots": (0.030, 0.062),
    "worms": (0.058, 0.065),
    "maze": (0.029, 0.057),
}


class Dish(Output):
    dish: Video


class Now(ModelMessage):
    """Sent to each client that connects, and again at each change."""

    pattern: str
    speed: int


class Covered(ModelMessage):
    share: float = MessageField(description="part of the dish that is covered, 0 to 1")
    step: int = MessageField(description="pictures made since the server began")


class Reaction(ReactorModel):
    saves = Saves("a", "b", "random", "pattern", "speed", "steps")
    fps = 30
    buffer_size = 2  # stirring should be seen soon; deeper is smoother on a machine whose step times vary

    def load(self, config: dict[str, Any]) -> None:
        self.size = config.get("size", 128)
        self.scale = config.get("scale", 4)
        self.rounds = config.get("rounds", 12)
        self.random = np.random.default_rng(config.get("seed"))
        self.pattern: Pattern = "coral"
        self.speed = 1
        self.steps = 0
        self.palette = palette()
        self.clear_dish()

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                # Handlers run at the awaits below, and never between them.
                began = time.perf_counter()
                feed, kill = RATES[self.pattern]
                for _ in range(self.rounds * self.speed):
                    react(self.a, self.b, feed, kill)
                picture = self.picture()
                await self.emit(Dish(dish=picture), compute_time=time.perf_counter() - began)
                self.steps += 1
                if self.steps % 30 == 0:
                    await self.send(Covered(share=round(float(np.mean(self.b > 0.1)), 3), step=self.steps))

    @connected
    async def begin(self) -> None:
        """Begin with the defaults, because the page shows those, in the dish that the last client left."""
        self.pattern, self.speed = "coral", 1
        await self.tell()

    @restored
    async def back(self, saved: dict[str, Any], moment: Moment) -> None:
        """Tell what grows at the moment that the dish has gone back to."""
        await self.tell()

    async def tell(self) -> None:
        await self.send(Now(pattern=self.pattern, speed=self.speed))

    # A slider or a moving finger sends more values than pictures can show: of the waiting ones only the newest counts.
    @event(dedupe=True, description="Rounds for each picture, in multiples")
    async def set_speed(self, speed: int = InputField(default=1, ge=1, le=8, unit="×")) -> None:
        self.speed = speed
        await self.tell()

    @event(description="What grows")
    async def set_pattern(self, pattern: Pattern = InputField(default="coral")) -> None:
        self.pattern = pattern
        await self.tell()

    @event(description="Pour a drop; x and y from 0 to 1")
    def drop(
        self,
        x: float = InputField(default=0.5, ge=0.0, le=1.0),
        y: float = InputField(default=0.5, ge=0.0, le=1.0),
        radius: float = InputField(default=0.05, ge=0.01, le=0.3),
    ) -> None:
        place = np.linspace(0, 1, self.size, dtype=np.float32)
        inside = np.hypot(place[None, :] - x, place[:, None] - y) <= radius
        self.b[inside] = 0.5

    @event(name="key_space", description="Drops anywhere")
    def splash(self) -> None:
        for x, y in self.random.random((8, 2)):
            self.drop(float(x), float(y), 0.03)

    @event(description="Empty the dish")
    def clear(self) -> None:
        self.clear_dish()

    def clear_dish(self) -> None:
        self.a = np.ones((self.size, self.size), np.float32)
        self.b = np.zeros_like(self.a)
        self.splash()

    def picture(self) -> np.ndarray:
        """uint8 (H, W, 3): the second chemical as colour, each cell as a square of `scale` pixels."""
        cells = self.palette[np.clip(self.b * 640, 0, 255).astype(np.uint8)]
        return cells.repeat(self.scale, axis=0).repeat(self.scale, axis=1)


def react(a: np.ndarray, b: np.ndarray, feed: float, kill: float) -> None:
    """Compute one round, in place: both spread, `b` turns `a` into more `b`, `a` is added and `b` is removed."""
    reaction = a * b * b
    a += 0.2097 * spread(a) - reaction + feed * (1 - a)
    b += 0.105 * spread(b) + reaction - (feed + kill) * b


def spread(cells: np.ndarray) -> np.ndarray:
    """The flow into each cell from its four neighbours; the dish has no edge."""
    around = np.roll(cells, 1, 0) + np.roll(cells, -1, 0) + np.roll(cells, 1, 1) + np.roll(cells, -1, 1)
    return around - 4 * cells


def palette() -> np.ndarray:
    """256 colours from deep blue over teal to a warm white."""
    at = [0, 90, 160, 220, 255]
    colours = np.array([[6, 10, 40], [10, 70, 110], [40, 170, 150], [240, 200, 120], [255, 250, 235]])
    return np.stack([np.interp(np.arange(256), at, colours[:, i]) for i in range(3)], axis=-1).astype(np.uint8)
