"""The live line of a load, in virtual time, and the choice of an error from a group."""

from __future__ import annotations

import io

import pytest
import trio

from reactor_trio.cli.terminal import FAILED, INTERNAL, USAGE, Terminal
from reactor_trio.errors import ManifestError, ModelFailed


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


async def test_on_a_terminal_a_load_counts_its_seconds(autojump_clock):
    screen = Screen()
    async with Terminal(screen).loading("my-model"):
        await trio.sleep(2.5)
    *counted, last = screen.getvalue().split("\r")
    shown = [text.strip() for text in counted if text.strip()]
    assert shown == [f"loading my-model ... {second} s" for second in range(3)]
    assert last == "loaded my-model in 2.5 s\n"


async def test_on_a_terminal_a_load_shows_its_progress(autojump_clock, monkeypatch):
    monkeypatch.setenv("COLUMNS", "66")
    screen = Screen()
    terminal = Terminal(screen)
    async with terminal.loading("my-model"):
        terminal.progress(0.25, "reading weights")
        await trio.sleep(0.5)
        terminal.progress(None, "compiling")
        await trio.sleep(1)
        terminal.progress(1, "a text that is too long for this terminal")
        await trio.sleep(1)
    *counted, _last = screen.getvalue().split("\r")
    shown = [text.strip() for text in counted if text.strip()]
    assert shown == [
        "loading my-model ######------------------ 25% reading wei ... 0 s",
        "loading my-model compiling ... 1 s",
        "loading my-model ######################## 100% a text tha ... 2 s",
    ]
    assert max(map(len, shown)) == 65


async def test_a_line_of_the_log_takes_the_place_of_the_bar(autojump_clock):
    screen = Screen()
    terminal = Terminal(screen, screen)
    async with terminal.loading("my-model"):
        terminal.progress(0.5, "half")
        await trio.sleep(1.5)
        terminal.erase_live()
        screen.write("a line\n")
    assert "\ra line\nloaded my-model in 1.5 s\n" in screen.getvalue()


async def test_elsewhere_a_load_is_one_line_before_and_one_after(autojump_clock):
    out = io.StringIO()
    async with Terminal(out).loading("my-model"):
        assert out.getvalue() == "loading my-model ...\n"
        await trio.sleep(2.5)
    assert out.getvalue() == "loading my-model ...\nloaded my-model in 2.5 s\n"


PAGE = "docs/reference/errors.md"


async def test_an_error_gets_a_line_below_the_live_line(autojump_clock):
    screen = Screen()
    terminal = Terminal(screen, screen)
    with pytest.raises(ExceptionGroup) as caught:
        async with terminal.loading("my-model"):
            await trio.sleep(0.5)
            raise ModelFailed("load() raised")
    assert terminal.explain(caught.value) == FAILED
    assert screen.getvalue() == f"\rloading my-model ... 0 s\nreactor: load() raised ({PAGE}#model-failed)\n"


@pytest.mark.parametrize(
    ("errors", "code", "line"),
    [
        ([KeyError("x"), ModelFailed("run() returned")], FAILED, f"run() returned ({PAGE}#model-failed)"),
        ([ModelFailed("gone"), ManifestError("model:\n missing")], USAGE, f"model: missing ({PAGE}#manifest)"),
        ([KeyError("x"), ValueError("y\nz")], INTERNAL,
         f"the runtime itself failed: KeyError: 'x'; ValueError: y z (--debug shows the traceback) ({PAGE}#runtime-failed)"),
    ],
)  # fmt: skip
def test_of_a_group_the_error_of_user_or_model_is_printed(errors, code, line):
    err = io.StringIO()
    group = ExceptionGroup("outer", [ExceptionGroup("inner", errors)])
    assert Terminal(io.StringIO(), err).explain(group) == code
    assert err.getvalue() == f"reactor: {line}\n"


def test_ctrl_c_in_a_group_is_no_failure():
    err = io.StringIO()
    group = BaseExceptionGroup("outer", [ValueError("a consequence"), BaseExceptionGroup("inner", [KeyboardInterrupt()])])
    with pytest.raises(KeyboardInterrupt):
        Terminal(io.StringIO(), err).explain(group)
    assert err.getvalue() == ""
