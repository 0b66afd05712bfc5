"""The viewer page after a lost link and after a reload, with a real server: the same session goes on."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.test_page import state
from tests.support import adder
from tests.support.cut_link import CutLink, cut_link, port_of
from tests.support.fake_page_server import FakeServer, command, picture
from tests.support.real_server import real_server


@pytest.fixture(scope="module")
def link(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CutLink]:
    """The way to `reactor run`, which drains and exits with 0 when the tests are done."""
    folder = tmp_path_factory.mktemp("project")
    shutil.copy(adder.__file__, folder)
    (folder / "reactor.yaml").write_text("model: adder:Adder\nname: adder\nruntime:\n  resume_window: 20\n")
    with real_server(folder) as url, cut_link(port_of(url)) as link:
        yield link


def counts(page: Page) -> list[int]:
    """The model's messages, oldest first."""
    lines = page.locator("#log-list li", has_text="counted").all_text_contents()
    return [int(re.search(r'"count":(\d+)', line)[1]) for line in reversed(lines)]


def shown(page: Page, total: int) -> None:
    """Wait until the picture shows this total."""
    page.wait_for_function(
        """(grey) => {
            const canvas = document.querySelector("canvas");
            const [red] = canvas.getContext("2d").getImageData(32, 32, 1, 1).data;
            return Math.abs(red - grey) < 8;
        }""",
        arg=40 + 30 * total,
    )


def test_the_session_goes_on_after_a_lost_link_and_after_a_reload(link: CutLink, page: Page, troubles: list[str]) -> None:
    page.goto(f"http://127.0.0.1:{link.port}/")
    body = page.locator("body")
    expect(body).to_have_attribute("data-state", "live")
    add = page.get_by_role("button", name="Add")
    add.click()
    shown(page, 1)
    # The first answered command brings the parts of its latency: these files have come before the link is cut.
    expect(page.locator("#latency:not([hidden])")).to_be_attached()

    link.drop()
    expect(body).to_have_attribute("data-state", "resuming")
    expect(page.locator("#overlay-text")).to_have_text("Reconnecting …")
    shown(page, 1)  # held
    add.click()  # given while there is no link
    link.restore()
    expect(body).to_have_attribute("data-state", "live")
    shown(page, 2)
    add.click()
    shown(page, 3)
    expect(page.locator("#log-list li", has_text="counted")).to_have_count(3)
    assert counts(page) == [1, 2, 3]

    page.reload()
    expect(body).to_have_attribute("data-state", "live")
    shown(page, 3)
    page.get_by_role("button", name="Add").click()
    shown(page, 4)
    assert counts(page) == [4]
    assert all("WebSocket" in trouble for trouble in troubles)  # the browser tells of each try that is refused
    troubles.clear()


def test_a_file_that_a_cut_link_kept_back_is_asked_for_again_once_it_is_back(
    server: FakeServer, page: Page, troubles: list[str]
) -> None:
    asked: list[str] = []

    def answer(route: Route) -> None:
        asked.append(route.request.url)
        if len(asked) == 1:
            route.abort("connectionreset")
        else:
            route.continue_()

    page.route("**/figures-panel.js", answer)
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(command("go", "Go"))
    state(page, "live")
    page.get_by_role("button", name="Go").click()
    message = peer.next()
    peer.ack(message)
    with page.expect_event("requestfailed"):
        peer.frame(1, picture(1, 200, 1), command=message["id"], timing=[1500, 2000, 500, 250])
    expect(page.locator("#latency:not([hidden])")).to_be_attached()
    assert len(asked) == 2
    assert len(troubles) == 1
    assert "net::ERR_CONNECTION_RESET" in troubles.pop()
