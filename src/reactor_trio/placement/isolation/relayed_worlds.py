"""Saved worlds of one session in the model's process: captured ones on their way to the server, and those that are put."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from reactor_trio.crossing.messages import Answer, Command, PiecesTaken, WorldPiece, WorldToSave
from reactor_trio.crossing.world_pieces import WorldLane, WorldPieces
from reactor_trio.errors import CommandError
from reactor_trio.execution.landing import LoadedWorld


class RelayedWorlds:
    """The worlds of one session, on the loop of the link.

    Args:
        send: sends the server a message about the session.
    """

    def __init__(self, send: Callable[[object], object]) -> None:
        self._send = send
        self._lane = WorldLane(send)
        self._pieces = WorldPieces()

    def send(self, answer: Answer) -> None:
        """Send the answer to a save, and then its world, for which nothing waits."""
        from reactor_trio.worlds.unsigned import pack_unsigned  # late: models without Saves import none of it

        world = answer.world
        try:
            parts = pack_unsigned(world)
        except CommandError as error:
            self._send(msgspec.structs.replace(answer, world=None, code=error.code, message=error.message))
            return
        self._send(msgspec.structs.replace(answer, world=None, crosses=WorldToSave(world.step, world.age, world.size)))
        self._lane.put(parts)

    def sent(self, report: PiecesTaken) -> None:
        """Note what the server has taken."""
        self._lane.taken(report)

    def take(self, piece: WorldPiece) -> None:
        """Take a piece of a world that a command puts."""
        self._pieces.add(piece)

    def loaded(self, command: Command) -> LoadedWorld:
        """The world that this command puts. All its pieces have come."""
        assert command.world is not None
        why, version, warnings = command.world.why, command.world.version, command.world.warnings
        return LoadedWorld(version, warnings, data=self._pieces.take(), why=why)

    def close(self) -> None:
        """End the session: drop what is not sent."""
        self._lane.close()
