"""The run of a session whose model is in another process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, Literal

import msgspec
import trio

from reactor_trio.crossing.channel import ChannelEnd, DroppedMessages, Handlers
from reactor_trio.crossing.file_pieces import CommandLane
from reactor_trio.crossing.input_lanes import InputLanes
from reactor_trio.crossing.messages import (
    Answer,
    BeginSession,
    Command,
    EndSession,
    InputArrived,
    InputTaken,
    LateCall,
    LogStack,
    PiecesTaken,
    SessionClosed,
    WorldPiece,
    WorldToPut,
)
from reactor_trio.crossing.world_pieces import WorldArrivals
from reactor_trio.execution.landing import LoadedWorld
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.protocol import EndReason
from reactor_trio.telemetry import Telemetry

#: the command that puts a saved world
RESTORE: Final = "reactor.restore"


class SocketEnd(ChannelEnd):
    """See `ChannelEnd`. No message waits here to be taken: link and session have one loop.

    Args:
        send: sends a message about this session.
        of_process: which function takes a message that only the process of a model sends.
    """

    def __init__(self, send: Callable[[object], None], of_process: Handlers) -> None:
        self._send = send
        self._of_process = of_process
        self.asleep = True
        self._dropped = DroppedMessages()
        self.commands = CommandLane(send)
        #: made for the first world that comes
        self.worlds: WorldArrivals | None = None
        self._state: Literal["early", "begun", "closed"] = "early"
        #: messages from before `begin`: `BeginSession` must be the first
        self._early: list[object] = []

    def begin(self, message: BeginSession) -> None:
        """Send this message, then those that came before."""
        self._state, early, self._early = "begun", self._early, []
        if any(isinstance(each, Command) and each.name == RESTORE for each in early):
            message = msgspec.structs.replace(message, at_world=True)
        for each in [message, *early]:
            self.send(each)

    @property
    def begun(self) -> bool:
        """Whether the other process knows the session."""
        return self._state == "begun"

    def send(self, message: Any) -> None:
        """Send the message to the process, a command behind the pieces of its files; keep it until `begin`."""
        if self._state == "early":
            self._early.append(message)
            return
        if self._state == "closed":
            self._dropped.messages += 1
            return
        if isinstance(message, Command):
            world: Sequence[memoryview] = ()
            if message.name == RESTORE:  # a fork of a saved world only names it
                loaded: LoadedWorld = message.arguments["loaded"]
                world, about = loaded.parts, WorldToPut(loaded.why, loaded.version, loaded.warnings)
                message = msgspec.structs.replace(message, world=about)
            message = msgspec.structs.replace(message, arguments={})  # `data` has them
            if message.files or world or self.commands.waiting:
                self.commands.put(message, world)
                return
        self._send(message)

    def take(self) -> None:
        """Nothing waits here."""

    def deliver(self, message: Any) -> None:
        """Have a message taken at once. One that no process sends about a session is ignored."""
        if self._state == "closed":
            self._dropped.messages += 1
            return
        if type(message) is Answer and message.crosses is not None:
            self.worlds = self.worlds or WorldArrivals(self._send)
            message = msgspec.structs.replace(message, world=self.worlds.begin(message), crosses=None)
        if handler := self._handlers.get(type(message)) or self._of_process.get(type(message)):
            handler(message)

    def close(self) -> None:
        """Drop what waits here and every later message."""
        self._dropped.messages += len(self._early) + len(self.commands.waiting)
        self._state, self._handlers, self._of_process, self._early = "closed", {}, {}, []
        self.commands.close()
        if self.worlds is not None:
            self.worlds.close()


class RemoteSessionRun:
    """See `SessionRun`. Its channel gets what the model's process sends about the session; `lost` says that this is gone.

    Args:
        begin: the first message of the session.
        send: sends a message about this session; without effect if the process is gone.
        input_bytes: see `InputLanes`.
        telemetry: counts dropped input frames.
        over: called when the model has let go of the session.
    """

    def __init__(
        self,
        begin: BeginSession,
        send: Callable[[object], None],
        input_bytes: int,
        telemetry: Telemetry,
        over: Callable[[], object],
    ) -> None:
        self._begin = begin
        self._send = send
        self._over = over
        self.raised: BaseException | None = None
        self.failed_hook = ""
        self._fault: BaseException | None = None
        self.reason: EndReason = "done"
        self._ended = trio.Event()
        of_process: Handlers = {
            InputTaken: self._input_taken, PiecesTaken: self._pieces_taken, WorldPiece: self._world_piece,
            SessionClosed: self._closed,
        }  # fmt: skip
        self.channel = SocketEnd(send, of_process)
        self._lanes = InputLanes(self._send_input, partial(telemetry.dropped, "input"), input_bytes)

    async def run(self) -> None:
        """Run the session in the other process, which logs a call that takes too long; return when it has ended there.

        Raises a fault of the runtime in the other process.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        self.channel.begin(self._begin)
        self._lanes.open()
        try:
            await self._ended.wait()
        except trio.Cancelled:
            self._send(EndSession())
            with trio.CancelScope(shield=True):
                await self._ended.wait()
            if self.raised is None and self._fault is None:
                raise
        finally:
            self.channel.deliver(LateCall("", 0.0))
        if self._fault is not None:
            raise self._fault

    def close(self) -> None:
        """Let go of the session, which refers to this object."""
        self._lanes.close()
        if not self.channel.begun:
            self._over()
        self.channel.close()

    def stack(self) -> str:
        """Have the other process log the stack."""
        self._send(LogStack())
        return "(its own process writes that to the log, if it still can)"

    def take_input(self, track: str, frame: InputFrame) -> None:
        """Send the frame, or keep it until there is room under way."""
        self._lanes.put(track, frame)

    def _send_input(self, track: str, frame: InputFrame) -> None:
        self.channel.send(InputArrived(track, frame.data, frame.pts, frame.metadata, frame.capture_time_us))

    # ---- from the model's process -------------------------------------------------------------------------------------

    def _input_taken(self, message: InputTaken) -> None:
        self._lanes.taken(message.track, message.frames, message.size)

    def _pieces_taken(self, message: PiecesTaken) -> None:
        self.channel.commands.taken(message)

    def _world_piece(self, message: WorldPiece) -> None:
        if self.channel.worlds is not None:
            self.channel.worlds.take(message)

    def _closed(self, message: SessionClosed) -> None:
        self.failed_hook = message.failed_hook
        self._fault = None if message.fault is None else message.fault.error()
        self._end(None if message.failure is None else message.failure.error())

    def lost(self) -> None:
        """End the session: its process is gone."""
        self.reason = "model_restarting"
        self._end(None)

    def _end(self, error: BaseException | None) -> None:
        self.raised = error
        self._lanes.close()
        if self.channel.worlds is not None:
            self.channel.worlds.close()
        self._over()
        self._ended.set()
