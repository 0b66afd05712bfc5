"""`progress()` by itself: which calls count, which are refused, and what the loop gets of many."""

from __future__ import annotations

import contextvars
import threading

import numpy as np
import pytest

from reactor_trio.interface import progress
from reactor_trio.interface.progress import reported_load


class Loop:
    """An I/O loop that runs what is posted to it when the test says so."""

    def __init__(self):
        self.posted = []
        self.seen = []

    def load(self):
        return reported_load(self.posted.append, lambda fraction, text: self.seen.append((fraction, text)))

    def run(self):
        while self.posted:
            self.posted.pop(0)()
        seen, self.seen = self.seen, []
        return seen


@pytest.mark.parametrize("wrong", [-0.01, 1.01, float("nan"), float("inf"), np.float32(2)])
def test_a_fraction_that_is_none_is_refused_everywhere(wrong):
    text = r"progress\(\): the fraction must be from 0 to 1, or None if it is not known, not "
    with pytest.raises(ValueError, match=text):
        progress(wrong)
    loop = Loop()
    with loop.load(), pytest.raises(ValueError, match=text):
        progress(wrong)
    assert loop.run() == []


@pytest.mark.parametrize(("fraction", "text"), [("0.5", ""), ([], ""), (0.5, None), (0.5, 3)])
def test_a_wrong_type_is_refused(fraction, text):
    with pytest.raises(TypeError):
        progress(fraction, text)


def test_outside_of_a_load_it_does_nothing():
    loop = Loop()
    progress(0.5, "before")
    with loop.load():
        inside = contextvars.copy_context()
    inside.run(progress, 0.5, "a task that the load has left behind")
    assert loop.run() == []


def test_each_report_replaces_the_one_before():
    loop = Loop()
    with loop.load():
        progress(None, "reading")
        assert loop.run() == [(None, "reading")]
        for number in range(1001):
            progress(number / 1000, "reading")
        assert len(loop.posted) == 1
        assert loop.run() == [(1.0, "reading")]


def test_progress_too_small_to_see_is_not_passed_on():
    loop = Loop()
    seen = []
    with loop.load():
        for fraction in (0.5, 0.5, 0.5005, 0.5011, 0.9999, 1.0, None, None):
            progress(fraction)
            seen += loop.run()
        progress(None, "other words")
        seen += loop.run()
    assert seen == [(0.5, ""), (0.5011, ""), (0.9999, ""), (1.0, ""), (None, ""), (None, "other words")]


def test_the_text_is_one_short_line():
    loop = Loop()
    with loop.load():
        progress(np.float32(0.5), "a\n b\t" + "\x1b[2J" + "c" * 300)
    assert loop.run() == [(0.5, "a b  [2J" + "c" * 192)]


def report_in_a_plain_thread(text):
    thread = threading.Thread(target=progress, args=(0.5, text))
    thread.start()
    thread.join()


def test_a_plain_thread_belongs_to_the_only_load():
    loop, other = Loop(), Loop()
    with loop.load():
        report_in_a_plain_thread("alone")
        assert loop.run() == [(0.5, "alone")]
        with other.load():
            report_in_a_plain_thread("to which?")
            progress(0.7, "by its context")
    assert loop.run() == []
    assert other.run() == [(0.7, "by its context")]
