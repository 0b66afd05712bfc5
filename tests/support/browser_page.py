"""A page in any browser, for tests that run in several: what they do with it, and how Chromium does it.

`bidi.py` does it in Firefox, `webdriver.py` in WebKitGTK.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from tests.support.package_page import ask

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page


class BrowserPage(Protocol):
    """One page, loaded anew as often as a test wants."""

    #: what came to the browser's console, as far as the browser tells that
    said: list[str]

    def go(self, url: str) -> None:
        """Load a page, with all that it loads itself."""

    def ask(self, script: str) -> Any:
        """The JSON value that `script`, the body of an async function, returns in the page."""

    def click(self, selector: str) -> None:
        """Click an element as a person does: the page may then play sound."""


class ChromiumPage:
    """A page that Playwright drives."""

    def __init__(self, page: Page) -> None:
        self.said: list[str] = []
        self._page = page
        page.set_default_timeout(90_000)  # a machine may be slow
        page.on("console", lambda message: self.said.append(message.text))
        page.on("pageerror", lambda error: self.said.append(str(error)))

    def go(self, url: str) -> None:
        self._page.goto(url)

    def ask(self, script: str) -> Any:
        return ask(self._page, script)

    def click(self, selector: str) -> None:
        self._page.click(selector)


@contextmanager
def chromium_page(browser: Browser) -> Iterator[ChromiumPage]:
    """A page that shares no cookies and no storage with others."""
    with browser.new_context() as context:
        yield ChromiumPage(context.new_page())
