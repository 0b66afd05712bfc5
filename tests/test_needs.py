"""A test that needs what is not installed is skipped, with what to install; where nothing may be missing it fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ABSENT = "raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')\n"
FILES = {
    "test_head.py": ABSENT,
    "test_body.py": f"def test_imports():\n    {ABSENT}",
    "test_cause.py": f"def test_a_missing_package_is_named():\n    try:\n        {ABSENT}    except ImportError as error:\n"
    "        raise ValueError('the model cannot be imported') from error\n",
    "test_program.py": "import pytest\nfrom tests.support.needs import missing\ndef test_program(): missing('a browser')\n",
    "test_mark.py": "import pytest\n@pytest.mark.needs('no_such_package')\ndef test_marked(): assert False\n",
    "test_skip.py": "import pytest\nno_such_package = pytest.importorskip('no_such_package')\n",
    "test_other.py": "def test_another(): raise ModuleNotFoundError(\"No module named 'nothing'\", name='nothing')\n",
    "test_good.py": "def test_good(): pass\n",
}


def ran(folder: Path, **environment: str) -> str:
    for name, text in FILES.items():
        (folder / name).write_text(text)
    command = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", "-q", "-rsfE", str(folder)]
    known = {name: value for name, value in os.environ.items() if name != "REACTOR_TEST_ALL"}
    done = subprocess.run(
        [*command, f"--rootdir={folder}"], cwd=Path(__file__).parents[1], env=known | environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    return done.stdout


def test_it_is_skipped(tmp_path: Path) -> None:
    said = ran(tmp_path)
    assert "1 failed, 1 passed, 6 skipped" in said
    (failed,) = [line for line in said.splitlines() if line.startswith("FAILED")]
    assert "test_other.py::test_another" in failed  # with its reason where `CI` is set
    assert said.count("needs torch, which the extra test-all brings") == 3
    assert "needs no_such_package, which" in said
    assert "needs a browser" in said


def test_it_fails_where_nothing_may_be_missing(tmp_path: Path) -> None:
    """Errors are of collection (a head, `importorskip`) and of the mark."""
    said = ran(tmp_path, REACTOR_TEST_ALL="1", PYTEST_ADDOPTS="--continue-on-collection-errors")
    assert "4 failed, 1 passed, 3 errors" in said
