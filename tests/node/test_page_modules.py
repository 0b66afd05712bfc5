"""The web client's own tests under Node, where they call its functions directly."""

from __future__ import annotations

import pytest
from tests.support.web_client import WEB, node

FILES = sorted(path.name for path in (WEB / "test").glob("*.test.ts"))
assert FILES


@pytest.mark.parametrize("file", FILES)
def test_modules_under_node(file: str) -> None:
    node(f"test/{file}")
