"""From what a model yields to bundles: checked once against the declared tracks, copied once, split into instants.

A *chunk* is one accepted yield; a *bundle* is one instant of it across all its tracks. The runtime copies each frame, so
that an author may reuse a buffer. Two kinds of arrays are not copied: one that is read-only with all that it views, and one
that the step gives away (`_is_given_away`): its author cannot change it any more. A torch tensor in host memory becomes
an array. A tensor on a device stays there (`device_frames`); the encoder fetches it on another thread (`to_host`).
"""

from __future__ import annotations

import math
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import msgspec
import numpy as np
import numpy.typing as npt

from reactor_trio.errors import OutputError
from reactor_trio.interface.tensors import is_tensor
from reactor_trio.interface.tracks import Output, TrackPayload, TrackSpec
from reactor_trio.media.device_frames import DeviceFrames, Made
from reactor_trio.media.frame_metadata import metadata_of
from reactor_trio.media.output_mistakes import example, mistake, object_hint
from reactor_trio.media.read_only import is_read_only

#: A frame or samples that may still lie on a device.
if TYPE_CHECKING:
    import torch

    FrameHandle: TypeAlias = "npt.NDArray[Any] | DeviceFrames"
else:
    FrameHandle = np.ndarray  # as which a bundle arrives from another process

#: A frame or samples as the author yields them.
_Yielded: TypeAlias = "npt.NDArray[Any] | torch.Tensor"

#: Allocates the arrays for accepted frames, by shape and dtype.
_empty: Callable[[tuple[int, ...], npt.DTypeLike], npt.NDArray[Any]] = np.empty

#: Whether `sys.getrefcount` counts every reference, those of local variables included.
_COUNTS_ALL = (
    sys.implementation.name == "cpython"
    and sys.version_info < (3, 14)
    and "t" not in getattr(sys, "abiflags", "")  # a build without the interpreter's lock
    and getattr(sys, "_is_gil_enabled", lambda: True)()
)
#: What it returns in `chunk_from_output` for a yielded object that only the driver's step holds: its variable there, the
#: parameter, and the argument of the call.
_VALUE_REFERENCES = 3
#: What it returns in `_is_given_away` for an array that is a field of such an object: the field, two variables, the
#: parameter, and the argument of the call.
_FIELD_REFERENCES = 5


class Origin(msgspec.Struct, frozen=True):
    """How a frame came about.

    Attributes:
        step: number of the model step that made the frame.
        command: id of the newest command of the controlling client that the step had seen.
        waited: seconds from that command's arrival to the start of the first step that saw it; None without a command.
        seconds: duration of the step; 0 if the model did not report it.
        input_pts_us: capture time of the newest input frame that the step had seen, in microseconds of the client's clock.
        metadata: what the model says of the frame, by track: JSON data or bytes.
        again: whether it was shown before: the picture of the moment that a rewind has landed on.
    """

    step: int
    command: int | None = None
    waited: float | None = None
    seconds: float = 0.0
    input_pts_us: int | None = None
    metadata: Mapping[str, Any] | None = None
    again: bool = False


class Bundle(msgspec.Struct, frozen=True, array_like=True, tag=32, tag_field="tag"):
    """One instant of a chunk: for each track a video frame `(H, W, 3)` uint8 or a block of audio `(1, M)` int16.

    Attributes:
        tracks: the frame of each track.
        seqs: the number of each track's frame, counted from 0 as the model made them.
        duration: seconds for which the bundle is shown.
        paced: the duration is the pacer's interval, which may change until the bundle is shown; False if audio fixes it.
        origin: how it came about.
        made: when its step ended, in `trio.current_time()` seconds.
        epoch: how many times the model had flushed its output before.
        ready: when it was queued, in `trio.current_time()` seconds.

    It is one of the messages between the two sides of a session (`crossing.messages`), hence the tag.
    """

    wakes: ClassVar[bool] = False
    tracks: Mapping[str, FrameHandle]
    seqs: Mapping[str, int]
    duration: float
    paced: bool
    origin: Origin
    made: float
    epoch: int = 0
    ready: float = 0.0

    @property
    def nbytes(self) -> int:
        """The size of all frames in bytes."""
        return sum(math.prod(frame.shape) * (1 if frame.ndim == 3 else 2) for frame in self.tracks.values())


class Chunk(msgspec.Struct, frozen=True):
    """A checked yield. A video is `(N, H, W, 3)`, or `(H, W, 3)` to be shown in each of the `length` bundles."""

    videos: Mapping[str, FrameHandle]
    audios: Mapping[str, tuple[FrameHandle, int]]
    length: int
    #: by track, what the model says of each bundle
    metadata: Mapping[str, list[Any]] = msgspec.field(default_factory=dict)

    @property
    def pending_fences(self) -> list[Made]:
        """The fences that must pass before the whole chunk is computed; empty for data in the host's memory."""
        pending, samples = [], [each for each, _ in self.audios.values()] if self.audios else ()
        for handle in (*self.videos.values(), *samples):
            if type(handle) is DeviceFrames and handle.made is not None and not handle.made.query():
                pending.append(handle.made)
        return pending

    def split(self) -> Iterator[tuple[dict[str, FrameHandle], float | None]]:
        """The instants in order: the frames of each, and its duration in seconds if audio sets one."""
        for i in range(self.length):
            tracks: dict[str, FrameHandle] = {
                name: frames[i] if frames.ndim == 4 else frames for name, frames in self.videos.items()
            }
            duration: float | None = None
            for name, (samples, rate) in self.audios.items() if self.audios else ():
                begin, end = _split_at(samples.shape[1], self.length, i), _split_at(samples.shape[1], self.length, i + 1)
                tracks[name] = samples[:, begin:end]
                duration = max(duration or 0.0, (end - begin) / rate)
            yield tracks, duration


class TrackPart(msgspec.Struct, frozen=True):
    """Checked data of one track, which the runtime owns; None if an optional track shows nothing. See `part_of_track`."""

    spec: TrackSpec
    data: FrameHandle | None
    metadata: Any = None

    @property
    def nbytes(self) -> int:
        """The size of the data in bytes."""
        return 0 if self.data is None else self.data.nbytes


def chunk_from_output(value: object, outputs: tuple[type[Output], ...], *, of_step: bool = False) -> Chunk:
    """Check and copy what a model yielded or emitted.

    Args:
        of_step: whether the caller is the step of a driver, whose one variable is all that the runtime holds of `value`.

    Raises OutputError, which names the track, what was expected and what was given. Nothing of a refused value is kept.
    """
    videos: dict[str, _Yielded] = {}
    audios: dict[str, tuple[_Yielded, int]] = {}
    batches: dict[str, int] = {}
    given_metadata: dict[str, Any] = {}
    sole = of_step and _COUNTS_ALL and sys.getrefcount(value) <= _VALUE_REFERENCES and not weakref.getweakrefcount(value)
    for spec in _tracks_of(value, outputs):
        data = getattr(value, spec.name) if isinstance(value, Output) else value
        if isinstance(data, TrackPayload):
            if data.metadata is not None:
                given_metadata[spec.name] = data.metadata
            data = data.data  # the payload is only a wrapper
        if data is None and spec.optional:
            continue
        checked = _checked(spec, data)
        if sole and type(checked) is np.ndarray and checked.flags.writeable and _is_given_away(checked, value, spec.name):
            checked.flags.writeable = False
        if spec.kind == "video":
            videos[spec.name] = checked
            if checked.ndim == 4:
                batches[spec.name] = checked.shape[0]
        elif checked.shape[1]:
            audios[spec.name] = checked, spec.sample_rate or 48_000
    length = _batch_length(batches, audios) if batches else 1 if videos or audios else 0
    owned: dict[str, FrameHandle] = {}
    for name, frames in videos.items():
        owned[name] = _owned(frames)
    sound = {name: (_owned(samples), rate) for name, (samples, rate) in audios.items()} if audios else {}
    said = {name: metadata_of(name, each, videos, length) for name, each in given_metadata.items()} if given_metadata else {}
    return Chunk(owned, sound, length, said)


def part_of_track(spec: TrackSpec, data: object) -> TrackPart:
    """Check and copy what a model emits on one track. Raises as `chunk_from_output`."""
    said = None
    if isinstance(data, TrackPayload):
        said, data = data.metadata, data.data
    shown = None if data is None and spec.optional else _checked(spec, data)
    if said is not None:
        many = isinstance(said, (list, tuple))
        pictures = () if shown is None or spec.kind == "audio" else (spec.name,)
        each = metadata_of(spec.name, said, pictures, len(said) if many else 1)
        said = each if many else each[0]
    return TrackPart(spec, None if shown is None else _owned(shown), said)


def chunk_of_parts(parts: Sequence[TrackPart]) -> Chunk:
    """The chunk of what was emitted on each track, without another copy. Raises OutputError if their lengths differ."""
    given = [(part.spec, part.data) for part in parts if part.data is not None]
    videos = {spec.name: data for spec, data in given if spec.kind == "video"}
    heard = [(spec, data) for spec, data in given if spec.kind == "audio" and data.shape[1]]
    audios = {spec.name: (data, spec.sample_rate or 48_000) for spec, data in heard}
    batches = {name: data.shape[0] for name, data in videos.items() if data.ndim == 4}
    length = _batch_length(batches, audios) if batches else 1 if videos or audios else 0
    said = [(part.spec.name, part.metadata) for part in parts if part.metadata is not None]
    return Chunk(videos, audios, length, {name: metadata_of(name, each, videos, length) for name, each in said})


def keep_frames_in(empty: Callable[[tuple[int, ...], npt.DTypeLike], npt.NDArray[Any]]) -> None:
    """From now on copy accepted frames into arrays from `empty(shape, dtype)`, which any thread may call.

    A process whose frames another process reads uses this to place them in shared memory.
    """
    global _empty  # noqa: PLW0603 - set once, before the first frame
    _empty = empty


def black_chunk(tracks: tuple[TrackSpec, ...], sizes: Mapping[str, tuple[int, int]]) -> Chunk:
    """One black frame for each video track, in the last size (height, width) seen, else 720x1280."""
    frames = {
        track.name: np.zeros((*sizes.get(track.name, (720, 1280)), 3), np.uint8)
        for track in tracks
        if track.kind == "video" and track.direction == "out"
    }
    return Chunk(frames, {}, 1)


def to_host(frame: FrameHandle) -> npt.NDArray[Any]:
    """The frame as a numpy array. Blocks for a frame on a device, so do not call it on an event loop."""
    return frame.host() if isinstance(frame, DeviceFrames) else frame


def _split_at(samples: int, parts: int, index: int) -> int:
    """Where part `index` begins if `samples` are split as evenly as possible, the longer parts first."""
    size, rest = divmod(samples, parts)
    return index * size + min(index, rest)


def _tracks_of(value: object, outputs: tuple[type[Output], ...]) -> tuple[TrackSpec, ...]:
    """The tracks of which `value` is, or has, the data. Raises OutputError."""
    if isinstance(value, outputs):
        return value.__reactor_tracks__
    if isinstance(value, Output):
        known = ", ".join(o.__qualname__ for o in outputs) or "none"
        raise OutputError(f"{type(value).__qualname__} is not an Output of this model (its own: {known})")
    if not isinstance(value, np.ndarray) and not is_tensor(value):
        hint = object_hint(value)
        if isinstance(value, dict):
            hint = "; yield " + " or ".join(example(output) for output in outputs)
        raise OutputError(f"a model yields an Output, a frame, Idle or None, not {type(value).__name__}{hint}")
    if len(outputs) != 1 or len(outputs[0].__reactor_tracks__) != 1:
        names = ", ".join(track.name for output in outputs for track in output.__reactor_tracks__) or "no tracks"
        raise OutputError(f"a bare frame is ambiguous: this model has {names}; yield an Output")
    return outputs[0].__reactor_tracks__


def _checked(spec: TrackSpec, data: object) -> _Yielded:
    """`data`, if its type and shape are those of the track's kind. Raises OutputError."""
    dtype: object
    if isinstance(data, np.ndarray):
        dtype = data.dtype  # compared as it is: to make its name takes numpy longer than all that follows
    elif is_tensor(data):
        dtype = str(data.dtype).removeprefix("torch.")
    else:
        raise mistake(spec, data)
    shape = data.shape
    if spec.kind == "video":
        fits = dtype == "uint8" and data.ndim in (3, 4) and shape[-1] == 3 and 0 not in shape[-3:]
    else:
        fits = dtype == "int16" and data.ndim == 2 and shape[0] == 1
    if not fits:
        raise mistake(spec, data)
    return data


def _is_given_away(array: npt.NDArray[Any], value: object, track: str) -> bool:
    """Whether the author cannot write into `array` any more: only the yielded `value` refers to it, and only we to `value`.

    A view, a memoryview, a tensor or a foreign pointer that shares an array's memory holds the array. An array that does not
    own its memory may share it with something that holds no array.
    """
    if array is not value:  # else its references are counted already
        if not isinstance(value, Output) or vars(value).get(track) is not array:
            return False
        if sys.getrefcount(array) > _FIELD_REFERENCES:
            return False
    flags = array.flags
    return flags.owndata and flags.c_contiguous and not weakref.getweakrefcount(array) and _empty is np.empty


def _batch_length(batches: Mapping[str, int], audios: Mapping[str, tuple[_Yielded | FrameHandle, int]]) -> int:
    """The number of frames that each batch of one yield has. Raises OutputError."""
    if len(set(batches.values())) > 1:
        given = " and ".join(f"{name} has {count}" for name, count in batches.items())
        raise OutputError(f"the tracks of one yield must have the same number of frames: {given}")
    length = next(iter(batches.values()))
    for name, (samples, _) in audios.items():
        if (count := samples.shape[1]) < length:
            wrong = f"{count} samples for {length} frames: each frame lasts as long as its samples, so it needs at least one"
            raise OutputError(f"track {name}: {wrong}")
    return length


def _owned(data: _Yielded) -> FrameHandle:
    """Copy `data` into row order, unless it is an array in row order that is read-only with all that it is a view of."""
    if not isinstance(data, np.ndarray):
        if data.device.type != "cpu":
            return DeviceFrames.take(data)
        data = data.detach().numpy()
    elif not data.flags.writeable and data.flags.c_contiguous and (data.base is None or is_read_only(data)):
        return data
    owned = _empty(data.shape, data.dtype)
    owned[...] = data
    owned.flags.writeable = False
    return owned
