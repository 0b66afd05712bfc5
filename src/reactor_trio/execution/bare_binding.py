"""`BareBinding`: the session binding of a model whose frames go to no client.

It is for a model that is stepped by hand (`offline`), and for the ranks that follow (`ranks`). There is at most one client,
and nothing is paced. Therefore nothing is queued: the binding only remembers the state and the rate.
"""

from __future__ import annotations

from typing import Any

import trio

from reactor_trio.concurrency import SessionOver
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.input_buffer import INPUT_BYTES, InputBuffer
from reactor_trio.interface.messages import ModelMessage, message_data
from reactor_trio.interface.tracks import with_buffers
from reactor_trio.pacing.cadence import checked_fps


class BareBinding:
    """Implements `interface.model.ModelBinding`, and is its own `connected` event and `output_buffer`.

    Args:
        fps: the declared rate.
        input_bytes: bytes that may wait on one track, half of them in its buffer.

    Attributes:
        fps: the rate that the model set in this session, or the declared rate.
        buffers: track -> its input buffer. The buffers are closed while there is no session.
        inputs: attribute -> an instance of the model's `Input` class with a buffer in each field.
    """

    def __init__(self, declaration: Declaration, fps: float, input_bytes: int = INPUT_BYTES) -> None:
        self.state: Any = None
        self.connected = self.output_buffer = self  # with the methods of both
        self.buffers = {
            spec.name: InputBuffer(max_bytes=input_bytes // 2) for spec in declaration.tracks if spec.direction == "in"
        }
        self.inputs = with_buffers(declaration.inputs, self.buffers)
        self.fps = self._declared_fps = fps
        self._client_there = trio.Event()
        self._over = True
        self.close_inputs()

    def begin(self) -> None:
        """Open the buffers, empty: a session begins."""
        self._over = False
        for buffer in self.buffers.values():
            buffer.reset()

    def close_output(self) -> None:
        """Note that the session is over: `cancelled` is true from now on."""
        self._over = True

    def close_inputs(self) -> None:
        """Close the buffers: readers get BufferClosed."""
        for buffer in self.buffers.values():
            buffer.close()

    def connect(self) -> None:
        """Set `connected`."""
        self._client_there.set()

    def disconnect(self) -> None:
        """Clear `connected`."""
        if self._client_there.is_set():  # else it is the event that tasks wait for
            self._client_there = trio.Event()

    def end(self) -> None:
        """End the session: drop its state and its rate."""
        self.disconnect()
        self.state = None
        self.fps = self._declared_fps

    def loaded(self, fps: float) -> None:
        """Take over the rate that the model declares after its load, unless `load` has set one."""
        if self.fps == self._declared_fps:
            self.fps = fps
        self._declared_fps = self.fps

    def set_state(self, state: Any) -> None:
        """Keep the state of the session."""
        self.state = state

    def is_set(self) -> bool:
        """Whether a client is connected."""
        return self._client_there.is_set()

    async def wait(self) -> None:
        """Return when a client is connected."""
        await self._client_there.wait()

    def set_fps(self, fps: float) -> None:
        """Set the rate until the session ends."""
        self.fps = checked_fps(fps)

    @property
    def chosen_fps(self) -> float | None:
        """The rate of `set_fps`; None: the declared one holds."""
        return None if self.fps == self._declared_fps else self.fps

    def choose_fps(self, fps: float | None) -> None:
        """Set the rate as `set_fps` does; None: have the declared one hold again."""
        self.fps = self._declared_fps if fps is None else fps

    def flush(self) -> None:
        """Do nothing: there is no queue."""

    clear = flush

    async def emit(self, output: object, compute_time: float | None, drop: bool) -> None:
        """Discard the frames."""
        await trio.lowlevel.checkpoint()

    async def send(self, message: ModelMessage) -> None:
        """Discard the message. Raises what it raises under the server."""
        message_data(message)
        await trio.lowlevel.checkpoint()

    def cancelled(self) -> bool:
        """Whether the session is over, or none has begun."""
        return self._over

    def check_cancelled(self) -> None:
        """Raise SessionOver if `cancelled()`."""
        if self.cancelled():
            raise SessionOver
