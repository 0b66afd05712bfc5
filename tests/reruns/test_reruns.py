"""A whole run over a made-up folder of tests: its exit status and its last lines."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.reruns import __main__ as reruns

ROOT = Path(__file__).parents[2]
#: imported by the made-up tests: which run of a test this is, from 1
COUNTED = """
import os
from pathlib import Path

def run_of(name):
    with Path(name + ".runs").open("a") as file:
        file.write("x")
    return Path(name + ".runs").stat().st_size
"""
GOOD = "\ndef test_good(): pass\n"
FIXTURE = "import pytest\n@pytest.fixture\ndef late():\n    yield\n    raise RuntimeError('in a fixture')\n"


@pytest.fixture(autouse=True)
def made_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder with a root of its own, and a pytest that starts fast."""
    for name in [name for name in os.environ if name.startswith("PYTEST_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(tmp_path)
    Path("pytest.ini").write_text("[pytest]\naddopts = -q -p no:cacheprovider\n")
    Path("counted.py").write_text(COUNTED)


def written(**files: str) -> None:
    for name, text in files.items():
        Path(f"{name}.py").write_text(f"from counted import *\n{text}")


def ending(output: str) -> list[str]:
    """The lines after the rule."""
    return output.rpartition("-" * 30 + "\n")[2].splitlines()


def test_a_test_that_failed_once_is_flaky_and_the_run_is_green(monkeypatch, capfd):
    monkeypatch.setattr(reruns, "TIMES", 1)
    beside = f"{GOOD}\ndef test_once(): assert run_of('once') > 1, 'by chance'\n"
    kills = f"def test_kills(): run_of('NAME') > 1 or os._exit(1)\n{GOOD}"
    written(test_beside=beside, test_worker=kills.replace("NAME", "worker"), test_alone=kills.replace("NAME", "alone"))
    arguments = ["-p", "xdist", "-n", "1", "test_beside.py", "test_worker.py", "--", "test_alone.py"]
    assert reruns.main(arguments) == 0
    once, worker, alone, advice, last = ending(capfd.readouterr().out)
    assert once == (
        "flaky: test_beside.py::test_once: passed 1 times alone; failed at first: "
        "test_beside.py:5: AssertionError: by chance"
    )
    assert worker.startswith("flaky: test_worker.py::test_kills: ")
    assert worker.endswith("crashed while running 'test_worker.py::test_kills'")
    assert alone.startswith("flaky: test_alone.py::test_kills: ")
    assert alone.endswith("pytest died in it: ended with exit status 1")
    assert "tests/flaky.md" in advice
    assert last == "6 passed, 0 failed"


def test_a_flaky_test_passed_three_times(capfd):
    written(test_1="def test_once(): assert run_of('once') > 1\n")
    assert reruns.main([]) == 0
    assert len(Path("once.runs").read_text()) == 4
    assert ending(capfd.readouterr().out)[0].startswith("flaky: test_1.py::test_once: passed 3 times alone; ")


def test_a_test_that_fails_again_makes_the_run_red_and_both_parts_run():
    written(
        test_broken="raise RuntimeError('made up')",
        test_beside=f"{GOOD}\ndef test_first_and_last(): assert run_of('last') in (2, 3)\n",
        test_alone=f"def test_twice(): assert run_of('twice') > 2\n{FIXTURE}\ndef test_always(late): pass\n{GOOD}",
    )
    arguments = ["-p", "xdist", "-n", "1", "test_broken.py", "test_beside.py", "--", "test_alone.py"]
    command = [sys.executable, "-m", "tests.reruns", *arguments]  # as `scripts/test --all` starts it
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    lines = ending(done.stdout)
    assert [line.partition(": ")[0] for line in lines[:-1]] == ["failed again"] * 3 + ["wrong"]
    assert [line.split(": ")[1] for line in lines[:-1]] == [
        "test_beside.py::test_first_and_last", "test_alone.py::test_twice", "test_alone.py::test_always",
        "test_broken.py was not collected",
    ]  # fmt: skip
    assert (done.returncode, lines[-1]) == (1, "2 passed, 4 failed")


def test_four_flaky_tests_are_red(monkeypatch, capfd):
    monkeypatch.setattr(reruns, "TIMES", 1)
    written(test_1="".join(f"def test_{n}(): assert run_of('{n}') > 1\n" for n in range(4)))
    assert reruns.main([]) == 1
    lines = ending(capfd.readouterr().out)
    assert [line for line in lines if line.startswith("flaky: ")] == lines[:4]
    assert lines[5:] == ["4 tests are flaky, at most 3 may be", "4 passed, 1 failed"]


def test_many_failures_are_red_without_another_run(monkeypatch, capfd):
    monkeypatch.setattr(reruns, "MOST_AGAIN", 1)
    written(test_made_up="def test_1(): run_of('1'); assert 0\ndef test_2(): run_of('2'); assert 0\n")
    assert reruns.main([]) == 1
    assert ending(capfd.readouterr().out)[-1] == "0 passed, 2 failed"
    assert [len(Path(f"{name}.runs").read_text()) for name in "12"] == [1, 1]


INTERRUPTED = f"def test_0(): raise KeyboardInterrupt\n{GOOD}"
DIES = "import os\ndef pytest_runtest_logfinish(): os._exit(0)\n"
ENDS = "def pytest_sessionfinish(session): session.exitstatus = {}\n"
SKIPPED = "import pytest\ndef test_once():\n    if run_of('once') > 1: pytest.skip('no more')\n    assert False\n"
GONE = "import pytest\n@pytest.mark.parametrize('run', [run_of('once')])\ndef test_once(run): assert False\n"


@pytest.mark.parametrize(
    ("files", "why", "passed"),
    [
        ({"test_1": SKIPPED}, "failed again: test_1.py::test_once: it was skipped", 0),
        ({"test_1": GONE}, "failed again: test_1.py::test_once[1]: ended with exit status 4, usage error", 0),
        ({"test_1": INTERRUPTED}, "wrong: pytest: ended with exit status 2, interrupted", 0),
        ({"test_1": GOOD, "conftest": DIES}, "wrong: pytest: ended with exit status 0", 1),
        ({"test_1": GOOD, "conftest": ENDS.format(1)}, "wrong: pytest: ended with exit status 1", 1),
        ({"test_1": GOOD, "conftest": ENDS.format(3)}, "wrong: pytest: ended with exit status 3, internal error", 1),
        ({}, "wrong: pytest: ended with exit status 5, no tests collected", 0),
    ],
    ids=["skipped", "gone", "interrupted", "died", "one", "three", "nothing"],
)  # fmt: skip
def test_whatever_leaves_a_doubt_is_red(files, why, passed, capfd):
    written(**files)
    assert reruns.main([]) == 1
    lines = ending(capfd.readouterr().out)
    assert lines[0] == why
    assert lines[-1] == f"{passed} passed, {len(lines) - 1} failed"


def test_tests_that_no_worker_was_left_for_make_the_run_red(monkeypatch, capfd):
    monkeypatch.setattr(reruns, "TIMES", 1)
    written(test_1=f"def test_0(): run_of('once') > 1 or os._exit(1)\n{GOOD}")
    arguments = ["-p", "xdist", "-n", "1", "--max-worker-restart=0"]
    assert reruns.main(arguments) == 1
    wrong, flaky, *_, last = ending(capfd.readouterr().out)
    assert wrong == f"wrong: {' '.join(['pytest', *arguments])}: 1 tests did not run"
    assert (flaky.split(": ")[:2], last) == (["flaky", "test_1.py::test_0"], "1 passed, 1 failed")


def test_a_test_that_ends_pytest_every_time_is_red(capfd):
    written(test_1=f"def test_0(): os.kill(os.getpid(), 9)\n{GOOD}")
    assert reruns.main([]) == 1
    assert ending(capfd.readouterr().out) == [
        "failed again: test_1.py::test_0: ended by SIGKILL", "1 passed, 1 failed"
    ]  # fmt: skip
