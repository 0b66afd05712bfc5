"""`pages_below`: the order of the pages in the site's navigation is that in which the page above links them.

So GitHub shows the same order, and no list of pages is kept twice. What a page does not link comes last.
"""

from __future__ import annotations

import re
from pathlib import Path

#: The parts of the site, in the order of its navigation. A part that has no page yet is left out.
PARTS = ("start", "learn", "cookbook", "understand", "reference", "compare", "operate", "contribute")
_LINK = re.compile(r"\]\(([\w./-]+\.md)(?:#[^)]*)?\)")


def pages_below(page: Path, docs: Path) -> list[str]:
    """Return the pages directly below `page` as paths from `docs` without suffix; none, if it has no folder."""
    folder = folder_of(page)
    if folder is None:
        return []
    if folder == docs:
        return [str(each.relative_to(docs).with_suffix("")) for part in PARTS for each in _heads(docs / part)]
    linked = [(page.parent / link).resolve() for link in _LINK.findall(page.read_text(encoding="utf-8"))]
    below = [each for each in _inside(folder) if each != page]
    below.sort(key=lambda each: (linked.index(each) if each in linked else len(linked), each))
    return [str(each.relative_to(docs).with_suffix("")) for each in below]


def folder_of(page: Path) -> Path | None:
    """Return the folder whose pages are below `page`: its own for an `index.md`, and `x/` for `x.md`."""
    folder = page.parent if page.stem == "index" else page.with_suffix("")
    return folder if folder.is_dir() else None


def _heads(folder: Path) -> list[Path]:
    """The index of a folder, or all its pages if it has none."""
    index = folder / "index.md"
    return [index] if index.exists() else sorted(folder.glob("*.md"))


def _inside(folder: Path) -> list[Path]:
    subfolders = [each for each in folder.iterdir() if each.is_dir() and not each.with_suffix(".md").exists()]
    return [*folder.glob("*.md"), *(head for each in subfolders for head in _heads(each))]
