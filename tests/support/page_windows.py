"""One page in windows of several sizes: a page that is opened costs more than all that a test looks at in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.page_promises import promised

if TYPE_CHECKING:
    from playwright.sync_api import Page

Size = tuple[int, int]
#: Of what a locator finds: where each lies in the window, in px. (`bounding_box` asks the browser for one at a time.)
PLACES = "all => all.map((each) => each.getBoundingClientRect().toJSON())"
DRAWN = "() => new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))"


@contextmanager
def window(page: Page, size: Size) -> Iterator[None]:
    """Give the page a window of these px, and wait until it has drawn. A failure in the block names it."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    promised(page, DRAWN)
    with named(f"in a window of {size[0]}×{size[1]}"):
        yield


@contextmanager
def named(case: str) -> Iterator[None]:
    """A failure in the block says in which case it was."""
    try:
        yield
    except BaseException as error:
        error.add_note(case)
        raise
