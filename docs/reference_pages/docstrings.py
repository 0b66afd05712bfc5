"""`for_sphinx`: a docstring as this project writes it, as Sphinx reads it.

Napoleon knows the sections of Google's style (`Args:`, `Attributes:`). Ours have code as in Markdown, indented after an
empty line, and lists of names below a line of their own words, such as `Class attributes, beside those of every model:`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_SECTIONS = ("Args:", "Attributes:", "Raises:", "Returns:", "Yields:", "Example:", "Examples:", "Note:", "Notes:")
_ITEM = re.compile(r"^ {4}([\w.*`, ()]+): (.*)$")


def for_sphinx(lines: Sequence[str]) -> list[str]:
    """Return the lines of a docstring with its code blocks and its lists marked as reStructuredText marks them."""
    return list(_marked(lines))


def _marked(lines: Sequence[str]) -> Iterator[str]:
    listing = code = False
    for number, line in enumerate(lines):
        before = lines[number - 1] if number else ""
        indented = line.startswith("    ")
        if line.strip() and not indented:
            listing = code = False
        if indented and not before.strip() and not listing and not code and not _in_section(lines, number):
            code = True
            yield from ("::", "")
        if indented and _heads_a_list(before):
            listing = True
            yield ""
        if listing and (found := _ITEM.match(line)):
            yield f"* ``{found[1]}``: {found[2]}"
        elif listing and indented:
            yield line[2:]
        else:
            yield line


def _heads_a_list(line: str) -> bool:
    return line.endswith(":") and not line.startswith(" ") and line not in _SECTIONS


def _in_section(lines: Sequence[str], number: int) -> bool:
    """Whether the last line that is not indented is the head of a section of Napoleon's."""
    return next((line for line in reversed(lines[:number]) if line.strip() and line[0] != " "), "") in _SECTIONS
