"""What holds for all tests.

A failed assertion of `tests.support` shows its values, as one of a test does. A test that needs a package that is not
installed is skipped, or fails where all must be there (`tests.support.needs`). No collection of garbage looks at the modules
and tests that are loaded before the first test. And torch computes on one thread, here and in what tests start.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Generator
from typing import Any

import pytest

pytest.register_assert_rewrite("tests.support")
# Before numpy and torch are loaded. Threads of theirs that wait for each other at each step of a small model stand still for
# minutes where a processor is busy, and workers of pytest keep all busy.
os.environ.setdefault("OMP_NUM_THREADS", "1")

from tests.support import needs  # noqa: E402 - its assertions are rewritten


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(package): the test is skipped without this package of the extra test-all")


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session: pytest.Session) -> None:
    """Exclude the million objects of all modules and tests from later collections: each would take half a second."""
    gc.collect()
    gc.freeze()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for mark in item.iter_markers("needs"):
        needs.require(*mark.args)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    if report.failed and not needs.all_needed() and (package := needs.absent_in(report.longreprtext)):
        _skip(report, collector.path, package)
    return _checked(report)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[Any]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    absent = None if call.excinfo is None else needs.absent_for(call.excinfo.value)
    if report.failed and absent is not None and not needs.all_needed():
        _skip(report, item.path, absent)
    return _checked(report)


def _skip(report: Any, path: object, package: str) -> None:
    report.outcome, report.longrepr = "skipped", (str(path), 0, f"Skipped: {needs.reason(package)}")


def _checked(report: Any) -> Any:
    """A skip by `pytest.importorskip` is a failure, too, where nothing may be missing."""
    if report.skipped and needs.all_needed() and "could not import " in str(report.longrepr):
        report.outcome, report.longrepr = "failed", f"nothing may be missing here (REACTOR_TEST_ALL): {report.longrepr[2]}"
    return report


#: One worker has all tests of each: they share what is started once for a run (a Ray; Firefox and WebKitGTK), or a port.
ON_ONE_WORKER = (
    ("tests/replicas/",),
    ("tests/web/test_client_in_browser.py", "tests/web/test_hidden_pages.py"),
    ("tests/web/test_readme_programs.py", "tests/web/test_web_examples.py"),
)


@pytest.hookimpl(optionalhook=True)  # without xdist it is no hook
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadfile` a worker gets the tests of a file together, or of a group in `ON_ONE_WORKER`."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class LoadGroups(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            groups = (group[0] for group in ON_ONE_WORKER if nodeid.startswith(group))
            return next(groups, None) or super()._split_scope(nodeid)

    return LoadGroups(config, log)
