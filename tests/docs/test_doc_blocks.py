"""Every code block of the documentation runs, in an empty folder, as its reader would run it.

How blocks are written is in CONTRIBUTING.md ("Code blocks"). `test_doc_examples.py` still has the older pages.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs.blocks.page import ROOT, BlockFailed, blocks_of
from tests.docs.blocks.run_page import run_page
from tests.support import needs

DOCS = ROOT / "docs"
#: the parts of the documentation whose pages follow the conventions
PARTS = ("start", "learn", "cookbook", "understand")
PAGES = [ROOT / "README.md", *sorted(page for part in PARTS for page in (DOCS / part).rglob("*.md"))]
#: where else blocks may say that they do not run
OTHERS = [ROOT / "README.md", *(ROOT / "examples").glob("**/README.md")]


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
        for page in [*DOCS.rglob("*.md"), *OTHERS]
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        if line.startswith("<!-- not run:")
    ]
    assert len(marked) <= 15, "\n".join(marked)
    for page in PAGES:
        blocks_of(page)  # raises for a reason that stands above no block
