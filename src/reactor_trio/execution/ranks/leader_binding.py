"""On rank 0: what author code asks the runtime is looked up, and told to the other ranks.

These stand on the model instance before the port and the input buffers that there are without ranks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from reactor_trio.concurrency import SessionOver
from reactor_trio.errors import BufferClosed
from reactor_trio.execution.session_binding import SessionBinding
from reactor_trio.interface.input_buffer import InputBuffer, InputFrame, ReadMode
from reactor_trio.interface.tracks import Input

T = TypeVar("T")

#: Tells the other ranks what was asked for, and what was found.
Tell = Callable[[str, Any], None]

#: what a read raises on every rank
READ_ERRORS: dict[str, type[Exception]] = {
    "BufferClosed": BufferClosed, "TimeoutError": TimeoutError, "ValueError": ValueError
}  # fmt: skip


class LeaderBinding:
    """The port of the model on rank 0."""

    def __init__(self, binding: SessionBinding, tell: Tell) -> None:
        self._binding = binding
        self._tell = tell
        self.connected = _LeaderConnected(binding, tell)
        self.inputs: Mapping[str, Input] = wrapped_inputs(
            binding.inputs, lambda track, buffer: LeaderInputBuffer(track, buffer, tell)
        )

    def __getattr__(self, name: str) -> Any:
        return getattr(self._binding, name)

    @property
    def output_buffer(self) -> LeaderBinding:
        """This object answers for it."""
        return self

    @property
    def fps(self) -> float:
        """See `SessionBinding`."""
        return _told(self._tell, "fps", self._binding.fps)

    def cancelled(self) -> bool:
        """See `SessionBinding`."""
        return _told(self._tell, "cancelled", self._binding.cancelled())

    def check_cancelled(self) -> None:
        """See `SessionBinding`."""
        if self.cancelled():
            raise SessionOver


class _LeaderConnected:
    def __init__(self, binding: SessionBinding, tell: Tell) -> None:
        self._binding = binding
        self._tell = tell

    def is_set(self) -> bool:
        return _told(self._tell, "connected", self._binding.connected.is_set())

    async def wait(self) -> None:
        await self._binding.connected.wait()


class LeaderInputBuffer(InputBuffer):
    """An input buffer on rank 0; `buffer` is where frames come."""

    def __init__(self, track: str, buffer: InputBuffer, tell: Tell) -> None:
        self._track = track
        self._buffer = buffer
        self._tell_ranks = tell

    @property
    def available(self) -> int:
        """See `InputBuffer`."""
        return self._told("available", self._buffer.available)

    @property
    def total_received(self) -> int:
        """See `InputBuffer`."""
        return self._told("total_received", self._buffer.total_received)

    @property
    def closed(self) -> bool:
        """See `InputBuffer`."""
        return self._told("closed", self._buffer.closed)

    async def read(self, n: int = 1, timeout: float | None = None, mode: ReadMode = ReadMode.LATEST) -> list[InputFrame]:
        """See `InputBuffer`."""
        try:
            frames = await self._buffer.read(n, timeout, mode)
        except (BufferClosed, TimeoutError, ValueError) as error:
            self._told("read", (type(error).__name__, str(error)))
            raise
        self._told("read", ("", _plain(frames)))
        return frames

    def try_read(self, n: int = 1, mode: ReadMode = ReadMode.LATEST) -> list[InputFrame] | None:
        """See `InputBuffer`."""
        try:
            frames = self._buffer.try_read(n, mode)
        except ValueError as error:
            self._told("try_read", ("ValueError", str(error)))
            raise
        self._told("try_read", ("", None if frames is None else _plain(frames)))
        return frames

    def clear(self) -> None:
        """See `InputBuffer`."""
        self._buffer.clear()

    def close(self) -> None:
        """See `InputBuffer`."""
        self._buffer.close()

    def reset(self) -> None:
        """See `InputBuffer`."""
        self._buffer.reset()

    def put(self, frame: InputFrame) -> None:
        """See `InputBuffer`."""
        self._buffer.put(frame)

    def _told(self, what: str, found: T) -> T:
        return _told(self._tell_ranks, f"{self._track}.{what}", found)


def wrapped_inputs(
    inputs: Mapping[str, Input], wrap: Callable[[str, InputBuffer], InputBuffer]
) -> dict[str, Input]:
    """The same inputs by attribute, with each buffer wrapped, once for each track."""
    made: dict[str, InputBuffer] = {}
    wrapped: dict[str, Input] = {}
    for attribute, given in inputs.items():
        fields: dict[str, Any] = {}
        for spec in type(given).__reactor_tracks__:
            if spec.name not in made:
                made[spec.name] = wrap(spec.name, getattr(given, spec.name))
            fields[spec.name] = made[spec.name]
        wrapped[attribute] = type(given)(**fields)
    return wrapped


def _told(tell: Tell, key: str, found: T) -> T:
    tell(key, found)
    return found


def _plain(frames: list[InputFrame]) -> list[Any]:
    return [(frame.data.shape, frame.data.dtype.str, frame.data.tobytes(), frame.pts) for frame in frames]
