"""The session binding and the input buffers of a model on several ranks: author code gets the same answers on all ranks.

They wrap the binding and the buffers that a model without ranks has: on rank 0 those of the session, on the other ranks
those of a `BareBinding`. Rank 0 looks up each answer and sends it to the other ranks (`LeaderAnswers`); these give at the
same place the answer that rank 0 has sent (`FollowerAnswers`).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar, cast

import numpy as np
import outcome
import trio

from reactor_trio.concurrency import SessionOver
from reactor_trio.errors import BufferClosed
from reactor_trio.interface.input_buffer import InputBuffer, InputFrame, ReadMode
from reactor_trio.interface.model import ModelBinding
from reactor_trio.interface.tracks import with_buffers
from reactor_trio.placement.ranks.replicated_answers import IN_CALL, OUTSIDE

T = TypeVar("T")
F = TypeVar("F", list[InputFrame], list[InputFrame] | None)

#: what a read raises on every rank
_READ_ERRORS: dict[str, type[Exception]] = {
    "BufferClosed": BufferClosed, "TimeoutError": TimeoutError, "ValueError": ValueError
}  # fmt: skip


class RankAnswers(Protocol):
    """Answers author code on one rank as on rank 0, where `look` finds the answer to `key`."""

    def same(self, key: str, look: Callable[[], T]) -> T:
        """Return what the runtime answers."""

    async def read(self, key: str, look: Callable[[], Awaitable[list[InputFrame]]]) -> list[InputFrame]:
        """Return the frames of a read that waits, or raise its error."""

    def try_read(self, key: str, look: Callable[[], list[InputFrame] | None]) -> list[InputFrame] | None:
        """Return the frames of a read that does not wait, or raise its error."""


class LeaderAnswers:
    """Answers on rank 0, and sends each answer to the others. `send` is `Leader.answer`."""

    def __init__(self, send: Callable[[str, Any], object]) -> None:
        self._send = send

    def same(self, key: str, look: Callable[[], T]) -> T:
        """Look, and send what was found."""
        found = look()
        self._send(key, found)
        return found

    async def read(self, key: str, look: Callable[[], Awaitable[list[InputFrame]]]) -> list[InputFrame]:
        """Look, and send the frames or the error."""
        return self._sent(key, await outcome.acapture(look))

    def try_read(self, key: str, look: Callable[[], list[InputFrame] | None]) -> list[InputFrame] | None:
        """Look, and send the frames or the error."""
        return self._sent(key, outcome.capture(look))

    def _sent(self, key: str, result: outcome.Maybe[F]) -> F:
        match result:
            case outcome.Error(error):
                if (kind := type(error).__name__) in _READ_ERRORS:
                    self._send(key, (kind, str(error)))
            case outcome.Value(frames):
                self._send(key, ("", None if frames is None else [_plain(frame) for frame in frames]))
        return result.unwrap()


class FollowerAnswers:
    """Answers on the ranks that follow, as rank 0 has; outside of a call, `look` answers."""

    def same(self, key: str, look: Callable[[], T]) -> T:
        """Take rank 0's next answer to the key."""
        answers = IN_CALL.get()
        found = OUTSIDE if answers is None else answers.take(key)
        return look() if found is OUTSIDE else cast(T, found)

    async def read(self, key: str, look: Callable[[], Awaitable[list[InputFrame]]]) -> list[InputFrame]:
        """Wait for rank 0's next answer. Outside of a call no frame comes."""
        await trio.lowlevel.checkpoint()
        answers = IN_CALL.get()
        found = OUTSIDE if answers is None else await answers.wait(key)
        return await look() if found is OUTSIDE else _frames(found) or []

    def try_read(self, key: str, look: Callable[[], list[InputFrame] | None]) -> list[InputFrame] | None:
        """Take rank 0's next answer. Outside of a call nothing is read."""
        return _frames(self.same(key, lambda: ("", None)))


class RankBinding:
    """A `ModelBinding` around the `binding` that a model without ranks has."""

    def __init__(self, binding: ModelBinding, answers: RankAnswers) -> None:
        self._binding = binding
        self._answers = answers
        self.connected = self.output_buffer = self  # with the methods of both
        classes = {attribute: type(given) for attribute, given in binding.inputs.items()}
        buffers = {
            spec.name: RankInputBuffer(spec.name, getattr(given, spec.name), answers)
            for given in binding.inputs.values() for spec in type(given).__reactor_tracks__
        }  # fmt: skip
        self.inputs = with_buffers(classes, buffers)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._binding, name)

    @property
    def fps(self) -> float:
        """The rate, the same on all ranks."""
        return self._answers.same("fps", lambda: self._binding.output_buffer.fps)

    def cancelled(self) -> bool:
        """Whether the session is over, the same on all ranks."""
        return self._answers.same("cancelled", self._binding.cancelled)

    def check_cancelled(self) -> None:
        """Raise SessionOver if `cancelled()`."""
        if self.cancelled():
            raise SessionOver

    def is_set(self) -> bool:
        """Whether a client is connected, the same on all ranks."""
        return self._answers.same("connected", self._binding.connected.is_set)

    async def wait(self) -> None:
        """Return when a client is connected on this rank."""
        await self._binding.connected.wait()


class RankInputBuffer(InputBuffer):
    """An input buffer on any rank; the runtime puts frames into `buffer` on rank 0."""

    def __init__(self, track: str, buffer: InputBuffer, answers: RankAnswers) -> None:
        self.max_bytes = buffer.max_bytes
        self._track = track
        self._buffer = buffer
        self._answers = answers

    @property
    def available(self) -> int:
        """Number of frames that wait, the same on all ranks."""
        return self._answers.same(f"{self._track}.available", lambda: self._buffer.available)

    @property
    def total_received(self) -> int:
        """Number of frames that have come, the same on all ranks."""
        return self._answers.same(f"{self._track}.total_received", lambda: self._buffer.total_received)

    @property
    def closed(self) -> bool:
        """Whether no more frames come, the same on all ranks."""
        return self._answers.same(f"{self._track}.closed", lambda: self._buffer.closed)

    async def read(self, n: int = 1, timeout: float | None = None, mode: ReadMode = ReadMode.LATEST) -> list[InputFrame]:
        """Wait for frames; all ranks get the same, or the same error."""
        return await self._answers.read(f"{self._track}.read", lambda: self._buffer.read(n, timeout, mode))

    def try_read(self, n: int = 1, mode: ReadMode = ReadMode.LATEST) -> list[InputFrame] | None:
        """Return frames that are there; all ranks get the same, or the same error."""
        return self._answers.try_read(f"{self._track}.try_read", lambda: self._buffer.try_read(n, mode))

    def clear(self) -> None:
        """Drop the frames that wait, on this rank."""
        self._buffer.clear()

    def close(self) -> None:
        """Close the buffer, on this rank."""
        self._buffer.close()


def _plain(frame: InputFrame) -> tuple[Any, ...]:
    return frame.data.shape, frame.data.dtype.str, frame.data.tobytes(), frame.pts, frame.metadata, frame.capture_time_us


def _frames(found: Any) -> list[InputFrame] | None:
    raised, value = found
    if raised:
        raise _READ_ERRORS[raised](value)
    if value is None:
        return None
    return [InputFrame(np.frombuffer(data, kind).reshape(shape).copy(), *about) for shape, kind, data, *about in value]
