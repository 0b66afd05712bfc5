"""What one pytest collects, begins and ends, written to a file at once: so it is known even if that pytest dies.

This module is the plugin that writes (`-p tests.reruns.record --record-into FILE`); `Record` is what reads.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest


@dataclass
class Record:
    """Tests by their ids."""

    collected: set[str] = field(default_factory=set)
    started: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    #: whose call passed, or failed as an `xfail` expects; of these some fail later, in a fixture
    passed: set[str] = field(default_factory=set)
    #: with the first failure, in a line
    failed: dict[str, str] = field(default_factory=dict)
    #: files or folders whose collection failed
    uncollected: dict[str, str] = field(default_factory=dict)
    #: whether pytest came to its end
    finished: bool = False

    @property
    def running(self) -> set[str]:
        """Tests that began and had neither ended nor failed."""
        return self.started - self.ended - self.failed.keys()

    @classmethod
    def of(cls, file: Path) -> Record:
        """Read what the plugin wrote. A line that its pytest could not end is left out."""
        record = cls()
        lines = file.read_text(encoding="utf-8").split("\n")[:-1] if file.exists() else []
        for line in lines:
            what, value, why = json.loads(line)
            match what:
                case "collected":
                    record.collected.update(value)
                case "started" | "ended" | "passed":
                    getattr(record, what).add(value)
                case "failed" | "uncollected":
                    getattr(record, what).setdefault(value, why)
                case "finished":
                    record.finished = True
        return record


def in_a_line(report: pytest.TestReport | pytest.CollectReport) -> str:
    """Where and how it failed."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if crash is not None:
        path = Path(crash.path)
        path = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
        return f"{path}:{crash.lineno}: {crash.message.strip().splitlines()[0]}"
    lines = [line for line in report.longreprtext.splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason was given"


class _Recorder:
    """In the process that reports: with pytest-xdist not in its workers."""

    def __init__(self, file: Path) -> None:
        self._file = file.open("a", encoding="utf-8", buffering=1)  # a line at a time

    def _write(self, what: str, value: Any = None, why: str = "") -> None:
        self._file.write(json.dumps([what, value, why]) + "\n")

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._write("collected", [item.nodeid for item in session.items])

    @pytest.hookimpl(optionalhook=True)
    def pytest_xdist_node_collection_finished(self, ids: Iterable[str]) -> None:
        self._write("collected", list(ids))

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._write("uncollected", report.nodeid, in_a_line(report))

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._write("started", nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self._write("failed", report.nodeid, in_a_line(report))
        elif (report.passed and report.when == "call") or hasattr(report, "wasxfail"):
            self._write("passed", report.nodeid)

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._write("ended", nodeid)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self) -> None:
        self._write("finished")

    def pytest_unconfigure(self) -> None:
        self._file.close()


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("reruns")
    group.addoption("--record-into", type=Path, help="write what is collected, begins and ends to this file")
    group.addoption("--leave-out", type=Path, help="a file with the ids of tests that are not to run, one a line")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(config.getoption("record_into")))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if (file := config.getoption("leave_out")) is None:
        return
    out = set(file.read_text(encoding="utf-8").splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in out])
    items[:] = [item for item in items if item.nodeid not in out]
