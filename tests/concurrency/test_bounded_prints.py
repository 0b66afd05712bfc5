"""What author code prints in a process of ours: bounded by lines and characters a second, and what is left out is said."""

from __future__ import annotations

import io
import logging
import re
import sys
from contextlib import contextmanager

import trio
import trio.testing

from reactor_trio.cli.log_output import configure_logging
from reactor_trio.concurrency.bounded_prints import CHARACTERS, LINES, bounded_prints
from reactor_trio.configuration.manifest import Manifest
from reactor_trio.configuration.settings import Settings

#: the line that prints below
PRINT = f"{__file__}:40"


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
        "often (docs/reference/errors.md#prints)"
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


async def test_one_long_line_is_counted_in_characters_and_may_be_a_tensor(autojump_clock, capsys, caplog):
    with bounded_prints():
        print("x" * 2 * CHARACTERS, end="")
        await trio.sleep(2)
    (said,) = caplog.messages
    assert f": {CHARACTERS} characters are left out, since " in said
    assert "Print less often, and no tensors in a step (docs" in said


async def test_what_is_left_out_at_the_end_is_said(autojump_clock, capsys, caplog):
    """At once, without a second in which a task would say it."""
    with bounded_prints():
        print("row\n" * (LINES + 3), end="")
    assert [line.partition(" are left")[0].rpartition(": ")[2] for line in caplog.messages] == ["3 lines, 12 characters"]


async def test_the_live_line_of_a_terminal_ends_before_what_is_printed(autojump_clock, capsys):
    stdout = sys.stdout
    with bounded_prints(before_line=lambda: print("<erased>", end="", file=stdout)):
        print("reading weights")
        print("row\n" * LINES)
        print("not shown")
    assert capsys.readouterr().out.replace("row\n", "") == "<erased>reading weights\n<erased> ...\n"


async def test_the_authors_log_is_bounded_and_a_flood_of_it_hides_no_error_and_no_line_of_ours(
    autojump_clock, monkeypatch, tmp_path
):
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    author, ours = logging.getLogger("author"), logging.getLogger("reactor_trio.session")
    with logging_to(tmp_path), bounded_prints():
        for number in range(LINES + 5):
            author.info("latent %d", number)
        author.error("no weights")
        ours.info("session begins")
        await trio.sleep(2)
    lines = screen.getvalue().splitlines()
    assert [line[20:].split()[1] for line in lines[:LINES]] == [str(number) for number in range(LINES)]
    assert [line[9:].rstrip() for line in lines[LINES : LINES + 2]] == [
        "[error   ] no weights                     model=mine", "[info    ] session begins                 model=mine",
    ]  # fmt: skip
    (said,) = lines[LINES + 2 :]
    assert re.search(rf"prints too much at {re.escape(__file__)}:\d+: 5 lines, 55 characters are left out", said)


async def test_a_flood_of_tracebacks_in_the_authors_log_is_bounded(autojump_clock, monkeypatch, tmp_path):
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with logging_to(tmp_path), bounded_prints():
        for _ in range(1000):
            try:
                raise ValueError("no weights")
            except ValueError:
                logging.getLogger("author").exception("step failed")
    shown, traceback = screen.getvalue().count("step failed"), 5  # lines of one, with its message
    assert shown == LINES / traceback
    assert f": {traceback * (1000 - shown)} lines, " in screen.getvalue()


async def test_a_record_that_cannot_be_formatted_does_not_raise_where_it_is_logged(autojump_clock, monkeypatch, tmp_path):
    screen = io.StringIO()
    monkeypatch.setattr(sys, "stderr", screen)
    with logging_to(tmp_path), bounded_prints():
        logging.getLogger("author").info("%d latents", "ten")
    assert "--- Logging error ---" in screen.getvalue()


@contextmanager
def logging_to(folder):
    """The log of `reactor run`, on `sys.stderr`."""
    handlers, level = logging.root.handlers[:], logging.root.level
    configure_logging(Manifest(folder, "model:M", "mine", {}, Settings()), as_json=False, debug=False)
    try:
        yield
    finally:
        logging.basicConfig(handlers=handlers, level=level, force=True)
