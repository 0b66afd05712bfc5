"""`TokenBucket`: so many at once, and then a steady rate. Binary fractions, so that each figure is exact."""

from __future__ import annotations

from reactor_trio.admission import TokenBucket


def test_a_full_bucket_at_once_and_then_its_rate():
    bucket = TokenBucket(4, 2.0, now=0.0)
    assert [bucket.take(0.0) for _ in range(5)] == [0.0] * 4 + [0.5]
    assert bucket.take(0.25) == 0.25
    assert bucket.take(0.5) == 0.0
    assert bucket.take(0.5) == 0.5
    assert [bucket.take(100.0) for _ in range(5)] == [0.0] * 4 + [0.5], "it is never more than full"


def test_what_it_refuses_it_does_not_take():
    bucket = TokenBucket(4, 4.0, now=0.0)
    assert bucket.take(0.0, 3) == 0.0
    assert bucket.take(0.0, 3) == 2.0
    assert bucket.take(0.0, 1) == 0.0


def test_what_is_owed_is_paid_at_the_rate_before_anything_can_be_taken():
    bucket = TokenBucket(4, 2.0, now=0.0)
    assert bucket.owe(0.0, 4) == 0.0
    assert bucket.owe(0.0, 8) == 4.0
    assert bucket.owe(1.0, 1) == 3.5
    assert bucket.take(4.5) == 0.5
    assert bucket.take(5.0) == 0.0
    assert bucket.owe(100.0, 4) == 0.0, "it is never more than full"
