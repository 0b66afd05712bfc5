"""`Section`: a mistake and its remedy."""

from __future__ import annotations

from typing import NamedTuple


class Section(NamedTuple):
    """A section of the page.

    Attributes:
        title: the mistake, as its author would say it.
        remedy: what to do.
        modules: those whose errors have this section, without `reactor_trio.`.
    """

    title: str
    remedy: str
    modules: tuple[str, ...] = ()
