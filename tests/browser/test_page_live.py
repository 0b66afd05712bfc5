"""The viewer page against a real server with the model that `reactor init` writes: coloured light, and its brightness."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.page_scripts import READ_BACK
from tests.support.real_server import ENVIRONMENT, REACTOR, real_server

BUDGETS = Path(__file__).parents[2] / "clients/web/budgets.json"
# Whether the mean of all colour values that the page shows, 0 to 255, is between two bounds.
MEAN_IS_BETWEEN = """([low, high]) => {
    const canvas = document.querySelector("canvas[data-track=main_video]");
    if (!canvas) return false;
    const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
    let sum = 0;
    for (let i = 0; i < data.length; i += 4) sum += data[i] + data[i + 1] + data[i + 2];
    const mean = sum / (data.length / 4 * 3);
    return low < mean && mean < high;
}"""
DARK = [-1, 2]
NORMAL = [60, 110]
BRIGHT = [130, 255]


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `reactor run`, which drains and exits with 0 when the tests are done."""
    folder = tmp_path_factory.mktemp("project")
    subprocess.run([*REACTOR, "init", "demo"], cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)
    with real_server(folder / "demo", "--set", "width=160", "--set", "height=120") as url:
        yield url


def live(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator('body[data-state="live"]')).to_be_attached()
    page.wait_for_function(MEAN_IS_BETWEEN, arg=NORMAL)


def slider(page: Page):
    return page.get_by_label("Brightness", exact=True)


def test_the_picture_moves(url: str, page: Page) -> None:
    live(page, url)
    expect(page.locator("h1")).to_have_text("Moving light")
    expect(page.locator("#figure-format")).to_have_text("160×120 h264")
    page.wait_for_function(
        """() => {
            const canvas = document.querySelector("canvas");
            const now = [...canvas.getContext("2d").getImageData(0, canvas.height / 2, canvas.width, 1).data];
            window.first ??= now;
            return now.filter((value, i) => Math.abs(value - window.first[i]) > 30).length > 100;
        }"""
    )
    expect(page.locator("#figure-fps")).to_have_text(re.compile(r"^\d+\.\d$"))


@pytest.mark.parametrize("codec", ["jpeg", "raw"])
def test_the_slider_changes_the_pictures_brightness(url: str, page: Page, codec: str) -> None:
    live(page, f"{url}?video={codec}")
    slider(page).fill("0")
    page.wait_for_function(MEAN_IS_BETWEEN, arg=DARK)
    expect(page.locator("#figure-latency")).to_have_text(re.compile(r"^\d+$"))
    slider(page).fill("2")
    page.wait_for_function(MEAN_IS_BETWEEN, arg=BRIGHT)


def test_the_servers_refusal_is_readable(url: str, page: Page) -> None:
    live(page, url)
    exact = page.get_by_label("Brightness, exact value")
    exact.fill("5")
    exact.press("Enter")
    expect(page.get_by_role("alert").locator("code")).to_have_text("Expected float <= 2.0 - at $.brightness")
    expect(slider(page)).to_have_value("1")


def test_a_second_load_transfers_almost_nothing(url: str, page: Page) -> None:
    transferred = """() => [
        ...performance.getEntriesByType("resource").filter(({ name }) => name.includes("/page/")),
        ...performance.getEntriesByType("navigation"),
    ].map(({ name, transferSize }) => [name.split("/").at(-1) || "index.html", transferSize])"""
    live(page, url)
    first = dict(page.evaluate(transferred))
    until_the_picture = json.loads(BUDGETS.read_text())["firstLoad"]["files"]
    later = {  # asked for once the picture is there
        "details.css", "message-log.js", "scrub.js", "failure-notice.js", "ending-banner.js", "idle-bar.js",
            "figures-panel.js", "latency.css",
            "worlds.js", "worlds.css", "slots.js", "slots.css",  # of a model that saves its worlds
    }  # fmt: skip
    assert first.keys() - set(until_the_picture) <= later
    assert 30_000 < sum(first.get(name, 0) for name in until_the_picture) < 65_400  # in gzip
    page.goto(url)
    expect(page.locator('body[data-state="live"]')).to_be_attached()
    again = [size for _, size in page.evaluate(transferred) if size > 0]
    assert len(again) == 1
    assert sum(again) < 1000  # that the page itself is the same


def test_each_page_in_turn_has_fresh_state(url: str, page: Page) -> None:
    live(page, url)
    slider(page).fill("0")
    page.wait_for_function(MEAN_IS_BETWEEN, arg=DARK)
    second = page.context.new_page()
    second.goto(url)
    expect(second.locator("#overlay-text")).to_have_text("You are next.")
    page.close()
    expect(second.locator('body[data-state="live"]')).to_be_attached()
    expect(slider(second)).to_have_value("1")
    second.wait_for_function(MEAN_IS_BETWEEN, arg=NORMAL)


def test_a_viewer_watches_the_session_that_another_page_controls(url: str, page: Page) -> None:
    live(page, url)
    viewer = page.context.new_page()
    live(viewer, f"{url}?role=viewer")
    expect(slider(viewer)).to_be_disabled()
    slider(page).fill("0")
    expect(slider(viewer)).to_have_value("0")
    viewer.wait_for_function(MEAN_IS_BETWEEN, arg=DARK)


@pytest.mark.parametrize(("lang", "said", "button"), [
    ("en", "The session you watched has ended.", "Play yourself"),
    ("de", "Die Sitzung, der Sie zugesehen haben, ist zu Ende.", "Selbst spielen"),
])  # fmt: skip
def test_who_watched_a_session_that_is_over_is_told_so_and_may_play(
    url: str, browser: Browser, lang: str, said: str, button: str
) -> None:
    player = browser.new_context(permissions=["clipboard-read", "clipboard-write"]).new_page()
    player.goto(url)
    player.get_by_role("button", name="Watch link").click()
    expect(player.locator("#toasts")).to_contain_text("Link copied")
    link = player.evaluate("navigator.clipboard.readText()")
    viewer = browser.new_context(locale=lang).new_page()
    viewer.goto(link)
    expect(viewer.locator('body[data-state="live"]')).to_be_attached()
    player.context.close()
    expect(viewer.locator("#overlay-text")).to_have_text(said)
    again = browser.new_context().new_page()
    again.goto(url)
    expect(again.locator('body[data-state="live"]')).to_be_attached()  # the server has a session, but not that of the link
    late = browser.new_context(locale=lang).new_page()
    late.goto(link)
    expect(late.locator("#overlay-text")).to_have_text(said)
    expect(late.locator("#reconnect")).to_be_hidden()
    again.context.close()
    late.context.close()
    viewer.get_by_role("button", name=button).click()
    expect(viewer.locator('body[data-state="live"]')).to_be_attached()
    assert viewer.url == url
    expect(viewer.locator("#share")).to_be_visible()
    viewer.context.close()


def test_a_page_for_another_model_fails(url: str, page: Page, troubles: list[str]) -> None:
    page.goto(f"{url}?model=other")
    expect(page.locator("#overlay-text")).to_have_text("This server runs the model “demo”, not “other”.")
    assert all("404" in trouble for trouble in troubles), troubles
    troubles.clear()


def test_a_phone_needs_no_sideways_scrolling(url: str, browser: Browser) -> None:
    phone = browser.new_context(viewport={"width": 360, "height": 740}, is_mobile=True, has_touch=True)
    phone.add_init_script(READ_BACK)
    page = phone.new_page()
    live(page, url)
    assert page.evaluate("document.documentElement.scrollWidth") == 360
    box = slider(page).bounding_box()
    assert box is not None
    assert box["width"] > 250
    phone.close()
