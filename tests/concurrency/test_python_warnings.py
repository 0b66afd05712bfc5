"""Python's warnings in the log: one line for a call of the runtime that was not awaited, Python's own text for the rest."""

from __future__ import annotations

import logging
import warnings

import pytest

from reactor_trio.concurrency.python_warnings import log_warnings
from reactor_trio.interface import ModelMessage, ReactorModel


class Said(ModelMessage):
    words: str


class Talks(ReactorModel):
    def greet(self):
        self.send(Said("hello"))


async def doze():
    """A coroutine of the author's own."""


@pytest.fixture
def logged(caplog):
    with warnings.catch_warnings():  # Python's functions come back, too
        warnings.simplefilter("default")
        before = warnings.formatwarning
        logging.captureWarnings(False)  # another test may have left it on, for pytest's function of that time
        log_warnings()
        yield caplog
        logging.captureWarnings(False)
        warnings.formatwarning = before


def test_a_call_that_is_not_awaited_is_logged_once_with_its_line(logged):
    for _ in range(3):
        Talks().greet()
    (line,) = logged.messages
    assert line == (
        "self.send(message) is not awaited, so nothing is sent: make it `async def greet` and write `await "
        f"self.send(message)` (at {__file__}:20) (docs/reference/errors.md#not-awaited)"
    )


def test_other_warnings_are_logged_as_python_words_them(logged):
    doze()
    warnings.warn("old", DeprecationWarning, stacklevel=1)
    assert [line.splitlines()[0].partition(".py:")[2].partition(": ")[2] for line in logged.messages] == [
        "RuntimeWarning: coroutine 'doze' was never awaited", "DeprecationWarning: old",
    ]  # fmt: skip
