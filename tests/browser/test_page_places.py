"""Saved places on the page, and the link from here: against a real server whose model saves its world into a store."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.test_page_worlds import BRIGHTNESS, MODEL, NOTES, noted, until
from tests.support.fake_page_server import FakeServer, command, picture
from tests.support.page_scripts import READ_BACK
from tests.support.real_server import real_server

#: two sessions, whose worlds stand still at what was set: so that one brightness is one place
STILL = MODEL.replace("fps = 20", "fps = 20\n    max_sessions = 2").replace(
    "self.state._number += 1", "self.state._number = self.state.light"
).replace("    _number: int = 0", "    light: int = 40\n    _number: int = 0")
STORE = "runtime: {resume_window: 300, worlds: {store: saved}}\n"


@contextmanager
def serving(folder: Path, more: str = STORE, model: str = STILL) -> Iterator[str]:
    (folder / "model.py").write_text(model)
    (folder / "reactor.yaml").write_text(f"model: model:Counter\n{more}")
    with real_server(folder) as url:
        yield url


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    with serving(tmp_path) as url:
        yield url


def begin(page: Page, url: str, at: int = 40) -> None:
    page.add_init_script(NOTES)
    page.goto(f"{url}?video=raw")
    shows(page, at)
    expect(page.get_by_role("group", name="Saved places")).to_be_enabled()


def shows(page: Page, light: int) -> None:
    page.wait_for_function(f"(light) => ({BRIGHTNESS})() === light", arg=light)


def set_light(page: Page, light: int) -> None:
    field = page.locator("#settings input").first
    field.fill(str(light))
    field.press("Enter")
    shows(page, light)


def save(page: Page, name: str = "") -> None:
    cards = page.locator("#slots li").count()
    if name:
        page.get_by_label("Name").fill(name)
    page.get_by_role("button", name="Save", exact=True).click()
    expect(page.locator("#slots li")).to_have_count(cards + 1)


def second_page(browser: Browser, **how: object) -> Page:
    context = browser.new_context(locale="en-US", reduced_motion="reduce", **how)
    context.add_init_script(READ_BACK)
    page = context.new_page()
    page.set_default_timeout(90_000)
    return page


def link_from_here(page: Page) -> str:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Link from here").click()
    expect(page.locator("#slots .notice")).to_contain_text("Link copied. Whoever has it plays on from this moment")
    return str(page.evaluate("navigator.clipboard.readText()"))


def test_a_place_is_saved_and_loaded_again_after_a_reload_and_in_a_new_session(url: str, page: Page) -> None:
    begin(page, url)
    expect(page.locator("#slots .description")).to_be_hidden()  # the server has a store
    set_light(page, 90)
    save(page, "The gate")
    assert page.evaluate("document.querySelector('#slots img').naturalWidth") == 208
    set_light(page, 200)
    save(page)
    first, second = page.locator("#slots .preset").all()
    expect(first).to_have_text(re.compile(r"^\w{3} \d+:\d\d [AP]Mnow$"))
    expect(second).to_have_text("The gatenow")
    second.click()
    shows(page, 90)
    noted(page, "^loaded “The gate”$")
    expect(page.locator("#settings input").first).to_have_value("90")
    page.locator("#undo-rewind").click()
    shows(page, 200)
    for where, shown in ((page.url, 200), (f"{page.url}&new=1", 40)):  # the session goes on, and another one
        page.goto(where)
        shows(page, shown)
        expect(page.locator("#slots .preset")).to_have_count(2)
        page.locator("#slots .preset").nth(1).click()
        shows(page, 90)
        set_light(page, 200)
    assert [note for note in page.evaluate("notes") if "rewound" in note] == []


# The red, green and blue of the picture, rounded to whole tens.
SHOWN = """() => {
    const { data } = document.querySelector("#hero canvas").getContext("2d").getImageData(5, 5, 1, 1);
    return [...data].slice(0, 3).map((each) => Math.round(each / 10) * 10).join();
}"""
# The same of the newest card.
CARD = """async () => {
    const image = document.querySelector("#slots img");
    if (!image) return null;
    const bitmap = await createImageBitmap(await image.decode().then(() => image));
    const canvas = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
    const context = canvas.getContext("2d");
    context.drawImage(bitmap, 0, 0, 8, 8);
    return [...context.getImageData(4, 4, 1, 1).data].slice(0, 3).map((each) => Math.round(each / 10) * 10).join();
}"""


@pytest.mark.parametrize("lags", [True, False])
def test_the_card_shows_the_saved_step_also_where_the_picture_lags(server: FakeServer, page: Page, lags: bool) -> None:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(worlds={"may": ["save"], "token": "t", "lasting": True})
    peer.frame(1, picture(200, 0, 0))
    expect(page.locator("#hero .drawn")).to_be_visible()
    page.get_by_role("button", name="Save", exact=True).click()
    asked = peer.next()
    world = {"id": "i" * 22, "name": "n", "step": 5, "age": 1.0, "bytes": 9, "saved_at": 1.0, "expires": 1001.0}

    def answer() -> None:
        peer.ack(asked, {"world": world})
        peer.say("reactor.saved", {"world": world["id"]})
        expect(page.locator("#slots li")).to_have_count(1)

    if lags:
        answer()
        page.wait_for_function(f"async () => (await ({CARD})()) === '200,0,0'")
    for step, colours in ((3, (100, 100, 0)), (5, (0, 0, 200)), (6, (0, 200, 0))):
        peer.frame(step, picture(*colours))
        page.wait_for_function(f"() => ({SHOWN})() === '{','.join(map(str, colours))}'")
    if not lags:
        answer()
    page.wait_for_function(f"async () => (await ({CARD})()) === '0,0,200'")
    page.reload()
    peer = server.accept()
    peer.welcome(worlds={"may": ["save"], "token": "t", "lasting": True})
    page.wait_for_function(f"async () => (await ({CARD})()) === '0,0,200'")


@pytest.mark.parametrize("may", [["rewind"], ["rewind", "save"], []])
def test_a_new_session_after_a_stop_says_that_the_world_is_lost(server: FakeServer, page: Page, may: list[str]) -> None:
    kept = {"id": "i" * 22, "name": "The gate", "picture": "", "savedAt": 1.0, "expires": 4e12}
    page.add_init_script(f"localStorage['places:fake'] = {json.dumps(json.dumps([kept]))}")
    worlds = {"may": may, "token": "t", "lasting": True} if may else None
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(worlds=worlds)
    peer.frame(1, picture(200, 0, 0))
    expect(page.locator("#hero .drawn")).to_be_visible()
    if may:
        expect(page.locator("#rewind")).to_be_visible()
    expect(page.locator("#toasts")).to_have_text("")
    peer.bye("draining")
    peer = server.accept()
    peer.welcome(worlds=worlds, session="another")
    peer.frame(1, picture(0, 200, 0))
    page.wait_for_function(f"() => ({SHOWN})() === '0,200,0'")
    toasts = page.locator("#toasts")
    if not may:
        expect(toasts).to_have_text("")
        return
    expect(toasts).to_contain_text("The world of before is lost. This is a new one.")
    load = toasts.get_by_role("button", name="Go on from “The gate”")
    if "save" not in may:
        expect(load).to_have_count(0)
        return
    load.click()
    asked = peer.next()
    assert (asked["type"], asked["data"]) == ("reactor.restore", {"world": kept["id"]})
    expect(toasts).to_have_text("")


def test_a_deleted_place_comes_back_by_undo_and_is_forgotten_when_the_page_is_left(
    url: str, page: Page, tmp_path: Path
) -> None:
    begin(page, url)
    save(page, "one")
    save(page, "two")
    store = tmp_path / "saved"
    assert len(list(store.glob("*.world"))) == 2
    page.get_by_role("button", name="Delete “one”").click()
    expect(page.get_by_role("button", name="Undo", exact=True)).to_be_focused()
    expect(page.locator("#slots .unseen")).to_have_text("Deleted: one")
    page.get_by_role("button", name="Undo", exact=True).press("Enter")
    expect(page.locator("#slots .preset")).to_have_text(["twonow", "onenow"])
    expect(page.get_by_title("Go on from “one”")).to_be_focused()
    page.get_by_role("button", name="Delete “two”").click()
    page.reload()
    expect(page.locator("#slots .preset")).to_have_text(["onenow"])
    page.wait_for_function("() => !JSON.parse(localStorage['places:model:Counter']).some(({ deleted }) => deleted)")
    assert len(list(store.glob("*.world"))) == 1


def test_without_a_store_places_last_as_long_as_their_session(tmp_path: Path, page: Page) -> None:
    with serving(tmp_path, "runtime: {resume_window: 300}\n") as url:
        begin(page, url)
        expect(page.locator("#slots .description")).to_have_text("Saved places last as long as this session.")
        save(page, "here")
        page.reload()
        expect(page.locator("#slots .preset")).to_have_text(["herenow"])
        page.goto(f"{page.url}&new=1")
        expect(page.locator("#slots .description")).to_be_visible()
        expect(page.locator("#slots .preset")).to_have_count(0)


def test_what_the_server_refuses_is_said_in_words(tmp_path: Path, page: Page) -> None:
    with serving(tmp_path, "runtime: {worlds: {store: saved, slots: 1}}\n") as url:
        begin(page, url)
        save(page, "one")
        page.get_by_role("button", name="Save", exact=True).click()
        alert = page.locator("#slots").get_by_role("alert")
        expect(alert).to_contain_text("You have as many of these as one session may have.")
        for file in (tmp_path / "saved").glob("*.world"):
            file.unlink()
        page.get_by_title("Go on from “one”").click()
        expect(alert).to_contain_text("This place is gone.")
        expect(page.locator("#slots li")).to_have_count(0)


def test_a_link_from_here_begins_another_session_at_this_moment(url: str, page: Page, browser: Browser) -> None:
    begin(page, url)
    set_light(page, 130)
    link = link_from_here(page)
    expect(page.locator("#slots .notice")).to_contain_text("It is good until ")
    set_light(page, 60)
    friend = second_page(browser)
    friend.add_init_script(NOTES)
    friend.goto(link)
    assert urlsplit(friend.url).fragment == ""
    shows(friend, 130)
    noted(friend, "^From here on this is a world of your own$")
    expect(friend.locator("#undo-rewind")).to_be_hidden()
    set_light(friend, 220)
    friend.reload()
    shows(friend, 220)  # it goes on, and begins no other session
    shows(page, 60)
    friend.evaluate("(link) => location.assign(link)", link)  # it is opened once more in this tab
    shows(friend, 130)
    friend.context.close()


def test_a_link_that_is_not_good_any_more_offers_to_play_from_the_beginning(url: str, page: Page) -> None:
    page.goto(f"{url}?video=raw#fork=nothing")
    expect(page.locator("#overlay-text")).to_have_text("The moment that this link leads to is not kept any more.")
    assert "#" not in page.url
    expect(page.locator("#reconnect")).to_be_hidden()
    page.get_by_role("button", name="Play from the beginning").click()
    shows(page, 40)


def test_a_link_in_a_tab_that_plays_leaves_its_session_and_begins_there(url: str, page: Page, browser: Browser) -> None:
    begin(page, url)
    set_light(page, 130)
    other = second_page(browser)
    begin(other, url)
    link = link_from_here(page)
    other.evaluate("(hash) => { location.hash = hash; }", urlsplit(link).fragment)  # both places are taken: it gives its own
    shows(other, 130)
    other.context.close()


def test_without_a_clipboard_the_link_is_shown(url: str, page: Page) -> None:
    page.add_init_script("navigator.clipboard.write = () => Promise.reject(new Error('no'));")
    begin(page, url)
    page.get_by_role("button", name="Link from here").click()
    field = page.get_by_label("Link from this moment")
    expect(field).to_be_focused()
    expect(field).to_have_value(re.compile(r"\?video=raw#fork=[\w-]{22}$"))
    expect(page.locator("#slots .notice")).to_contain_text("Copy this link. Whoever has it plays on")


def test_on_a_phone_a_finger_saves_loads_and_deletes(url: str, browser: Browser) -> None:
    page = second_page(browser, viewport={"width": 390, "height": 844}, has_touch=True, is_mobile=True)
    begin(page, url)
    set_light(page, 90)
    for name in ("one", "two", "three", "four"):
        page.get_by_label("Name").fill(name)
        page.get_by_role("button", name="Save", exact=True).tap()
        expect(page.locator("#slots .preset").first).to_have_text(f"{name}now")
    set_light(page, 30)
    page.get_by_title("Go on from “three”").tap()
    shows(page, 90)
    delete = page.get_by_role("button", name="Delete “four”")
    assert delete.bounding_box()["width"] >= 44
    delete.tap()
    expect(page.locator("#slots .undo")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    page.context.close()


def test_a_place_that_is_loaded_in_a_pause_is_shown(url: str, page: Page) -> None:
    begin(page, url)
    save(page, "here")
    set_light(page, 90)
    page.locator("#pause-toggle").click()
    expect(page.locator("#pause-toggle")).to_have_attribute("aria-pressed", "true")
    page.get_by_title("Go on from “here”").click()
    shows(page, 40)
    expect(page.locator("#pause-toggle")).to_have_attribute("aria-pressed", "true")


def test_with_the_keyboard_alone(url: str, page: Page) -> None:
    begin(page, url)
    page.get_by_label("Name").focus()
    page.keyboard.type("typed")
    page.keyboard.press("Enter")
    expect(page.locator("#slots .preset")).to_have_text(["typednow"])
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_focused()
    set_light(page, 90)
    page.get_by_role("button", name="Save", exact=True).focus()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    shows(page, 40)
    expect(page.get_by_title("Go on from “typed”")).to_be_focused()
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")  # the button that takes it back has the focus
    expect(page.locator("#slots .preset")).to_have_text(["typednow"])


def test_the_places_have_their_room_before_they_are_loaded(url: str, page: Page, troubles: list[str]) -> None:
    begin(page, url)
    save(page, "one")
    high = page.locator("#slots").bounding_box()["height"]
    page.route("**/slots.js", lambda route: route.abort())
    page.reload()
    shows(page, 40)
    assert page.locator("#slots").bounding_box()["height"] == pytest.approx(high, abs=1)
    page.evaluate("localStorage.removeItem('slots')")
    page.reload()
    shows(page, 40)
    empty = page.locator("#slots").bounding_box()["height"]
    page.unroute("**/slots.js")
    page.evaluate("localStorage.clear()")
    page.reload()
    expect(page.locator("#save-place")).to_be_visible()
    assert page.locator("#slots").bounding_box()["height"] == pytest.approx(empty, abs=1)
    troubles[:] = [each for each in troubles if "ERR_FAILED" not in each]  # the browser tells of both aborts, late


@pytest.mark.parametrize(("may", "shown"), [(("rewind",), []), (("save",), ["Save"]), (("fork",), ["Link from here"])])
def test_only_what_is_allowed_is_there(tmp_path: Path, page: Page, may: tuple[str, ...], shown: list[str]) -> None:
    with serving(tmp_path, f"runtime: {{worlds: {{allow: [{', '.join(may)}]}}}}\n") as url:
        page.goto(f"{url}?video=raw")
        shows(page, 40)
        if shown:
            expect(page.locator("#slots button:visible")).to_have_text(shown)
        else:
            expect(page.locator("#rewind")).to_be_visible()
            expect(page.locator("#slots")).to_be_hidden()


def test_who_watches_reads_that_a_place_was_loaded_and_has_none(server: FakeServer, page: Page) -> None:
    page.add_init_script(NOTES)
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(command("key_w"), role="viewer")
    moment = {"step": 19, "age": 2.0, "bytes": 1, "picture": False}
    peer.say("reactor.moment", {"step": 40, "to": moment, "why": "restore"})
    noted(page, "^a saved place was loaded$")
    expect(page.locator("#slots")).to_be_hidden()


def test_the_page_says_it_in_german(url: str, browser: Browser) -> None:
    context = browser.new_context(locale="de-DE", reduced_motion="reduce")
    context.add_init_script(READ_BACK)
    page = context.new_page()
    page.set_default_timeout(90_000)
    page.goto(f"{url}?video=raw")
    page.get_by_role("button", name="Speichern", exact=True).click()
    expect(page.locator("#slots .preset .age")).to_have_text("jetzt")
    until(page, 10)
    context.close()
