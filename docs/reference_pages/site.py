"""The Sphinx extension: makes of each page, as GitHub shows it, the page of the site, before Sphinx reads it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reference_pages.commands import commands
from reference_pages.docstrings import for_sphinx
from reference_pages.links import links_for_the_site
from reference_pages.manifest import manifest
from reference_pages.metrics import metrics
from reference_pages.navigation import pages_below
from reference_pages.python import MODULES, home, python
from reference_pages.vectors import vectors

if TYPE_CHECKING:
    from sphinx.application import Sphinx

#: Its own lines say to readers on GitHub where they find the same.
_GENERATED = re.compile(r"^```\{generated\} (\w+) ?([\w.]*)\n(?:[^`]*\n)?```$", re.MULTILINE)
_MAKERS = {"commands": commands, "manifest": manifest, "metrics": metrics, "vectors": vectors, "python": python}
_FIRST_CELL = re.compile(r"^\| (`[^|]+`) \|", re.MULTILINE)
_NAME = re.compile(r"`(\w+)([^`]*)`")


def setup(app: Sphinx) -> dict[str, Any]:
    """Sphinx calls this once."""
    app.connect("source-read", _read)
    app.connect("autodoc-process-docstring", _docstring, priority=400)  # before Napoleon
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _read(app: Sphinx, name: str, source: list[str]) -> None:
    docs = Path(app.srcdir)
    page = docs / f"{name}.md"
    if page.exists():  # and no text that Sphinx reads beside the pages
        source[0] = page_for_the_site(source[0], page, docs)


def _docstring(_app: Sphinx, _kind: str, _name: str, _value: object, _options: object, lines: list[str]) -> None:
    lines[:] = for_sphinx(lines)


def page_for_the_site(text: str, page: Path, docs: Path) -> str:
    """Return a page's text with what is generated, links that hold on the site, and the pages below it."""
    if page == docs / "reference" / "python.md":
        text = with_entries(text)
    text = _GENERATED.sub(lambda found: _MAKERS[found[1]](*filter(None, [found[2]])), text)
    text = links_for_the_site(text, page, docs)
    if below := pages_below(page, docs):
        listed = "\n".join(f"/{each}" for each in below)
        text += f"\n\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"
    return text


def with_entries(text: str) -> str:
    """Return the page of all public names, in which each name leads to its entry."""
    head, *sections = text.split("\n## `")
    return "\n## `".join([head, *(_linked(section) for section in sections)])


def _linked(section: str) -> str:
    module = section.partition("`")[0]
    if module not in MODULES:
        return section

    def role(found: re.Match[str]) -> str:
        name, rest = found.groups()
        return f"{{py:obj}}`{name}{rest} <{home(name, module)}.{name}>`"

    return _FIRST_CELL.sub(lambda cell: f"| {_NAME.sub(role, cell[1])} |", section)
