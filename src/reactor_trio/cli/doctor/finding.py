"""The findings of `reactor doctor`'s checks."""

from __future__ import annotations

from typing import Literal

import msgspec

from reactor_trio.plain_text import one_line


class Finding(msgspec.Struct, frozen=True):
    """The result of one check, printed as one line.

    Attributes:
        check: name of the check, one word.
        verdict: "problem": the server would not start, or would fail its clients; "warning": it works, but badly.
        text: what the check saw.
        remedy: what the user should do; empty if nothing.
    """

    check: str
    verdict: Literal["ok", "warning", "problem"]
    text: str
    remedy: str = ""


def ok(check: str, text: str) -> Finding:
    """Make a finding without a remedy."""
    return Finding(check, "ok", one_line(text))


def warning(check: str, text: str, remedy: str = "") -> Finding:
    """Make a finding of something that works, but badly."""
    return Finding(check, "warning", one_line(text), remedy)


def problem(check: str, text: str, remedy: str = "") -> Finding:
    """Make a finding of something that keeps the server from starting or makes it fail its clients."""
    return Finding(check, "problem", one_line(text), remedy)
