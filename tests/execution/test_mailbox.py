"""One queue for words and frames, and who is woken; no loop, the posts by hand."""

from __future__ import annotations

from collections.abc import Callable

from reactor_trio.execution.mailbox import Mailbox


class Bench:
    def __init__(self) -> None:
        self.posted: list[Callable[[], object]] = []
        self.heard: list[str] = []
        self.mailbox = Mailbox(self.posted.append, asleep=True)


def test_a_frame_wakes_only_a_loop_that_sleeps() -> None:
    bench = Bench()
    bench.mailbox.post_lazily(bench.heard.append, "first frame")
    assert len(bench.posted) == 1
    bench.mailbox.asleep = False
    bench.mailbox.post_lazily(bench.heard.append, "second frame")
    assert len(bench.posted) == 1


def test_a_word_always_wakes_and_brings_what_lay_before_it() -> None:
    bench = Bench()
    bench.mailbox.asleep = False
    bench.mailbox.post_lazily(bench.heard.append, "frame")
    bench.mailbox.post(bench.heard.append, "word")
    for post in bench.posted:
        post()
    assert bench.heard == ["frame", "word"]


def test_a_look_hears_words_whose_post_has_not_arrived_before_the_frames_after_them() -> None:
    bench = Bench()
    bench.mailbox.asleep = False
    bench.mailbox.post(bench.heard.append, "word")
    bench.mailbox.post_lazily(bench.heard.append, "frame")
    bench.mailbox.deliver()  # the frame on screen has ended before the post came through
    assert bench.heard == ["word", "frame"]
    bench.posted[0]()
    assert bench.heard == ["word", "frame"]
