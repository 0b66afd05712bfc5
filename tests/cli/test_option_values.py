"""What each type of option takes, and what it says of other texts."""

from __future__ import annotations

import argparse

import pytest

from reactor_trio.cli import option_values
from reactor_trio.cli.client_command import command_of, in_one_line
from reactor_trio.cli.terminal import UsageError


@pytest.mark.parametrize(
    ("kind", "good", "bad", "expected"),
    [
        ("amount", ["0", "0.0", "2.5"], ["-1", "inf", "x"], "a number, 0 or more"),
        ("share", ["0.0", "0.4", "1"], ["1.5", "-0.1", "nan"], "a share, from 0 to 1"),
        ("seconds", ["0.5"], ["0", "inf", "x"], "a number of seconds above 0"),
        ("rate", ["30", "0.1"], ["0", "x"], "a number above 0"),
        ("gpus", ["0", "0.5", "2"], ["1.5", "-1", "1025"], "a number of GPUs: a whole one, or less than 1 to share one"),
    ],
)  # fmt: skip
def test_a_number_is_taken_or_refused_with_what_it_should_be(kind, good, bad, expected):
    take = getattr(option_values, kind)
    assert [take(text) for text in good] == [float(text) for text in good]
    for text in bad:
        with pytest.raises(argparse.ArgumentTypeError) as refused:
            take(text)
        assert str(refused.value) == f"{text!r} is not {expected}"


def test_arguments_of_a_command_have_names():
    assert command_of("jump={x: 1}") == ("jump", {"x": 1})
    with pytest.raises(UsageError, match=r"^jump=\{1: 2\}: expected names of arguments before the colons: jump="):
        command_of("jump={1: 2}")


def test_a_text_of_the_server_changes_nothing_of_the_terminal():
    shown: list[str] = []
    in_one_line(shown.append)("queued: \x1b]0;owned\x07 one\r\ntwo")
    assert shown == ["queued: ]0;owned one two"]
