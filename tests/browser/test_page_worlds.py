"""Going back in the page: the button, Backspace, the note and "Undo", against a real server whose model saves its world."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.fake_page_server import FakeServer, command
from tests.support.page_scripts import READ_BACK
from tests.support.real_server import real_server

MODEL = '''
import numpy as np

from reactor_trio import InputState, Output, ReactorPipeline, Saves, Video


class Picture(Output):
    main_video: Video


class Settings(InputState):
    words: str = ""
    _number: int = 0


class Counter(ReactorPipeline):
    """Grows brighter by one each step; that is its world."""

    state: Settings
    fps = 20
    saves = Saves()

    def inference(self):
        while True:
            self.state._number += 1
            yield Picture(main_video=np.full((32, 32, 3), min(self.state._number, 255), np.uint8))
'''
# Keeps every text of the note, which goes after three seconds.
NOTES = """
    window.notes = [];
    new MutationObserver(() => {
        const text = document.querySelector("#rewound")?.textContent;
        if (text && text !== notes.at(-1)) notes.push(text);
    }).observe(document, { subtree: true, childList: true, characterData: true });
"""
BRIGHTNESS = """() => {
    const canvas = document.querySelector("canvas[data-track=main_video]");
    return canvas ? canvas.getContext("2d").getImageData(5, 5, 1, 1).data[0] : 0;
}"""


#: the same, but that Backspace and T are keys of the model: they make it bright
OWN_KEYS = MODEL.replace("from reactor_trio import", "from reactor_trio import event,") + '''
    @event
    def key_backspace(self, down: bool):
        self.state._number = 200

    @event
    def key_t(self, down: bool):
        self.state._number = 230
'''


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "reactor.yaml").write_text("model: model:Counter\n")
    with real_server(tmp_path) as url:
        yield url


def until(page: Page, above: int) -> None:
    page.wait_for_function(f"(least) => ({BRIGHTNESS})() > least", arg=above)


def noted(page: Page, pattern: str) -> None:
    page.wait_for_function("(pattern) => notes.some((note) => new RegExp(pattern).test(note))", arg=pattern)


def begin(page: Page, url: str, above: int = 30) -> None:
    page.add_init_script(NOTES)
    page.goto(f"{url}?video=raw")
    expect(page.locator("#rewind")).to_be_visible()
    expect(page.locator("body")).to_have_attribute("data-world", "live")
    until(page, above)


def test_a_click_goes_back_and_undo_comes_back(url: str, page: Page) -> None:
    begin(page, url, above=110)
    expect(page.locator("#undo-rewind")).to_be_hidden()
    place = page.locator("#rewind").bounding_box()
    page.locator("#rewind").click()
    page.wait_for_function(f"() => ({BRIGHTNESS})() < 90")
    noted(page, r"^rewound (4\.\d|5|5\.\d) s$")
    expect(page.locator("#undo-rewind")).to_be_visible()
    assert page.locator("#rewind").bounding_box() == place  # it does not slip from under the pointer that holds it
    undo = page.locator("#undo-rewind")
    expect(undo).to_have_text("Undo")
    expect(undo).to_have_attribute("title", "Return to where you were before you went back or loaded a place")
    undo.click()
    until(page, 105)
    noted(page, "^back again$")
    expect(undo).to_have_text("Redo")
    expect(page.locator("#rewound")).to_have_text("")


def test_undo_of_a_rewind_that_the_world_has_made_good_is_no_rewind(url: str, page: Page) -> None:
    begin(page, url, above=110)
    page.locator("#rewind").click()
    page.wait_for_function(f"() => ({BRIGHTNESS})() < 90")
    until(page, 140)  # later in its own time than the world to which Undo returns
    undo = page.locator("#undo-rewind")
    undo.click()
    noted(page, "^back again$")
    expect(undo).to_have_text("Redo")
    expect(undo).to_have_attribute("title", "Take the undo back")
    undo.click()
    noted(page, "^redone$")
    expect(undo).to_have_text("Undo")
    assert [re.sub(r"[\d.]+", "n", note) for note in page.evaluate("notes")] == ["rewound n s", "back again", "redone"]


def test_undo_is_gone_when_the_server_has_nothing_to_undo(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(worlds={"may": ["rewind"], "token": "t"})
    moment = {"step": 19, "age": 2.0, "bytes": 1, "picture": False}
    peer.say("reactor.moment", {"step": 40, "to": moment, "why": "rewind", "from": 6.5})
    page.locator("#undo-rewind").click()
    asked = peer.next()
    assert (asked["type"], asked["data"]) == ("reactor.rewind", {"undo": True})
    peer.refuse(asked, "there is nothing to undo: no rewind in the last 60 s", "no_moment")
    expect(page.locator("#undo-rewind")).to_be_hidden()
    expect(page.locator("#toasts")).to_have_text("")


def test_backspace_held_runs_back_in_a_pause_and_goes_on_when_it_is_let_go(url: str, page: Page) -> None:
    begin(page, url, above=60)
    page.keyboard.down("Backspace")
    expect(page.locator("body")).to_have_attribute("data-world", "scrubbing")
    expect(page.locator("#pause-toggle")).to_have_attribute("aria-pressed", "true")
    noted(page, r"^rewound [1-3](\.\d)? s$")
    page.keyboard.up("Backspace")
    expect(page.locator("body")).to_have_attribute("data-world", "live")
    expect(page.locator("#pause-toggle")).to_have_attribute("aria-pressed", "false")
    page.wait_for_function(f"() => ({BRIGHTNESS})() < 60")  # it goes on, from there
    expect(page.locator("#strip")).to_be_visible()  # until one plays on
    page.keyboard.press("Tab")
    expect(page.locator("#strip")).to_be_visible()
    page.keyboard.press("w")
    expect(page.locator("#strip")).to_be_hidden()


def test_undo_after_a_hold_goes_back_to_where_it_began(url: str, page: Page) -> None:
    begin(page, url, above=100)
    page.keyboard.down("Backspace")
    noted(page, r"^rewound [3-9]\.\d s$")
    page.keyboard.up("Backspace")
    expect(page.locator("body")).to_have_attribute("data-world", "live")
    page.wait_for_function(f"() => ({BRIGHTNESS})() < 70")
    page.locator("#undo-rewind").click()
    until(page, 99)


def test_the_models_own_keys_go_back_with_shift(tmp_path: Path, page: Page) -> None:
    (tmp_path / "model.py").write_text(OWN_KEYS)
    (tmp_path / "reactor.yaml").write_text("model: model:Counter\n")
    with real_server(tmp_path) as url:
        begin(page, url, above=40)
        assert "⇧ ⌫" in page.locator("#rewind").get_attribute("title")
        page.keyboard.press("Shift+T")
        expect(page.locator("#strip")).to_be_visible()
        page.keyboard.press("Shift+T")
        expect(page.locator("#strip")).to_be_hidden()
        page.keyboard.press("Backspace")
        until(page, 195)
        page.keyboard.down("Shift")
        page.keyboard.down("Backspace")
        noted(page, r"^rewound [1-9]\.\d s$")
        page.keyboard.up("Backspace")
        page.keyboard.up("Shift")
        expect(page.locator("body")).to_have_attribute("data-world", "live")
        page.keyboard.press("t")
        until(page, 225)
        expect(page.locator("#strip")).to_be_hidden()


def test_in_a_text_field_the_keys_write(url: str, page: Page) -> None:
    begin(page, url)
    field = page.locator("#settings textarea")
    field.click()
    field.press_sequentially("cat")
    field.press("Backspace")
    field.press("t")
    expect(field).to_have_value("cat")
    until(page, 60)
    assert page.evaluate("notes") == []
    expect(page.locator("#strip")).to_have_count(0)


# ---- the strip ----------------------------------------------------------------------------------------------------------


def open_strip(page: Page) -> None:
    page.keyboard.press("t")
    expect(page.locator("#strip .film")).to_be_focused()
    expect(page.locator("#strip .film")).to_have_attribute("aria-valuetext", "now")
    # Its thumbnails are pictures of the server.
    tiles = "[...document.querySelectorAll('#strip i')]"
    page.wait_for_function(f"() => {tiles}.some((tile) => /blob:/.test(tile.style.backgroundImage))")


def test_a_drag_along_the_strip_shows_a_moment_at_once_and_goes_there(url: str, page: Page) -> None:
    begin(page, url, above=110)
    open_strip(page)
    film = page.locator("#strip .film").bounding_box()
    middle = film["y"] + film["height"] / 2
    page.mouse.move(film["x"] + film["width"] * 0.9, middle)
    page.mouse.down()
    page.mouse.move(film["x"] + film["width"] * 0.5, middle, steps=4)
    expect(page.locator("#strip-picture")).to_be_visible()
    expect(page.locator("#strip .film")).to_have_attribute("aria-valuetext", re.compile(r"^[1-9](\.\d)? seconds ago$"))
    expect(page.locator("body")).to_have_attribute("data-world", "scrubbing")
    page.wait_for_function(f"() => ({BRIGHTNESS})() < 90")  # it rests, so the session has gone there; it is paused
    expect(page.locator("#pause-toggle")).to_have_attribute("aria-pressed", "true")
    page.mouse.move(film["x"] + 1, middle, steps=4)
    page.mouse.up()
    expect(page.locator("body")).to_have_attribute("data-world", "live")
    expect(page.locator("#strip-picture")).to_be_hidden()
    expect(page.locator("#pause-toggle")).to_have_attribute("aria-pressed", "false")
    page.wait_for_function(f"() => ({BRIGHTNESS})() < 40")
    page.locator("#undo-rewind").click()  # of the whole drag
    until(page, 105)


def test_the_strip_by_keyboard_and_for_screen_readers(url: str, page: Page) -> None:
    begin(page, url, above=110)
    open_strip(page)
    film = page.get_by_role("slider", name="Moments")
    most = int(film.get_attribute("aria-valuemax"))
    assert most > 60
    page.keyboard.press("Home")
    expect(film).to_have_attribute("aria-valuenow", "0")
    page.wait_for_function(f"() => ({BRIGHTNESS})() < 20")
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft"):
        page.keyboard.press(key)
    expect(film).to_have_attribute("aria-valuenow", "1")
    expect(page.locator("body")).to_have_attribute("data-world", "live")  # a second after the last key
    expect(film).to_have_attribute("aria-valuetext", "now")  # it has made steps, so nothing is ahead
    assert int(film.get_attribute("aria-valuemax")) < most
    page.keyboard.press("Escape")
    expect(page.locator("#strip")).to_be_hidden()
    expect(page.locator("#rewind")).to_be_focused()


def test_a_finger_holds_the_button_and_taps_the_strip(url: str, browser: Browser) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, reduced_motion="reduce", locale="en-US"
    )
    context.add_init_script(READ_BACK)
    page = context.new_page()
    page.set_default_timeout(90_000)
    begin(page, url, above=110)
    finger = context.new_cdp_session(page)
    button = page.locator("#rewind").bounding_box()
    at = {"x": button["x"] + button["width"] / 2, "y": button["y"] + button["height"] / 2, "id": 1}
    finger.send("Input.dispatchTouchEvent", {"type": "touchStart", "touchPoints": [at]})
    expect(page.locator("body")).to_have_attribute("data-world", "scrubbing")
    expect(page.locator("#strip")).to_be_visible()
    noted(page, r"^rewound [1-9]\.\d s$")
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    expect(page.locator("body")).to_have_attribute("data-world", "live")
    film = page.locator("#strip .film").bounding_box()  # it stays
    assert film["height"] == 56
    assert film["y"] + 56 <= page.locator("#panel").bounding_box()["y"]
    page.touchscreen.tap(film["x"] + 3, film["y"] + 28)
    page.wait_for_function(f"() => ({BRIGHTNESS})() < 30")
    expect(page.locator("#strip")).to_be_visible()
    page.touchscreen.tap(film["x"] + 30, film["y"] - 60)  # on the picture
    expect(page.locator("#strip")).to_be_hidden()
    context.close()


def test_the_legend_lists_the_keys_and_the_hold(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    server.accept().welcome(command("key_t"), worlds={"may": ["rewind"], "token": "t"})
    expect(page.locator("#rewind")).to_be_visible()
    page.keyboard.press("?")
    rows = page.get_by_role("dialog", name="Keys and controls").get_by_role("listitem")
    expect(rows.filter(has_text="⌫hold: run back to an earlier moment")).to_have_count(1)
    expect(rows.filter(has_text="⇧ Tshow or hide all moments, to choose one")).to_have_count(1)
    expect(rows.filter(has_text="Go back 5 seconds; hold to run back (⌫)")).to_have_count(1)


def test_a_finger_is_told_of_the_hold(server: FakeServer, browser: Browser) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True, reduced_motion="reduce", locale="en-US"
    )
    page = context.new_page()
    page.set_default_timeout(90_000)
    page.add_init_script(NOTES)
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(worlds={"may": ["rewind"], "token": "t"})
    page.locator("#rewind").tap()
    moment = {"step": 19, "age": 2.0, "bytes": 1, "picture": False}
    peer.say("reactor.moment", {"step": 40, "to": moment, "why": "rewind", "from": 7.0})
    peer.ack(peer.next(), {"moment": moment})
    noted(page, "^rewound 5 s: hold the button to run back, and to see all moments$")
    page.locator("#legend-toggle").tap()
    row = page.get_by_role("dialog", name="Keys and controls").get_by_role("listitem").filter(has_text="Go back 5 seconds")
    expect(row).to_have_text("Go back 5 seconds: hold the button to run back, and to see all moments")
    context.close()


def test_who_watches_reads_the_note_and_has_no_button(server: FakeServer, page: Page) -> None:
    page.add_init_script(NOTES)
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(role="viewer")
    moment = {"step": 19, "age": 2.0, "bytes": 1, "picture": False}
    peer.say("reactor.moment", {"step": 40, "to": moment, "why": "rewind", "from": 6.5})
    noted(page, "^rewound 4.5 s$")
    peer.say("reactor.moment", {"step": 40, "to": moment, "why": "rewind", "from": 1.0})
    noted(page, "^rewound 3.5 s$")  # both together
    peer.say("reactor.moment", {"step": 70, "to": {**moment, "age": 6.6}, "why": "rewind", "from": 3.0})
    noted(page, "^back again$")
    expect(page.locator("#rewind")).to_be_hidden()


def test_a_model_that_saves_no_world_has_no_button(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    server.accept().welcome(command("key_w"))
    expect(page.locator('body[data-state="live"]')).to_be_attached()
    expect(page.locator("#rewind")).to_have_count(0)
