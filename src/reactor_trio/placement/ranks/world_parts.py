"""A rank's part of a world on its way to rank 0 and back, over the link between the two."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from reactor_trio.crossing.messages import WorldPiece
from reactor_trio.crossing.socket_link import MessageLink
from reactor_trio.crossing.world_pieces import WorldPieces, pieces_of_world
from reactor_trio.placement.ranks.rank_messages import WorldPartPiece


def send_part(link: MessageLink, packed: Sequence[memoryview]) -> None:
    """Send a part that is packed into these views. For the model thread; returns when the other end has nearly all of it."""
    for piece in pieces_of_world(packed):
        link.send(WorldPartPiece(piece.data.tobytes(), piece.rest))


def add_piece(part: WorldPieces, piece: WorldPartPiece) -> bool:
    """Add a piece that has come; whether it was the last one of the part."""
    return part.add(WorldPiece(np.frombuffer(piece.data, np.uint8), piece.rest))
