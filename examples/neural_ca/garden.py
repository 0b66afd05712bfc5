"""A neural cellular automaton as a real-time model: a flower that grows from one cell, and grows back where it is cut.

No cell knows the picture. Each cell reads its eight neighbours and follows the same learned rule, a few times a frame.
"""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from automaton import ALPHA, Automaton, cut, empty, sow
from torch.nn import functional as F

from reactor_trio import InputField, InputState, Output, ReactorPipeline, Video, connected, event
from reactor_trio.interface import Saves

WEIGHTS = Path(__file__).with_name("weights.npz")
BACKGROUNDS = {
    "paper": (0.95, 0.94, 0.90),
    "sky": (0.62, 0.81, 0.93),
    "moss": (0.16, 0.22, 0.18),
    "night": (0.07, 0.08, 0.14),
}


class Picture(Output):
    garden: Video


class Garden(InputState):
    speed: float = InputField(default=0.5, ge=0.0, le=8.0, unit="steps", description="Steps of the automaton for each frame")
    pointer: Literal["cut", "plant"] = InputField(default="cut", group="Pointer", description="What the pointer does")
    radius: float = InputField(
        default=4.0, ge=1.0, le=16.0, group="Pointer", unit="cells", description="How far a cut reaches"
    )
    background: Literal["paper", "sky", "moss", "night"] = InputField(default="night", group="Picture")
    smooth: bool = InputField(default=True, group="Picture", description="Blend the cells; off: show each as a square")

    _cells: Any = None  # float32 (1, 16, cells, cells)
    _due: float = 0.0  # steps, less than one
    _touched: tuple[float, float] = (0.0, 0.0)  # row and column


class NeuralCA(ReactorPipeline):
    state: Garden
    saves = Saves()
    fps = 30

    def load(self, config: dict[str, Any]) -> None:
        torch.set_num_threads(config.get("threads", 1))  # the grid is too small for threads to pay
        self.cells = config.get("cells", 48)
        self.size = config.get("size", 528)
        self.rule = Automaton.trained(WEIGHTS)

    @connected
    def begin(self) -> None:
        self.reset()

    @event(description="One seed in an empty garden")
    def reset(self) -> None:
        self.state._cells = empty(self.cells, self.cells)
        self.plant(0.5, 0.5)

    @event(description="A seed at x, y, from 0 to 1")
    def plant(self, x: float = InputField(default=0.5, ge=0, le=1), y: float = InputField(default=0.5, ge=0, le=1)) -> None:
        row, column = (min(int(part * self.cells), self.cells - 1) for part in (y, x))
        sow(self.state._cells, row, column)

    @event(description="Cut or plant")
    def pointer_down(self, x: float = InputField(ge=0, le=1), y: float = InputField(ge=0, le=1)) -> None:
        self.state._touched = self.place(x, y)
        if self.state.pointer == "plant":
            self.plant(x, y)
        else:
            self.pointer_move(x, y)

    @event(description="Cut on", dedupe=True)
    def pointer_move(self, x: float = InputField(ge=0, le=1), y: float = InputField(ge=0, le=1)) -> None:
        """Cut along the line from the last position to this one, so that a fast pointer leaves no gaps."""
        state = self.state
        start, state._touched = state._touched, self.place(x, y)
        if state.pointer == "cut":
            cut(state._cells, start, state._touched, state.radius)

    def inference(self):
        state = self.state
        while True:
            whole, state._due = divmod(state._due + state.speed, 1)
            state._cells = self.rule(state._cells, int(whole))
            yield render(state._cells, BACKGROUNDS[state.background], state.smooth, self.size)

    def place(self, x: float, y: float) -> tuple[float, float]:
        """The place as row and column, counted from the middle of the first cell."""
        return y * self.cells - 0.5, x * self.cells - 0.5


def render(cells: torch.Tensor, background: tuple[float, float, float], smooth: bool, size: int) -> np.ndarray:
    """The garden as a picture, uint8 (size, size, 3)."""
    colours, alpha = cells[:, :ALPHA], cells[:, ALPHA : ALPHA + 1].clamp(0, 1)
    seen = (colours + (1 - alpha) * torch.tensor(background)[:, None, None]).clamp(0, 1) * 255
    if smooth:
        pixels = F.interpolate(seen, size, mode="bilinear").byte()
    else:
        pixels = F.interpolate(seen.byte(), size, mode="nearest")
    return pixels[0].permute(1, 2, 0).numpy()
