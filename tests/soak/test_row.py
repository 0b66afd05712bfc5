"""Sessions in a row leave a real server's memory where it was."""

from __future__ import annotations

import pytest

from tests.soak.row import brings_a_file, row, watches

MAY_GROW = 5_000_000


@pytest.mark.soak
def test_thousands_of_sessions_leave_the_memory_where_it_was(tmp_path):
    done = row(tmp_path, watches, 2400, 200)
    print(f"\n{done}")
    assert done.grown_by < MAY_GROW


@pytest.mark.soak
def test_a_big_file_in_a_state_leaves_with_its_session(tmp_path):
    done = row(tmp_path, brings_a_file, 45, 5)
    print(f"\n{done}")
    assert done.grown_by < MAY_GROW
