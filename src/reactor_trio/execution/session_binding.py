"""What the runtime puts on a model instance: the way from author code to the session that it serves.

Code of a `run()` loop outlives sessions, so the binding must know which session a piece of it works for. That is the session
that the code last *saw*: by `connected.wait()` or `connected.is_set()`, by a return from `emit()`, or because the runtime
called it for that session. A frame computed for a session that is over is dropped, even if the next session has begun.
"""

from __future__ import annotations

import contextvars
import math
from typing import Any

import trio

from reactor_trio.concurrency import ClockHooks, ModelHost, SessionOver
from reactor_trio.errors import OutputError
from reactor_trio.execution.driven_session import DrivenSession
from reactor_trio.execution.input_queue import InputQueue
from reactor_trio.execution.turns import Turn
from reactor_trio.interface.author_code import NamesLocation, awaited_as
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.input_buffer import INPUT_BYTES, InputFrame
from reactor_trio.interface.messages import ModelMessage, message_data
from reactor_trio.media import chunk_from_output
from reactor_trio.pacing.cadence import DEFAULT_FPS, checked_fps
from reactor_trio.telemetry import Telemetry

#: the session that this code works for, since it has seen it; None if it has seen none
SEEN_SESSION: contextvars.ContextVar[DrivenSession | None] = contextvars.ContextVar("reactor_session", default=None)


class ConnectedSignal:
    """`model.connected`. Code of `run()` serves the session that it sees here."""

    def __init__(self, time: ClockHooks) -> None:
        self._time = time
        self._session: DrivenSession | None = None
        self._wakeup = trio.Event()  # set by the next change

    def change(self, session: DrivenSession | None) -> None:
        """Note that a session begins (`session`) or ends (None)."""
        self._session = session
        wakeup, self._wakeup = self._wakeup, trio.Event()
        wakeup.set()

    def is_set(self) -> bool:
        """Whether a client is connected; False as soon as it has left, also in the middle of a step."""
        SEEN_SESSION.set(self._session)
        return self._session is not None and not self._session.over

    async def wait(self) -> None:
        """Return when a client is connected. Always a checkpoint."""
        await trio.lowlevel.checkpoint()
        while not self.is_set():
            await self._wakeup.wait()
        if (costs := self._time.costs) is not None:
            await costs.run_loop_resumes()


class SessionBinding:
    """Connects one model instance with its sessions, one after the other, on the model loop.

    Args:
        fps: declared rate, or None.
        telemetry: counts and traces what happens.
        turn: how its sessions share the model thread with the sessions of other bindings; None: they do not share it.
        input_bytes: bytes of frames that may wait on each input track.
        lasting: whether the model's code goes on between its sessions.
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
        *,
        lasting: bool = False,
    ) -> None:
        self.connected = ConnectedSignal(host.time)
        self.session: DrivenSession | None = None
        #: how its sessions get the model thread
        self.turn = turn or Turn(host.time)
        self._host = host
        self._declaration = declaration
        self._class_fps = fps
        #: the rate that caps this session: declared by the class, or set since
        self.declared_fps = fps
        self._max_fps = max_fps
        self._telemetry = telemetry
        self._input_bytes = input_bytes
        self._lasting = lasting
        self.input_queue = InputQueue(
            host, declaration, telemetry, self._input_read, self._input_arrived, self._input_ended, input_bytes,
            self._input_awaited,
        )  # fmt: skip
        self.inputs = self.input_queue.inputs
        if lasting:
            self.input_queue.open()

    @property
    def output_buffer(self) -> SessionBinding:
        """This object: it has the methods of both."""
        return self

    @property
    def state(self) -> Any:
        """The session's state, None without a session."""
        return self.session.state if self.session is not None else None

    def set_state(self, state: Any) -> None:
        """Replace the state of the current session."""
        assert self.session is not None, "there is no session"
        self.session.state = state

    def like_this(self, turn: Turn) -> SessionBinding:
        """A binding for a copy of the loaded model, whose sessions get the model thread by `turn`."""
        return SessionBinding(
            self._host, self._declaration, self._class_fps, self._max_fps, self._telemetry, turn, self._input_bytes,
            lasting=self._lasting,
        )  # fmt: skip

    def retire(self) -> None:
        """Let go of the input: this binding is a session's own, and that is over. Author code may keep its model."""
        self.input_queue.retire()

    # ---- the life of a session; see `LifeBinding` ---------------------------------------------------------------------

    def begin(self, session: DrivenSession) -> None:
        """Serve this session from now on."""
        self.session = session

    def connect(self) -> None:
        """Set `connected`."""
        self.connected.change(self.session)

    def disconnect(self) -> None:
        """Clear `connected`."""
        self.connected.change(None)

    def close_output(self) -> None:
        """Release whoever waits for room, and queue nothing more: the session is over."""
        assert self.session is not None
        self.session.output_pacer.close()

    def close_inputs(self) -> None:
        """Close the input tracks: readers get BufferClosed."""
        self.input_queue.close()

    def end(self) -> None:
        """Forget the session, which is over. The model returns to the rate that its class declares, unless it goes on."""
        self.disconnect()
        self.session = None
        if not self._lasting:
            self.declared_fps = self._class_fps
            self.turn.leave()

    # ---- the output buffer --------------------------------------------------------------------------------------------

    @property
    def fps(self) -> float:
        """Frames per second at which frames are played now."""
        if self.session is not None:
            return self.session.output_pacer.fps
        return min(self.declared_fps or DEFAULT_FPS, self._max_fps)

    def set_fps(self, fps: float) -> None:
        """Replace the declared rate at once. Raises ValueError unless it is a finite number above 0."""
        self.declared_fps = checked_fps(fps)
        if self.session is not None:
            self.session.output_pacer.set_fps(fps)

    @property
    def chosen_fps(self) -> float | None:
        """The rate of `set_fps`; None: the declared one holds."""
        return None if self.declared_fps == self._class_fps else self.declared_fps

    def choose_fps(self, fps: float | None) -> None:
        """Set the rate as `set_fps` does; None: have the declared one hold again."""
        if fps != self.chosen_fps:
            self.declared_fps = self._class_fps if fps is None else fps
            if self.session is not None:
                self.session.output_pacer.set_fps(self.declared_fps)

    def count_drop(self, place: str, reason: str, frames: int) -> None:
        """Count frames that the model's side dropped. Any thread may call it."""
        self._host.post_io(self._telemetry.dropped, place, reason, frames)

    def loaded(self, fps: float | None, max_fps: float) -> None:
        """Note the rates that the model declares after its load. An `fps` that `load` has set holds in each session."""
        self._max_fps = max_fps
        if self.declared_fps == self._class_fps:
            self.declared_fps = fps
        self._class_fps = self.declared_fps

    def flush(self) -> None:
        """Drop what is queued and show one black frame."""
        if self.session is not None:
            self.session.output_pacer.flush(self.session.step, black=True)

    def clear(self) -> None:
        """Drop what is queued; the last picture stays on screen."""
        if self.session is not None:
            self.session.output_pacer.flush(self.session.step, black=False)

    # ---- the session --------------------------------------------------------------------------------------------------

    @awaited_as("self.emit(output)")
    async def emit(self, output: object, compute_time: float | None, drop: bool) -> None:
        """Queue a frame for the session that this code has seen; drop it if that is over."""
        await trio.lowlevel.checkpoint()
        session = self._seen()
        try:
            with NamesLocation():
                chunk = chunk_from_output(output, self._declaration.outputs)
                compute_time = _checked_compute_time(compute_time)
            if session is not None and not session.over:
                await session.emit(chunk, compute_time, drop)
                return
            self.count_drop("model", "no_client", chunk.length)
            if self.session is None or self.session.over:  # also while a session ends: a loop must not spin
                await trio.sleep(1 / self.fps)
        finally:
            SEEN_SESSION.set(self.session)

    async def send(self, message: ModelMessage) -> None:
        """Send a message to the clients of the session that this code has seen, or of the current one."""
        data = message_data(message)
        await trio.lowlevel.checkpoint()
        session = self._seen() or self.session
        if session is not None:
            await session.tell(type(message).__reactor_type__, data)

    def cancelled(self) -> bool:
        """Whether the session that this code has seen, or else the current one, is over; true without one."""
        session = self._seen() or self.session
        return session is None or session.over

    def check_cancelled(self) -> None:
        """Raise SessionOver if `cancelled()`."""
        if self.cancelled():
            raise SessionOver

    def _seen(self) -> DrivenSession | None:
        """The session that this code has seen; the current one if it saw one of another binding, of several sessions."""
        session = SEEN_SESSION.get()
        return session if session is None or session.binding is self else self.session

    def _input_read(self, frame: InputFrame) -> None:
        """Code that reads a frame works for the session in which the frame came."""
        SEEN_SESSION.set(self.session)
        if self.session is not None:
            self.session.output_pacer.input_pts_us = round(frame.pts * 1e6)

    def _input_arrived(self) -> None:
        if self.session is not None and self.session.driver is not None:
            self.session.driver.input_arrived()

    def _input_awaited(self, waits: bool) -> None:
        if self.session is not None:
            self.session.calls.waits_for_input(waits)

    def _input_ended(self) -> None:
        if self.session is not None and self.session.driver is not None:
            self.session.driver.input_ended()


class SharedBinding:
    """The binding of a loaded model whose sessions have copies of it: it forwards to the session of the calling code.

    An object that `load` made may keep the loaded model; through this binding it still reaches the right session.
    """

    def __init__(self, unserved: SessionBinding) -> None:
        self._unserved = unserved

    def __getattr__(self, name: str) -> Any:
        session = SEEN_SESSION.get()
        return getattr(self._unserved if session is None else session.binding, name)


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
