"""Text of which a part may be another program's, for output of this one."""

from __future__ import annotations


def one_line(text: str) -> str:
    """Return `text` in one line: white space and control characters are single blanks."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())
