"""`links_for_the_site`: a page's links to files that are not part of the site lead to the repository."""

from __future__ import annotations

import re
from pathlib import Path

REPOSITORY = "https://github.com/reactor-trio/reactor-trio"
_LINK = re.compile(r"\]\(([^)#:\s]+)(#[^)\s]*)?\)")


def links_for_the_site(text: str, page: Path, docs: Path) -> str:
    """Return the page's text. Links within `docs`, and all others with a scheme, stay as they are."""

    def outside(found: re.Match[str]) -> str:
        target = (page.parent / found[1]).resolve()
        if target.is_relative_to(docs):
            return found[0]
        kind = "tree" if target.is_dir() else "blob"
        return f"]({REPOSITORY}/{kind}/main/{target.relative_to(docs.parent)}{found[2] or ''})"

    return _LINK.sub(outside, text)
