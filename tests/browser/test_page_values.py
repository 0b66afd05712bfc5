"""Settings on the viewer page show the model's values: those of the welcome, and later changes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.fake_page_server import FakeServer, Peer, command
from tests.support.real_server import real_server

SLIDER = {"type": "number", "minimum": 0, "maximum": 2, "default": 1.0}
TEXT = {"type": "string", "default": "a fox", "maxLength": 40}
COMMANDS = [
    command("set_level", level=SLIDER),
    command("set_count", count={"type": "integer", "default": 7}),
    command("set_name", name=TEXT),
    command("set_mode", mode={"enum": ["calm", "wild", [1]], "default": "calm"}),
    command("set_mirror", mirror={"type": "boolean", "default": False}),
    command("set_points", points={"type": "array", "default": [1]}),
    command("set_seed", seed={"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None}),
    command("set_note", note={"anyOf": [TEXT, {"type": "null"}], "default": None}),
    command("set_depth", depth={"anyOf": [SLIDER, {"type": "null"}], "default": None}),
]
STATE = {
    "level": 0.5, "count": 3, "name": "an owl", "mode": [1], "mirror": True, "points": [2, 3], "seed": 5, "note": "",
    "depth": 1.5,
}  # fmt: skip


def begin(page: Page, server: FakeServer, *commands: Any, **welcome: Any) -> Peer:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(*commands, **welcome)
    expect(page.locator('body[data-state="live"]')).to_be_attached()
    return peer


def field(page: Page, name: str, kind: str = "input") -> Locator:
    return page.locator(f'[data-command="set_{name}"] .field {kind}').first


def none(page: Page, name: str) -> Locator:
    return page.locator(f'[data-command="set_{name}"] .none')


def range_of(page: Page, name: str) -> Locator:
    return field(page, name, "input[type=range]")


def settled(page: Page, peer: Peer) -> None:
    """The page has processed all earlier messages."""
    before = int(page.locator("#log-count").text_content() or "0")
    peer.say("progress", {})
    expect(page.locator("#log-count")).to_have_text(str(before + 1))


def test_controls_begin_with_the_values_of_the_welcome(server: FakeServer, page: Page) -> None:
    begin(page, server, *COMMANDS, command("set_volume", volume=SLIDER), state=STATE)
    expect(range_of(page, "level")).to_have_value("0.5")
    expect(field(page, "count")).to_have_value("3")
    expect(field(page, "name")).to_have_value("an owl")
    expect(field(page, "mode", "option:checked")).to_have_text("[1]")
    expect(field(page, "mirror")).to_be_checked()
    expect(field(page, "points", "textarea")).to_have_value("[2,3]")
    expect(field(page, "seed")).to_have_value("5")
    expect(field(page, "note")).to_have_value("")
    expect(field(page, "note")).to_have_attribute("placeholder", "")  # it is empty, and not none
    expect(range_of(page, "depth")).to_have_value("1.5")
    for name in ("seed", "note", "depth"):
        expect(none(page, name)).to_have_attribute("aria-pressed", "false")
    expect(range_of(page, "volume")).to_have_value("1")  # no setting of the model, but an event of the same kind


def test_without_values_they_begin_with_their_defaults(server: FakeServer, page: Page) -> None:
    begin(page, server, *COMMANDS)
    expect(range_of(page, "level")).to_have_value("1")
    expect(field(page, "name")).to_have_value("a fox")
    expect(none(page, "seed")).to_have_attribute("aria-pressed", "true")


def test_controls_follow_the_model(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, *COMMANDS, state=STATE)
    peer.say("reactor.state", {"level": 1.25, "mode": "wild", "mirror": False, "points": [], "seed": None, "note": None})
    expect(range_of(page, "level")).to_have_value("1.25")
    expect(page.get_by_label("Level, exact value")).to_have_value("1.25")
    expect(field(page, "mode", "option:checked")).to_have_text("Wild")
    expect(field(page, "mirror")).not_to_be_checked()
    expect(field(page, "points", "textarea")).to_have_value("[]")
    for name in ("seed", "note"):
        expect(none(page, name)).to_have_attribute("aria-pressed", "true")
        expect(field(page, name)).to_have_value("")
        expect(field(page, name)).to_have_attribute("placeholder", "none")
    peer.say("reactor.state", {"depth": None, "seed": 8, "name": ""})
    expect(field(page, "seed")).to_have_value("8")
    expect(none(page, "seed")).to_have_attribute("aria-pressed", "false")
    expect(none(page, "depth")).to_have_attribute("aria-pressed", "true")
    expect(page.get_by_label("Depth, exact value")).to_have_value("")
    expect(field(page, "name")).to_have_value("")
    expect(page.locator("#log-count")).to_have_text("0")  # no message of the model
    assert peer.silent()


def test_a_value_in_flight_is_not_replaced_by_an_older_one(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, COMMANDS[0], state={"level": 1})
    slider = range_of(page, "level")
    slider.fill("0.5")
    first = peer.next()
    peer.say("reactor.state", {"level": 2})  # from before
    settled(page, peer)
    expect(slider).to_have_value("0.5")
    slider.fill("0.75")
    peer.ack(first)
    second = peer.next()
    peer.say("reactor.state", {"level": 0.6})  # what it made of 0.5
    settled(page, peer)
    expect(slider).to_have_value("0.75")
    peer.ack(second)
    settled(page, peer)
    expect(slider).to_have_value("0.75")
    peer.say("reactor.state", {"level": 0.7})  # what it made of 0.75
    expect(slider).to_have_value("0.7")
    slider.fill("1.5")
    peer.refuse(peer.next(), "no")
    expect(slider).to_have_value("0.7")


def test_a_held_slider_does_not_move(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, COMMANDS[0], state={"level": 1})
    slider = range_of(page, "level")
    box = slider.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] / 4, box["y"] + box["height"] / 2)
    held = slider.input_value()
    assert held != "1"
    while True:  # until the value that it is held at is applied
        message = peer.next()
        peer.ack(message)
        if str(message["data"]["level"]) == held:
            break
    settled(page, peer)
    peer.say("reactor.state", {"level": 2})
    settled(page, peer)
    expect(slider).to_have_value(held)
    page.mouse.up()
    expect(slider).to_have_value("2")
    assert peer.silent()


def test_text_stays_while_it_is_typed_and_refused_text_is_replaced(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, COMMANDS[2], state={"name": "an owl"})
    name = field(page, "name")
    name.press("End")
    name.press_sequentially("!")
    peer.say("reactor.state", {"name": "a crow"})
    settled(page, peer)
    expect(name).to_have_value("an owl!")
    name.press("Backspace")
    name.blur()  # as it was: nothing is given
    expect(name).to_have_value("a crow")
    assert peer.silent()
    name.fill("a hen")
    name.press("Enter")
    message = peer.next()
    assert message["data"] == {"name": "a hen"}
    peer.ack(message)
    peer.say("reactor.state", {"name": "a cock"})
    expect(name).to_have_value("a cock")


def test_a_cleared_field_that_cannot_be_empty_shows_the_models_value(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, *COMMANDS, state=STATE)
    for name, shown in {"count": "3", "level": "0.5", "points": "[2,3]"}.items():
        cleared = field(page, name, "textarea") if name == "points" else field(page, name, "input[type=number]")
        cleared.fill("")
        cleared.blur()
        expect(page.locator(f'[data-command="set_{name}"]').get_by_role("alert")).to_be_visible()
        expect(cleared).to_have_value(shown)
        if name == "level":
            expect(range_of(page, name)).to_have_value(shown)
    settled(page, peer)
    assert peer.silent()


def test_an_invalid_value_stays_in_its_field(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, *COMMANDS, state=STATE)
    area = field(page, "points", "textarea")
    area.fill("[1,")
    area.blur()
    peer.say("reactor.state", {"points": [9]})
    settled(page, peer)
    expect(area).to_have_value("[1,")
    area.fill("[1]")
    area.blur()
    message = peer.next()
    assert message["data"] == {"points": [1]}
    peer.ack(message)
    peer.say("reactor.state", {"points": [9]})
    expect(area).to_have_value("[9]")


@pytest.mark.parametrize("name", ["seed", "depth"])
def test_a_nullable_number_that_is_cleared_is_none(server: FakeServer, page: Page, name: str) -> None:
    peer = begin(page, server, *COMMANDS, state=STATE)
    number = field(page, name, "input[type=number]")
    number.fill("")
    number.blur()
    message = peer.next()
    assert message["data"] == {name: None}
    expect(none(page, name)).to_have_attribute("aria-pressed", "true")
    expect(number).to_have_attribute("placeholder", "none")
    peer.refuse(message, "not now")
    expect(number).to_have_value(str(STATE[name]))
    expect(none(page, name)).to_have_attribute("aria-pressed", "false")


def test_a_file_that_the_model_has_is_not_shown_as_none(server: FakeServer, page: Page) -> None:
    upload = {"type": "object", "properties": {"upload_id": {"type": "string"}}, "x-reactor": "upload"}
    photo = command("set_photo", photo={"anyOf": [upload, {"type": "null"}], "default": None})
    peer = begin(page, server, photo, COMMANDS[0], state={"level": 1}, upload="secret")
    expect(none(page, "photo")).to_have_attribute("aria-pressed", "false")
    peer.say("reactor.state", {"photo": None})
    expect(none(page, "photo")).to_have_attribute("aria-pressed", "true")


MODEL = '''
from reactor_trio import *

class Picture(Output):
    main_video: Video

class Settings(InputState):
    level: float = InputField(default=1.0, ge=0.0, le=2.0)
    rounds: int = 0
    name: str = InputField(default="a fox", max_length=40)

class Model(ReactorPipeline):
    state: Settings
    fps = 20

    @event
    def shuffle(self):
        self.state.level, self.state.name = 1.75, "an owl"

    def inference(self):
        import numpy as np
        while True:
            if self.state.name == "count":
                self.state.rounds += 1
            yield np.full((48, 64, 3), 99, np.uint8)
'''


def test_the_values_of_a_real_model_are_shown_and_survive_a_reload(tmp_path: Path, page: Page) -> None:
    (tmp_path / "model.py").write_text(MODEL, encoding="utf-8")
    manifest = "model: model:Model\nname: values\nruntime: {resume_window: 30}\n"
    (tmp_path / "reactor.yaml").write_text(manifest, encoding="utf-8")
    with real_server(tmp_path) as url:
        page.goto(url)
        expect(range_of(page, "level")).to_have_value("1")
        page.get_by_role("button", name="Shuffle").click()
        expect(range_of(page, "level")).to_have_value("1.75")
        expect(field(page, "name")).to_have_value("an owl")
        range_of(page, "level").fill("0.25")
        field(page, "name").fill("count")
        field(page, "name").press("Enter")
        page.wait_for_function("() => Number(document.querySelector('[data-command=set_rounds] input').value) > 5")
        page.reload()
        expect(page.locator('body[data-state="live"]')).to_be_attached()
        expect(range_of(page, "level")).to_have_value("0.25")
        expect(field(page, "name")).to_have_value("count")
        page.wait_for_function("() => Number(document.querySelector('[data-command=set_rounds] input').value) > 10")
        page.goto("about:blank")
