"""Text of which a part may be another program's or the author's, for output of this one."""

from __future__ import annotations

from collections.abc import Iterable


def one_line(text: str) -> str:
    """Return `text` in one line: white space and control characters are single blanks."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def sendable(text: object) -> str:
    """Return `str(text)` in a form that UTF-8 can encode: lone surrogates, as in some file names, become question marks.

    `text` may be an exception of author code, whose `__str__` may raise.
    """
    try:
        said = str(text)
    except Exception as raised:
        said = f"(its __str__ raised {type(raised).__name__})"
    return said.encode(errors="replace").decode()


def similar(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return the known name that is most like this one; "" if none is, as far as `cutoff` (0 to 1) asks for."""
    import difflib  # here, since only a mistake needs it

    return next(iter(difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)), "")
