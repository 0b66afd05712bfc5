"""Every code block of the documentation runs, in an empty folder, as its reader would run it.

How blocks are written is in CONTRIBUTING.md ("Code blocks"). `test_doc_examples.py` still has the older pages.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.blocks.page import ROOT, blocks_of
from tests.docs.blocks.run_page import run_page

DOCS = ROOT / "docs"
#: the parts of the documentation whose pages follow the conventions
PARTS = ("start", "learn", "cookbook", "understand")
PAGES = sorted(page for part in PARTS for page in (DOCS / part).rglob("*.md"))
#: where else blocks may say that they do not run
OTHERS = [ROOT / "README.md", *(ROOT / "examples").glob("**/README.md")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_blocks_of_a_page_run(page: Path, tmp_path: Path) -> None:
    run_page(page, tmp_path)


def test_few_blocks_do_not_run_and_each_has_a_reason() -> None:
    marked = [
        f"{page.relative_to(ROOT)}:{number}: {line}"
        for page in [*DOCS.rglob("*.md"), *OTHERS]
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if line.startswith("<!-- not run:")
    ]
    assert len(marked) <= 15, "\n".join(marked)
    for page in PAGES:
        blocks_of(page)  # raises for a reason that stands above no block
