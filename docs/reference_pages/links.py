"""`links_for_the_site`: a page's links to files that are not part of the site lead to the repository.

And an anchor that a page sets itself, `<a id="no-yield"></a>`, which GitHub knows, becomes one that Sphinx knows.
"""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = "https://github.com/reactor-trio/reactor-trio"
_ANCHOR = re.compile(r'^<a id="([\w-]+)"></a>$', re.MULTILINE)
_LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def links_for_the_site(text: str, page: Path, docs: Path) -> str:
    """Return the page's text. All other links within `docs`, and those with a scheme, stay as they are."""

    def link(found: re.Match[str]) -> str:
        target = (page.parent / found[1]).resolve()
        if target.is_relative_to(docs):
            return f"]({found[2]})" if found[2] and found[2][1:] in own_anchors(target) else found[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"]({REPOSITORY}/{kind}/main/{target.relative_to(docs.parent)}{found[2] or ''})"

    return _ANCHOR.sub(r"(\1)=", _LINK.sub(link, text))


def own_anchors(page: Path) -> set[str]:
    """Return the anchors that a page sets itself."""
    return set(_ANCHOR.findall(page.read_text(encoding="utf-8"))) if page.suffix == ".md" else set()
