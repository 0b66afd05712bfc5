"""What is wrong with a value that a model has yielded or emitted, and how its author can mend it."""

from __future__ import annotations

from typing import Any

import numpy as np

from reactor_trio.errors import OutputError
from reactor_trio.interface.tensors import is_tensor
from reactor_trio.interface.tracks import Output, TrackSpec

#: how to yield no sound
SILENCE = "; silence is zeros, np.zeros((1, sample_rate // fps), np.int16)"


def mistake(spec: TrackSpec, data: object) -> OutputError:
    """What is wrong with `data`."""
    video = spec.kind == "video"
    wanted = f"track {spec.name}: expected {'uint8 (H, W, 3) or (N, H, W, 3)' if video else 'int16 (1, M)'}"
    if not isinstance(data, np.ndarray) and not is_tensor(data):
        hint = object_hint(data) if video else SILENCE if data is None else ""
        return OutputError(f"{wanted}, got {type(data).__name__}{hint}", anchor="frame-type" if video else "sound-type")
    shape, dtype = tuple(data.shape), str(data.dtype).removeprefix("torch.")
    hint = _picture_hint(data, shape, dtype) if video else _sound_hint(shape, dtype)
    return OutputError(f"{wanted}, got {dtype} {shape}{hint}", anchor="frame-type" if video else "sound-type")


def _picture_hint(data: Any, shape: tuple[int, ...], dtype: str) -> str:
    """How to make frames of pictures of another type or shape."""
    hint, floats = "", dtype.startswith(("float", "bfloat"))
    xp, last = ("torch", "dim=-1") if is_tensor(data) else ("np", "axis=-1")
    if len(shape) == 2:
        hint = f"; it looks grey: {xp}.stack([frame] * 3, {last})"
    elif len(shape) in (3, 4) and shape[-1] == 1:
        hint = f"; it looks grey: {'frame.repeat_interleave(3, -1)' if xp == 'torch' else 'np.repeat(frame, 3, axis=-1)'}"
    elif len(shape) in (3, 4) and shape[-1] == 4 and shape[-3] != 3:
        hint = "; it looks like RGBA: frame[..., :3]"
    if len(shape) in (3, 4) and shape[-3] == 3 and shape[-1] != 3:
        axes = "1, 2, 0" if len(shape) == 3 else "0, 2, 3, 1"
        hint = "; it looks channels-first"
        if not (floats and is_tensor(data)):
            hint += f": {'permute' if is_tensor(data) else 'transpose'}({axes})"
    if floats:
        hint += "; to_frames converts it" if is_tensor(data) else f"; scale to 0..255 and cast to uint8: {_scaled(data)}"
    elif dtype != "uint8":
        cast = "frame.to(torch.uint8)" if is_tensor(data) else "frame.astype(np.uint8)"
        known = {"bool": f"{cast} * 255", "uint16": cast.replace("frame", "(frame >> 8)")}
        hint += f"; {known.get(dtype, cast.replace('frame', 'frame.clip(0, 255)'))}"
    return hint


def _scaled(frame: np.ndarray[Any, Any]) -> str:
    """How to make 0..255 of what the floats of a frame seem to be: 0..1, -1..1, or 0..255 already."""
    low, high = (frame.min(), frame.max()) if frame.size else (0, 1)
    if low < 0:
        return "((frame + 1) * 127.5).clip(0, 255).astype(np.uint8)"
    return "frame.clip(0, 255).astype(np.uint8)" if high > 2 else "(frame * 255).astype(np.uint8)"


def _sound_hint(shape: tuple[int, ...], dtype: str) -> str:
    """How to make one channel of 16-bit samples of other samples."""
    hint = "; add the channel: samples[None, :]" if len(shape) == 1 else ""
    if len(shape) == 2 and shape[0] != 1:
        hint = "; put the channel first: samples.T" if shape[1] == 1 else "; one channel: mix them, or yield one of them"
    return hint + ("; scale to -32767..32767 and cast to int16" if dtype.startswith(("float", "bfloat")) else "")


def object_hint(value: object) -> str:
    """A hint for what is no array: a list of frames, or a picture of Pillow."""
    if any(base.__module__.startswith("PIL.") for base in type(value).__mro__):
        return "; make an array of it: np.asarray(image.convert('RGB'))"
    if not isinstance(value, (list, tuple)) or not value:
        return ""
    if all(is_tensor(item) for item in value):
        return "; stack the frames: torch.stack(frames)"
    return "; stack the frames: np.stack(frames)" if all(isinstance(item, np.ndarray) for item in value) else ""


def example(output: type[Output]) -> str:
    """How to construct an Output."""
    return f"{output.__qualname__}({', '.join(f'{track.name}=...' for track in output.__reactor_tracks__)})"
