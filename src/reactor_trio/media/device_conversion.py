"""Conversion of RGB frames to YUV 4:2:0 on the device where they lie.

Half as many bytes go to the host as for RGB, and the host converts nothing. The work goes to a stream beside the model's,
behind the frame's fence, so it overlaps the model's next step. Colours are as in `conversion`: BT.601 with limited range.
Each chroma sample is the mean of four pixels, as FFmpeg makes it; OpenCV takes one of the four.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
import numpy.typing as npt

from reactor_trio.media.conversion import Size
from reactor_trio.media.device_frames import DeviceFrames, open_queue

if TYPE_CHECKING:
    import torch

#: Where the chroma samples lie behind the luma samples: U and V alternate ("nv12"), or all of U and then all of V ("i420").
Layout = Literal["nv12", "i420"]

#: the rows of the matrix from RGB to Y, U, V
_BT601 = (
    (65.481 / 255, 128.553 / 255, 24.966 / 255),
    (-37.797 / 255, -74.203 / 255, 112.0 / 255),
    (112.0 / 255, -93.786 / 255, -18.214 / 255),
)


class DeviceConverter:
    """Converts frames of one device to YUV 4:2:0 of one size.

    Args:
        size: width and height of the picture.
        coded: width and height that the codec gets, both even. The last row and column of the picture fill the rest.

    Attributes:
        made_for: these arguments, to compare with others.
    """

    def __init__(self, size: Size, coded: Size, device: torch.device, layout: Layout) -> None:
        import torch

        self.made_for = size, coded, device, layout
        self._size, self._coded, self._device, self._layout = size, coded, device, layout
        width, height = coded
        self._queue = open_queue(device)
        self._yuv = torch.empty((height * 3 // 2, width), dtype=torch.uint8, device=device)
        self._host: torch.Tensor | None = None

    def convert(self, frame: DeviceFrames) -> torch.Tensor:
        """Return the picture on its device, uint8 `(height * 3 / 2, width)`. Blocks until it is complete, since a library
        that reads it uses a stream of its own. The next call overwrites the result.
        """
        with self._queue.beside(self._device, frame.made):
            self._compute(frame.tensor)
        return self._yuv

    def fetch(self, frame: DeviceFrames) -> npt.NDArray[np.uint8]:
        """As `convert`, but return the picture in the host's memory."""
        with self._queue.beside(self._device, frame.made):
            if self._host is None:
                self._host = self._queue.host_memory(tuple(self._yuv.shape), self._yuv.dtype)
            self._compute(frame.tensor)
            self._host.copy_(self._yuv, non_blocking=True)
        fetched: npt.NDArray[np.uint8] = self._host.numpy()
        return fetched

    def _compute(self, frame: torch.Tensor) -> None:
        import torch
        from torch.nn import functional

        width, height = self._coded
        rgb = frame.permute(2, 0, 1)[None].float()
        if (rgb.shape[3], rgb.shape[2]) != self._size:
            rgb = functional.interpolate(rgb, (self._size[1], self._size[0]), mode="area")
        if self._size != self._coded:
            rgb = functional.pad(rgb, (0, width - self._size[0], 0, height - self._size[1]), mode="replicate")
        self._yuv[:height] = _weighted(_BT601[0], rgb[0], 16.5)
        means = functional.avg_pool2d(rgb[0], 2)
        samples = [_weighted(row, means, 128.5) for row in _BT601[1:]]
        self._yuv[height:] = torch.stack(samples, dim=2 if self._layout == "nv12" else 0).reshape(height // 2, width)


def _weighted(row: tuple[float, float, float], rgb: torch.Tensor, offset: float) -> torch.Tensor:
    """A plane of YUV: the sum of the weighted planes of float32 RGB, as uint8 `(H, W)`.

    Sums of planes and no matrix product: cuBLAS would keep 32 MiB of the card for each thread and stream that calls it, and
    would compute less exactly where the author allows TF32.
    """
    import torch

    red, green, blue = rgb
    plane: torch.Tensor = (red * row[0]).add_(green, alpha=row[1]).add_(blue, alpha=row[2]).add_(offset)
    return plane.clamp_(0, 255).to(torch.uint8)
