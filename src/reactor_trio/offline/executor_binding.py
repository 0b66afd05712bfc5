"""What a pipeline under `PipelineExecutor` reaches of the runtime: the attributes and methods of the server's port.

There is one client at most and nothing is paced, so nothing is queued: a rate is only remembered, and what the model
sends is collected in a list. All of it belongs to the model's thread.
"""

from __future__ import annotations

from typing import Any

import trio

from reactor_trio.concurrency import SessionOver
from reactor_trio.errors import ReactorError
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.input_buffer import InputBuffer
from reactor_trio.interface.messages import ModelMessage, message_data
from reactor_trio.interface.tracks import Input
from reactor_trio.pacing.cadence import DEFAULT_FPS, checked_fps


class _Connected:
    """`model.connected` of the one client that there may be."""

    def __init__(self) -> None:
        self._event = trio.Event()

    def change(self, there: bool) -> None:
        """The client has come, or left."""
        if there:
            self._event.set()
        elif self._event.is_set():
            self._event = trio.Event()

    def is_set(self) -> bool:
        """Whether the client is there."""
        return self._event.is_set()

    async def wait(self) -> None:
        """Return when it is."""
        await self._event.wait()


class ExecutorBinding:
    """Stands on the model in place of the server's port; `execution.session_binding.SessionBinding` says what each means to
    an author.

    Attributes:
        declared_fps: the rate that the model's class declares.
        sent: what the model has sent, until the executor takes it.
        buffers: the input tracks' buffers, by track.
        inputs: the model's `Input` classes with a buffer in each field, by attribute.
    """

    def __init__(self) -> None:
        self.connected = _Connected()
        self.state: Any = None
        self.sent: list[ModelMessage] = []
        self.declared_fps = DEFAULT_FPS
        self._fps: float | None = None
        self.buffers: dict[str, InputBuffer] = {}
        self.inputs: dict[str, Input] = {}

    def open_inputs(self, declaration: Declaration) -> None:
        """Make the buffers; they are closed until somebody connects."""
        self.buffers = {spec.name: InputBuffer() for spec in declaration.tracks if spec.direction == "in"}
        for attribute, cls in declaration.inputs.items():
            fields: dict[str, Any] = {spec.name: self.buffers[spec.name] for spec in cls.__reactor_tracks__}
            self.inputs[attribute] = cls(**fields)
        self.close_inputs()

    def close_inputs(self) -> None:
        """Who reads, or waits to read, gets BufferClosed."""
        for buffer in self.buffers.values():
            buffer.close()

    def begin(self, state: Any) -> None:
        """A session begins: buffers empty and open, `connected` set."""
        for buffer in self.buffers.values():
            buffer.reset()
        self.state = state
        self.connected.change(True)

    def end(self) -> None:
        """The session is over: no state, and the declared rate again."""
        self.state = None
        self._fps = None

    def set_state(self, state: Any) -> None:
        """Replace the state of who is connected."""
        self.state = state

    @property
    def output_buffer(self) -> ExecutorBinding:
        """This object answers for it."""
        return self

    @property
    def fps(self) -> float:
        """The rate set, or declared."""
        return self._fps or self.declared_fps

    def set_fps(self, fps: float) -> None:
        """Replace the rate until the session ends. Raises ValueError unless it is a finite number above 0."""
        self._fps = checked_fps(fps)

    def flush(self) -> None:
        """Nothing is queued here."""

    def clear(self) -> None:
        """Nothing is queued here."""

    async def emit(self, output: object, compute_time: float | None, drop: bool) -> None:
        """Raises ReactorError: a pipeline yields."""
        raise ReactorError("emit() is for a ReactorModel's run(); PipelineExecutor gives what inference() yields")

    async def send(self, message: ModelMessage) -> None:
        """Collect a message."""
        message_data(message)  # raises what the server's send raises
        await trio.lowlevel.checkpoint()
        self.sent.append(message)

    def cancelled(self) -> bool:
        """Whether nobody is connected."""
        return not self.connected.is_set()

    def check_cancelled(self) -> None:
        """Raise if nobody is connected."""
        if self.cancelled():
            raise SessionOver
