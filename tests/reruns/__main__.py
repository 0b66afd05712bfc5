"""A whole run of tests: its parts, then what failed once more, each test alone and three times, then what that means.

    python -m tests.reruns PYTEST ARGUMENTS [-- PYTEST ARGUMENTS ...]

Each part is a pytest with these arguments; all parts run, whatever one of them says. A test that failed and then passes
three times, in three processes of its own, is *flaky*: it fails by chance. The last lines name each with its first failure,
and say what else is wrong. The exit status is 0 if at most `MOST_FLAKY` tests are flaky and all others passed.

Whatever leaves a doubt is red: a test that fails again, or is skipped or not found then; an error in collection; a test
that did not run; an exit status of pytest other than 0 and 1; a pytest that died between two tests. If pytest dies in a
test, this test failed, and those after it run in another pytest.
"""

from __future__ import annotations

import itertools
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.reruns.record import Record

#: runs of a failed test, and flaky tests of a green run
TIMES, MOST_FLAKY = 3, 3
#: Beyond so many failed tests something is broken. Each alone would take long, and the run is red whatever they do.
MOST_AGAIN = 10


@dataclass
class Outcome:
    """Of all parts."""

    passed: set[str] = field(default_factory=set)
    #: tests, each with its first failure
    failed: dict[str, str] = field(default_factory=dict)
    #: what makes the run red whatever a rerun shows, a line each
    wrong: list[str] = field(default_factory=list)


class Runner:
    """Starts one pytest after another; each writes its record into this folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count()

    def pytest(self, arguments: Sequence[str], leave_out: set[str] | None = None) -> tuple[int, Record]:
        """The exit status, and what happened until then."""
        number = next(self._numbers)
        file, out = self._folder / f"{number}.jsonl", self._folder / f"{number}.out"
        command = [sys.executable, "-m", "pytest", *arguments, "-p", "tests.reruns.record", f"--record-into={file}"]
        if leave_out:
            out.write_text("\n".join(leave_out), encoding="utf-8")
            command.append(f"--leave-out={out}")
        with subprocess.Popen(command) as process:
            try:
                status = process.wait()
            except KeyboardInterrupt:  # which it got, too
                process.wait()
                raise
        return status, Record.of(file)

    def part(self, arguments: Sequence[str], outcome: Outcome) -> None:
        """Run the tests of a part, and those after a death of pytest in another pytest."""
        collected, done, failed, deaths = set[str](), set[str](), dict[str, str](), 0
        while True:
            status, record = self.pytest(arguments, leave_out=done)
            died_in = record.running if not record.finished and len(record.running) == 1 else set()
            collected |= record.collected
            done |= record.ended | record.failed.keys() | died_in
            failed |= record.failed | dict.fromkeys(died_in, f"pytest died in it: {said(status)}")
            outcome.passed |= record.passed
            outcome.wrong += [f"{where} was not collected: {why}" for where, why in record.uncollected.items()]
            deaths += len(died_in)
            if not died_in or deaths > MOST_FLAKY or not collected - done:
                break
        outcome.failed |= failed
        command = " ".join(["pytest", *arguments])
        explained = status == 0 or (status == 1 and (failed or record.uncollected))
        if not died_in and not (record.finished and explained):
            outcome.wrong.append(f"{command}: {said(status)}")
        if collected - done:
            outcome.wrong.append(f"{command}: {len(collected - done)} tests did not run")

    def again(self, test: str) -> str:
        """Run one test alone, three times at most; how it did not pass, or nothing."""
        for _ in range(TIMES):
            status, record = self.pytest([test, "--tb=short"])
            if status != 0 or record.passed != {test}:
                skipped = "it was skipped" if test in record.ended else said(status)
                return record.failed.get(test, skipped)
        return ""


def said(status: int) -> str:
    """An exit status of pytest in words."""
    if status < 0:
        return f"ended by {signal.Signals(-status).name}"
    known = {each.value: f", {each.name.lower().replace('_', ' ')}" for each in pytest.ExitCode if each > 1}
    return f"ended with exit status {status}{known.get(status, '')}"


def main(arguments: Sequence[str]) -> int:
    """Run all, say what came of it, and give the exit status."""
    parts = [list(group) for dashes, group in itertools.groupby(arguments, "--".__eq__) if not dashes] or [[]]
    outcome, flaky, red = Outcome(), list[str](), list[str]()
    with tempfile.TemporaryDirectory(prefix="reactor-reruns-") as folder:
        runner = Runner(Path(folder))
        for part in parts:
            runner.part(part, outcome)
        if len(outcome.failed) > MOST_AGAIN:
            red += [f"failed: {test}: {why}" for test, why in outcome.failed.items()]
        else:
            for test, why in outcome.failed.items():
                print(f"\nagain, alone, {TIMES} times: {test}", flush=True)
                if failure := runner.again(test):
                    red += [f"failed again: {test}: {failure}"]
                else:
                    flaky += [f"flaky: {test}: passed {TIMES} times alone; failed at first: {why}"]
    red += [f"wrong: {why}" for why in outcome.wrong]
    print("\n" + "-" * 30)
    print(*red, *flaky, sep="\n", end="\n" if red or flaky else "")
    if flaky:
        print("Write each flaky test into tests/flaky.md; CONTRIBUTING.md says what comes next.")
    if len(flaky) > MOST_FLAKY:
        red.append(f"{len(flaky)} tests are flaky, at most {MOST_FLAKY} may be")
        print(red[-1])
    passed = outcome.passed - outcome.failed.keys()
    print(f"{len(passed) + len(flaky)} passed, {len(red)} failed", flush=True)
    return int(bool(red))


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit("interrupted")
