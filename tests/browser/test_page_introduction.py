"""How a model introduces itself, settings in groups with their resets and links, examples, and states without a picture."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_page import state
from tests.support.fake_page_server import FakeServer, Peer, command, picture
from tests.support.page_scripts import NO_WORKER
from tests.support.png import png

NUMBER = {"type": "number", "minimum": 0, "maximum": 2, "default": 1.0}
LIGHT = command("set_light", light={**NUMBER, "title": "Light"})
FOG = command("set_fog", fog={"type": "boolean", "default": False, "title": "Fog"})
SEED = command("set_seed", seed={"type": "integer", "default": 7, "maximum": 20, "title": "Seed"})
PROMPT = command("set_prompt", prompt={"type": "string", "default": "hills", "title": "Prompt", "maxLength": 5})


def begin(page: Page, server: FakeServer, *commands: Any, address: str = "", **about: Any) -> Peer:
    page.goto(server.url + address)
    peer = server.accept()
    peer.welcome(*commands, about=about, state={})
    state(page, "live")
    return peer


def given(peer: Peer) -> tuple[str, Any]:
    """The next command of the page with its only value; it is applied."""
    message = peer.next()
    peer.ack(message)
    (value,) = message["data"].values()
    return message["type"], value


def test_the_model_introduces_itself(server: FakeServer, page: Page) -> None:
    begin(
        page, server, title="Hills", author="Ada", hint="W A S D to walk", links=[{"label": "Paper", "url": "https://example.org/p"}],
        description="Fly **fast** over `terrain`.\n\n- one\n- *two*\n\nSee [docs](https://example.org/d).",
    )  # fmt: skip
    about = page.get_by_role("region", name="About this model")
    expect(page.locator("#name")).to_have_text("Hills")
    assert page.get_by_text("Hills", exact=True).count() == 1  # the title once
    expect(page).to_have_title("Hills")
    expect(about.locator("strong")).to_have_text("fast")
    expect(about.locator("code")).to_have_text("terrain")
    expect(about.get_by_role("listitem")).to_have_text(["one", "two"])
    for name, address in (("docs", "https://example.org/d"), ("Paper", "https://example.org/p")):
        link = about.get_by_role("link", name=name)
        expect(link).to_have_attribute("href", address)
        expect(link).to_have_attribute("rel", "noopener noreferrer")


def test_markup_in_an_introduction_stays_text(server: FakeServer, page: Page) -> None:
    bad = "<img src=x onerror=alert(1)> [x](javascript:alert(1)) **<b>y</b>**"
    begin(page, server, title="<i>t</i>", description=bad, hint="<b>h</b>")
    expect(page.locator("#about .prose")).to_have_text("<img src=x onerror=alert(1)> [x](javascript:alert(1)) <b>y</b>")
    expect(page.locator("#name")).to_have_text("<i>t</i>")
    assert page.locator("#about img, #about b, #about i, #about a, #hint b").count() == 0


def test_the_thumbnail_is_behind_the_words_until_there_is_a_picture(server: FakeServer, page: Page) -> None:
    server.pictures["hills.png"] = png(picture(9, 200, 30))
    peer = begin(page, server, thumbnail="pictures/hills.png")
    backdrop = page.locator("#backdrop")
    expect(backdrop).to_be_visible()
    page.wait_for_function("() => document.querySelector('#backdrop').naturalWidth === 64")
    peer.frame(0, picture(9, 9, 9))
    expect(backdrop).to_be_hidden()


def test_a_model_without_an_introduction_shows_its_name_alone(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    server.accept().welcome(LIGHT)  # of a server that knows no introductions
    state(page, "live")
    expect(page.locator("#name")).to_have_text("fake")
    expect(page.locator("#about")).to_be_hidden()
    expect(page.locator("#presets")).to_be_hidden()


def test_an_example_sets_everything_at_once_and_is_marked(server: FakeServer, page: Page) -> None:
    server.pictures["a.png"] = png(picture(9, 200, 30))
    examples = [
        {"name": "Dusk", "picture": "pictures/a.png", "values": {"light": 0.4, "fog": True}},
        {"name": "Noon", "picture": None, "values": {"light": 1.0, "fog": False}},
    ]
    peer = begin(page, server, LIGHT, FOG, examples=examples)
    dusk, noon = page.get_by_role("button", name="Dusk"), page.get_by_role("button", name="Noon")
    expect(noon).to_have_attribute("aria-pressed", "true")  # the defaults
    page.wait_for_function("() => document.querySelector('.preset img').naturalWidth === 64")
    dusk.click()
    assert {given(peer), given(peer)} == {("set_light", 0.4), ("set_fog", True)}
    expect(dusk).to_have_attribute("aria-pressed", "true")
    expect(noon).to_have_attribute("aria-pressed", "false")
    expect(page.get_by_label("Light", exact=True)).to_have_value("0.4")
    peer.say("reactor.state", {"light": 0.9})
    expect(dusk).to_have_attribute("aria-pressed", "false")
    peer.bye("done")
    expect(dusk).to_be_disabled()
    page.get_by_role("button", name="Reconnect now").click()
    server.accept().welcome(LIGHT, FOG, role="viewer", about={"examples": examples})
    state(page, "live")
    expect(page.locator("#presets")).to_be_hidden()  # a viewer sets nothing


def test_an_example_whose_picture_is_missing_has_a_letter(server: FakeServer, page: Page, troubles: list[str]) -> None:
    begin(page, server, LIGHT, examples=[{"name": "Dusk", "picture": "pictures/none.png", "values": {"light": 0.4}}])
    expect(page.locator(".preset .blank")).to_have_text("D")
    assert all("404" in trouble for trouble in troubles)
    troubles.clear()


def test_settings_come_in_groups_and_advanced_ones_are_folded_away(server: FakeServer, page: Page) -> None:
    settings = {
        "light": {"group": "Sky", "advanced": False, "unit": "klx"},
        "fog": {"group": "Sky", "advanced": False, "unit": None},
        "seed": {"group": None, "advanced": True, "unit": None},
    }
    begin(page, server, SEED, LIGHT, PROMPT, FOG, settings=settings)
    fields = "group => [...group.querySelectorAll('[data-command]')].map((each) => each.dataset.command)"
    groups = page.locator("#settings .list > .group")
    assert groups.nth(0).evaluate(fields) == ["set_prompt"]
    expect(groups.nth(1).get_by_role("heading")).to_have_text("Sky")
    assert groups.nth(1).evaluate(fields) == ["set_light", "set_fog"]
    expect(page.locator("[data-command=set_light] .unit")).to_have_text("klx")
    expect(page.locator("[data-command=set_light] .ends span")).to_have_text(["0 klx", "2 klx"])
    expect(page.get_by_label("Seed", exact=True)).to_be_hidden()
    page.locator("summary", has_text="Advanced").click()
    expect(page.get_by_label("Seed", exact=True)).to_be_visible()


def test_one_setting_or_all_go_back_to_their_defaults(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, LIGHT, FOG, SEED)
    one, everything = page.get_by_role("button", name="Reset Light to 1"), page.get_by_role("button", name="Reset all")
    expect(one).to_be_hidden()
    expect(everything).to_be_hidden()
    page.get_by_label("Light", exact=True).fill("0.4")
    assert given(peer) == ("set_light", 0.4)
    one.click()
    assert given(peer) == ("set_light", 1.0)
    expect(one).to_be_hidden()
    peer.say("reactor.state", {"fog": True, "seed": 9})  # the model's own doing counts too
    everything.click()
    assert {given(peer), given(peer)} == {("set_fog", False), ("set_seed", 7)}
    expect(everything).to_be_hidden()


def carried(values: dict[str, Any]) -> str:
    return "#s=" + base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


def test_a_link_carries_the_settings(server: FakeServer, page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    peer = begin(page, server, LIGHT, FOG, PROMPT)
    page.get_by_label("Light", exact=True).fill("0.4")
    given(peer)
    page.get_by_role("button", name="Settings link").click()
    expect(page.locator(".toast.info")).to_have_text("Link with these settings copied.")
    address = page.evaluate("navigator.clipboard.readText()")
    assert address.startswith(server.url + "#s=")
    text = address.partition("#s=")[2]
    assert json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))) == {"light": 0.4}
    page.goto("about:blank")
    peer = begin(page, server, LIGHT, FOG, PROMPT, address=address.removeprefix(server.url))
    assert given(peer) == ("set_light", 0.4)
    expect(page.get_by_label("Light", exact=True)).to_have_value("0.4")
    assert page.url == server.url  # a reload keeps what the user changes from here on
    page.evaluate("link => { location.hash = link }", carried({"fog": True, "unknown": 1}))
    assert given(peer) == ("set_fog", True)
    peer.say("done", {})
    expect(page.locator("#log-count")).to_have_text("1")
    assert peer.silent()


def test_a_viewers_link_sets_nothing(server: FakeServer, page: Page) -> None:
    page.goto(server.url + "?role=viewer" + carried({"light": 0.4}))
    peer = server.accept()
    peer.welcome(LIGHT, role="viewer")
    state(page, "live")
    peer.say("done", {})
    expect(page.locator("#log-count")).to_have_text("1")
    assert peer.silent()


def test_dragging_a_label_changes_the_number(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, LIGHT)
    expect(page.locator("#settings label.scrub")).to_be_visible()  # what drags it is loaded after the first picture
    label = page.locator("#settings label", has_text="Light").bounding_box()
    assert label is not None
    x, y = label["x"] + 5, label["y"] + label["height"] / 2
    field = page.get_by_label("Light", exact=True)
    for pixels, shift, value in [(40, False, 1.1), (-200, False, 0.5), (4, True, 1.1), (4000, False, 2)]:
        page.mouse.move(x, y)
        page.mouse.down()
        if shift:
            page.keyboard.down("Shift")
        page.mouse.move(x + pixels, y)
        page.mouse.up()
        page.keyboard.up("Shift")
        assert given(peer) == ("set_light", value)
        expect(field).to_have_value(str(value))
        peer.say("reactor.state", {"light": 1.0})
        expect(field).to_have_value("1")


def test_a_refusal_names_the_limit_and_keeps_the_servers_words(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, SEED)
    page.get_by_label("Seed", exact=True).fill("21")
    page.get_by_label("Seed", exact=True).press("Enter")
    peer.refuse(peer.next(), "Expected `int` <= 20 - at $.seed")
    refusal = page.get_by_role("alert").filter(visible=True)
    expect(refusal.locator("summary")).to_have_text("Choose at most 20.")
    expect(refusal.locator("code")).to_be_hidden()
    refusal.locator("summary").click()
    expect(refusal.locator("code")).to_have_text("Expected `int` <= 20 - at $.seed")


# States without a picture


def drawing(page: Page, name: str) -> None:
    expect(page.locator(f'#overlay-art[data-art="{name}"]')).to_be_visible()


def test_the_models_own_progress_is_shown_while_it_loads(server: FakeServer, page: Page, troubles: list[str]) -> None:
    page.add_init_script(NO_WORKER)
    server.about = {"title": "Hills"}
    server.refuse_with = 503
    server.health = (503, {"phase": "loading", "model": "fake", "progress": {"fraction": 0.25, "text": "weights 1 of 4"}})
    page.goto(server.url)
    text, note = page.locator("#overlay-text"), page.locator("#overlay-note")
    expect(text).to_have_text("The model is loading.")
    expect(note).to_have_text(re.compile(r"^25 % · weights 1 of 4"))
    drawing(page, "loading")
    expect(page.locator("#status")).to_have_text("loading")
    expect(page.locator("#name")).to_have_text("Hills")
    server.health = (503, {"phase": "loading", "model": "fake", "progress": {"fraction": 0.5, "text": ""}})
    expect(note).to_have_text(re.compile(r"^50 %"))
    server.refuse_with = None
    server.health = (200, {"status": "ok", "model": "fake"})
    server.accept().welcome(LIGHT)
    state(page, "live")
    assert all("503" in trouble for trouble in troubles), troubles
    troubles.clear()


def test_each_state_has_its_drawing_and_is_announced(server: FakeServer, page: Page) -> None:
    examples = [{"name": "Morning", "picture": None, "values": {"light": 0.5}}]
    server.about = {"title": "Hills", "description": "A landscape.", "examples": examples}
    status = page.get_by_role("status").first
    page.goto(server.url)
    peer = server.accept()
    drawing(page, "connecting")
    peer.say("reactor.queued", {"position": 3, "total": 4})
    drawing(page, "queue")
    expect(status).to_have_text("waiting")
    expect(page.locator("#overlay-text")).to_have_text("2 people are before you.")
    expect(page.locator("#about")).to_have_text("A landscape.")  # to look at meanwhile
    expect(page.get_by_role("button", name="Morning")).to_be_disabled()
    for scheme, stage in (("light", "rgb(227, 232, 238)"), ("dark", "rgb(11, 14, 18)")):
        page.emulate_media(color_scheme=scheme)
        expect(page.locator("#hero")).to_have_css("background-color", stage)  # no black frame on a light page
    peer.welcome(LIGHT)
    drawing(page, "warming")
    expect(status).to_have_text("starting")
    peer.bye("model_error", "It divided.")
    drawing(page, "failed")
    expect(page.locator("#overlay-text")).to_have_text("The model failed. It divided.")
    expect(page.locator("#overlay-note")).to_contain_text("Trying again in")
    expect(page.get_by_role("button", name="Reconnect now")).to_be_visible()


# Pause, step, restart


def test_the_model_is_paused_stepped_and_begun_again(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(LIGHT, transport=("pause", "step", "restart"))
    peer.frame(0, picture(9, 9, 9))
    expect(page.locator("#status")).to_have_text("live")
    step = page.get_by_role("button", name="One step")
    expect(step).to_be_hidden()
    page.get_by_role("button", name="Pause").click()
    assert sent(peer) == ("reactor.pause", {"paused": True})
    peer.say("reactor.transport", {"paused": True})
    expect(page.locator("#status")).to_have_text("paused")
    expect(page.locator("#link")).to_have_attribute("data-quality", "paused")  # and not how the pictures before it came
    expect(page.locator("#stats .why")).to_have_text("")
    page.set_viewport_size({"width": 320, "height": 700})  # the bar is fullest now
    bounds = page.locator("#panel-toggle").bounding_box()
    assert bounds is not None
    assert bounds["x"] + bounds["width"] <= 320
    page.locator("#panel-toggle").click()
    page.set_viewport_size({"width": 1280, "height": 720})
    step.click()
    assert sent(peer) == ("reactor.step", {"steps": 1})
    for name, kept in (("Keep the settings", "kept"), ("With the default settings", "fresh")):
        page.locator("#restart summary").click()
        page.get_by_role("button", name=name).click()
        assert sent(peer) == ("reactor.restart", {"state": kept})
    page.get_by_role("button", name="Go on").click()
    assert sent(peer) == ("reactor.pause", {"paused": False})
    peer.say("reactor.transport", {"paused": False})
    expect(page.locator("#status")).to_have_text("live")
    expect(page.get_by_role("button", name="Pause")).to_have_attribute("aria-pressed", "false")
    page.get_by_role("button", name="Pause").click()
    peer.refuse(peer.next(), "the model cannot be paused now", "not_allowed")
    expect(page.locator(".toast")).to_have_text("the model cannot be paused now")


@pytest.mark.parametrize("allowed", [(), ("pause",)])
def test_transport_that_the_model_does_not_allow_has_no_button(
    server: FakeServer, page: Page, allowed: tuple[str, ...]
) -> None:
    page.goto(server.url)
    server.accept().welcome(LIGHT, transport=allowed)
    state(page, "live")
    expect(page.get_by_role("button", name="Pause")).to_have_count(len(allowed))
    expect(page.get_by_role("button", name="One step")).to_have_count(0)
    expect(page.locator("#restart")).to_be_hidden()


def sent(peer: Peer) -> tuple[str, dict[str, Any]]:
    message = peer.next()
    peer.ack(message)
    return message["type"], message["data"]
