"""`docs/reference/limits.md` has every limit of the settings, and `docs/*.md` name only tests that exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import msgspec
import pytest

from reactor_trio.configuration.settings import LimitSettings, Settings, UploadSettings

ROOT = Path(__file__).parents[2]
DOCS = sorted(page for page in (ROOT / "docs").rglob("*.md") if not page.is_symlink())
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)")
#: Settings that say what is done, not how much of it.
NO_LIMITS = {
    "host", "port", "advertise", "fps", "max_fps", "buffer_size", "codec", "auth", "origins", "hosts", "slow_client",
    "proxies", "takeover", "viewers", "record", "moderate", "limits", "uploads", "tracing", "tls", "isolation",
    "ranks", "frame_ancestors", "management",
}  # fmt: skip


def fields(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


def rows() -> list[list[str]]:
    lines = (ROOT / "docs" / "reference" / "limits.md").read_text(encoding="utf-8").splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| `")]


@cache
def functions(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_limit_of_the_settings_is_there_and_no_other():
    limits = {f"limits.{name}" for name in fields(LimitSettings)}
    limits |= {f"uploads.{name}" for name in fields(UploadSettings) - {"folder"}}
    limits |= fields(Settings) - NO_LIMITS
    assert {row[0].strip("`") for row in rows()} == limits


def test_every_limit_has_both_tests():
    for row in rows():
        beyond, within = row[3:5]
        assert NAMED.match(beyond), row
        assert NAMED.match(within) or within == "the same", row


@pytest.mark.parametrize("document", DOCS, ids=lambda path: path.name)
def test_the_tests_that_a_page_names_exist(document):
    named = set(NAMED.findall(document.read_text(encoding="utf-8")))
    missing = {f"{path}::{name}" for path, name in named if name not in functions(ROOT / path)}
    assert not missing
