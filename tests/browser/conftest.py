"""A browser for the tests of the page, and the conversation partners that they need."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import needs
from tests.support.fake_page_server import FakeServer, fake_server
from tests.support.page_scripts import READ_BACK

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

CHROMIUM = "/usr/bin/chromium"
#: The last of such flags counts, so Playwright's own are repeated here.
WITHOUT = [
    "DestroyProfileOnBrowserClose", "HttpsFirstBalancedModeAutoEnable", "HttpsUpgrades", "LensOverlay", "MediaRouter",
    "NetworkTimeServiceQuerying", "OptimizationHints", "PaintHolding", "PreconnectToSearch", "ThirdPartyStoragePartitioning",
    # For each context these start a process of their own, which takes as long as the page under test.
    "SpareRendererForSitePerProcess", "WebUIOmniboxAimPopup", "WebUIOmniboxPopup",
]  # fmt: skip
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
    "--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",  # a camera and a microphone, both allowed
    f"--disable-features={','.join(WITHOUT)}",
    "--host-resolver-rules=MAP lan.test 127.0.0.1",  # a name that is not localhost: no secure context
]  # fmt: skip


def chromium() -> str:
    """The path of Chromium."""
    path = CHROMIUM if Path(CHROMIUM).exists() else shutil.which("chromium")
    if path is None:
        needs.missing("Chromium: apt-get install chromium")
    return path


def chromium_shell() -> str:
    """The path of the Chromium that has no windows, in which a page costs half; else that of Chromium."""
    return shutil.which("chromium-headless-shell") or chromium()


@pytest.fixture(scope="package")
def playwright() -> Iterator[Playwright]:
    """Playwright, as long as the tests of a folder run. Its asyncio loop would be in the way of tests in other folders."""
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=90_000)  # as for everything else that a page waits for: a machine may be slow
    with sync_playwright() as playwright:
        yield playwright


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """Debian's Chromium without windows, one for all tests of a folder: each test has a context of its own."""
    browser = playwright.chromium.launch(executable_path=chromium_shell(), args=FLAGS)
    yield browser
    browser.close()


@pytest.fixture(scope="module")
def whole_browser(playwright: Playwright) -> Iterator[Browser]:
    """Debian's Chromium, for what only a browser with windows can do."""
    browser = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
    yield browser
    browser.close()


@pytest.fixture
def troubles() -> list[str]:
    """The errors on the browser's console. A test that provokes errors empties this list."""
    return []


@contextmanager
def desktop_page(browser: Browser, troubles: list[str], locale: str = "en-US") -> Iterator[Page]:
    """A desktop page in a context of its own, of a browser with this language.

    A script error or a violation of the content policy fails the test. Nothing of the page moves by itself: an animation
    without end costs a sixth of a processor as long as it is shown. A test that is about one uses `page.emulate_media`.
    """
    context = browser.new_context(viewport={"width": 1280, "height": 800}, locale=locale, reduced_motion="reduce")
    page = context.new_page()
    context.add_init_script(READ_BACK)
    page.set_default_timeout(90_000)  # a machine may be slow
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    yield page
    context.close()
    assert troubles == []


@pytest.fixture
def page(browser: Browser, troubles: list[str]) -> Iterator[Page]:
    """A desktop page."""
    with desktop_page(browser, troubles) as page:
        yield page


@pytest.fixture
def lockable_page(whole_browser: Browser, troubles: list[str]) -> Iterator[Page]:
    """A desktop page that can lock the pointer."""
    with desktop_page(whole_browser, troubles) as page:
        yield page


@pytest.fixture
def server() -> Iterator[FakeServer]:
    """A server played by the test."""
    with fake_server() as server:
        yield server
