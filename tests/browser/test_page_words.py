"""What the page says to people who have not written the model, and do not run its server."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.test_page import control, open_page, state, stop_clock
from tests.support.fake_page_server import FakeServer, Peer, command, introduction, picture, video

LOOK = command("set_look", look={"x-reactor": "upload", "accept": ["image/*"]})


def begin(page: Page, server: FakeServer, *commands: Any, **welcome: Any) -> Peer:
    peer = open_page(page, server)
    peer.welcome(*commands, **{"tracks": [video()], **welcome})
    peer.frame(0, picture(200, 30, 60))
    state(page, "live")
    return peer


def test_what_runs_before_the_first_picture_has_no_name_but_among_the_figures(server: FakeServer, page: Page) -> None:
    page.clock.install()  # before the page sets a timer, which a clock of later could not clear
    peer = open_page(page, server)
    stop_clock(page)
    peer.welcome(command("jump"), tracks=[video()])
    state(page, "live")
    peer.say("reactor.late", {"what": "@connected has run", "seconds": 5})
    for count in range(1, 7):  # the server is heard of meanwhile
        page.clock.run_for(2000)
        peer.say("progress", {})
        expect(page.locator("#log-count")).to_have_text(str(count))
    expect(page.locator("#status")).to_have_text("starting")
    expect(page.locator("#overlay-text")).to_have_text("The model is warming up.")  # and does not wait for the user
    page.click("#stats > summary")
    expect(page.locator("#stats")).to_contain_text("@connected has run for 17 s")


def test_code_that_takes_long_while_pictures_come_is_a_busy_model(server: FakeServer, page: Page) -> None:
    peer = begin(page, server)
    expect(page.locator("#status")).to_have_text("live")
    peer.say("reactor.late", {"what": "step 7 has run", "seconds": 600})
    expect(page.locator("#status")).to_contain_text("the model is busy for 10 min")
    page.click("#stats > summary")
    expect(page.locator("#stats")).to_contain_text("step 7 has run for 10 min")
    peer.say("reactor.late", {"what": None, "seconds": 0})
    expect(page.locator("#status")).to_have_text("live")
    expect(page.locator("#stats")).not_to_contain_text("step 7")


def test_a_file_of_another_kind_is_refused_in_words_before_it_is_sent(server: FakeServer, page: Page) -> None:
    sent: list[Route] = []
    page.route("**/uploads?*", lambda route: sent.append(route))
    peer = begin(page, server, LOOK, upload="token")
    place = control(page, "set_look")
    expect(place.locator(".drop")).to_be_visible()
    notes = {"name": "notes.py", "mimeType": "text/x-python", "buffer": b"hello"}
    place.locator("input[type=file]").set_input_files(notes)
    expect(place.get_by_role("alert")).to_have_text("This is not a picture. Choose a PNG or JPEG.")
    assert sent == []
    assert peer.silent()


def test_the_path_of_an_argument_is_no_word_for_people(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, command("set_name", name={"type": "string", "default": ""}))
    name = control(page, "set_name").get_by_role("textbox")
    name.fill("a fox")
    name.press("Enter")
    peer.refuse(peer.next(), "No such name - at `$.name`")
    expect(control(page, "set_name").get_by_role("alert")).to_have_text("No such name")


def test_messages_are_words_and_json_on_demand(server: FakeServer, page: Page) -> None:
    peer = begin(page, server)
    peer.say("vitals", {"health": 9, "food": 8.25, "in_water": False, "at": {"x": 1}})
    peer.say("help", {"text": "You have a plank"})
    page.locator("#log > summary").click()
    lines = page.locator("#log-list li")
    expect(lines).to_have_count(2)
    expect(lines.nth(0).locator("summary")).to_have_text("You have a plank")
    expect(lines.nth(1).locator("summary")).to_have_text('health 9 · food 8.25 · in water false · at {"x":1}')
    json = lines.nth(1).locator("code")
    expect(json).to_be_hidden()
    lines.nth(1).locator("summary").click()
    expect(json).to_have_text('{"health":9,"food":8.25,"in_water":false,"at":{"x":1}}')


@pytest.mark.parametrize("host", ["127.0.0.1", "lan.test"])
def test_a_failure_says_what_a_visitor_can_do_and_to_developers_more(server: FakeServer, page: Page, host: str) -> None:
    page.goto(server.url.replace("127.0.0.1", host))
    peer = server.accept()
    stop_clock(page)
    peer.welcome(tracks=[video()])
    state(page, "live")
    peer.bye("model_error")
    state(page, "ended")
    expect(page.locator("#overlay-text")).to_have_text("The model failed.")
    expect(page.locator("#overlay-note")).to_contain_text("Please tell whoever runs this page. Trying again in")
    details = page.locator("#overlay-details")
    if host == "lan.test":
        expect(details).to_be_hidden()
    else:
        expect(details).to_contain_text("--debug")
        assert "`" not in (details.text_content() or "")


def test_the_api_page_has_the_title_of_the_page(server: FakeServer, page: Page) -> None:
    begin(page, server, about=introduction(title="Moving light"))
    page.get_by_role("button", name="Use from a program (API)").click()
    expect(page.get_by_role("heading", name="API of Moving light")).to_be_visible()


def test_a_title_breaks_between_words_only(server: FakeServer, page: Page) -> None:
    page.set_viewport_size({"width": 320, "height": 844})
    peer = begin(page, server, about=introduction(title="Crafter World"))
    peer.say("reactor.late", {"what": "step 7 has run", "seconds": 600})
    expect(page.locator("#status")).to_contain_text("for 10 min")  # which leaves the title little room
    lines = page.locator("#name").evaluate("""(name) => {
        const range = document.createRange();
        return [...name.firstChild.data.matchAll(/\\S+/g)].map(({ 0: word, index }) => {
            range.setStart(name.firstChild, index);
            range.setEnd(name.firstChild, index + word.length);
            return new Set([...range.getClientRects()].map(({ y }) => Math.round(y))).size;
        });
    }""")
    assert lines == [1, 1]


def test_from_right_to_left_nothing_covers_and_numbers_stay_with_their_units(server: FakeServer, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 720})
    page.add_init_script("addEventListener('DOMContentLoaded', () => { document.documentElement.dir = 'rtl'; })")
    hint = {"label": None, "widget": None, "group": None, "advanced": False, "unit": "cells/s"}
    about = introduction(hint="Tools, eat, sleep … You decide", description="Some words.", settings={"speed": hint})
    speed = {"type": "number", "minimum": 0, "maximum": 9, "default": 4, "description": "How fast it goes."}
    begin(page, server, command("set_speed", speed=speed), command("jump"), about=about)
    expect(page.locator("#hint")).to_be_visible()
    expect(page.locator(".unit")).to_be_visible()
    page.wait_for_function("() => [...document.styleSheets].some(({ href }) => href?.endsWith('details.css'))")
    box = "([one, other]) => [one, other].map((each) => document.querySelector(each).getBoundingClientRect().toJSON())"
    hint_box, tools = page.evaluate(box, ["#hint", "#tools"])
    assert hint_box["left"] >= tools["right"] or hint_box["right"] <= tools["left"]
    heading, label = page.evaluate(box, ["#settings h2", "#settings label"])
    assert heading["right"] == pytest.approx(label["right"], abs=1)
    number, unit = page.evaluate(box, ["#settings .readout", "#settings .unit"])
    assert number["left"] < unit["left"]
    assert page.locator("#figure-fps").evaluate("(each) => getComputedStyle(each.parentElement).unicodeBidi") == "plaintext"
    for words in ("#hint bdi", "#about .prose", "#settings label", "#settings .description", "#name"):
        place = page.locator(words)
        assert place.evaluate("(each) => getComputedStyle(each).direction") == "ltr", words
    # They lie at the page's side nevertheless.
    right = page.locator("#settings .description").evaluate("""(each) => {
        const range = document.createRange();
        range.selectNodeContents(each);
        return each.getBoundingClientRect().right - range.getBoundingClientRect().right;
    }""")
    assert right == pytest.approx(0, abs=1)


def test_a_saved_picture_and_a_copied_link_say_so_alike(server: FakeServer, page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    begin(page, server, share="s3")
    share = page.get_by_role("button", name="Watch link")
    share.hover()
    only = "It works on this computer only."
    expect(share).to_have_attribute("title", f"Copy a link that lets others watch this session. {only}")
    share.click()
    expect(page.locator("#toasts .info").last).to_have_text(f"Link copied: anyone who has it can watch. {only}")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save the picture").click()
    expect(page.locator("#toasts .info").last).to_have_text(f"Saved: {download.value.suggested_filename}")


def test_a_viewer_can_wait_for_a_turn_in_the_same_tab(server: FakeServer, page: Page) -> None:
    page.goto(server.url + "?role=viewer&model=fake#token=s3")
    peer = server.accept()
    peer.welcome(tracks=[video()], role="viewer")
    note = page.locator("#role-note")
    expect(note).to_have_text("Somebody else is playing; you are watching. Wait for your turn")
    note.get_by_role("link", name="Wait for your turn").click()
    waiting = server.accept()
    assert "role=" not in waiting.path
    assert "token=" not in waiting.path
    assert "model=fake" in waiting.path
    waiting.say("reactor.queued", {"position": 1, "total": 1})
    expect(page.locator("#overlay-text")).to_have_text("You are next.")
    expect(page.locator("#overlay-details")).to_be_hidden()  # "Place 1 of 1" says nothing more


def test_who_does_not_watch_any_more_is_not_told_that_somebody_plays(server: FakeServer, page: Page) -> None:
    page.goto(server.url + "?role=viewer")
    peer = server.accept()
    speed = {"type": "number", "minimum": 0, "maximum": 9, "default": 4}
    peer.welcome(command("set_speed", speed=speed), tracks=[video()], role="viewer")
    expect(page.locator("#role-note")).to_be_visible()
    expect(page.locator("#controls")).to_have_css("opacity", "0.55")
    stop_clock(page)
    peer.bye("done")
    state(page, "ended")
    expect(page.locator("#role-note")).to_be_hidden()


def test_from_right_to_left_code_and_links_read_from_left_to_right(server: FakeServer, page: Page) -> None:
    page.add_init_script("addEventListener('DOMContentLoaded', () => { document.documentElement.dir = 'rtl'; })")
    begin(page, server, command("set_speed", speed={"type": "number", "default": 4}))
    page.get_by_role("button", name="Use from a program (API)").click()
    expect(page.locator("#api-page")).to_be_visible()
    page.wait_for_function("() => [...document.styleSheets].some(({ href }) => href?.endsWith('details.css'))")
    of = """(each) => {
        const { direction, textAlign, unicodeBidi } = getComputedStyle(each);
        return [direction, textAlign, unicodeBidi];
    }"""
    for code in ("#api-page pre", "#api-page pre code", "#api-page textarea", "#share-link", "#access-token"):
        assert page.locator(code).first.evaluate(of) == ["ltr", "left", "isolate"], code
