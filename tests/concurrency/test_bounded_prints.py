"""What author code prints in a process of ours: bounded by lines and characters a second, and what is left out is said."""

from __future__ import annotations

import logging
import sys

import trio
import trio.testing

from reactor_trio.concurrency.bounded_prints import CHARACTERS, LINES, bounded_prints

#: the line that prints below
PRINT = f"{__file__}:21"


async def test_a_flood_of_lines_is_bounded_and_said_once_in_ten_seconds(autojump_clock, capsys, caplog):
    with bounded_prints():
        for second in range(12):
            for line in range(LINES + 50):
                print(second, line)
            await trio.sleep(1.5)
    await trio.testing.wait_all_tasks_blocked()
    assert capsys.readouterr().out.count("\n") == 12 * LINES
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert [line.partition(",")[0] for line in said] == [
        f"the model prints too much at {PRINT}: 50 lines are left out",
        f"the model prints too much at {PRINT}: 350 lines are left out",
        f"the model prints too much at {PRINT}: 200 lines are left out",
    ]
    assert said[0].endswith("(docs/reference/errors.md#prints)")


async def test_a_line_of_megabytes_is_cut(autojump_clock, capsys, caplog):
    with bounded_prints():
        print("x" * (CHARACTERS + 7))
        print("not shown")
        await trio.sleep(2)
        print("shown")
    assert capsys.readouterr().out == "x" * CHARACTERS + " ...\nshown\n"


async def test_who_prints_little_is_not_bounded_and_the_streams_come_back(autojump_clock, capsys, caplog):
    out = sys.stdout
    with bounded_prints():
        for line in range(10 * LINES):
            print(line)
            await trio.sleep(0.02)
        assert sys.stdout is not out
    assert sys.stdout is out
    assert capsys.readouterr().out.count("\n") == 10 * LINES
    assert caplog.records == []


async def test_threads_print_too_also_after_the_end(autojump_clock, capsys):
    with bounded_prints():
        kept = sys.stdout
        await trio.to_thread.run_sync(print, "from a thread")
    await trio.to_thread.run_sync(lambda: print("late", file=kept))
    assert capsys.readouterr().out == "from a thread\nlate\n"
