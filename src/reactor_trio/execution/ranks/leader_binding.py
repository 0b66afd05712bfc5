"""The session binding and the input buffers of rank 0: they answer author code, and send each answer to the other ranks.

They wrap the binding and the buffers that a model without ranks has.
"""

from __future__ import annotations

from typing import Any, Protocol, TypeVar

from reactor_trio.concurrency import SessionOver
from reactor_trio.errors import BufferClosed
from reactor_trio.execution.session_binding import SessionBinding
from reactor_trio.interface.input_buffer import InputBuffer, InputFrame, ReadMode
from reactor_trio.interface.tracks import with_buffers

T = TypeVar("T")

#: what a read raises on every rank
READ_ERRORS: dict[str, type[Exception]] = {
    "BufferClosed": BufferClosed, "TimeoutError": TimeoutError, "ValueError": ValueError
}  # fmt: skip


class Answer(Protocol):
    """See `Leader.answer`."""

    def __call__(self, key: str, found: T) -> T:
        """Send `found` to the other ranks; return it."""


class LeaderBinding:
    """See `SessionBinding`; for the model on rank 0."""

    def __init__(self, binding: SessionBinding, answer: Answer) -> None:
        self._binding = binding
        self._answer = answer
        self.connected = self.output_buffer = self  # with the methods of both
        classes = {attribute: type(given) for attribute, given in binding.inputs.items()}
        buffers = {
            spec.name: LeaderInputBuffer(spec.name, getattr(given, spec.name), answer)
            for given in binding.inputs.values() for spec in type(given).__reactor_tracks__
        }  # fmt: skip
        self.inputs = with_buffers(classes, buffers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._binding, name)

    @property
    def fps(self) -> float:
        """See `SessionBinding`."""
        return self._answer("fps", self._binding.fps)

    def cancelled(self) -> bool:
        """See `SessionBinding`."""
        return self._answer("cancelled", self._binding.cancelled())

    def check_cancelled(self) -> None:
        """See `SessionBinding`."""
        if self.cancelled():
            raise SessionOver

    def is_set(self) -> bool:
        """See `ConnectedSignal`."""
        return self._answer("connected", self._binding.connected.is_set())

    async def wait(self) -> None:
        """See `ConnectedSignal`."""
        await self._binding.connected.wait()


class LeaderInputBuffer(InputBuffer):
    """An input buffer on rank 0; the runtime puts frames into `buffer`."""

    def __init__(self, track: str, buffer: InputBuffer, answer: Answer) -> None:
        self._track = track
        self._buffer = buffer
        self._answer_ranks = answer

    @property
    def available(self) -> int:
        """See `InputBuffer`."""
        return self._answer("available", self._buffer.available)

    @property
    def total_received(self) -> int:
        """See `InputBuffer`."""
        return self._answer("total_received", self._buffer.total_received)

    @property
    def closed(self) -> bool:
        """See `InputBuffer`."""
        return self._answer("closed", self._buffer.closed)

    async def read(self, n: int = 1, timeout: float | None = None, mode: ReadMode = ReadMode.LATEST) -> list[InputFrame]:
        """See `InputBuffer`."""
        try:
            frames = await self._buffer.read(n, timeout, mode)
        except tuple(READ_ERRORS.values()) as error:
            self._answer("read", (type(error).__name__, str(error)))
            raise
        self._answer("read", ("", _plain(frames)))
        return frames

    def try_read(self, n: int = 1, mode: ReadMode = ReadMode.LATEST) -> list[InputFrame] | None:
        """See `InputBuffer`."""
        try:
            frames = self._buffer.try_read(n, mode)
        except ValueError as error:
            self._answer("try_read", ("ValueError", str(error)))
            raise
        self._answer("try_read", ("", None if frames is None else _plain(frames)))
        return frames

    def clear(self) -> None:
        """See `InputBuffer`."""
        self._buffer.clear()

    def close(self) -> None:
        """See `InputBuffer`."""
        self._buffer.close()

    def _answer(self, what: str, found: T) -> T:
        return self._answer_ranks(f"{self._track}.{what}", found)


def _plain(frames: list[InputFrame]) -> list[Any]:
    return [(frame.data.shape, frame.data.dtype.str, frame.data.tobytes(), frame.pts) for frame in frames]
