"""A world on its way between two processes: in pieces of a bounded window, whole or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from reactor_trio.crossing.file_pieces import CommandLane
from reactor_trio.crossing.messages import Answer, Command, PiecesTaken, WorldPiece, WorldToSave
from reactor_trio.crossing.world_pieces import PIECE, WorldArrivals, WorldLane, WorldPieces, pieces_of_world
from reactor_trio.errors import CommandError

BYTES = np.arange(10 * PIECE + 77, dtype=np.uint64).astype(np.uint8)
#: as a header and two blobs
PARTS = [BYTES[:5000].data, BYTES[5000 : 3 * PIECE].data, BYTES[3 * PIECE :].data]
ANSWER = Answer((1,), 3, crosses=WorldToSave(2, 0.5, len(BYTES)))


def whole(pieces: list[WorldPiece]) -> bool:
    return b"".join(piece.data.tobytes() for piece in pieces) == BYTES.tobytes()


def test_four_mebibytes_are_under_way_to_the_server_and_the_rest_follows_what_is_taken():
    sent: list[WorldPiece] = []
    lane = WorldLane(sent.append)
    lane.put(PARTS)
    assert sum(len(piece.data) for piece in sent) == 4 * PIECE
    for taken in range(1, 12):
        assert max(len(piece.data) for piece in sent) == PIECE
        lane.taken(PiecesTaken(1, len(sent[taken - 1].data)))
    assert whole(sent)
    assert sent[-1].rest == 0


async def test_a_world_comes_whole_and_is_taken_once():
    reports: list[PiecesTaken] = []
    arrivals = WorldArrivals(reports.append)
    arriving = arrivals.begin(ANSWER)
    for piece in pieces_of_world(PARTS):
        arrivals.take(piece)
    assert (arriving.step, arriving.age, arriving.size) == (2, 0.5, len(BYTES))
    assert (await arriving.data()).tobytes() == BYTES.tobytes()
    assert sum(report.size for report in reports) >= len(BYTES) - PIECE


@pytest.mark.parametrize("wrong", ["nothing", "another size", "another type", "more than there is"])
async def test_a_world_that_does_not_come_whole_fails_and_the_next_one_comes(wrong, autojump_clock):
    arrivals = WorldArrivals(lambda report: None)
    arriving = arrivals.begin(ANSWER)
    first, second, *_ = pieces_of_world(PARTS)
    arrivals.take(first)
    match wrong:
        case "nothing":
            arrivals.close()
        case "another size":
            arrivals.take(WorldPiece(second.data, second.rest - 1))
        case "another type":
            arrivals.take(WorldPiece(second.data.view(np.uint16), second.rest))
        case "more than there is":
            arrivals.take(WorldPiece(second.data, -1))
    with pytest.raises(CommandError) as raised:
        await arriving.data()
    assert raised.value.code == "store_failed"
    for piece in list(pieces_of_world(PARTS))[3:]:
        arrivals.take(piece)  # of the lost one
    again = arrivals.begin(ANSWER)
    for piece in pieces_of_world(PARTS):
        arrivals.take(piece)
    assert (await again.data()).tobytes() == BYTES.tobytes()


def test_a_command_waits_behind_its_world_and_others_behind_it():
    sent: list[object] = []
    lane = CommandLane(sent.append)
    lane.put(Command(1, 1, "reactor.restore", {}, 1), PARTS)
    lane.put(Command(2, 1, "jump", {}, 2))
    pieces = WorldPieces()
    while not (sent and isinstance(sent[-1], Command)):
        came, sent[:] = list(sent), []
        assert sum(len(each.data) for each in came if isinstance(each, WorldPiece)) <= 9 * PIECE
        for each in came:
            assert isinstance(each, WorldPiece)
            pieces.add(each)
            lane.taken(PiecesTaken(1, len(each.data)))
        if not came:
            raise AssertionError("nothing goes on")
    assert [each.number for each in sent if isinstance(each, Command)][-2:] == [1, 2]
    for each in sent:
        if isinstance(each, WorldPiece):
            pieces.add(each)
    assert pieces.take().tobytes() == BYTES.tobytes()
