"""Browsers for the tests of the package, and the servers and the site that these tests share.

Chromium must be there. Where Firefox or WebKitGTK is absent their tests are skipped, and the last lines of the run say so.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import pytest

from tests.browser.conftest import FLAGS, WITHOUT, chromium, chromium_shell, playwright, troubles
from tests.browser.conftest import page as browser_page
from tests.support import painter as painter_model
from tests.support.bidi import Firefox, run_firefox
from tests.support.browser_page import BrowserPage, chromium_page
from tests.support.painter_page import PAGE
from tests.support.real_server import real_server
from tests.support.web_client import bundle
from tests.support.web_pages import page_at_8080, web_site
from tests.support.webdriver import WebKit, run_webkit

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Playwright

__all__ = ["browser_page", "playwright", "troubles"]

#: a page that a test fulfils counts as one of another network, and may then not open a WebSocket to this machine
ALLOWED = f"--disable-features={','.join([*WITHOUT, 'LocalNetworkAccessChecks'])}"
TOKEN = "a-token-of-sixteen-characters"
#: what the last lines of the run say of each browser
ENGINES = pytest.StashKey[dict[str, list[str]]]()

OpenPage = Callable[[], AbstractContextManager[BrowserPage]]


def pytest_configure(config: pytest.Config) -> None:
    config.stash[ENGINES] = {}


def pytest_sessionfinish(session: pytest.Session) -> None:
    if (output := getattr(session.config, "workeroutput", None)) is not None:  # a worker of xdist: what it gives to the run
        output["engines"] = session.config.stash[ENGINES]


@pytest.hookimpl(optionalhook=True)  # without xdist it is no hook
def pytest_testnodedown(node: Any) -> None:
    for name, told in getattr(node, "workeroutput", {}).get("engines", {}).items():
        known = facts(node.config, name)
        known += [each for each in told if each not in known]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for name, told in config.stash[ENGINES].items():
        terminalreporter.write_line(f"{name}: {'; '.join(told)}")


def facts(config: pytest.Config, name: str) -> list[str]:
    """What the last lines of the run will say of a browser."""
    return config.stash[ENGINES].setdefault(name, [])


def absent(config: pytest.Config, name: str, remedy: str) -> NoReturn:
    facts(config, name).append(f"absent, so its tests were skipped: {remedy}")
    pytest.skip(f"{name} is not installed: {remedy}")


@pytest.fixture(scope="package")
def browser(playwright: Playwright) -> Iterator[Browser]:
    """Debian's Chromium without windows, one for all tests of a folder: each test has a context of its own."""
    browser = playwright.chromium.launch(executable_path=chromium_shell(), args=[*FLAGS, ALLOWED])
    yield browser
    browser.close()


@pytest.fixture(scope="package")
def whole_browser(playwright: Playwright) -> Iterator[Browser]:
    """Debian's Chromium, for the tests that all browsers share."""
    browser = playwright.chromium.launch(executable_path=chromium(), args=[*FLAGS, ALLOWED])
    yield browser
    browser.close()


@pytest.fixture
def page(browser_page: Page, troubles: list[str]) -> Page:
    """A page that says nothing on its console, errors or not; a rejection that nobody handles counts as an error."""
    browser_page.on("console", lambda message: troubles.append(message.text) if message.type != "error" else None)
    return browser_page


@pytest.fixture(scope="session")
def firefox(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Firefox]:
    """Firefox, one for the whole run."""
    program = shutil.which("firefox-esr") or shutil.which("firefox")
    if program is None:
        absent(pytestconfig, "Firefox", "apt-get install firefox-esr")
    with run_firefox(program, tmp_path_factory.mktemp("firefox")) as browser:
        facts(pytestconfig, "Firefox").append(browser.version)
        yield browser


@pytest.fixture(scope="session")
def webkit(pytestconfig: pytest.Config) -> Iterator[WebKit]:
    """WebKitGTK, one for the whole run."""
    if not (shutil.which("WebKitWebDriver") and shutil.which("Xvfb")):
        absent(pytestconfig, "WebKitGTK", "apt-get install webkit2gtk-driver xvfb")
    with run_webkit() as browser:
        facts(pytestconfig, "WebKitGTK").append(browser.version)
        yield browser


@pytest.fixture(scope="module", params=["Chromium", "Firefox", "WebKitGTK"])
def engine(request: pytest.FixtureRequest) -> str:
    """The name of the browser that the test runs in."""
    return request.param


@pytest.fixture(scope="module")
def open_page(engine: str, request: pytest.FixtureRequest) -> OpenPage:
    """Opens a page in that browser."""
    if engine == "Firefox":
        return request.getfixturevalue("firefox").page
    if engine == "WebKitGTK":
        return request.getfixturevalue("webkit").page
    return partial(chromium_page, request.getfixturevalue("whole_browser"))


@pytest.fixture
def tab(open_page: OpenPage) -> Iterator[BrowserPage]:
    """A page whose console stays empty. A test that provokes messages empties `said`."""
    with open_page() as tab:
        yield tab
        assert tab.said == []


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An origin with an empty page, and the package as bundlers make it: one file, with worker and worklets beside it."""
    folder = tmp_path_factory.mktemp("site")
    workers = ("decoder-worker", "audio-player-worklet", "microphone-worklet")
    bundle(folder, "src/index.ts", "src/wire.ts", *(f"src/worker/{name}.ts" for name in workers))
    (folder / "index.html").write_text("<!doctype html><link rel=icon href=data:,><body></body>")
    with web_site(folder) as address:
        yield address


@pytest.fixture(scope="session")
def painter(site: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a server of the painter; each test ends its session."""
    project = tmp_path_factory.mktemp("painter")
    shutil.copy(painter_model.__file__, project)
    (project / "reactor.yaml").write_text("name: painter\nmodel: painter:Painter\n")
    with real_server(project, "--origin", site) as address:
        yield address


@pytest.fixture(scope="session")
def address(painter: str) -> str:
    """The same server, for tests whose pages are of its own origin."""
    return painter


@pytest.fixture(scope="session")
def guarded(site: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server of the painter that wants `TOKEN`, and keeps the session of a lost client."""
    project = tmp_path_factory.mktemp("guarded")
    shutil.copy(painter_model.__file__, project)
    (project / "reactor.yaml").write_text(
        f"model: painter:Painter\nruntime: {{resume_window: 20, auth: {{token: {TOKEN}}}}}\n"
    )
    with real_server(project, "--origin", site) as address:
        yield address


@pytest.fixture
def place(tab: BrowserPage, site: str, painter: str) -> Iterator[BrowserPage]:
    """An empty page that has the package, and a server of another origin that lets it in."""
    tab.go(site)
    tab.ask(f"{PAGE} window.painter = {json.dumps(painter)};")
    yield tab
    tab.ask("await window.client?.close()")
    assert tab.ask("return errors") == []


@pytest.fixture(scope="module")
def applications(folder: Path) -> Iterator[str]:
    """The address of the applications in a test module's own `folder`."""
    with web_site(folder) as address:
        yield address


@pytest.fixture(scope="module")
def port_8080(model: str, playwright: Playwright) -> Iterator[Page]:
    """A page whose browser finds a test module's own `model` at port 8080."""
    with page_at_8080(playwright, model) as page:
        yield page
