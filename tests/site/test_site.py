"""The site that `scripts/docs` makes: without a warning, and usable from a folder that a browser opens as files."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, sync_playwright
from tests.browser.conftest import FLAGS, chromium_shell

ROOT = Path(__file__).parents[2]


pytestmark = pytest.mark.needs("sphinx")


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    options = ["--quiet", "--fail-on-warning", "--keep-going"]
    command = [sys.executable, "-m", "sphinx", *options, str(ROOT / "docs"), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return folder


@pytest.fixture
def page() -> Iterator[Page]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium_shell(), args=FLAGS)
        yield browser.new_page()
        browser.close()


def test_every_page_of_the_docs_is_a_page_of_the_site(site):
    sources = [page for page in (ROOT / "docs").rglob("*.md") if not page.is_symlink()]
    pages = [page.relative_to(ROOT / "docs").with_suffix(".html") for page in sources]
    assert [str(page) for page in pages if not (site / page).exists()] == []


def test_the_python_reference_has_types_and_links_between_names(site):
    client = (site / "reference" / "python" / "client.html").read_text(encoding="utf-8")
    assert 'id="reactor_trio.client.Client"' in client
    assert 'href="#reactor_trio.client.Client"' in client  # the result of connect()
    names = (site / "reference" / "python.html").read_text(encoding="utf-8")
    assert 'href="python/interface.html#reactor_trio.interface.ReactorPipeline"' in names
    assert 'href="python/errors.html#reactor_trio.errors.CommandError"' in names


def test_the_site_works_from_files_search_included_and_asks_no_other_host(site, page):
    asked: list[str] = []
    wrong: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda message: wrong.append(message.text) if message.type == "error" else None)
    for name in ("reference/python/client", "reference/client/page", "index"):
        page.goto((site / f"{name}.html").as_uri())
    page.locator("input[name=q]").first.fill("gamepad")
    page.keyboard.press("Enter")
    found = page.locator("#search-results li a")
    found.first.wait_for()
    titles = found.all_inner_texts()
    assert any("viewer page" in title for title in titles), titles
    page.get_by_role("link", name="The viewer page", exact=True).first.click()
    page.wait_for_url("**/reference/client/page.html**")
    assert {urlsplit(url).scheme for url in asked} <= {"file", "data"}
    assert wrong == []
