"""The messages between two loops, and which loop is woken; no loop, the posts by hand."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable

from reactor_trio.crossing.local_channel import LocalEnd, open_local_channel
from reactor_trio.crossing.messages import FROM_MODEL, RetimePlayout, StateValuesChanged

FIRST, SECOND = (StateValuesChanged({"x": text}) for text in (b"1", b"2"))
WORD = RetimePlayout(0.5)


class Bench:
    def __init__(self) -> None:
        self.posted: list[Callable[[], object]] = []
        self.heard: list[object] = []
        self.io, self.model = open_local_channel(self.posted.append, lambda take: None)
        self.io.connect(dict.fromkeys(FROM_MODEL, self.heard.append))


def test_a_lazy_message_wakes_only_a_loop_that_sleeps() -> None:
    bench = Bench()
    bench.model.send(FIRST)
    assert len(bench.posted) == 1
    bench.io.asleep = False
    bench.model.send(SECOND)
    assert len(bench.posted) == 1


def test_any_other_message_always_wakes_and_brings_what_lay_before_it() -> None:
    bench = Bench()
    bench.io.asleep = False
    bench.model.send(FIRST)
    bench.model.send(WORD)
    for post in bench.posted:
        post()
    assert bench.heard == [FIRST, WORD]


def test_a_look_takes_a_message_whose_post_has_not_arrived_before_those_after_it() -> None:
    bench = Bench()
    bench.io.asleep = False
    bench.model.send(WORD)
    bench.model.send(FIRST)
    bench.io.take()  # the frame on screen has ended before the post came through
    assert bench.heard == [WORD, FIRST]
    bench.posted[0]()
    assert bench.heard == [WORD, FIRST]


def test_a_closed_end_drops_what_has_come_and_what_still_comes_and_sends_nothing() -> None:
    bench = Bench()
    bench.model.send(WORD)
    bench.io.close()
    bench.posted.pop()()
    bench.model.send(WORD)
    for post in bench.posted:
        post()
    assert bench.heard == []
    came: list[object] = []
    bench.model.connect({RetimePlayout: came.append})
    bench.io.send(WORD)
    bench.model.take()
    assert came == []


def test_two_closed_ends_are_freed_without_the_garbage_collector() -> None:
    gc.disable()
    try:
        bench = Bench()
        ends: list[weakref.ref[LocalEnd]] = [weakref.ref(bench.io), weakref.ref(bench.model)]
        bench.io.send(WORD)
        bench.io.close()
        bench.model.close()
        del bench
        assert [end() for end in ends] == [None, None]
    finally:
        gc.enable()
