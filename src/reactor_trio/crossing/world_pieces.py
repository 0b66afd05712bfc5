"""A world on its way between two processes: in pieces, which lie in the memory that both map, as frames do.

A saved world goes to the model's process ahead of the command that puts it (`file_pieces`). A captured one comes to the
server behind the answer to its save, so that no answer waits for it. Either way its window bounds what is under way, and the
receiver copies each piece at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import trio

from reactor_trio.crossing.flow_window import FlowLimits, FlowReports, FlowWindow
from reactor_trio.crossing.messages import Answer, PiecesTaken, WorldPiece, WorldToSave
from reactor_trio.errors import CommandError

#: the bytes of a world, packed by the other process (`worlds.unsigned`)
PackedWorld: TypeAlias = np.ndarray[Any, np.dtype[np.uint8]]
#: bytes of a piece at most: a longer one would keep the loops that copy it from their frames
PIECE: Final = 1024 * 1024
#: of a session's pieces on their way to the server
PIECES: Final = FlowLimits(items=64, size=4 * PIECE, reported=16, reported_size=PIECE)


def pieces_of_world(parts: Sequence[memoryview]) -> Iterator[WorldPiece]:
    """The pieces of a world that is packed into these parts, in their order."""
    rest = sum(map(len, parts))
    for part in parts:
        for start in range(0, len(part), PIECE):
            piece = np.frombuffer(part[start : start + PIECE], np.uint8)
            rest -= len(piece)
            yield WorldPiece(piece, rest)


class WorldPieces:
    """The pieces of one world that have come, each copied to its place."""

    def __init__(self) -> None:
        self._data: PackedWorld | None = None
        self._filled = 0

    def add(self, piece: WorldPiece) -> bool:
        """Copy a piece; whether it was the last one. Raises ValueError if it is no piece of this world, or MemoryError."""
        if self._data is None:
            self._data = np.empty(len(piece.data) + piece.rest, np.uint8)
        end = self._filled + len(piece.data)
        if piece.data.dtype != np.uint8 or piece.data.ndim != 1 or end + piece.rest != len(self._data):
            raise ValueError("no piece of this world")
        self._data[self._filled : end] = piece.data
        self._filled = end
        return piece.rest == 0

    def take(self) -> PackedWorld:
        """Take the whole world out: what comes next is another one."""
        assert self._data is not None
        data, self._data, self._filled = self._data, None, 0
        return data


class WorldLane:
    """The worlds of one session on their way to the server, on the loop of the link. No method waits.

    Args:
        send: sends a message about the session.
    """

    def __init__(self, send: Callable[[object], object]) -> None:
        self._send = send
        self._window = FlowWindow(PIECES)
        self._pieces: Iterator[WorldPiece] = iter(())

    def put(self, parts: Sequence[memoryview]) -> None:
        """Send the world that is packed into these parts. One is under way at a time."""
        self._pieces = pieces_of_world(parts)
        self._send_on()

    def taken(self, report: PiecesTaken) -> None:
        """Note what the server has taken."""
        self._window.taken(report.pieces, report.size)
        self._send_on()

    def close(self) -> None:
        """End the session: drop what is not sent."""
        self._pieces = iter(())

    def _send_on(self) -> None:
        while self._window.has_room and (piece := next(self._pieces, None)) is not None:
            self._window.sent(len(piece.data))
            self._send(piece)


class ArrivingWorld:
    """A captured world, whose bytes come from the model's process.

    Attributes:
        step, age, size: see `World`.
    """

    def __init__(self, about: WorldToSave) -> None:
        self.step, self.age, self.size = about.step, about.age, about.size
        self._data: PackedWorld | None = None
        self._over = trio.Event()

    async def data(self) -> PackedWorld:
        """Return the packed world when all of it has come. Raises CommandError `store_failed` if it does not come."""
        await self._over.wait()
        if self._data is None:
            raise CommandError("store_failed", "the world did not come whole from the model's process, and is not saved")
        data, self._data = self._data, None
        return data

    def came(self, data: PackedWorld | None) -> None:
        """Note that all of it has come, or that it does not come any more."""
        self._data = data
        self._over.set()


class WorldArrivals:
    """The world of one session that comes from the model's process, on the loop of the link.

    Args:
        send: sends a message about the session.
    """

    def __init__(self, send: Callable[[object], object]) -> None:
        self._send = send
        self._reports = FlowReports(PIECES)
        self._pieces = WorldPieces()
        self._arriving: ArrivingWorld | None = None

    def begin(self, answer: Answer) -> ArrivingWorld:
        """The world of this answer, whose pieces follow."""
        assert answer.crosses is not None
        self.close()
        self._arriving = ArrivingWorld(answer.crosses)
        return self._arriving

    def take(self, piece: WorldPiece) -> None:
        """Take a piece."""
        if report := self._reports.took(len(piece.data)):
            self._send(PiecesTaken(*report))
        if self._arriving is None:
            return
        try:
            if self._pieces.add(piece):
                self._arriving.came(self._pieces.take())
                self._arriving = None
        except (ValueError, MemoryError):
            self.close()

    def close(self) -> None:
        """No piece comes any more, so that a world that is not whole is lost."""
        self._pieces = WorldPieces()
        if self._arriving is not None:
            self._arriving.came(None)
            self._arriving = None
