"""What a control of the page shows until the model has what the user gave, and then."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.browser.test_page import control, open_page, state, stop_clock
from tests.support.fake_page_server import FakeServer, Peer, command, picture, video

PROMPT = command("set_prompt", prompt={"type": "string", "default": "a fox"})
NAME = command("set_name", name={"type": "string", "default": "Reynard", "maxLength": 20})
UNIT = {"type": "number", "minimum": 0, "maximum": 1}
SPLASH = command("splash", "Throw a drop", x={**UNIT, "default": 0.5}, y={**UNIT, "default": 0.5})
FREEZE, BREAK = command("freeze"), command("break_it", "It raises")


def begin(page: Page, server: FakeServer, *commands: Any, **welcome: Any) -> Peer:
    peer = open_page(page, server)
    peer.welcome(*commands, tracks=[video()], **welcome)
    peer.frame(0, picture(200, 30, 60))
    state(page, "live")
    return peer


def box(place: Locator) -> dict[str, float]:
    found = place.bounding_box()
    assert found is not None
    return {**found}


@pytest.mark.parametrize(("declared", "field", "by"), [
    (PROMPT, "prompt", "key"), (PROMPT, "prompt", "button"), (NAME, "name", "button"), (NAME, "name", "leaving"),
])  # fmt: skip
def test_a_text_that_is_not_sent_says_so_until_the_model_has_it(
    server: FakeServer, page: Page, declared: Any, field: str, by: str
) -> None:
    peer = begin(page, server, declared)
    stop_clock(page)
    place = control(page, f"set_{field}")
    text, apply = place.get_by_role("textbox"), place.get_by_role("button", name="Apply")
    answer = place.get_by_role("status")
    expect(answer).to_be_attached()
    expect(apply).to_be_hidden()
    edge = "(each) => getComputedStyle(each).borderColor"
    before = text.evaluate(edge)
    text.press("End")
    text.press_sequentially(" in snow")
    expect(apply).to_be_visible()
    assert text.evaluate(edge) != before
    inner, outer = box(apply), box(text)
    assert outer["x"] <= inner["x"]
    assert inner["x"] + inner["width"] <= outer["x"] + outer["width"]
    assert outer["y"] <= inner["y"]
    assert inner["y"] + inner["height"] <= outer["y"] + outer["height"]
    if by == "button":
        apply.click()
        expect(text).to_be_focused()
    else:
        text.press("Enter" if by == "key" else "Tab")
    message = peer.next()
    assert message["data"] == {field: declared["schema"]["properties"][field]["default"] + " in snow"}
    expect(apply).to_be_hidden()
    expect(answer).to_have_text("")
    peer.ack(message)
    expect(answer).to_have_text("Applied")
    expect(answer).to_be_visible()
    page.clock.run_for(1600)
    expect(answer).to_have_text("")
    text.blur()
    assert peer.silent()


def test_a_refused_text_stays_to_be_mended(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, PROMPT)
    place = control(page, "set_prompt")
    text, apply = place.get_by_role("textbox"), place.get_by_role("button", name="Apply")
    expect(place.get_by_role("status")).to_be_attached()
    text.fill("a forbidden fox")
    text.press("Enter")
    peer.refuse(peer.next(), "No foxes today")
    refusal = place.get_by_role("alert")
    expect(refusal).to_have_text("No foxes today")
    expect(text).to_have_value("a forbidden fox")
    expect(apply).to_be_visible()
    assert box(refusal)["y"] >= box(text)["y"] + box(text)["height"]


def test_a_prompt_is_the_largest_field_and_has_no_corner_to_drag(server: FakeServer, page: Page) -> None:
    begin(page, server, PROMPT, NAME)
    prompt, name = (control(page, f"set_{each}").get_by_role("textbox") for each in ("prompt", "name"))
    assert box(prompt)["height"] >= 2 * box(name)["height"]
    assert prompt.evaluate("(each) => getComputedStyle(each).resize") == "none"


def test_an_action_is_read_from_its_name_to_its_button(server: FakeServer, page: Page) -> None:
    begin(page, server, FREEZE, SPLASH, BREAK)
    form = control(page, "splash")
    heading, words = form.get_by_role("heading", name="Splash"), form.get_by_text("Throw a drop")
    button = form.get_by_role("button", name="Splash")
    first, second = form.locator(".field").first, form.locator(".field").last
    tops = [box(each)["y"] for each in (heading, words, first, button)]
    assert tops == sorted(tops)
    assert box(first)["y"] == box(second)["y"]  # two short numbers are one row
    lone = control(page, "break_it")
    assert box(lone.get_by_text("It raises"))["y"] < box(lone.get_by_role("button", name="Break it"))["y"]
    assert lone.get_by_role("heading").count() == 0
    edges = "(all) => all.map((each) => getComputedStyle(each).borderTopWidth)"
    lines = page.locator("#actions .control").evaluate_all(edges)
    assert lines == ["0px", "1px", "1px"]


@pytest.mark.parametrize("name", ["freeze", "splash"])
def test_an_action_says_that_the_model_has_it(server: FakeServer, page: Page, name: str) -> None:
    peer = begin(page, server, FREEZE, SPLASH)
    stop_clock(page)
    form = control(page, name)
    button = form.get_by_role("button", name=name.capitalize())
    width = box(button)["width"]
    for _ in range(2):
        button.click()
        message = peer.next()
        mark = "(each) => getComputedStyle(each, '::after').content"
        assert "✓" not in button.evaluate(mark)
        peer.ack(message)
        expect(button).to_have_class("action done")
        page.clock.run_for(100)
        expect(form.get_by_role("status")).to_have_text("Done")
        assert "✓" in button.evaluate(mark)
        assert box(button)["width"] == width
        page.clock.run_for(1600)
        expect(button).to_have_class("action")
        expect(form.get_by_role("status")).to_have_text("")


def test_a_refused_action_is_scrolled_to_its_refusal(server: FakeServer, page: Page) -> None:
    more = [command(f"set_level_{n}", level=UNIT) for n in range(12)]
    peer = begin(page, server, *more, BREAK)
    button = page.get_by_role("button", name="Break it")
    page.locator("#panel-content").evaluate("(each) => each.scrollTo(0, 0)")
    button.evaluate("(each) => each.click()")
    expect(button).not_to_be_in_viewport()
    peer.refuse(peer.next(), "It is broken already")
    expect(control(page, "break_it").get_by_role("alert")).to_be_in_viewport(ratio=1)


def test_choices_that_are_names_of_a_program_read_as_words(server: FakeServer, page: Page) -> None:
    choices = ["calm", "very_wild", "a calm sea", "DDIM", "fp16", "Euler", "4x", 3]
    peer = begin(page, server, command("set_mode", mode={"enum": choices, "default": "calm"}))
    words = page.locator("[data-command=set_mode] option:not([hidden])").all_text_contents()
    assert words == ["Calm", "Very wild", "a calm sea", "DDIM", "fp16", "Euler", "4x", "3"]
    page.get_by_label("Mode", exact=True).select_option("Very wild")
    message = peer.next()
    assert message["data"] == {"mode": "very_wild"}
    peer.ack(message)
    expect(page.locator("[data-command=set_mode] .reset")).to_have_attribute("title", "Reset Mode to Calm")


STORY = command("set_story", story={"type": "string", "default": "ink cliffs", "minLength": 1, "maxLength": 20})


def test_a_text_that_cannot_be_valid_says_why_stays_and_is_not_sent(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, STORY, state={"story": "ink cliffs"})
    place = control(page, "set_story")
    text, apply = place.get_by_role("textbox"), place.get_by_role("button", name="Apply")
    refusal, count = place.get_by_role("alert"), place.locator(".count")
    expect(place.get_by_role("status")).to_be_attached()
    text.fill("")
    expect(apply).to_be_disabled()
    expect(refusal).to_be_hidden()  # who has only begun to write is told nothing
    text.press("Enter")
    expect(refusal).to_have_text("Write at least one character.")
    text.blur()
    expect(refusal).to_be_visible()
    expect(text).to_have_value("")
    text.fill("twenty characters do")  # 20
    expect(refusal).to_be_hidden()
    expect(count).to_have_text("20 / 20")
    expect(apply).to_be_enabled()
    text.fill("more than twenty characters 🎈")
    expect(count).to_have_text("29 / 20")
    expect(apply).to_be_disabled()
    text.press("Enter")
    expect(refusal).to_have_text("Write at most 20 characters.")
    assert peer.silent()
    text.fill("short")
    expect(count).to_have_text("")
    text.press("Enter")
    assert peer.next()["data"] == {"story": "short"}


def test_a_text_that_the_model_refuses_stays_though_the_model_has_another(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, STORY, state={"story": "ink cliffs"})
    place = control(page, "set_story")
    text = place.get_by_role("textbox")
    expect(place.get_by_role("status")).to_be_attached()
    text.fill("a fox")
    text.press("Enter")
    peer.refuse(peer.next(), "No foxes today")
    expect(place.get_by_role("alert")).to_have_text("No foxes today")
    expect(text).to_have_value("a fox")
    expect(place.get_by_role("button", name="Apply")).to_be_enabled()


def test_a_refused_form_names_the_field_and_its_limit_in_words(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, command("tell", required=("story", "name"), story=STORY["schema"]["properties"]["story"],
                                       name={"type": "string", "minLength": 2, "title": "Your name"}))  # fmt: skip
    form = control(page, "tell")
    form.get_by_role("textbox").last.fill("F")
    form.get_by_role("button", name="Tell").click()
    peer.refuse(peer.next(), "Expected `str` of length >= 2 - at `$.name`")
    expect(form.locator(".refusal summary")).to_have_text("Your name: Write at least 2 characters.")
    expect(form.get_by_role("textbox").last).to_have_value("F")


def test_a_reply_stands_under_its_button_until_the_next_press(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, FREEZE, SPLASH)
    stop_clock(page)
    form = control(page, "splash")
    button, reply = form.get_by_role("button", name="Splash"), form.locator(".reply")
    button.click()
    peer.ack(peer.next(), {"mean_score": 0.75, "words": ["sea", "village"], "none": None})
    expect(reply).to_have_text("Mean score 0.75 Words sea, village")
    assert box(reply)["y"] >= box(button)["y"] + box(button)["height"]
    page.clock.run_for(20_000)
    expect(reply).to_be_visible()
    expect(page.locator("#log-list li")).to_contain_text("Splash")
    lone = control(page, "freeze")
    lone.get_by_role("button").click()
    peer.ack(peer.next(), "frozen")
    expect(lone.locator(".reply")).to_have_text("frozen")
    expect(reply).to_be_visible()  # it is of another button
    button.click()
    expect(reply).to_be_hidden()
    peer.ack(peer.next())
    expect(button).to_have_class("action done")
    expect(reply).to_be_hidden()
