"""Every code block of the documentation runs, in an empty folder, as its reader would run it.

How blocks are written is in CONTRIBUTING.md ("Code blocks").
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.blocks.page import ROOT, BlockFailed, blocks_of
from tests.docs.blocks.run_page import run_page
from tests.support import needs

DOCS = ROOT / "docs"
#: It is history, with what was true then.
HISTORY = DOCS / "contribute" / "before-0.1.md"
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted(page for page in DOCS.rglob("*.md") if page != HISTORY and not page.is_symlink()),
    *sorted(page for folder in ("clients", "deploy", "examples") for page in (ROOT / folder).rglob("README.md")
            if "node_modules" not in page.parts),
]  # fmt: skip


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    try:
        run_page(page, tmp_path)
    except BlockFailed as error:
        absent = needs.absent_in(str(error)) is not None or "is not installed here" in str(error)
        if absent and not needs.all_needed():
            pytest.skip(str(error))
        raise


def test_few_blocks_do_not_run_and_each_has_a_reason() -> None:
    marked = [
        f"{page.relative_to(ROOT)}:{number}: {line}"
        for page in PAGES
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if line.startswith("<!-- not run:")
    ]
    assert len(marked) <= 15, "\n".join(marked)
    for page in PAGES:
        blocks_of(page)  # raises for a reason that stands above no block
