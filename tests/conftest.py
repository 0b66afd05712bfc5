"""What holds for all tests: failed assertions of `tests.support` show their values; one worker has all tests with a Ray."""

from __future__ import annotations

from typing import Any

import pytest

pytest.register_assert_rewrite("tests.support")


@pytest.hookimpl(optionalhook=True)  # without xdist it is no hook
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile` a worker gets the tests of a file together, and those of tests/replicas as if of one file."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class OneRay(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            folder = "tests/replicas/"
            return folder if nodeid.startswith(folder) else super()._split_scope(nodeid)

    return OneRay(config, log)
