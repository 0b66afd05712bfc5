"""Log lines of a model's process that the server does not read, and what else it does not read."""

from __future__ import annotations

import logging
import socket

import pytest
import trio

from reactor_trio.crossing import socket_link
from reactor_trio.crossing.socket_link import SocketLink
from reactor_trio.placement.isolation import ipc_messages
from reactor_trio.placement.isolation.log_lines import MOST_BYTES, MOST_LINES, LinkHandler, follow_levels, set_levels


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
    logger.setLevel(logging.NOTSET)


async def received(link: SocketLink, sender: SocketLink, until: str) -> list[str]:
    lines: list[str] = []
    with trio.fail_after(10):
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


async def test_warnings_take_the_place_of_lower_lines_that_wait(links, logger):
    mine, theirs = links
    logger.addHandler(LinkHandler(mine))
    logger.setLevel(logging.DEBUG)
    logger.warning("first")
    for number in range(MOST_LINES + 50):
        logger.info("chatter %d", number)
    logger.error("grave")
    for number in range(MOST_LINES):
        logger.warning("line %d", number)
    logger.info("late chatter")
    await trio.testing.wait_all_tasks_blocked()
    logger.info("last")
    lines = await received(theirs, mine, "last")
    gone = 51 + MOST_LINES - 1 + 2 + 1  # lower lines that found no room or gave theirs, warnings without room, the late one
    assert lines[0] == f"first (before it, {gone} log lines were dropped: the server did not take them)"
    assert lines[1:4] == ["grave", "line 0", "line 1"]
    assert lines[-2:] == [f"line {MOST_LINES - 3}", "last"]


async def test_warnings_take_the_place_of_lower_lines_also_where_these_are_full_of_bytes(links, logger):
    mine, theirs = links
    logger.addHandler(LinkHandler(mine))
    logger.setLevel(logging.DEBUG)
    for number in range(9):
        logger.info(f"{number} " + "x" * (MOST_BYTES // 8))
    logger.warning("grave " + "x" * (MOST_BYTES // 2 - 4000))  # in the place of line 0; line 8 has found none
    logger.warning("last")
    lines = await received(theirs, mine, "last")
    assert [line[0] for line in lines] == [*"4567", "g", "l"]


async def test_warnings_find_room_in_a_link_that_lower_lines_have_filled(links, logger):
    mine, theirs = links
    logger.addHandler(LinkHandler(mine))
    logger.setLevel(logging.DEBUG)
    for _ in range(20):
        logger.info("x" * (MOST_BYTES // 8))
        await trio.testing.wait_all_tasks_blocked()
    logger.error("grave")
    logger.info("chatter")
    await trio.testing.wait_all_tasks_blocked()
    logger.error("last")
    await trio.testing.wait_all_tasks_blocked()
    lines = await received(theirs, mine, "last")
    assert [line[:5] for line in lines[-2:]] == ["grave", "last "]


async def test_the_levels_of_this_process_hold_in_another_one_and_those_below_them_are_not_made(links, logger, monkeypatch):
    other = logging.getLogger("test_log_lines.other")
    logger.setLevel(logging.ERROR)
    given = set_levels()
    assert given["root"] == logging.root.level
    assert given["test_log_lines"] == logging.ERROR
    assert "test_log_lines.other" not in given
    logger.setLevel(logging.NOTSET)
    follow_levels(given)
    assert not other.isEnabledFor(logging.WARNING)
    monkeypatch.setattr(logging.root.manager, "disable", logging.ERROR)
    assert set_levels()["root"] == set_levels()["test_log_lines"] == logging.ERROR + 1


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
