"""A token bucket: what is there at once, what comes back, what a debt costs."""

from __future__ import annotations

from reactor_trio.pacing import TokenBucket


def test_it_is_full_at_first_and_never_holds_more():
    bucket = TokenBucket(10, 20, now=5)
    assert bucket.left(5) == bucket.left(100) == 20


def test_tokens_come_back_at_their_rate():
    bucket = TokenBucket(10, 20, now=0)
    bucket.take(20, 0)
    assert [bucket.left(now) for now in (0, 0.5, 1, 2, 3)] == [0, 5, 10, 20, 20]


def test_a_debt_is_paid_at_the_rate():
    bucket = TokenBucket(10, 20, now=0)
    assert bucket.paid_at() <= 0
    bucket.take(50, 1)
    assert bucket.left(1) == -30
    assert bucket.paid_at() == 4
    bucket.take(10, 2)
    assert bucket.paid_at() == 5
