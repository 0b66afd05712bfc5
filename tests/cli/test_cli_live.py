"""The live view of `reactor client`: its drawing, its line editor, and the whole on a terminal with a real server."""

from __future__ import annotations

import fcntl
import io
import math
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pytest
import trio
import trio.testing
from rich.console import Console
from tests.support.cli_doubles import ON_A_TERMINAL, SOURCE, reactor
from tests.support.forked_command import ForkedCommand
from websockets.sync.client import connect

from reactor_trio.cli.key_input import KeyLine
from reactor_trio.cli.live_screen import Snapshot, draw, harmless, sparkline, thumbnail
from reactor_trio.cli.live_view import LiveView
from reactor_trio.cli.terminal import Terminal
from reactor_trio.client import Message
from reactor_trio.client.statistics import Latency, Spread, Statistics, TrackStatistics, spread
from reactor_trio.protocol import TrackInfo

#: Seconds that a process may take until it shows something.
PATIENCE = 120.0
NONE = Spread(0, math.nan, math.nan, math.nan)


# --- the drawing ------------------------------------------------------------------------------------------------------


def look(**changed):
    shares = Latency(*(Spread(3, 0.0, part / 1000, 2 * part / 1000) for part in range(1, 8)))
    track = TrackStatistics(90, 2, 12345, 30.0, spread([0.03, 0.04]), 1, 0, (0.03, 0.04))
    given = {
        "name": "demo", "session_id": "abc123", "role": "control",
        "tracks": [TrackInfo(0, "main_video", "video", "out", "h264", width=640, height=480)],
        "statistics": Statistics(
            {"main_video": track}, Spread(3, 0.0, 0.001, 0.002), Spread(3, 0.0, 0.033, 0.05), 0, shares
        ),
        "bitrates": {"main_video": 2_500_000.0}, "seconds": 75.0,
    }  # fmt: skip
    return Snapshot(**(given | changed))


def drawn(look, width=120, height=40):
    """Return the lines of a screen of this size, without trailing blanks."""
    console = Console(file=io.StringIO(), force_terminal=True, width=width, height=height, record=True)
    console.print(draw(look, width, height))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_the_figures_of_a_session():
    lines = drawn(look())
    assert lines[0] == "demo  session abc123  control  1:15"
    assert lines[2].split() == ["track", "codec", "fps", "jitter", "p95", "missing", "dropped", "Mbit/s", "intervals"]
    assert lines[3].split() == [
        "main_video", "h264", "640x480", "30.0", "5.0", "ms", "39.5", "ms", "2", "1", "2.50", "▄▅",
    ]  # fmt: skip
    assert lines[5] == "command to ack     1.0/2.0 ms  (p50/p95 of 3)"
    assert lines[6] == "command to picture 33.0/50.0 ms  (p50/p95 of 3)"
    assert lines[7].startswith("wait 1.0/2.0  step 2.0/4.0  queue 3.0/6.0  encode 4.0/8.0  network ")


def test_before_the_first_frame_and_command():
    empty = Statistics({"main_video": TrackStatistics(0, 0, 0, 0.0, NONE)}, NONE, NONE)
    lines = drawn(look(statistics=empty, bitrates={}))
    assert lines[3].split() == ["main_video", "h264", "640x480", "0.0", "-", "-", "0", "0", "0.00"]
    assert lines[5] == "no commands yet, so no latency"


def test_the_live_view_shows_warnings_commands_messages_and_typed_text():
    lines = drawn(
        look(warnings=["reactor.ending {}"], commands=["set_x=1: applied"], messages=["score 5"], typed="set_y=0.")
    )
    assert lines[1] == "! reactor.ending {}"
    assert lines[-5:] == ["> set_y=0.", "commands", "  set_x=1: applied", "messages", "  score 5"]
    assert drawn(look(typed=""))[-1].startswith(">    set_field=0.5, jump={x: 1} or reset, then Enter")


def test_escape_sequences_and_markup_of_the_server_are_shown_as_text():
    lines = drawn(look(name="a\x1b[2Jb\x9b1m[red]c", messages=["\x1b]0;title\x07"]))
    assert "\x1b" not in "".join(lines)
    assert lines[0].startswith("a�[2Jb�1m[red]c  session")
    assert harmless("x\r\ny") == "x��y"


@pytest.mark.parametrize(("width", "height"), [(120, 40), (90, 30), (60, 24), (20, 5)])
def test_no_line_is_wider_than_the_terminal(width, height):
    lines = drawn(look(messages=["m" * 500], typed="x" * 300, picture=np.zeros((48, 64, 3), np.uint8)), width, height)
    assert max(map(len, lines)) <= width
    if width < 80:
        assert lines[2].startswith("main_video 30.0 fps")
        assert lines[3] == "▄▅"


def test_a_sparkline_shows_a_stall_as_its_highest_bar():
    assert sparkline([]) == ""
    assert sparkline([0.0, 0.0]) == "▁▁"
    assert sparkline([0.033] * 5) == "▅▅▅▅▅"
    assert sparkline([0.033] * 5 + [0.5]) == "▁▁▁▁▁█"
    assert len(sparkline([0.033] * 300)) == 30


def test_a_thumbnail_keeps_the_ratio_and_the_colours():
    picture = np.zeros((480, 640, 3), np.uint8)
    picture[:, 320:] = (200, 100, 50)
    small = thumbnail(picture, 80, 40)
    assert small.shape == (40, 53, 3)
    assert (small[:, :26] == 0).all()
    assert (small[:, 27:] == (200, 100, 50)).all()
    assert thumbnail(picture, 10_000, 10_000).shape == (480, 640, 3)
    assert thumbnail(picture[:1, :1], 80, 40).shape == (2, 1, 3)


def test_the_picture_fills_the_remaining_rows():
    picture = np.full((480, 640, 3), (1, 2, 3), np.uint8)
    console = Console(file=io.StringIO(), force_terminal=True, width=80, height=24, color_system="truecolor")
    console.print(draw(look(picture=picture), 80, 24))
    text = console.file.getvalue()
    assert text.count("\n") == 24
    assert "\r\x1b[38;2;1;2;3;48;2;1;2;3m▀▀▀▀" in text
    without = Console(file=io.StringIO(), width=80, height=24)
    without.print(draw(look(picture=picture), 80, 24))
    assert "\x1b" not in without.file.getvalue()


class FakeTerminal(io.StringIO):
    def isatty(self):
        return True


async def test_a_line_is_printed_around_the_view_and_shown_in_it(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    out = FakeTerminal()
    view = LiveView(Terminal(out), lambda line: (line, {}), keys=io.StringIO())
    client = SimpleNamespace(
        name="demo", session_id="abc", role="viewer", tracks=[], statistics=lambda: Statistics({}, NONE, NONE),
        messages=lambda: events(),
    )  # fmt: skip

    async def events():
        view.report("ending (idle) in 30 s")
        for _ in range(3):
            await trio.testing.wait_all_tasks_blocked()
        return
        yield

    view.report("before")
    await view.run(client)
    view.report("after")
    shown = re.sub(r"\x1b\[[\d;]*m", "", out.getvalue())
    assert shown.startswith("before\n")
    assert "! ending (idle) in 30 s" in shown
    assert shown.endswith("after\n")


async def test_of_a_long_message_only_what_a_screen_shows_is_kept(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    lengths = []

    def measuring(snapshot, _width, _height):
        lengths.extend(len(line) for lines in (snapshot.warnings, snapshot.commands, snapshot.messages) for line in lines)
        return ""

    async def events():
        view.report("w" * 1_000_000)
        yield Message("reactor.error", {"text": "e" * 1_000_000})
        yield Message("story", {"text": "m" * 1_000_000})
        await trio.testing.wait_all_tasks_blocked()
        view.report("another")
        await trio.testing.wait_all_tasks_blocked()

    monkeypatch.setattr("reactor_trio.cli.live_view.draw", measuring)
    view = LiveView(Terminal(FakeTerminal()), lambda line: (line, {}), keys=io.StringIO())
    figures = Statistics({}, NONE, NONE)
    await view.run(SimpleNamespace(
        name="demo", session_id="abc", role="viewer", tracks=[], statistics=lambda: figures, messages=events
    ))  # fmt: skip
    assert set(lengths) == {1000, len("another")}
    assert len(harmless("n" * 1_000_000)) == 1000


# --- the line editor --------------------------------------------------------------------------------------------------


def typed(*chunks):
    entered = []
    line = KeyLine(entered.append, lambda: None)
    for chunk in chunks:
        line.type(chunk)
    return line.text, entered


@pytest.mark.parametrize(
    ("chunks", "text", "entered"),
    [
        (["set_x", "=0.5"], "set_x=0.5", []),
        (["reset\r"], "", ["reset"]),
        (["a\rb\rc"], "c", ["a", "b"]),
        (["ab\x7f\x7f\x7fc"], "c", []),
        (["abc\x15d"], "d", []),
        (["  \r"], "", []),
        (["a\x1b[Cb\x1bOHc\x1b[3~d\x1b"], "abcd", []),
        (["a\r", "\x1b", "[A"], "a", ["a"]),
        (["a\rb\r", "\x1b[", "A", "\x1bO", "A"], "a", ["a", "b"]),
        (["a\x1b[3", "~b\x1b", "c"], "abc", []),
        (["\x1b[" + "0" * 50, "0"], "[" + "0" * 51, []),
        (["\x01\x02é\x00"], "é", []),
        (["a\rb\r", "\x1b[A\x1b[A"], "a", ["a", "b"]),
        (["a\rb\r", "\x1b[A\x1b[A\x1b[A\x1b[B"], "b", ["a", "b"]),
        (["a\r", "\x1b[A\x1b[B"], "", ["a"]),
        (["x" * 5000], "x" * 1000, []),
    ],
)
def test_a_line_is_edited(chunks, text, entered):
    assert typed(*chunks) == (text, entered)


# --- on a terminal ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    """Yield the URL of a real server."""
    folder = tmp_path_factory.mktemp("live")
    assert reactor("init", "demo", cwd=folder).returncode == 0
    with ForkedCommand(["run", "--path", folder / "demo", "--port", "0"], stderr=subprocess.STDOUT) as process:
        try:
            url = next(line.split()[-1] for line in process.stdout if " is ready: " in line)
            with connect(f"{url.replace('http', 'ws')}ws?video=jpeg", open_timeout=PATIENCE) as first:
                while isinstance(first.recv(timeout=PATIENCE), str):  # its code is in memory before a client counts seconds
                    pass
            yield url
        finally:
            process.terminate()


class Screen:
    """The other end of the terminal."""

    def __init__(self, ours: int, process: subprocess.Popen[bytes]) -> None:
        self.ours = ours
        self.process = process
        self.shown = ""
        self.styles = False

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, pattern: str) -> re.Match[str]:
        """Read until something is shown that was not yet shown; patterns say nothing of styles."""
        deadline = time.monotonic() + PATIENCE
        while (match := re.search(pattern, self.shown)) is None:
            left = max(0, deadline - time.monotonic())
            assert select.select([self.ours], [], [], left)[0], f"no {pattern} in {self.shown[-3000:]!r}"
            text = os.read(self.ours, 65536).decode("utf-8", "replace")
            self.shown += text if self.styles else re.sub(r"\x1b\[[\d;]*m", "", text)
        self.shown = self.shown[match.end() :]
        return match

    def modes(self):
        return termios.tcgetattr(self.ours)[:4]


@contextmanager
def live(*arguments, rows=40, columns=120):
    """`reactor client` on its own terminal, whose keys send it signals."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "reactor_trio", "client", *arguments],
        env=ON_A_TERMINAL,
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
    ) as process:  # fmt: skip
        screen = Screen(ours, process)
        screen.resize(rows, columns)
        before = screen.modes()
        try:
            yield screen
            assert process.wait(PATIENCE) == 0
            assert screen.modes() == before
        finally:
            if process.poll() is None:
                process.kill()
            os.close(theirs)
            os.close(ours)


ENTER_SCREEN, LEAVE_SCREEN = r"\x1b\[\?1049h", r"\x1b\[\?1049l"


def test_a_person_watches_types_resizes_and_leaves(server):
    with live(server) as screen:
        screen.until(r"session \w+: demo as control")
        screen.until(ENTER_SCREEN)
        screen.until(r"main_video +jpeg 640x480 +\d+\.\d")
        os.write(screen.ours, b"set_brightness=0.5\r")
        screen.until(r"set_brightness=0\.5: applied after \d+ ms")
        screen.until(r"command to ack +\d")
        os.write(screen.ours, b"set_brightness=9\r")
        screen.until(r"set_brightness=9: refused: Expected float <= 2\.0 - at \$\.brightness")
        os.write(screen.ours, b"1+1\r")
        screen.until(r"1\+1: expected set_field=value")
        screen.resize(20, 40)
        screen.until(r"main_video \d+\.\d fps, \d+ missing, [^\n]{,12}…\r\n[▁▂▃▄▅▆▇█]+ +\r\n")
        os.write(screen.ours, b"\x03")
        screen.until(LEAVE_SCREEN)
        screen.until(r"main_video: \d+\.\d fps, jitter .*\| ack ")


def test_the_picture_is_drawn_in_half_blocks(server):
    with live(server, "--picture") as screen:
        screen.until(ENTER_SCREEN)
        screen.styles = True
        screen.until(r"\x1b\[38;2;\d+;\d+;\d+;48;2;\d+;\d+;\d+m▀")
        os.write(screen.ours, b"\x03")
        screen.until(LEAVE_SCREEN)


def test_sigterm_leaves_and_restores_the_terminal(server):
    with live(server) as screen:
        screen.until(ENTER_SCREEN)
        screen.until(r"main_video")
        screen.process.send_signal(signal.SIGTERM)
        screen.until(LEAVE_SCREEN)


def test_plain_output_on_a_terminal_equals_that_of_a_pipe(server):
    with live(server, "--plain") as screen:
        screen.until(r"session \w+: demo as control\r\n")
        line = screen.until(r"([^\r\n]*)\r\n").group(1)
        assert re.fullmatch(r"main_video: \d+\.\d fps, jitter \d+\.\d ms, p95 \d+\.\d ms, \d+ missing, \d+ dropped", line)
        os.write(screen.ours, b"\x03")
    with ForkedCommand(["client", server], stderr=subprocess.STDOUT) as process:
        first, second = process.stdout.readline(), process.stdout.readline()
        process.send_signal(signal.SIGINT)
        assert process.stdout.read() == ""
    assert process.returncode == 0
    assert re.fullmatch(r"session \w+: demo as control\n", first)
    assert re.fullmatch(r"main_video: \d+\.\d fps, jitter \d+\.\d ms, p95 \d+\.\d ms, \d+ missing, \d+ dropped\n", second)


def test_a_picture_without_a_terminal_is_a_mistake(server):
    done = reactor("client", server, "--picture")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "reactor: --picture: needs a terminal that shows UTF-8; it does not work with --plain\n"


def test_a_client_on_a_pipe_does_not_import_rich(server):
    program = "import sys; from reactor_trio.cli import main; main(sys.argv[1:]); print('rich' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program, "client", server, "--seconds", "0.1"], env=os.environ | {"PYTHONPATH": SOURCE},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "False"
