"""How many texts, and how many bytes of them, may wait for a client."""

from __future__ import annotations

import pytest

from reactor_trio.connection.text_queue import MOST_BYTES, TextQueue


def test_more_texts_than_may_wait_are_overfull():
    queue = TextQueue(2)
    queue.put("a")
    queue.put("b")
    assert not queue.overfull
    queue.put("c")
    assert queue.overfull
    assert queue.take() == ("a", None)
    assert not queue.overfull


@pytest.mark.parametrize("letter", ["x", "ä", "漢", "😀"])
def test_bytes_are_those_in_memory_and_one_text_may_have_any_number(letter):
    queue = TextQueue(100)
    queue.put(letter * MOST_BYTES)
    assert not queue.overfull
    queue.put("a")
    assert queue.overfull
    queue.take()
    assert not queue.overfull
    for _ in range(15):
        queue.put("x" * (MOST_BYTES // 16))
    assert not queue.overfull
    queue.put("x" * (MOST_BYTES // 16))
    assert queue.overfull
    queue.clear()
    queue.put("a")
    queue.put("b")
    assert not queue.overfull


def test_texts_that_were_kept_count_against_no_bound():
    queue = TextQueue(1)
    queue.put("welcome")
    queue.put_again(["x" * MOST_BYTES, "b"])
    assert not queue.overfull
    queue.put("c")
    assert queue.overfull


def test_a_queue_that_is_closed_drops_what_waits_and_what_comes():
    queue = TextQueue(2)
    queue.put("a")
    queue.close()
    queue.put("b")
    assert queue.count == 0
