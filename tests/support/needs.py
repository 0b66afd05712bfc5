"""What some tests need beside the extra `test`. Where it is not installed they are skipped, and say what to install.

A test that imports a package of `IN_TEST_ALL`, at its head, in a fixture or in its own code, needs no word about it:
`conftest.py` makes a skip of the error. One that needs the package in another way is marked `needs("torch")`. With
`REACTOR_TEST_ALL` in the environment, as CI has it, nothing may be missing: each such test fails.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterator
from typing import NoReturn

import pytest

from reactor_trio.errors import ManifestError

#: the packages of the extra `test-all`, as they are imported
IN_TEST_ALL = {
    "accelerate", "bandit", "coverage", "crafter", "diffusers", "huggingface_hub", "mypy", "onnxruntime", "PIL", "pip_audit",
    "playwright", "pyright", "ray", "ruff", "sphinx", "torch", "transformers",
}  # fmt: skip
_ABSENT = re.compile(r"ModuleNotFoundError: No module named '(\w+)")


def all_needed() -> bool:
    """Whether what is missing is a failure."""
    return bool(os.environ.get("REACTOR_TEST_ALL"))


def reason(package: str) -> str:
    """Why a test is skipped."""
    return f'needs {package}, which the extra test-all brings: pip install -e ".[test-all]", or scripts/test --checks PATH'


def missing(what: str) -> NoReturn:
    """Skip the test that needs `what`, a text that says how it comes; fail it if nothing may be missing."""
    (pytest.fail if all_needed() else pytest.skip)(f"needs {what}")


def require(package: str) -> None:
    """Skip or fail the test, if the package is not installed."""
    if importlib.util.find_spec(package) is None:
        (pytest.fail if all_needed() else pytest.skip)(reason(package))


def absent_in(text: str) -> str | None:
    """The package of `test-all` whose import failed, by the text of an error in collection."""
    found = _ABSENT.search(text)
    return found[1] if found is not None and found[1] in IN_TEST_ALL else None


def absent_for(error: BaseException) -> str | None:
    """The same by the error of a test, or what that error was raised from."""
    for each in _each(error):
        if isinstance(each, ModuleNotFoundError) and (package := (each.name or "").partition(".")[0]) in IN_TEST_ALL:
            return package
        if isinstance(each, ManifestError) and "which need torch: pip install torch" in str(each):  # a model with ranks
            return "torch"
    return None


def _each(error: BaseException) -> Iterator[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        for inner in error.exceptions:
            yield from _each(inner)
    else:
        yield error
        if error.__cause__ is not None:
            yield from _each(error.__cause__)
