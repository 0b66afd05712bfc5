"""A browser for the tests of the package. Their pages come from the test itself, under the address of a server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser.conftest import FLAGS, chromium, troubles
from tests.browser.conftest import page as browser_page

__all__ = ["browser", "browser_page", "troubles"]

#: a page that a test fulfils counts as one of another network, and may then not open a WebSocket to this machine
ALLOWED = "--disable-features=LocalNetworkAccessChecks"

expect.set_options(timeout=90_000)  # as for everything else that a page waits for: a machine may be slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, one for all tests of a module."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS, ALLOWED])
        yield browser
        browser.close()


@pytest.fixture
def page(browser_page: Page, troubles: list[str]) -> Page:
    """A page that says nothing on its console, errors or not; a rejection that nobody handles counts as an error."""
    browser_page.on("console", lambda message: troubles.append(message.text) if message.type != "error" else None)
    return browser_page
