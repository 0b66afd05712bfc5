"""Links in the repository's Markdown lead to files that exist, and to headings by the rule by which GitHub names them.

The site has the same anchors; that its links hold, its build says (`tests/site`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("docs", "examples", "deploy", "clients/web")
PAGES = [
    *ROOT.glob("*.md"),
    *(page for folder in FOLDERS for page in sorted((ROOT / folder).rglob("*.md")) if "node_modules" not in page.parts),
]
PAGES = [page for page in PAGES if not page.is_symlink()]  # docs/cli.md and docs/protocol.md lead to their pages
FENCE = re.compile(r"^( *)(```+|~~~+).*?^\1\2$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^()\s#]*)(?:#([^()\s]*))?\)")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)


def prose(page: Path) -> str:
    return FENCE.sub("", page.read_text(encoding="utf-8"))


@cache
def anchors(page: Path) -> set[str]:
    """As GitHub makes them: small letters, no signs, hyphens for spaces, a number from the second of a name on."""
    names: dict[str, int] = {}
    for heading in HEADING.findall(prose(page)):
        shown = re.sub(r"!?\[([^]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        names[name] = names.get(name, 0) + 1
    own = set(re.findall(r'^<a id="([\w-]+)"></a>$', prose(page), re.MULTILINE))
    return own | {name if number == 0 else f"{name}-{number}" for name, count in names.items() for number in range(count)}


def dead(page: Path) -> Iterator[str]:
    for path, anchor in LINK.findall(prose(page)):
        if ":" in path:
            continue
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield f"{path}#{anchor}".rstrip("#")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_links_of_a_page_lead_to_files_and_headings(page):
    assert list(dead(page)) == []


def test_a_dead_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        '# Of `a_b` & [c](other.md)\n## Twice\n## Twice\n<a id="own"></a>\n'
        "[0](page.md#own) [1](#of-a_b--c) [2](#twice-1) [3](page.md#twice) [4](https://example.org/x) [5](missing.md)\n"
        "[6](#twice-2)\n"
        "```\n# no heading\n[7](missing.md)\n```\n[8](#no-heading)\n"
    )
    assert list(dead(page)) == ["other.md", "missing.md", "#twice-2", "#no-heading"]


def test_the_errors_and_log_lines_of_the_package_name_pages_that_exist():
    named = {
        name: path
        for path in (*(ROOT / "src").rglob("*.py"), ROOT / "reactor.yaml.example", *(ROOT / "deploy").rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
        for name in re.findall(r"\bdocs/[\w/-]+\.(?:md|json)\b", path.read_text(encoding="utf-8"))
    }
    assert named
    assert {name: path for name, path in named.items() if not (ROOT / name).exists()} == {}
