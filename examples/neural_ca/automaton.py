"""The automaton: every cell has 16 numbers and follows the same small learned rule.

Channels 0 to 3 are red, green, blue (premultiplied by alpha) and alpha. Training gives the other twelve their meaning.
"""

from pathlib import Path

import numpy as np
import torch
from torch.nn import functional as F

CHANNELS = 16
ALPHA = 3
ALIVE = 0.1  # a cell lives while it or one of its eight neighbours has more alpha than this

# What a cell perceives of each channel: itself, and how the channel changes from left to right and from top to bottom.
SOBEL = torch.tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]]) / 8
SELF = torch.tensor([[0.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.0]])
SENSES = torch.stack([SELF, SOBEL, SOBEL.T])


class Automaton(torch.nn.Module):
    """The learned rule. A state is float32 (N, 16, H, W); cells outside the grid count as zero."""

    def __init__(self, hidden: int = 64):
        super().__init__()
        self.perceive = torch.nn.Parameter(torch.randn(hidden, CHANNELS * len(SENSES)) * (CHANNELS * len(SENSES)) ** -0.5)
        self.bias = torch.nn.Parameter(torch.zeros(hidden))
        self.act = torch.nn.Parameter(torch.zeros(CHANNELS, hidden))  # an untrained rule changes nothing

    def forward(self, state: torch.Tensor, steps: int) -> torch.Tensor:
        # Senses and first layer are both linear: together they are one convolution, which is one call.
        kernel = torch.einsum("hcs,sij->hcij", self.perceive.view(-1, CHANNELS, len(SENSES)), SENSES)
        act = self.act[:, :, None, None]
        for _ in range(steps):
            alive = living(state.detach())
            state = state + F.conv2d(F.relu(F.conv2d(state, kernel, self.bias, padding=1)), act)
            state = state * (alive & living(state.detach()))
        return state

    def save(self, path: Path) -> None:
        np.savez(path, **{name: parameter.detach().numpy() for name, parameter in self.named_parameters()})

    @classmethod
    def trained(cls, path: Path) -> "Automaton":
        with np.load(path) as arrays:
            rule = cls(hidden=len(arrays["bias"]))
            rule.load_state_dict({name: torch.from_numpy(arrays[name]) for name in arrays.files})
        return rule.requires_grad_(False)


def living(state: torch.Tensor) -> torch.Tensor:
    """The cells that live, as bool (N, 1, H, W)."""
    return F.max_pool2d(state[:, ALPHA : ALPHA + 1], 3, stride=1, padding=1) > ALIVE


def empty(height: int, width: int) -> torch.Tensor:
    return torch.zeros(1, CHANNELS, height, width)


def sow(state: torch.Tensor, row: int, column: int) -> None:
    """Put a seed, in place: one cell whose alpha and hidden channels are 1 and whose colours are 0."""
    state[:, :, row, column] = 0
    state[:, ALPHA:, row, column] = 1


def cut(state: torch.Tensor, start: tuple[float, float], end: tuple[float, float], radius: float) -> None:
    """Erase, in place, every cell nearer than `radius` to the line between two places (row and column, in cells)."""
    height, width = state.shape[2:]
    way = np.subtract(end, start)
    cells = np.stack(np.mgrid[0:height, 0:width], axis=-1) - start
    along = np.clip(cells @ way / max(way @ way, 1e-9), 0, 1)
    near = np.linalg.norm(cells - along[..., None] * way, axis=-1) < radius
    state[:, :, torch.from_numpy(near)] = 0
