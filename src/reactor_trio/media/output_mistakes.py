"""What is wrong with a value that a model has yielded or emitted, and how its author can mend it."""

from __future__ import annotations

from typing import Any

import numpy as np

from reactor_trio.errors import OutputError
from reactor_trio.interface.tensors import is_tensor
from reactor_trio.interface.tracks import Output, TrackSpec


def mistake(spec: TrackSpec, data: object) -> OutputError:
    """What is wrong with `data`."""
    video = spec.kind == "video"
    wanted = f"track {spec.name}: expected {'uint8 (H, W, 3) or (N, H, W, 3)' if video else 'int16 (1, M)'}"
    if not isinstance(data, np.ndarray) and not is_tensor(data):
        return OutputError(f"{wanted}, got {type(data).__name__}{stack_hint(data) if video else ''}")
    shape, dtype = tuple(data.shape), str(data.dtype).removeprefix("torch.")
    return OutputError(f"{wanted}, got {dtype} {shape}{_picture_hint(data, shape, dtype) if video else ''}")


def _picture_hint(data: Any, shape: tuple[int, ...], dtype: str) -> str:
    """A hint for frames that are floats or have their colours first."""
    hint, floats = "", dtype.startswith(("float", "bfloat"))
    if len(shape) in (3, 4) and shape[-3] == 3 and shape[-1] != 3:
        axes = "1, 2, 0" if len(shape) == 3 else "0, 2, 3, 1"
        hint = "; it looks channels-first"
        if not (floats and is_tensor(data)):
            hint += f": {'permute' if is_tensor(data) else 'transpose'}({axes})"
    if floats:
        hint += "; to_frames converts it" if is_tensor(data) else "; scale to 0..255 and cast to uint8"
    return hint


def stack_hint(value: object) -> str:
    """A hint for a list of frames."""
    if not isinstance(value, (list, tuple)) or not value:
        return ""
    if all(is_tensor(item) for item in value):
        return "; stack the frames: torch.stack(frames)"
    return "; stack the frames: np.stack(frames)" if all(isinstance(item, np.ndarray) for item in value) else ""


def example(output: type[Output]) -> str:
    """How to construct an Output."""
    return f"{output.__qualname__}({', '.join(f'{track.name}=...' for track in output.__reactor_tracks__)})"
