"""The page while there is no session, no picture, or nothing that this client may change."""

from __future__ import annotations

import re
from typing import Any, Literal

import numpy as np
import pytest
import simplejpeg
from playwright.sync_api import Page, expect

from tests.browser.test_page import state, stop_clock
from tests.support.fake_page_server import FakeServer, command, picture
from tests.support.png import png

LOADING = (503, {"phase": "loading", "model": "fake", "progress": None})
LIGHT = command("set_light", light={"type": "number", "minimum": 0, "maximum": 2, "default": 1.0, "title": "Light"})
PROMPT = command("set_prompt", prompt={"type": "string", "default": "hills", "title": "Prompt"})
EXAMPLES = [{"name": "Dusk", "picture": None, "values": {"light": 0.5}}]
WINDOWS = [(1440, 900), (390, 844), (820, 1180), (844, 390)]


@pytest.mark.parametrize("size", WINDOWS)
def test_while_the_model_loads_the_words_have_the_whole_window(
    server: FakeServer, page: Page, troubles: list[str], size: tuple[int, int]
) -> None:
    """Nothing that needs a session can be pressed, and no empty panel takes room."""
    page.set_viewport_size({"width": size[0], "height": size[1]})
    server.refuse_with = 503
    server.health = LOADING
    page.goto(server.url)
    expect(page.locator("#overlay-text")).to_have_text("The model is loading.")
    for part in ("#panel", "#grip", "#tools", "#snapshot", "#fullscreen", "#panel-toggle", "#stats > summary"):
        expect(page.locator(part)).to_be_hidden()
    expect(page.locator("#panel")).to_have_css("display", "none")
    words = page.locator("#overlay-text").bounding_box()
    assert words is not None
    if size[1] > 480:  # in a low window the header lies at the side
        assert abs(words["x"] + words["width"] / 2 - size[0] / 2) <= 1
    page.goto("about:blank")  # no further try, which would be refused, too
    troubles.clear()


def test_in_the_queue_the_settings_are_there_to_look_at(server: FakeServer, page: Page) -> None:
    server.about = {"title": "Hills", "examples": EXAMPLES}
    server.commands = [LIGHT, PROMPT, command("explode")]
    page.goto(server.url)
    peer = server.accept()
    peer.say("reactor.queued", {"position": 1, "total": 1})
    light = page.get_by_label("Light", exact=True)
    expect(light).to_have_value("1")
    expect(light).to_be_disabled()
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("hills")
    expect(page.get_by_role("button", name="Dusk")).to_be_disabled()
    expect(page.locator("#actions")).to_be_hidden()
    for part in ("#tools", "#stats > summary", "#reset-settings", "#copy-settings"):
        expect(page.locator(part)).to_be_hidden()
    peer.welcome(LIGHT, PROMPT, about={"examples": EXAMPLES}, state={"light": 1.0, "prompt": "sea"})
    expect(light).to_be_enabled()
    expect(page.locator("[data-command=set_light]")).to_have_count(1)
    expect(page.get_by_label("Prompt", exact=True)).to_have_value("sea")
    expect(page.locator("#tools")).to_be_visible()


def test_a_viewer_sees_the_settings_and_changes_none(server: FakeServer, page: Page) -> None:
    page.goto(server.url + "?role=viewer")
    peer = server.accept()
    about: dict[str, Any] = {"examples": EXAMPLES}
    peer.welcome(LIGHT, command("key_w", "Forward"), command("explode"), role="viewer", about=about, state={"light": 0.5})
    peer.frame(0, picture(9, 9, 9))
    state(page, "live")
    expect(page.locator("#role-note")).to_be_visible()
    light = page.get_by_label("Light", exact=True)
    expect(light).to_have_value("0.5")
    expect(light).to_be_disabled()
    peer.say("reactor.state", {"light": 1.5})  # the one who plays
    expect(light).to_have_value("1.5")
    expect(light).to_be_disabled()
    for part in ("#reset-settings", "#copy-settings", ".reset", "#presets", "#keys", "#actions"):
        expect(page.locator(part)).to_be_hidden()
    peer.socket.close(1001)
    peer = server.accept()
    peer.welcome(LIGHT, state={"light": 1.0})  # its turn now
    expect(light).to_be_enabled()


def test_the_tools_come_with_the_first_picture(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(LIGHT)
    status = page.locator("#status")
    expect(status).to_have_text("starting")
    expect(page.locator("#panel-toggle")).to_be_visible()
    for tool in ("#snapshot", "#copy", "#clip", "#record"):
        expect(page.locator(tool)).to_be_hidden()
    peer.frame(0, picture(9, 9, 9))
    expect(status).to_have_text("live")
    for tool in ("#snapshot", "#copy", "#clip", "#record"):
        expect(page.locator(tool)).to_be_visible()


def test_the_stage_has_the_shape_of_the_models_own_picture_from_the_beginning(server: FakeServer, page: Page) -> None:
    server.pictures["hills.png"] = png(picture(9, 200, 30, 64, 48))
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(LIGHT, about={"thumbnail": "pictures/hills.png"})
    hero = page.locator("#hero")
    page.wait_for_function("() => document.querySelector('#backdrop').naturalWidth === 64")
    before = hero.bounding_box()
    assert before is not None
    assert before["width"] / before["height"] == pytest.approx(4 / 3, rel=0.01)
    peer.frame(0, picture(9, 9, 9, 64, 48))
    expect(page.locator("#status")).to_have_text("live")
    assert hero.bounding_box() == before


def luminance(rgb: np.ndarray) -> np.ndarray:
    part = rgb / 255
    linear: np.ndarray = np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4) @ (0.2126, 0.7152, 0.0722)
    return linear


def contrast(page: Page, selector: str) -> float:
    """The ratio of WCAG between an element's words and what lies behind them, where it is least."""
    words = page.locator(selector)
    place: Any = words.bounding_box()
    colour = words.evaluate("""(each) => {
        const context = new OffscreenCanvas(1, 1).getContext("2d");
        context.fillStyle = getComputedStyle(each).color;
        context.fillRect(0, 0, 1, 1);
        return [...context.getImageData(0, 0, 1, 1).data].slice(0, 3);
    }""")
    words.evaluate("(each) => each.style.opacity = 0")
    shot = simplejpeg.decode_jpeg(page.screenshot(clip=place, type="jpeg", quality=100))
    words.evaluate("(each) => each.style.opacity = ''")
    behind, text = luminance(shot), luminance(np.array(colour))
    return float(np.min((np.maximum(behind, text) + 0.05) / (np.minimum(behind, text) + 0.05)))


STRIPES = np.repeat(np.arange(64) // 8 % 2 * 255, 3).reshape(1, 64, 3).repeat(48, 0).astype(np.uint8)


@pytest.mark.parametrize("behind", ["black", "white", "stripes"])
def test_words_on_the_models_picture_can_be_read(server: FakeServer, page: Page, behind: str) -> None:
    image = {"black": picture(0, 0, 0), "white": picture(255, 255, 255), "stripes": STRIPES}[behind]
    server.pictures["hills.png"] = png(image)
    server.about = {"title": "Hills", "thumbnail": "pictures/hills.png"}
    page.goto(server.url)
    server.accept().say("reactor.queued", {"position": 3, "total": 4})
    page.wait_for_function("() => document.querySelector('#backdrop')?.naturalWidth === 64")
    expect(page.locator("#overlay-note")).not_to_be_empty()
    schemes: list[Literal["light", "dark"]] = ["light", "dark"]
    for scheme in schemes:
        page.emulate_media(color_scheme=scheme)
        for words in ("#overlay-text", "#overlay-note"):
            assert contrast(page, words) >= 4.5, (scheme, words)


#: What the line of figures says when the page has seen that the model is paused.
AT_THE_PAUSE = """() => {
    const [link, line] = [document.querySelector("#link"), document.querySelector("#stats-line")];
    new MutationObserver(() => {
        if (link.dataset.quality === "paused") window.atThePause ??= line.textContent;
    }).observe(link, { attributes: true });
}"""


def test_a_paused_model_has_no_rate(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(LIGHT, transport=("pause",))
    state(page, "live")
    page.evaluate(AT_THE_PAUSE)
    for seq in range(3):
        peer.frame(seq, picture(9, 9, 9))
    expect(page.locator("#stats-line")).to_contain_text("fps")
    peer.say("reactor.transport", {"paused": True})
    page.wait_for_function("() => window.atThePause")
    assert page.evaluate("window.atThePause") == "Stats"


@pytest.mark.parametrize("size", WINDOWS)
def test_the_models_own_picture_fills_the_stage_whatever_its_shape(
    server: FakeServer, page: Page, size: tuple[int, int]
) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.add_init_script("localStorage.room = '1.7778  fake'")
    server.pictures["hills.png"] = png(picture(9, 200, 30, 64, 64))
    server.about = {"title": "Hills", "thumbnail": "pictures/hills.png"}
    page.goto(server.url)
    server.accept().say("reactor.queued", {"position": 1, "total": 1})
    page.wait_for_function("() => document.querySelector('#backdrop')?.naturalWidth === 64")
    backdrop = page.locator("#backdrop")
    expect(backdrop).to_have_css("object-fit", "cover")
    shown, hero = backdrop.bounding_box(), page.locator("#hero").bounding_box()
    assert shown is not None
    assert hero is not None
    out = 48  # px at each edge, where it is blurred, are cut off
    expect(backdrop).to_have_css("clip-path", re.compile(rf"inset\({out}px.*"))
    assert (shown["x"] + out, shown["y"] + out) == (hero["x"], hero["y"])
    assert (shown["width"] - 2 * out, shown["height"] - 2 * out) == (hero["width"], hero["height"])


def test_the_queue_says_from_the_beginning_how_long_one_has_waited(server: FakeServer, page: Page) -> None:
    page.clock.install()
    page.goto(server.url)
    peer = server.accept()
    stop_clock(page)
    peer.say("reactor.queued", {"position": 1, "total": 1})
    note = page.locator("#overlay-note")
    expect(note).to_have_text("Your session begins by itself.")
    page.clock.run_for(5000)
    expect(note).to_have_text("Your session begins by itself. You have waited 5 s.")
    page.clock.run_for(65_000)
    expect(note).to_have_text("Your session begins by itself. You have waited 1 min 10 s.")


@pytest.mark.parametrize("size", WINDOWS[:3])
def test_while_the_model_loads_its_description_is_there(
    server: FakeServer, page: Page, troubles: list[str], size: tuple[int, int]
) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    server.refuse_with = 503
    server.health = LOADING
    server.about = {"title": "Hills", "description": "A landscape."}
    page.goto(server.url)
    expect(page.locator("#overlay-text")).to_have_text("The model is loading.")
    expect(page.locator("#about .prose")).to_have_text("A landscape.")
    expect(page.locator("#about .prose")).to_be_visible()
    page.goto("about:blank")  # no further try, which would be refused, too
    troubles.clear()
