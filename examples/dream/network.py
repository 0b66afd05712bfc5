"""The network: from the last four pictures and the keys to the next picture. A small U-Net over patches of 4 x 4 pixels."""

import torch
from maze import KEYS, SIZE, VIEW
from torch import nn
from torch.nn import functional as F

PAST = 4  # pictures
PATCH = 4  # pixels along its edge
WIDTHS = (48, 128, 192)  # channels at 16 x 16, 8 x 8 and 4 x 4
CODE = 256  # numbers that carry place, keys and noise to all blocks
GUIDE = 448  # numbers on the way to them
MEMORY = 48  # channels at 8 x 8
PACE = 8.0  # how much faster than other weights the columns' are learned


class Block(nn.Module):
    """Two convolutions around which the input is carried on; the code scales and shifts what is between them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.first = nn.Conv2d(width, width, 3, padding=1)
        self.film = nn.Linear(CODE, 2 * width)
        self.second = nn.Conv2d(width, width, 3, padding=1)
        nn.init.zeros_(self.film.weight)
        nn.init.zeros_(self.film.bias)
        nn.init.zeros_(self.second.weight)

    def forward(self, x: torch.Tensor, code: torch.Tensor) -> torch.Tensor:
        scale, shift = self.film(code)[:, :, None, None].chunk(2, dim=1)
        inner = self.first(F.silu(self.norm(x))) * (1 + scale) + shift
        return x + self.second(F.silu(inner))


class Dreamer(nn.Module):
    """Draws the next picture.

    It takes the last PAST pictures, oldest first, as float32 (N, PAST * 3, 64, 64) from -1 to 1, the keys of PAST steps up
    to the one to draw, (N, PAST * 4), and the standard deviation of the noise in the pictures, (N, 1).
    It returns the picture as (N, 3, 64, 64).

    Four things make it quick to learn. `columns` mixes the columns of the last view, in another way for each key: a turn
    moves all columns by what is always the same. The code comes from the panel, so each block knows the place. `memory`
    makes features of the code alone: what is to be seen from that place, also where no past picture shows it. `draw_panel`
    draws dot, hands and needle from the code alone.
    """

    def __init__(self) -> None:
        super().__init__()
        fine, middle, coarse = WIDTHS
        pixels = 3 * PATCH**2
        self.columns = nn.Parameter(torch.zeros(len(KEYS), SIZE, SIZE))
        panel = (SIZE - VIEW) * SIZE
        self.guide = nn.Sequential(
            nn.Linear(panel + PAST * len(KEYS) + 1, GUIDE), nn.SiLU(), nn.Linear(GUIDE, GUIDE), nn.SiLU(),
            nn.Linear(GUIDE, CODE), nn.SiLU(),
        )  # fmt: skip
        self.memory = nn.Linear(CODE, MEMORY * 8 * 8)
        self.recall = nn.Conv2d(MEMORY, middle, 1)
        self.draw_panel = nn.Linear(CODE, 2 * panel)
        self.colour_panel = nn.Conv2d(2, 3, 1)
        nn.init.zeros_(self.draw_panel.weight)
        self.enter = nn.Conv2d(PAST * pixels, fine, 1)
        # Where a patch lies, as the panel and the view stay where they are:
        self.place = nn.Parameter(torch.zeros(1, fine, 16, 16))
        self.place_middle = nn.Parameter(torch.zeros(1, middle, 8, 8))
        self.place_coarse = nn.Parameter(torch.zeros(1, coarse, 4, 4))
        self.down = nn.ModuleList([nn.Conv2d(fine, middle, 2, stride=2), nn.Conv2d(middle, coarse, 2, stride=2)])
        self.up = nn.ModuleList([nn.Conv2d(middle, fine, 1), nn.Conv2d(coarse, middle, 1)])
        self.before = nn.ModuleList([Block(fine), Block(middle)])
        self.deepest = Block(coarse)
        self.after = nn.ModuleList([Block(fine), Block(middle), Block(middle)])
        self.norm = nn.GroupNorm(8, fine)
        self.leave = nn.Conv2d(fine, pixels, 1)
        self.keep = nn.Linear(CODE, pixels)
        nn.init.zeros_(self.leave.weight)

    def forward(self, past: torch.Tensor, keys: torch.Tensor, noise: torch.Tensor) -> torch.Tensor:
        panel = past[:, -3:, VIEW:].mean(dim=1).flatten(1)
        code = self.guide(torch.cat([panel, keys, noise * 4], dim=1))
        moved = torch.eye(SIZE) + PACE * torch.einsum("nk,kij->nij", keys[:, -len(KEYS) :], self.columns)
        last = torch.cat([past[:, -3:, :VIEW] @ moved[:, None], past[:, -3:, VIEW:]], dim=2)
        patches = F.pixel_unshuffle(torch.cat([past[:, :-3], last], dim=1), PATCH)
        fine = self.before[0](self.enter(patches) + self.place, code)
        memory = self.recall(F.silu(self.memory(code)).reshape(-1, MEMORY, 8, 8))
        middle = self.before[1](self.down[0](fine) + memory + self.place_middle, code)
        coarse = self.deepest(self.down[1](middle) + self.place_coarse, code)
        middle = middle + self.up[1](F.interpolate(coarse, scale_factor=2.0))
        for block in self.after[1:]:
            middle = block(middle, code)
        fine = self.after[0](fine + self.up[0](F.interpolate(middle, scale_factor=2.0)), code)
        new = F.pixel_shuffle(self.leave(F.silu(self.norm(fine))), PATCH)
        keep = F.pixel_shuffle(self.keep(code)[:, :, None, None], PATCH).repeat(1, 1, 16, 16)
        panel = self.colour_panel(self.draw_panel(code).reshape(-1, 2, SIZE - VIEW, SIZE))
        return last * keep + new + F.pad(panel, (0, 0, VIEW, 0))
