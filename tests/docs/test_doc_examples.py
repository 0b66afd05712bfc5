"""Each topic of the reference shows a test; a guide names none. `test_doc_blocks.py` runs the code of all pages."""

from __future__ import annotations

import pytest
from tests.docs.blocks.page import ROOT, blocks_of

DOCS = ROOT / "docs"
REFERENCE = DOCS / "reference"
#: Pages that say exactly how a part behaves. What they say, their tests hold.
TOPICS = [
    *sorted(page for part in ("model", "runtime") for page in (REFERENCE / part).glob("*.md") if page.stem != "index"),
    *(REFERENCE / "client" / name for name in ("python-client.md", "types.md", "web-client.md", "web-migration.md")),
    *(DOCS / "operate" / name for name in ("cluster.md", "loadtest.md")),
]
#: Parts that teach. They promise nothing that the reference does not, so they name no tests of the runtime.
GUIDES = ("start", "learn", "cookbook", "understand")


@pytest.mark.parametrize("page", TOPICS, ids=lambda page: page.stem)
def test_every_topic_of_the_reference_shows_a_test(page):
    assert any(block.language == "python" and "async def test_" in block.text for block in blocks_of(page))


def test_what_the_runtime_promises_stands_in_the_reference_not_in_the_guides():
    pages = [page for part in GUIDES for page in (DOCS / part).rglob("*.md")]
    assert [page for page in pages if "`tests/" in page.read_text(encoding="utf-8")] == []
