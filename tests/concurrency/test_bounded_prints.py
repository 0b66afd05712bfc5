"""What author code prints in a process of ours: bounded by lines and characters a second, and what is left out is said."""

from __future__ import annotations

import io
import logging
import sys

import trio
import trio.testing

from reactor_trio.concurrency.bounded_prints import CHARACTERS, LINES, bounded_prints

#: the line that prints below
PRINT = f"{__file__}:35"


class Screen(logging.Handler):
    """A terminal: both streams and the log write to it. The log's lines are shown as `[...]`."""

    def __init__(self, monkeypatch):
        super().__init__()
        self.text = io.StringIO()
        monkeypatch.setattr(sys, "stdout", self.text)
        monkeypatch.setattr(sys, "stderr", self.text)

    def emit(self, record):
        self.text.write(f"[{record.getMessage().partition(',')[0]}]\n")


async def test_a_flood_of_lines_is_bounded_and_said_once_in_five_seconds(autojump_clock, capsys, caplog):
    with bounded_prints():
        for _ in range(18):
            for _ in range(LINES + 50):
                print("many")
            await trio.sleep(0.7)
    await trio.testing.wait_all_tasks_blocked()
    assert capsys.readouterr().out.count("\n") == 3 * LINES  # at 0, 5.6 and 10.5 s
    said = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    begin = f"the model prints too much at {PRINT}: "
    assert [line.partition(" are left out")[0] for line in said] == [
        f"{begin}200 lines, 1000 characters",
        f"{begin}950 lines, 4750 characters",
        f"{begin}950 lines, 4750 characters",
        f"{begin}300 lines, 1500 characters",
    ]
    assert said[0].endswith(
        " are left out, since 100 lines or 8000 characters a second are shown, and while it goes on, in 5 s. Print less "
        "often, and no tensors in a step (docs/reference/errors.md#prints)"
    )


async def test_a_line_of_megabytes_is_cut(autojump_clock, capsys, caplog):
    with bounded_prints():
        print("x" * (CHARACTERS + 7))
        print("not shown")
        await trio.sleep(5.5)
        print("shown")
    assert capsys.readouterr().out == "x" * CHARACTERS + " ...\nshown\n"
    assert "2 lines, 18 characters are left out" in caplog.text


async def test_a_print_of_many_lines_is_cut_with_a_mark(autojump_clock, capsys):
    with bounded_prints():
        print("row\n" * (10 * LINES))
        print("not shown")
    assert capsys.readouterr().out == "row\n" * LINES + " ...\n"


async def test_the_warning_begins_a_line_and_is_the_last_on_the_screen_while_the_flood_lasts(autojump_clock, monkeypatch):
    screen = Screen(monkeypatch)
    tensor = "\n".join(["[0.5]"] * (LINES + 50))
    logging.getLogger("reactor_trio.model").addHandler(screen)
    try:
        with bounded_prints():
            for _ in range(70):
                print("latent", tensor)
                await trio.sleep(0.1)
            at_7_s = screen.text.getvalue().splitlines()
    finally:
        logging.getLogger("reactor_trio.model").removeHandler(screen)
    shown = ["latent [0.5]", *["[0.5]"] * (LINES - 1), " ..."]
    first, second = [place for place, line in enumerate(at_7_s) if line.startswith("[the model prints too much")]
    assert at_7_s[:first] == shown
    assert at_7_s[first + 1 : second] == shown
    assert second == len(at_7_s) - 1


async def test_a_line_of_the_other_stream_ends_before_the_warning(autojump_clock, monkeypatch):
    screen = Screen(monkeypatch)
    logging.getLogger("reactor_trio.model").addHandler(screen)
    try:
        with bounded_prints():
            print("row\n" * (2 * LINES))
            print("progress 5 %", end="", file=sys.stderr)
            await trio.sleep(2)
    finally:
        logging.getLogger("reactor_trio.model").removeHandler(screen)
    assert "progress 5 %\n[the model prints too much" in screen.text.getvalue()


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
