"""What one check of `reactor doctor` found."""

from __future__ import annotations

from typing import Literal

import msgspec

__all__ = ["Finding", "ok", "problem", "warning"]


class Finding(msgspec.Struct, frozen=True):
    """One line.

    Attributes:
        check: what was looked at, one word.
        verdict: "problem": the server would not start, or fail its clients; "warning": it works, worse than it could.
        text: what was seen.
        remedy: what to do; empty if nothing is.
    """

    check: str
    verdict: Literal["ok", "warning", "problem"]
    text: str
    remedy: str = ""


def ok(check: str, text: str) -> Finding:
    """Nothing to do."""
    return Finding(check, "ok", _one_line(text))


def warning(check: str, text: str, remedy: str = "") -> Finding:
    """It works, worse than it could."""
    return Finding(check, "warning", _one_line(text), remedy)


def problem(check: str, text: str, remedy: str = "") -> Finding:
    """The server would not start, or fail its clients."""
    return Finding(check, "problem", _one_line(text), remedy)


def _one_line(text: str) -> str:
    return " ".join(text.split())
