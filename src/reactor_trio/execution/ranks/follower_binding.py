"""The session binding and the input buffers of the other ranks: they answer author code as rank 0 did.

What author code emits or sends on these ranks is discarded.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
import trio

from reactor_trio.concurrency import SessionOver
from reactor_trio.execution.ranks.leader_binding import READ_ERRORS
from reactor_trio.execution.ranks.replicated_answers import IN_CALL
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.input_buffer import InputBuffer, InputFrame, ReadMode
from reactor_trio.interface.messages import ModelMessage, message_data
from reactor_trio.interface.tracks import with_buffers
from reactor_trio.pacing.cadence import checked_fps


class FollowerState(Protocol):
    """What a rank knows of its session.

    Attributes:
        state: the session's state; None without a session.
        connected: whether there is a session.
    """

    state: Any
    connected: bool


class FollowerBinding:
    """See `ModelBinding`; for the model on a rank that follows."""

    def __init__(self, declaration: Declaration, session: FollowerState, fps: float) -> None:
        self._session = session
        self._fps = fps
        self.connected = self.output_buffer = self  # with the methods of both
        buffers = {spec.name: FollowerInputBuffer(spec.name) for spec in declaration.tracks if spec.direction == "in"}
        self.inputs = with_buffers(declaration.inputs, buffers)

    @property
    def state(self) -> Any:
        """See `ModelBinding`."""
        return self._session.state

    def set_state(self, state: Any) -> None:
        """See `ModelBinding`."""
        self._session.state = state

    async def emit(self, output: object, compute_time: float | None, drop: bool) -> None:
        """See `ModelBinding`. Only rank 0 shows frames."""
        await trio.lowlevel.checkpoint()

    async def send(self, message: ModelMessage) -> None:
        """See `ModelBinding`. Only rank 0 sends messages. Raises what it raises on rank 0."""
        message_data(message)
        await trio.lowlevel.checkpoint()

    def cancelled(self) -> bool:
        """See `ModelBinding`."""
        return bool(_asked("cancelled", not self._session.connected))

    def check_cancelled(self) -> None:
        """See `ModelBinding`."""
        if self.cancelled():
            raise SessionOver

    # ---- connected ----------------------------------------------------------------------------------------------------

    def is_set(self) -> bool:
        """See `ConnectedSignal`."""
        return bool(_asked("connected", self._session.connected))

    async def wait(self) -> None:
        """See `ConnectedSignal`. A rank that is called has a session."""
        await trio.lowlevel.checkpoint()

    # ---- the output buffer --------------------------------------------------------------------------------------------

    @property
    def fps(self) -> float:
        """See `OutputBuffer`."""
        return float(_asked("fps", self._fps))

    def set_fps(self, fps: float) -> None:
        """See `OutputBuffer`. Only rank 0 does it."""
        checked_fps(fps)

    def flush(self) -> None:
        """See `OutputBuffer`. Only rank 0 does it."""

    def clear(self) -> None:
        """See `OutputBuffer`. Only rank 0 does it."""


class FollowerInputBuffer(InputBuffer):
    """An input buffer that returns the frames that rank 0 has read."""

    def __init__(self, track: str) -> None:
        super().__init__()
        self._track = track

    @property
    def available(self) -> int:
        """See `InputBuffer`."""
        return int(self._asked("available", 0))

    @property
    def total_received(self) -> int:
        """See `InputBuffer`."""
        return int(self._asked("total_received", 0))

    @property
    def closed(self) -> bool:
        """See `InputBuffer`."""
        return bool(self._asked("closed", False))

    async def read(self, n: int = 1, timeout: float | None = None, mode: ReadMode = ReadMode.LATEST) -> list[InputFrame]:
        """See `InputBuffer`."""
        await trio.lowlevel.checkpoint()
        if (answers := IN_CALL.get()) is None:
            await trio.sleep_forever()
            raise AssertionError  # pragma: no cover
        return _read(await answers.wait(f"{self._track}.read")) or []

    def try_read(self, n: int = 1, mode: ReadMode = ReadMode.LATEST) -> list[InputFrame] | None:
        """See `InputBuffer`."""
        return _read(self._asked("try_read", ("", None)))

    def clear(self) -> None:
        """See `InputBuffer`. Only rank 0 does it."""

    def close(self) -> None:
        """See `InputBuffer`. Only rank 0 does it."""

    def _asked(self, what: str, without: Any) -> Any:
        return _asked(f"{self._track}.{what}", without)


def _asked(key: str, without: Any) -> Any:
    """Return the answer of rank 0 in this call; outside of a call, `without`."""
    answers = IN_CALL.get()
    return without if answers is None else answers.take(key)


def _read(found: Any) -> list[InputFrame] | None:
    raised, value = found
    if raised:
        raise READ_ERRORS[raised](value)
    if value is None:
        return None
    return [InputFrame(np.frombuffer(data, kind).reshape(shape).copy(), pts) for shape, kind, data, pts in value]
