"""Thousands of clients connect, use one real server and vanish, and nothing is left of them."""

from __future__ import annotations

import pytest

from tests.soak.cycling import Cycled, cycle

MAY_GROW = 5 * 2**20


def check(cycled: Cycled) -> None:
    print(f"\n{cycled}")
    assert cycled.end.as_few_as(cycled.fresh)
    # as many as had a session, the three that asked, and some that vanished on the way to one
    assert cycled.end.generators_left >= cycled.cycles + 2


def test_a_hundred_clients_leave_nothing_behind(tmp_path):
    check(cycle(tmp_path, 100))


@pytest.mark.soak
def test_two_thousand_clients_leave_nothing_behind(tmp_path):
    cycled = cycle(tmp_path, 2000)
    check(cycled)
    assert cycled.grown_by < MAY_GROW
