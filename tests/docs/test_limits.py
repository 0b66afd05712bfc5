"""`docs/reference/limits.md` has every limit with its default, `docs/contribute/limits-and-queues.md` the tests of each.

And `docs/*.md` name only tests that exist.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import msgspec
import pytest

from reactor_trio.configuration.settings import LimitSettings, Settings, UploadSettings, WorldSettings

ROOT = Path(__file__).parents[2]
DOCS = sorted(page for page in (ROOT / "docs").rglob("*.md") if not page.is_symlink())
NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)")
#: Settings that say what is done, not how much of it.
NO_LIMITS = {
    "host", "port", "advertise", "fps", "max_fps", "buffer_size", "codec", "auth", "origins", "hosts", "slow_client",
    "proxies", "takeover", "viewers", "record", "moderate", "limits", "uploads", "worlds", "tracing", "tls", "isolation",
    "ranks", "frame_ancestors", "management",
}  # fmt: skip


def fields(kind: type[msgspec.Struct]) -> set[str]:
    return {field.name for field in msgspec.structs.fields(kind)}


def cells(text: str) -> list[list[str]]:
    """The rows of all tables of a text, without their heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    heads = {number - 1 for number, line in enumerate(lines) if line.startswith("|--")}
    return [
        [cell.strip() for cell in line.strip("|").split("|")]
        for number, line in enumerate(lines) if number not in heads and not line.startswith("|--")
    ]  # fmt: skip


def limits() -> tuple[list[list[str]], list[list[str]]]:
    """The rows of the limits that have a key, and of the fixed ones."""
    settable, _, fixed = (ROOT / "docs" / "reference" / "limits.md").read_text(encoding="utf-8").partition("## Fixed limits")
    return cells(settable), cells(fixed)


def held_by() -> list[list[str]]:
    page = (ROOT / "docs" / "contribute" / "limits-and-queues.md").read_text(encoding="utf-8")
    return cells(page.partition("\n## Queues\n")[0])


def default_of(key: str) -> float | None:
    value: object = Settings()
    for name in key.split("."):
        value = getattr(value, name)
    assert value is None or isinstance(value, int | float)
    return value


@cache
def functions(path: Path) -> set[str]:
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return {node.name for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_limit_of_the_settings_is_there_and_no_other():
    of_settings = {f"limits.{name}" for name in fields(LimitSettings)}
    of_settings |= {f"uploads.{name}" for name in fields(UploadSettings) - {"folder"}}
    of_settings |= {f"worlds.{name}" for name in fields(WorldSettings) - {"allow", "accept", "store", "keys"}}
    of_settings |= fields(Settings) - NO_LIMITS
    shown = [key.strip("`") for _, key, _, _ in limits()[0]]
    assert sorted(shown) == sorted(of_settings)


def test_the_defaults_are_those_of_the_settings():
    shown = {key.strip("`"): default.split()[0] for _, key, default, _ in limits()[0]}
    assert shown == {key: "null" if default_of(key) is None else f"{default_of(key):.12g}" for key in shown}


def test_every_limit_has_both_tests():
    settable, fixed = limits()
    assert sorted(row[0] for row in held_by()) == sorted([row[1] for row in settable] + [row[0] for row in fixed])
    for name, beyond, within in held_by():
        assert NAMED.match(beyond), name
        assert NAMED.match(within) or within == "the same", name


@pytest.mark.parametrize("document", DOCS, ids=lambda path: path.name)
def test_the_tests_that_a_page_names_exist(document):
    named = set(NAMED.findall(document.read_text(encoding="utf-8")))
    missing = {f"{path}::{name}" for path, name in named if name not in functions(ROOT / path)}
    assert not missing
