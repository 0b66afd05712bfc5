"""The model's process between the server and one session of its model: it passes each message on."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import msgspec
import trio

from reactor_trio.concurrency import HostClosed, strip
from reactor_trio.crossing.failures import Failure
from reactor_trio.crossing.file_pieces import PIECES, FilePieces
from reactor_trio.crossing.flow_window import FlowReports
from reactor_trio.crossing.input_lanes import FRAMES
from reactor_trio.crossing.messages import (
    BundleShown,
    Command,
    EndSession,
    FilePiece,
    InputArrived,
    InputTaken,
    LogStack,
    PiecesTaken,
    SessionClosed,
    WorldPiece,
)
from reactor_trio.execution.session_run import FILE_UPLOADED
from reactor_trio.interface.declaration import Declaration
from reactor_trio.interface.input_buffer import InputFrame
from reactor_trio.placement.isolation.relayed_worlds import RelayedWorlds
from reactor_trio.placement.local_session_run import LocalSessionRun
from reactor_trio.protocol import PLAYBACK, playback_arguments

log = logging.getLogger("reactor_trio.model")


class SessionRelay:
    """Passes the server's messages on to a session's run, on the loop of the link; its channel passes on the answers.

    Args:
        send: sends the server a message about this session.
        worlds: those of the session; None if the model saves none.
        at_world: whether it begins at a saved world, so that its first command must come before it begins.
    """

    def __init__(
        self, run: LocalSessionRun, declaration: Declaration, send: Callable[[object], object],
        worlds: RelayedWorlds | None, at_world: bool,
    ) -> None:  # fmt: skip
        self._run = run
        self._worlds = worlds
        self._may_begin = trio.Event()
        if not at_world:
            self._may_begin.set()
        self._declaration = declaration
        self._send = send
        self._over = trio.CancelScope()
        #: the fault of the runtime that ended the session; it must not end the others
        self.fault: Exception | None = None
        self._frame_reports: dict[str, FlowReports] = {}  # by track
        self._files, self._piece_reports = FilePieces(), FlowReports(PIECES)

    async def run(self) -> None:
        """Run the session to its end; `raised` and `fault` then say what failed."""
        try:
            with self._over:
                if not self._may_begin.is_set():
                    await self._may_begin.wait()
                await self._run.run()
        except Exception as fault:
            if strip(fault, HostClosed) is None:
                await trio.sleep_forever()  # the model loop has died: this process dies of that, and the server hears why
            self.fault = fault
        finally:
            self._run.channel.take()
            self._run.close()
            if self._worlds is not None:
                self._worlds.close()

    @property
    def raised(self) -> BaseException | None:
        """What author code raised."""
        return self._run.raised

    def closed(self) -> None:
        """Tell the server that the model has let go of the session."""
        failure, fault = (None if error is None else Failure.of(error) for error in (self.raised, self.fault))
        self._send(SessionClosed(failure, fault, self._run.failed_hook))

    def receive(self, message: Any) -> None:
        """Take a message of the server."""
        match message:
            case BundleShown():  # the most frequent one comes first
                self._run.channel.send(message)
            case Command():
                self._run.channel.send(self._decoded(message))
                self._may_begin.set()
            case InputArrived():
                self._take_input(message)
            case FilePiece():
                self._files.add(message)
                self._took(message)
            case WorldPiece() if self._worlds is not None:
                self._worlds.take(message)
                self._took(message)
            case PiecesTaken() if self._worlds is not None:
                self._worlds.sent(message)
            case EndSession():
                self._over.cancel()
            case LogStack():
                log.error("session %s: it is here:\n%s", self._run.session_id, self._run.stack())
            case _:
                self._run.channel.send(message)

    # ---- inside -------------------------------------------------------------------------------------------------------

    def _took(self, piece: FilePiece | WorldPiece) -> None:
        if report := self._piece_reports.took(len(piece.data)):
            self._send(PiecesTaken(*report))

    def _take_input(self, message: InputArrived) -> None:
        """Hand over a copy of the frame, since the author may change it."""
        frame = message.frame.copy()
        self._run.take_input(message.track, InputFrame(frame, message.pts, message.metadata, message.capture_time_us))
        if (reports := self._frame_reports.get(message.track)) is None:
            reports = self._frame_reports[message.track] = FlowReports(FRAMES)
        if report := reports.took(frame.nbytes):
            self._send(InputTaken(message.track, *report))

    def _decoded(self, command: Command) -> Command:
        if command.files:
            self._files.give(command.files)
        if command.name == FILE_UPLOADED:
            hook = self._declaration.file_uploaded
            assert hook is not None
            assert hook.file_parameter is not None
            arguments: dict[str, Any] = {hook.file_parameter: next(iter(command.files.values()))}
        elif command.world is not None and self._worlds is not None:
            arguments = {"loaded": self._worlds.loaded(command)}
        elif command.name in PLAYBACK:
            arguments = playback_arguments(command.name, command.data)
        else:  # decoded where author code may run: `AuthorCalls.carry_out`
            return command
        return msgspec.structs.replace(command, arguments=arguments)
