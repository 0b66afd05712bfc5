"""`to_frames`: torch tensors as pictures. This module imports torch only if the author's code has imported it.

The result equals the formula that authors write by hand, to the bit, in the tensor's own precision. On a CPU that formula is
slow for two reasons: each of its steps walks a whole clip through memory, and torch casts to uint8 and reorders axes value
by value. This module therefore takes one plane of one frame through all steps while it is in the cache. It casts to int16,
which is vectorised, and copies the low bytes into the picture, all on one thread.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeGuard

from reactor_trio.errors import OutputError

if TYPE_CHECKING:
    import torch

#: The axes of a tensor: batch (one clip), time, channels (red, green, blue), height, width.
Layout: TypeAlias = Literal["BCTHW", "BTCHW", "CTHW", "TCHW", "CHW", "BTHWC", "THWC", "HWC"]

LAYOUTS: Final[tuple[Layout, ...]] = ("BCTHW", "BTCHW", "CTHW", "TCHW", "CHW", "BTHWC", "THWC", "HWC")
FLOATS: Final = ("float16", "bfloat16", "float32", "float64")

_LOW_BYTE = 0 if sys.byteorder == "little" else 1


def is_tensor(value: object) -> TypeGuard[torch.Tensor]:
    """Whether `value` is a torch tensor. Does not import torch."""
    torch_module = sys.modules.get("torch")
    return torch_module is not None and isinstance(value, torch_module.Tensor)


def to_frames(tensor: torch.Tensor, *, range: tuple[float, float], layout: Layout | None = None) -> torch.Tensor:  # noqa: A002
    """Convert a model's tensor to a batch of frames to yield: uint8 RGB `(T, H, W, 3)`, contiguous, new, on its device.

    Each value becomes `(x - low) * (255 / (high - low))`, each step rounded to the tensor's dtype, clamped to 0..255 and
    truncated to an integer. Infinities are clamped like other values; NaN becomes 0. On a device the work is queued on the
    current stream, and the call does not wait for it.

    Args:
        tensor: one clip of floats (16, 32, 64 bits, bfloat16) in any of the layouts below, or uint8 with `range=(0, 255)`.
        range: the values of black and white, `(-1, 1)` or `(0, 1)` for most models. It has no default and is not guessed
            from the values: a guess would wait for the device, and a clip without values below 0 would get mid-grey as
            black.
        layout: the axes: "BCTHW", "BTCHW", "CTHW", "TCHW", "CHW", "BTHWC", "THWC" or "HWC" (B is 1). Needed only if the
            shape fits more than one layout, as (1, 3, 3, H, W) does.

    Raises OutputError (a TypeError and ValueError), whose message describes the given tensor.
    """
    if not is_tensor(tensor):
        raise OutputError(f"to_frames: expected a torch tensor, got {_type_and_shape(tensor)}")
    low, scale = _checked_range(range, tensor)
    video = _channels_first(tensor.detach(), layout)
    if tensor.device.type == "cpu":
        with _one_thread():
            return _convert_on_host(video, low, scale)
    return _convert_on_device(video, low, scale)


def _type_and_shape(value: object) -> str:
    shape, dtype = getattr(value, "shape", None), getattr(value, "dtype", None)
    return type(value).__name__ if shape is None or dtype is None else f"{type(value).__name__} {dtype} {tuple(shape)}"


def _shape_of(tensor: torch.Tensor) -> str:
    return f"{_dtype(tensor)} {tuple(tensor.shape)}"


def _dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _checked_range(given: Any, tensor: torch.Tensor) -> tuple[float, float]:
    """Return the value of black, and the factor by which a value above it is multiplied."""
    try:
        low, high = (float(end) for end in given)
    except (TypeError, ValueError):
        low = high = math.nan
    if isinstance(given, str) or not low < high or not math.isfinite(high - low):
        raise OutputError(f"to_frames: range is the values of black and white, such as (-1, 1) or (0, 1), not {given!r}")
    dtype = _dtype(tensor)
    if dtype == "uint8" and (low, high) != (0.0, 255.0):
        raise OutputError(f"to_frames: a uint8 tensor has range=(0, 255), not {given!r}; got {_shape_of(tensor)}")
    if dtype != "uint8" and dtype not in FLOATS:
        raise OutputError(f"to_frames: expected {', '.join(FLOATS)} or uint8, got {_shape_of(tensor)}")
    return low, 255.0 / (high - low)


def _channels_first(tensor: torch.Tensor, layout: str | None) -> torch.Tensor:
    """Return a `(3, T, H, W)` view of the tensor."""
    shape = tuple(tensor.shape)
    if layout is None:
        fitting = [name for name in LAYOUTS if _fits(name, shape)]
        if len(fitting) > 1:
            names = " or ".join(fitting)
            raise OutputError(f"to_frames: {_shape_of(tensor)} may be {names}; say which with layout=")
        if not fitting:
            raise OutputError(
                f"to_frames: expected one clip with 3 channels, as {', '.join(LAYOUTS)} with B = 1; got {_shape_of(tensor)}"
            )
        layout = fitting[0]
    elif layout not in LAYOUTS:
        raise OutputError(f"to_frames: layout is one of {', '.join(LAYOUTS)}, not {layout!r}")
    elif not _fits(layout, shape):
        raise OutputError(f"to_frames: layout={layout!r} means {len(layout)} axes, C = 3 and B = 1; got {_shape_of(tensor)}")
    if layout[0] == "B":
        tensor, layout = tensor[0], layout[1:]
    if "T" not in layout:
        tensor, layout = tensor.unsqueeze(0), "T" + layout
    return tensor.permute([layout.index(axis) for axis in "CTHW"])


def _fits(layout: str, shape: tuple[int, ...]) -> bool:
    return len(layout) == len(shape) and all(
        size == {"B": 1, "C": 3}.get(axis, size) for axis, size in zip(layout, shape, strict=True)
    )


@contextmanager
def _one_thread() -> Generator[None, None, None]:
    """Keep torch's operations on the calling thread. For pieces as small as these, the synchronisation of several threads
    costs more than it saves, and on a busy machine many times more.
    """
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _convert_on_host(video: torch.Tensor, low: float, scale: float) -> torch.Tensor:
    """Convert plane by plane; see the module's docstring."""
    import torch

    channels, frames, height, width = video.shape
    out = torch.empty((frames, height, width, channels), dtype=torch.uint8)
    if out.numel() == 0:
        return out
    if video.dtype == torch.uint8:
        for channel in range(channels):
            out[..., channel].copy_(video[channel])
        return out
    scaled = torch.empty((height, width), dtype=video.dtype)
    # torch is slow to cast float16 to int16 and to clamp bfloat16. A detour over float32 is exact and fast.
    wide = scaled if scaled.element_size() >= 4 else torch.empty((height, width), dtype=torch.float32)
    whole = torch.empty((height, width), dtype=torch.int16)
    low_bytes = whole.view(torch.uint8).view(height, width, 2)[..., _LOW_BYTE]
    for frame in range(frames):
        for channel in range(channels):
            plane = video[channel, frame]
            if low:
                torch.sub(plane, low, out=scaled)
                scaled.mul_(scale)
            else:
                torch.mul(plane, scale, out=scaled)
            if wide is not scaled:
                wide.copy_(scaled)
            # A NaN passes the clamp; the low byte of its cast to an integer is 0.
            whole.copy_(wide.clamp_(0, 255))
            out[frame, ..., channel].copy_(low_bytes)
    return out


def _convert_on_device(video: torch.Tensor, low: float, scale: float) -> torch.Tensor:
    """Convert the whole clip at once: few kernel launches, no synchronisation."""
    import torch

    out = torch.empty((*video.shape[1:], video.shape[0]), dtype=torch.uint8, device=video.device)
    if video.dtype != torch.uint8:
        scaled = torch.sub(video, low).mul_(scale) if low else torch.mul(video, scale)
        video = scaled.nan_to_num_(0.0).clamp_(0, 255)
    out.copy_(video.permute(1, 2, 3, 0))
    return out
