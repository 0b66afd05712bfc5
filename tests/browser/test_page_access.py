"""The page of a server that needs a token: the page asks for it, hides it, and shares a link that only allows watching."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.real_server import ENVIRONMENT, REACTOR, real_server

TOKEN = "t&en-of-16-letters"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("project")
    subprocess.run([*REACTOR, "init", "demo"], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)
    manifest = folder / "demo" / "reactor.yaml"
    manifest.write_text("model: pipeline:MyModel\nname: demo\nconfig: config.yml\n"
                        f"runtime: {{queue: 0, auth: {{token: {TOKEN}}}}}\n")  # fmt: skip
    with real_server(Path(manifest.parent), "--set", "width=160", "--set", "height=120") as url:
        yield url


def test_the_page_asks_for_a_token_and_keeps_it_for_the_tab(url: str, page: Page, troubles: list[str]) -> None:
    page.goto(url)
    field = page.get_by_label("Token", exact=True)
    expect(page.locator("#overlay-text")).to_have_text("This server wants a token.")
    expect(field).to_be_focused()
    field.fill("not-the-token-of-it")
    field.press("Enter")
    expect(page.locator("#overlay-text")).to_have_text("Not let in: this token is not one that this server knows.")
    field.fill(TOKEN)
    page.get_by_role("button", name="Connect", exact=True).click()
    expect(page.locator('body[data-state="live"]')).to_be_attached()
    page.reload()
    expect(page.locator('body[data-state="live"]')).to_be_attached()
    assert page.url == url
    assert all("401" in trouble or "HTTP Authentication failed" in trouble for trouble in troubles)
    troubles.clear()


def test_a_link_with_a_token_leaves_no_trace_and_the_shared_one_only_watches(url: str, browser: Browser) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(f"{url}#token={TOKEN.replace('&', '%26')}")
    expect(page.locator('body[data-state="live"]')).to_be_attached()
    assert page.url == url
    page.get_by_role("button", name="Watch link").click()
    expect(page.locator("#toasts")).to_contain_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    assert TOKEN not in link
    stranger = browser.new_context().new_page()
    stranger.goto(link)
    expect(stranger.locator("#status")).to_have_text("watching")
    assert stranger.url == f"{url}?role=viewer"
    stranger.goto(link.replace("role=viewer", "role=control"))
    expect(stranger.locator("#overlay-text")).to_contain_text("This token can only watch")
    stranger.context.close()
    context.close()
