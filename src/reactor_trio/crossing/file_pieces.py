"""Uploaded files, and a saved world, on their way to another process: in pieces, ahead of the command that they belong to.

A file may be larger than all that may wait for the other process, and several sessions may have files under way. So the
server has a window of pieces for each session (`flow_window`). A command with files or a world, and the commands behind it,
wait in its `CommandLane`. Other messages do not wait for them. `CommandLedger` bounds the commands of the client there,
`UploadStore` the files, and so the calls of `@file_uploaded`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Final

from msgspec.structs import replace

from reactor_trio.crossing.flow_window import FlowLimits, FlowWindow
from reactor_trio.crossing.messages import Command, FilePiece, PiecesTaken, WorldPiece
from reactor_trio.crossing.world_pieces import pieces_of_world
from reactor_trio.interface.files import UploadedFile

#: bytes of a piece; the last one of a file has fewer
PIECE: Final = 256 * 1024
#: of a session's pieces
PIECES: Final = FlowLimits(items=64, size=8 * 1024 * 1024, reported=16, reported_size=2 * 1024 * 1024)

Files = Mapping[str, UploadedFile]


def pieces_of(files: Files) -> Iterator[FilePiece]:
    """The pieces of files, in their order."""
    for file in files.values():
        for start in range(0, len(file.data), PIECE):
            yield FilePiece(file.data[start : start + PIECE])


def without_data(files: Files) -> dict[str, UploadedFile]:
    """The files as they cross behind their pieces."""
    return {id_: UploadedFile(file.name, file.mime_type, file.size, b"") for id_, file in files.items()}


class FilePieces:
    """The pieces that have come, and the files that are made of them."""

    def __init__(self) -> None:
        self._came: deque[bytes] = deque()

    def add(self, piece: FilePiece) -> None:
        """Keep a piece for the files of the command behind it."""
        self._came.append(piece.data)

    def give(self, files: Files) -> None:
        """Give these files their data. All their pieces have come."""
        for file in files.values():
            file.data = b"".join([self._came.popleft() for _ in range(-(-file.size // PIECE))])


class CommandLane:
    """The commands of one session on their way to the model's process, on the loop of the link. No method waits.

    Args:
        send: sends a message about the session.

    Attributes:
        waiting: commands that wait for pieces to be taken. Another command must not go past them.
    """

    def __init__(self, send: Callable[[object], object]) -> None:
        self._send = send
        self._window = FlowWindow(PIECES)
        self.waiting: deque[Command] = deque()
        #: the parts of the world that each of them puts
        self._worlds: deque[Sequence[memoryview]] = deque()
        #: pieces of the first command that waits
        self._pieces: Iterator[FilePiece | WorldPiece] = iter(())

    def put(self, command: Command, world: Sequence[memoryview] = ()) -> None:
        """Send a command behind those that wait, each behind the pieces of its files and of the world that it puts."""
        self.waiting.append(command)
        self._worlds.append(world)
        if len(self.waiting) == 1:
            self._begin_first()
        self._send_on()

    def taken(self, report: PiecesTaken) -> None:
        """Note what the model's process has taken."""
        self._window.taken(report.pieces, report.size)
        self._send_on()

    def close(self) -> None:
        """End the session: drop what waits."""
        self.waiting.clear()
        self._worlds.clear()
        self._pieces = iter(())

    def _send_on(self) -> None:
        while self.waiting and self._window.has_room:
            if (piece := next(self._pieces, None)) is not None:
                self._window.sent(len(piece.data))
                self._send(piece)
                continue
            command = self.waiting.popleft()
            self._worlds.popleft()
            self._send(replace(command, files=without_data(command.files)))
            self._begin_first()

    def _begin_first(self) -> None:
        if self.waiting:
            self._pieces = chain(pieces_of(self.waiting[0].files), pieces_of_world(self._worlds[0]))
        else:
            self._pieces = iter(())
