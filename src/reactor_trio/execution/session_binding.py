"""What the runtime puts on a model instance: the one way from author code to the session that it serves.

Code of a `run()` loop outlives sessions, so it must be known which session a piece of it works for. It is the session that
the code last *saw*: by `connected.wait()`, by `connected.is_set()`, by coming back from `emit()`, or because the runtime
called it for one. A frame computed for a session that is over goes nowhere, even if the next one has begun.
"""

from __future__ import annotations

import contextvars
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import trio

from reactor_trio.concurrency import ModelHost, SessionOver
from reactor_trio.concurrency.repeated_event import RepeatedEvent
from reactor_trio.errors import OutputError
from reactor_trio.execution.drivers.turns import NoTurns, Turn
from reactor_trio.execution.input_queue import InputQueue
from reactor_trio.interface.author_code import NamesPlace
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.input_buffer import INPUT_BYTES, InputFrame
from reactor_trio.interface.messages import ModelMessage, message_data
from reactor_trio.interface.tracks import Input
from reactor_trio.media import chunk_from_output
from reactor_trio.pacing.cadence import DEFAULT_FPS, checked_fps
from reactor_trio.telemetry import Telemetry

if TYPE_CHECKING:
    from reactor_trio.execution.session_runner import SessionRunner

_SEEN: contextvars.ContextVar[SessionRunner | None] = contextvars.ContextVar("reactor_session", default=None)


class ConnectedSignal:
    """`model.connected`. Looking at it is what tells `run()` code which session it serves."""

    def __init__(self) -> None:
        self._runner: SessionRunner | None = None
        self._wakeup = RepeatedEvent()

    def change(self, runner: SessionRunner | None) -> None:
        """A session begins (`runner`) or ends (None)."""
        self._runner = runner
        self._wakeup.set()

    def is_set(self) -> bool:
        """Whether a client is there; False at once when it has left, also in the middle of a step."""
        _SEEN.set(self._runner)
        return self._runner is not None and not self._runner.over

    async def wait(self) -> None:
        """Return when a client is there. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while not self.is_set():
            await self._wakeup.wait()


class SessionBinding:
    """The port of one model instance.

    Args:
        fps: declared rate, or None.
        telemetry: counts and traces what happens.
        turn: how its sessions share the model thread with those of other ports; None: they do not.
        input_bytes: bytes of frames that may wait on each input track.
    """

    def __init__(
        self,
        host: ModelHost,
        declaration: Declaration,
        fps: float | None,
        max_fps: float,
        telemetry: Telemetry,
        turn: Turn | None = None,
        input_bytes: int = INPUT_BYTES,
    ) -> None:
        self.connected = ConnectedSignal()
        self.runner: SessionRunner | None = None
        #: how its sessions come to the model thread
        self.turn: Turn = turn or NoTurns(host.time)
        self._host = host
        self._declaration = declaration
        self._class_fps = fps
        self._declared_fps = fps
        self._max_fps = max_fps
        self._telemetry = telemetry
        self.input_queue = InputQueue(
            host, declaration, telemetry, self._input_read, self._input_arrived, self._input_ended, input_bytes,
            self._input_awaited,
        )  # fmt: skip

    @property
    def output_buffer(self) -> SessionBinding:
        """The queue between the model and its viewers; this object answers for it."""
        return self

    @property
    def state(self) -> Any:
        """The session's state, None without a session."""
        return self.runner.state if self.runner is not None else None

    def set_state(self, state: Any) -> None:
        """Give the session, which there is, another state."""
        assert self.runner is not None, "there is no session"
        self.runner.state = state

    @property
    def inputs(self) -> Mapping[str, Input]:
        """By attribute: the model's `Input` classes with a buffer in each field."""
        return self.input_queue.inputs

    # ---- the output buffer --------------------------------------------------------------------------------------------

    @property
    def declared_fps(self) -> float | None:
        """The rate that caps this session: declared by the class, or set since."""
        return self._declared_fps

    @property
    def fps(self) -> float:
        """Frames per second at which frames are played now."""
        if self.runner is not None:
            return self.runner.output_pacer.fps
        return min(self._declared_fps or DEFAULT_FPS, self._max_fps)

    def set_fps(self, fps: float) -> None:
        """Replace the declared rate at once. Raises ValueError unless it is a finite number above 0."""
        self._declared_fps = checked_fps(fps)
        if self.runner is not None:
            self.runner.output_pacer.set_fps(fps)

    def forget_fps(self) -> None:
        """A pipeline's session is over: what the class declares holds again."""
        self._declared_fps = self._class_fps

    def flush(self) -> None:
        """Drop what is queued and show one black frame."""
        if self.runner is not None:
            self.runner.output_pacer.flush(self.runner.step, black=True)

    def clear(self) -> None:
        """Drop what is queued; the last picture stays."""
        if self.runner is not None:
            self.runner.output_pacer.flush(self.runner.step, black=False)

    # ---- the session --------------------------------------------------------------------------------------------------

    async def emit(self, output: object, compute_time: float | None, drop: bool) -> None:
        """See `ReactorModel.emit`."""
        await trio.lowlevel.checkpoint()
        runner = self._seen()
        try:
            with NamesPlace():
                chunk = chunk_from_output(output, self._declaration.outputs)
                compute_time = _checked_compute_time(compute_time)
            if runner is not None and not runner.over:
                await runner.emit(chunk, compute_time, drop)
                return
            self._host.post_io(self._telemetry.dropped, "model", "no_client", chunk.length)
            if self.runner is None or self.runner.over:  # also while a session is said goodbye: a loop must not spin
                await trio.sleep(1 / self.fps)
        finally:
            _SEEN.set(self.runner)

    async def send(self, message: ModelMessage) -> None:
        """See `ReactorModel.send`."""
        data = message_data(message)
        await trio.lowlevel.checkpoint()
        runner = self._seen() or self.runner
        if runner is not None and not runner.closed:
            runner.tell(type(message).__reactor_type__, data, None)

    def cancelled(self) -> bool:
        """See `ReactorModel.cancelled`."""
        runner = self._seen() or self.runner
        return runner is None or runner.over

    def check_cancelled(self) -> None:
        """See `ReactorModel.check_cancelled`."""
        if self.cancelled():
            raise SessionOver

    def _seen(self) -> SessionRunner | None:
        """The session that this code has seen. One of another port says nothing: code may work for several sessions."""
        runner = _SEEN.get()
        return runner if runner is None or runner.binding is self else self.runner

    def _input_read(self, frame: InputFrame) -> None:
        """Who reads a frame works for the session that it came in."""
        _SEEN.set(self.runner)
        if self.runner is not None:
            self.runner.output_pacer.input_pts_us = round(frame.pts * 1e6)

    def _input_arrived(self) -> None:
        if self.runner is not None:
            self.runner.input_arrived()

    def _input_awaited(self, waits: bool) -> None:
        if self.runner is not None:
            self.runner.calls.waits_for_input(waits)

    def _input_ended(self) -> None:
        if self.runner is not None:
            self.runner.input_ended()


class SharedBinding:
    """The port of a model of which each session has a copy of its own: that of the session which the calling code serves.

    What `load` made may have kept the model that was loaded, and reaches the right session by it all the same.
    """

    def __init__(self, unserved: SessionBinding) -> None:
        self._unserved = unserved

    def __getattr__(self, name: str) -> Any:
        runner = _SEEN.get()
        return getattr(self._unserved if runner is None else runner.binding, name)


def _checked_compute_time(seconds: Any) -> float | None:
    """As a float. Raises OutputError."""
    if seconds is None:
        return None
    try:
        good, given = math.isfinite(seconds) and seconds >= 0, repr(seconds)
    except (TypeError, ValueError, RuntimeError, OverflowError):  # RuntimeError: a tensor of several values
        good, given = False, type(seconds).__name__
    if not good:
        raise OutputError(f"compute_time: expected seconds, a finite number of 0 or more, got {given}")
    return float(seconds)


def serve_session(runner: SessionRunner | None) -> None:
    """Code that runs in this context from now on works for `runner`."""
    _SEEN.set(runner)


def observed_runner() -> SessionRunner | None:
    """Which session author code works for; None if it has seen none."""
    return _SEEN.get()
