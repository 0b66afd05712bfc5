"""A model with its own loop, which decides what happens with a client and between clients."""

import time
from dataclasses import dataclass
from typing import Any

import numpy as np

from reactor_trio import InputField, MessageField, ModelMessage, Output, ReactorModel, Video, connected, event


@dataclass
class MyOutput(Output):
    main_video: Video


@dataclass
class Progress(ModelMessage):
    step: int = MessageField(description="Frames made for this client")


class MyModel(ReactorModel):
    fps = 30
    buffer_size = 4

    def load(self, config: dict[str, Any]) -> None:
        self.y, self.x = np.mgrid[-1 : 1 : config.get("height", 480) * 1j, -1 : 1 : config.get("width", 640) * 1j]
        self.reset()

    def reset(self) -> None:
        self.zoom = 8.0
        self.step = 0

    @connected
    def on_connected(self) -> None:
        self.reset()

    @event
    def set_zoom(self, zoom: float = InputField(ge=1.0, le=32.0, description="How many rings fit")) -> None:
        self.zoom = zoom

    async def run(self) -> None:
        while True:
            await self.connected.wait()
            while self.connected.is_set():
                # Handlers may run at every await below, so read what the step needs first.
                zoom, step = self.zoom, self.step
                begin = time.perf_counter()
                frame = rings(self.x, self.y, zoom, step)
                await self.emit(MyOutput(main_video=frame), compute_time=time.perf_counter() - begin)
                self.step += 1
                if step % 100 == 0:
                    await self.send(Progress(step=step))


def rings(x: np.ndarray, y: np.ndarray, zoom: float, step: int) -> np.ndarray:
    """Return one frame, uint8 (H, W, 3), of rings that move outwards."""
    wave = np.cos(zoom * np.hypot(x, y) * 4 - step / 8)
    return np.stack([127 + 120 * wave, 127 + 60 * wave, 150 - 100 * wave], axis=-1).astype(np.uint8)
