"""The model's side of a session in another process: a `ModelSession` whose calls become IPC messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import msgspec
import trio

from reactor_trio.execution.command_queue import Command
from reactor_trio.execution.isolation import ipc_messages
from reactor_trio.execution.isolation.input_lanes import InputLanes
from reactor_trio.execution.isolation.shared_frames import FrameExchange
from reactor_trio.execution.mailbox import Mailbox
from reactor_trio.execution.model_session import PlayoutSide, SessionEvents
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.media import Bundle
from reactor_trio.protocol import EndReason
from reactor_trio.telemetry import Telemetry


def _nothing(_what: str, _since: float) -> None:
    """Tell no one of a call that takes too long."""


@dataclass(eq=False)
class RemoteModelSession:
    """See `ModelSession`. `receive` gets the other process's messages about the session; `lost` says that it is gone.

    Args:
        client: number and joining time of the controlling client.
        send: sends a message; without effect if the process is gone.
        frames: the frames that the two processes share.
        input_bytes: see `InputLanes`.
        telemetry: counts dropped input frames.
        over: called when the model has let go of the session.
    """

    session_id: str
    client: tuple[int, float]
    send: Callable[[object], None]
    frames: FrameExchange
    input_bytes: int
    telemetry: Telemetry
    over: Callable[[], object]
    mailbox: Mailbox = field(default_factory=lambda: Mailbox(_at_once, asleep=True), init=False)
    raised: BaseException | None = field(default=None, init=False)
    reason: EndReason = field(default="done", init=False)
    #: messages from before `run`: `BeginSession` must be the first
    _early: list[object] | None = field(default_factory=list, init=False)
    _ended: trio.Event = field(default_factory=trio.Event, init=False)
    _left: str = field(default="", init=False)
    _late: Callable[[str, float], object] = field(default=_nothing, init=False)

    def __post_init__(self) -> None:
        self._lanes = InputLanes(self._show, partial(self.telemetry.dropped, "input"), self.input_bytes)

    def connect(self, session: SessionEvents, playout: PlayoutSide) -> None:
        """See `ModelSession`."""
        self._session, self._playout = session, playout

    async def run(self) -> BaseException | None:
        """See `ModelSession`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        early, self._early = self._early or [], None
        for message in [ipc_messages.BeginSession(self.session_id, *self.client), *early]:
            self._send(message)
        self._lanes.open()
        try:
            await self._ended.wait()
        except trio.Cancelled:
            self._send(ipc_messages.EndSession(self.session_id))
            with trio.CancelScope(shield=True):
                await self._ended.wait()
            if self.raised is None:
                raise
        return self.raised

    def close(self) -> None:
        """See `ModelSession`. The session and its playout refer to this object."""
        self._lanes.close()
        self.mailbox.clear()
        del self._session, self._playout
        if self._early is not None:
            self.over()

    async def watch(self, tell: Callable[[str, float], object]) -> None:
        """See `ModelSession`. The other process logs the call, and sends `LateCall`."""
        self._late = tell
        try:
            await trio.sleep_forever()
        finally:
            self._late = _nothing
            tell("", 0.0)

    def stack(self) -> str:
        """See `ModelSession`."""
        self._send(ipc_messages.LogStack(self.session_id))
        return "(its own process writes that to the log, if it still can)"

    def what_is_left(self) -> str:
        """See `ModelSession`."""
        return "its model side has not unwound" if self._early is None and not self._ended.is_set() else self._left

    # ---- to the model -------------------------------------------------------------------------------------------------

    def command(self, command: Command) -> None:
        """See `ModelSession`."""
        self._send(ipc_messages.CommandArrived(self.session_id, msgspec.structs.replace(command, arguments={})))

    def pause(self, paused: bool) -> None:
        """See `ModelSession`."""
        self._send(ipc_messages.SetPaused(self.session_id, paused))

    def take_input(self, track: str, frame: InputFrame) -> None:
        """See `ModelSession`."""
        self._lanes.put(track, frame)

    def _show(self, track: str, frame: InputFrame) -> None:
        plane = self.frames.show(frame.data)
        self._send(ipc_messages.InputFrameArrived(
            self.session_id, track, plane, frame.pts, frame.metadata, frame.capture_time_us
        ))  # fmt: skip

    def limit(self, fps: float) -> None:
        """See `ModelSession`."""
        self._send(ipc_messages.SetFpsLimit(self.session_id, fps))

    def handed(self, until: float, epoch: int, *, wake: bool) -> None:
        """See `ModelSession`."""
        self.frames.return_unused()
        self._send(ipc_messages.BundleShown(self.session_id, until, epoch, wake))

    def shown(self, until: float) -> None:
        """See `ModelSession`."""
        self._send(ipc_messages.ShownUntil(self.session_id, until))

    # ---- from the model -----------------------------------------------------------------------------------------------

    def put(self, bundle: Bundle) -> None:
        """Queue a bundle that has come."""
        self.mailbox.post_lazily(self._playout.put, bundle)

    def receive(self, message: Any) -> None:
        """Process any other message about this session."""
        match message:
            case ipc_messages.InputFramesTaken(_, track, frames):
                self._lanes.taken(track, frames)
            case ipc_messages.FlushPlayout(_, epoch):
                self.mailbox.post(self._playout.flush, epoch)
            case ipc_messages.RetimePlayout(_, interval):
                self.mailbox.post(self._playout.retime, interval)
            case ipc_messages.FramesDropped(_, place, reason, frames):
                self.mailbox.post(self._playout.count_drop, place, reason, frames)
            case ipc_messages.ModelAnswered(_, answer):
                answer = msgspec.structs.replace(answer, reply=msgspec.Raw(answer.reply))
                self.mailbox.post(self._session.answered, answer)
            case ipc_messages.StateValuesChanged(_, values):
                self.mailbox.post_lazily(self._session.state_changed, values)
            case ipc_messages.ModelMessageSent(_, type_, data, client):
                self.mailbox.post(self._session.tell, type_, msgspec.Raw(data), client)
            case ipc_messages.LateCall(_, what, since):
                self._late(what, since)
            case ipc_messages.SessionUnwound(_, failure, left):
                self._left = left
                self._end(None if failure is None else failure.error())
            case _:
                raise AssertionError(f"{message!r} is not about a session")

    def lost(self) -> None:
        """End the session: its process is gone."""
        self.reason = "model_restarting"
        self._end(None)

    def _end(self, error: BaseException | None) -> None:
        self.raised = error
        self._lanes.close()
        self.over()
        self._ended.set()

    def _send(self, message: object) -> None:
        (self.send if self._early is None else self._early.append)(message)


def _at_once(deliver: Callable[[], object]) -> None:
    """Deliver now: IPC messages come on the session's own loop."""
    deliver()
