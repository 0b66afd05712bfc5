"""Uploaded files on their way to a model's process that takes nothing for a while, over a real socket pair."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.testing

from reactor_trio.crossing import socket_link
from reactor_trio.crossing.file_pieces import PIECE, PIECES, CommandLane, FilePieces
from reactor_trio.crossing.flow_window import FlowReports
from reactor_trio.crossing.messages import BeginSession, Command, FilePiece, PiecesTaken, SetWatched
from reactor_trio.crossing.socket_link import SocketLink
from reactor_trio.interface import UploadedFile
from reactor_trio.memory.shared_mapping import new_shared_mapping
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.isolation.remote_session_run import RemoteSessionRun
from reactor_trio.placement.isolation.shared_frames import SERVER, FrameExchange
from reactor_trio.telemetry import Telemetry

MIB = 1024 * 1024
SESSIONS = (1, 2, 3)


def file_of(size: int) -> UploadedFile:
    return UploadedFile("film.bin", "video/raw", bytes(range(251)) * (size // 251) + bytes(size % 251))


def upload(number: int, file: UploadedFile | None = None) -> Command:
    files = {} if file is None else {f"u{number}": file, f"v{number}": file}
    return Command(number, 1, "look_at", {"file": file}, number, 0.0, b"{}", files, number)


def test_eight_mebibytes_are_under_way_and_each_second_one_is_reported() -> None:
    sent: list[FilePiece] = []
    CommandLane(sent.append).put(upload(1, file_of(9 * MIB)))
    assert sum(len(piece.data) for piece in sent) == 8 * MIB
    reports = FlowReports(PIECES)
    assert [reports.took(len(piece.data)) for piece in sent[:16]] == [*[None] * 7, (8, 2 * MIB)] * 2


class Pair:
    """A server with some sessions, and its model's process, which receives when the test says so."""

    def __init__(self, frames: FrameExchange, ours: SocketLink, theirs: SocketLink) -> None:
        self.ours, self.theirs = ours, theirs
        self.runs = {number: RemoteSessionRun(
            BeginSession(str(number), 1, 0.0), lambda message, number=number: ours.send(message, number), MIB,
            Telemetry(), lambda: None,
        ) for number in SESSIONS}  # fmt: skip
        self.commands: dict[int, list[Command]] = {number: [] for number in SESSIONS}
        self.others: list[object] = []
        self._files = {number: FilePieces() for number in SESSIONS}
        self._reports = {number: FlowReports(PIECES) for number in SESSIONS}
        for number, run in self.runs.items():
            run.channel.begin(BeginSession(str(number), 1, 0.0))

    def take(self, message: object, session: int) -> None:
        match message:
            case FilePiece():
                self._files[session].add(message)
                if report := self._reports[session].took(len(message.data)):
                    self.theirs.send(PiecesTaken(*report), session)
            case Command():
                self._files[session].give(message.files)
                self.commands[session].append(message)
            case _:
                self.others.append(message)


@pytest.fixture
async def pair(monkeypatch):
    """The link may have 32 MiB."""
    monkeypatch.setattr(socket_link, "MOST_UNSENT", 32 * MIB)
    first, second = socket.socketpair()
    with new_shared_mapping("test-frames", 64 * MIB) as (memory, _):
        ours, theirs = SocketLink(first, ipc_messages.FromProcess), SocketLink(second, ipc_messages.ToProcess)
        yield Pair(FrameExchange(memory, SERVER, ours.send), ours, theirs)
        ours.close()
        theirs.close()


@pytest.mark.parametrize("sessions", [SESSIONS[:1], SESSIONS])
async def test_files_that_are_larger_than_the_link_may_hold_cross_whole_and_in_order(pair, sessions):
    """The process takes nothing at first. Then come two commands with a file, a plain one before each and after them."""
    file = file_of(20 * MIB + 7)
    for session in sessions:
        for command in upload(1), upload(2, file), upload(3), upload(4, file), upload(5):
            pair.runs[session].channel.send(command)
        pair.runs[session].channel.send(SetWatched(True))
    assert pair.ours.unsent <= len(sessions) * (PIECES.size + PIECE)
    async with trio.open_nursery() as nursery:
        for link in pair.ours, pair.theirs:
            nursery.start_soon(link.run)
        nursery.start_soon(pair.theirs.receive, pair.take)
        nursery.start_soon(pair.ours.receive, lambda message, session: pair.runs[session].channel.deliver(message))
        with trio.fail_after(60):
            while any(len(pair.commands[session]) < 5 for session in sessions):
                await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    for session in sessions:
        assert [command.number for command in pair.commands[session]] == [1, 2, 3, 4, 5]
        assert [list(command.files) for command in pair.commands[session]] == [[], ["u2", "v2"], [], ["u4", "v4"], []]
        assert all(got == file for command in pair.commands[session] for got in command.files.values())
    assert pair.others.count(SetWatched(True)) == len(sessions)


async def test_what_is_no_command_waits_for_no_file_and_after_the_session_nothing_is_sent(pair):
    run, sent = pair.runs[1], []
    run.channel.commands._send = sent.append
    run.channel.send(upload(1, file_of(20 * MIB)))
    run.channel.send(upload(2))
    assert {type(message) for message in sent} == {FilePiece}
    assert sum(len(piece.data) for piece in sent) == PIECES.size
    run.close()
    run.channel.deliver(PiecesTaken(len(sent), PIECES.size))
    assert sum(len(piece.data) for piece in sent) == PIECES.size
