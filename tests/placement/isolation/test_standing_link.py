"""Log lines of a model's process that the server does not read, and what else it does not read."""

from __future__ import annotations

import logging
import socket

import pytest
import trio

from reactor_trio.crossing import socket_link
from reactor_trio.crossing.socket_link import SocketLink
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.isolation.log_lines import MOST_BYTES, MOST_LINES, LinkHandler


@pytest.fixture
async def links():
    """Both ends of a link; the test receives at the second one, or does not."""
    ours, theirs = socket.socketpair()
    first, second = SocketLink(ours, ipc_messages.ToProcess), SocketLink(theirs, ipc_messages.FromProcess)
    yield first, second
    first.close()
    second.close()


@pytest.fixture
def logger():
    logger = logging.getLogger("test_log_lines")
    logger.propagate = False
    yield logger
    logger.handlers.clear()


async def received(link: SocketLink, sender: SocketLink, until: str) -> list[str]:
    lines: list[str] = []
    async with trio.open_nursery() as nursery:

        def heard(message, *_descriptor):
            lines.append(message.message)
            if message.message.startswith(until):
                nursery.cancel_scope.cancel()

        nursery.start_soon(sender.run)
        await link.receive(heard)
    return lines


async def test_a_line_that_utf_8_cannot_encode_comes_with_question_marks(links):
    mine, theirs = links
    handler = LinkHandler(mine)
    for text in ("the file \udcff", "last"):
        handler.emit(logging.makeLogRecord({"name": "x", "levelno": logging.INFO, "msg": text}))
    assert await received(theirs, mine, "last") == ["the file ?", "last"]


async def test_a_record_that_cannot_be_formatted_is_reported_as_logging_does(links, capsys):
    mine, _theirs = links
    LinkHandler(mine).emit(logging.makeLogRecord({"name": "x", "levelno": logging.INFO, "msg": "%d", "args": ("no",)}))
    assert "--- Logging error ---" in capsys.readouterr().err


async def test_lines_that_the_loop_does_not_take_are_dropped_and_counted_in_the_next(links, logger):
    mine, theirs = links
    logger.addHandler(LinkHandler(mine))
    for number in range(MOST_LINES + 50):
        logger.warning("line %d", number)
    await trio.testing.wait_all_tasks_blocked()
    logger.warning("last")
    lines = await received(theirs, mine, "last")
    assert lines[:2] == ["line 0 (before it, 50 log lines were dropped: the server did not take them)", "line 1"]
    assert len(lines) == MOST_LINES + 1


async def test_lines_are_bounded_in_bytes_also_in_the_link(links, logger):
    mine, _theirs = links
    logger.addHandler(LinkHandler(mine))
    for _ in range(100):
        for _ in range(10):
            logger.warning("x" * (MOST_BYTES // 8))
        await trio.testing.wait_all_tasks_blocked()
    assert mine.unsent <= 3 * MOST_BYTES


async def test_a_link_to_a_process_that_reads_nothing_is_cut(links, monkeypatch, caplog):
    monkeypatch.setattr(socket_link, "MOST_UNSENT", 4 * 1024 * 1024)
    mine, theirs = links
    for _ in range(10_000):
        mine.send(ipc_messages.LoadReported(None, "x" * 1000))
        assert mine.unsent <= 4 * 1024 * 1024 + 2000
    assert mine.unsent == 0
    assert "has not read the last 4 MiB" in caplog.text
    with trio.fail_after(10):
        await mine.receive(lambda *_message: None)
        await theirs.receive(lambda *_message: None)
