"""Going back in the page: the button, Backspace, the note and "Undo", against a real server whose model saves its world."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support.fake_page_server import FakeServer, command
from tests.support.real_server import real_server

MODEL = '''
import numpy as np

from reactor_trio import InputState, Output, ReactorPipeline, Saves, Video


class Picture(Output):
    main_video: Video


class Settings(InputState):
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
    page.locator("#rewind").click()
    page.wait_for_function(f"() => ({BRIGHTNESS})() < 90")
    noted(page, r"^rewound (4\.\d|5|5\.\d) s$")
    page.locator("#undo-rewind").click()
    until(page, 105)
    expect(page.locator("#undo-rewind")).to_be_hidden()
    expect(page.locator("#rewound")).to_have_text("")


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


def test_who_watches_reads_the_note_and_has_no_button(server: FakeServer, page: Page) -> None:
    page.add_init_script(NOTES)
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(role="viewer")
    peer.say("reactor.moment", {"step": 40, "to": {"step": 19, "age": 2.0, "bytes": 1, "picture": False}, "why": "rewind"})
    noted(page, "^rewound 2 s$")  # 20 steps took 2 s
    expect(page.locator("#rewind")).to_be_hidden()


def test_a_model_that_saves_no_world_has_no_button(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    server.accept().welcome(command("key_w"))
    expect(page.locator('body[data-state="live"]')).to_be_attached()
    expect(page.locator("#rewind")).to_have_count(0)
