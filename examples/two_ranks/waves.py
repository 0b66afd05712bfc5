"""Waves on a lake: one process computes the upper half, another the lower half."""

from __future__ import annotations

import torch
from torch import distributed

from reactor_trio import DistributedPipeline, InputField, InputState, Output, Video, connected, event
from reactor_trio.interface import Saves

STIFFNESS = 0.24  # below 0.5, or the waves grow without end


class Picture(Output):
    main_video: Video


class Lake(InputState):
    speed: int = InputField(default=2, ge=0, le=8, unit="steps", description="Steps for each frame")
    calm: float = InputField(default=0.01, ge=0.0, le=0.2, description="How soon waves die down")
    seam: bool = InputField(default=False, advanced=True, description="Show where one rank's rows end")


class Waves(DistributedPipeline):
    state: Lake
    saves = Saves("now", "before")  # of each rank its own rows
    fps = 30
    ranks = 2

    def load(self, config):
        """Give each rank the same number of rows. Two more, one above and one below, are copies of its neighbours' rows."""
        self.width, height = config["width"], config["height"]
        if height % self.world_size:
            raise ValueError(f"height: {height} rows cannot be shared out evenly among {self.world_size} ranks")
        self.rows, self.height = height // self.world_size, height
        self.first = self.rank * self.rows

    @connected
    def fill(self):
        """Make a still lake for each client."""
        self.now = torch.zeros(self.rows + 2, self.width)
        self.before = torch.zeros(self.rows + 2, self.width)

    @event(description="Drop something in")
    def pointer_down(self, x: float = InputField(ge=0, le=1), y: float = InputField(ge=0, le=1)) -> None:
        """Drop something in. Each rank gets the call, and adds the part that falls on its own rows."""
        rows = torch.arange(self.rows)[:, None] + self.first - y * self.height
        columns = torch.arange(self.width)[None] - x * self.width
        self.now[1:-1] += torch.exp(-(rows**2 + columns**2) / 18)

    @event(description="And on along the way", dedupe=True)
    def pointer_move(self, x: float = InputField(ge=0, le=1), y: float = InputField(ge=0, le=1)) -> None:
        self.pointer_down(x, y)

    def inference(self):
        while True:
            for _ in range(self.state.speed):
                self.step()
            yield Picture(main_video=self.whole(self.colours()))

    def step(self):
        """Compute a step of the wave equation on the rows of this rank."""
        self.meet()
        now, inner = self.now, self.now[1:-1]
        left, right = inner.roll(1, 1), inner.roll(-1, 1)
        bend = now[:-2] + now[2:] + left + right - 4 * inner
        after = now.clone()
        after[1:-1] = (1 - self.state.calm) * (2 * inner - self.before[1:-1] + STIFFNESS * bend)
        self.before, self.now = now, after

    def meet(self):
        """Copy the border rows of the neighbour ranks; at the shore, copy our own row."""
        own = torch.stack([self.now[1], self.now[-2]])
        edges = [torch.empty_like(own) for _ in range(self.world_size)]
        if self.world_size == 1:
            edges = [own]
        else:
            distributed.all_gather(edges, own)
        self.now[0] = edges[self.rank - 1][1] if self.rank > 0 else own[0]
        self.now[-1] = edges[self.rank + 1][0] if self.rank < self.world_size - 1 else own[1]

    def colours(self):
        """These rows as a picture, lit from the upper left."""
        water = self.now[1:-1]
        slope = (water.roll(-1, 1) - water.roll(1, 1))[..., None]
        picture = torch.tensor([40.0, 90.0, 140.0]) + slope * 260 + water[..., None] * torch.tensor([20.0, 60.0, 80.0])
        if self.state.seam and self.rank:
            picture[0] = torch.tensor([220.0, 60.0, 40.0])
        return picture.clamp(0, 255).to(torch.uint8)

    def whole(self, rows):
        """The picture of all ranks, on rank 0. The runtime ignores what the other ranks yield."""
        if self.world_size == 1:
            return rows
        parts = [torch.empty_like(rows) for _ in range(self.world_size)] if self.rank == 0 else None
        distributed.gather(rows, parts)
        return rows if parts is None else torch.cat(parts)
