"""What the page says and does while there is no picture, after a failure, and while the user waits for an answer."""

from __future__ import annotations

from typing import Literal

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_page import open_page, state, stop_clock
from tests.support.fake_page_server import FakeServer, command, picture, video
from tests.support.page_windows import PLACES

Theme = Literal["light", "dark"]

LOADING = (503, {"phase": "loading", "model": "fake", "progress": None})

#: How far the turning arc's centre is from the ring's at the most, over a whole turn, in px; None if nothing turns.
OFF_THE_RING = """() => {
    const [ring, arc] = [".faint", ".progress"].map((each) => document.querySelector(`#overlay-art ${each}`));
    const middle = (each) => {
        const { x, y, width, height } = each.getBoundingClientRect();
        return [x + width / 2, y + height / 2];
    };
    const [turn] = arc.getAnimations().filter(({ animationName }) => animationName === "turn");
    if (!turn) return null;
    turn.pause();
    return Math.max(...[0, 0.1, 0.3, 0.5, 0.7, 0.9].map((part) => {
        turn.currentTime = part * 1400;
        const [[x, y], [u, v]] = [middle(ring), middle(arc)];
        return Math.hypot(x - u, y - v);
    }));
}"""


@pytest.mark.parametrize("size", [(1440, 900), (390, 844), (844, 390)])
def test_the_loading_ring_turns_in_its_place(
    server: FakeServer, page: Page, troubles: list[str], size: tuple[int, int]
) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.emulate_media(reduced_motion="no-preference")
    server.refuse_with = 503
    server.health = LOADING
    page.goto(server.url)
    expect(page.locator("#overlay-text")).to_have_text("The model is loading.")
    expect(page.locator("#overlay-art svg")).to_be_visible()
    off = page.evaluate(OFF_THE_RING)
    assert off is not None
    assert off < 1
    page.goto("about:blank")  # no further try, which would be refused, too
    troubles.clear()


def test_while_the_model_loads_the_page_says_nothing_else(server: FakeServer, page: Page, troubles: list[str]) -> None:
    page.add_init_script("""addEventListener("DOMContentLoaded", () => {
        window.said = [];
        const status = document.querySelector("#status");
        new MutationObserver(() => window.said.push(status.textContent)).observe(status, { childList: true });
    })""")
    server.refuse_with = 503
    server.health = LOADING
    page.goto(server.url)
    expect(page.locator("#status")).to_have_text("loading")
    tries = len(troubles)
    page.wait_for_function(
        "() => performance.getEntriesByType('resource').filter(({ name }) => name.endsWith('/health')).length > 3"
    )
    server.refuse_with = None
    server.health = (200, {"status": "ok", "model": "fake"})
    server.accept().welcome(tracks=[video()])
    state(page, "live")
    assert tries >= 1
    said = page.evaluate("() => window.said")
    assert "connecting" not in said[said.index("loading"):], said
    page.goto("about:blank")
    troubles.clear()


PLACE = command(
    "place", thing={"type": "string", "default": "chair", "maxLength": 20, "title": "Thing"},
    size={"type": "number", "default": 1, "title": "Size"},
    colour={"enum": ["red", "blue"], "default": "red", "title": "Colour"},
)  # fmt: skip


def test_after_a_failure_only_the_stage_says_so_and_then_the_next_session_for_a_while(
    server: FakeServer, page: Page
) -> None:
    page.clock.install()
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(PLACE)
    peer.frame(0, picture(9, 9, 9))
    expect(page.locator("#status")).to_have_text("live")
    page.get_by_label("Thing", exact=True).fill("lamp")
    page.get_by_label("Size", exact=True).fill("3")
    page.get_by_label("Colour", exact=True).select_option("Blue")
    stop_clock(page)  # the page would try again by itself
    peer.bye("model_error")
    expect(page.locator("#status")).to_have_text("failed")
    expect(page.locator("#overlay-text")).to_have_text("The model failed.")
    expect(page.locator(".toast")).to_have_count(0)
    page.get_by_role("button", name="Reconnect now").click()
    peer = server.accept()
    expect(page.locator(".toast")).to_have_count(0)
    peer.welcome(PLACE)
    state(page, "live")
    note = page.locator(".toast.info")
    expect(note).to_contain_text("The model failed and began again.")
    cross, card = [page.locator(part).evaluate_all(PLACES)[0] for part in ("#dismiss", ".toast.info")]
    assert (card["right"] - cross["right"], cross["top"] - card["top"]) == pytest.approx((1, 1), abs=1)  # in its corner
    expect(page.locator("#old-settings")).to_be_hidden()
    expect(page.get_by_label("Thing", exact=True)).to_have_value("lamp")
    expect(page.get_by_label("Size", exact=True)).to_have_value("3")
    page.get_by_role("button", name="Place").click()
    sent = peer.next()
    assert (sent["type"], sent["data"]) == ("place", {"thing": "lamp", "size": 3, "colour": "blue"})
    page.clock.run_for(8000)
    expect(note).to_have_count(0)


def test_who_waits_again_after_a_failure_is_told_why(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(PLACE)
    state(page, "live")
    peer.bye("model_error", "CUDA out of memory")
    peer = server.accept()
    peer.say("reactor.queued", {"position": 1, "total": 1})
    expect(page.locator("#overlay-text")).to_have_text("You are next.")
    expect(page.locator("#overlay-note")).to_have_text(
        "The model failed; you are in line again. Your session begins by itself."
    )
    expect(page.locator("#log-list li")).to_have_count(1)
    expect(page.locator("#log-list .error")).to_contain_text("The model failed. CUDA out of memory")
    peer.welcome(PLACE)
    state(page, "live")
    expect(page.locator(".toast.info")).to_contain_text("The model failed and began again.")
    peer.bye("done")
    page.get_by_role("button", name="Reconnect now").click()
    peer = server.accept()
    peer.say("reactor.queued", {"position": 1, "total": 1})
    expect(page.locator("#overlay-note")).to_have_text("Your session begins by itself.")
    expect(page.locator("#log-list li")).to_have_count(1)


@pytest.mark.parametrize("reason", ["model_error", "done"])
def test_a_viewer_is_told_why_there_is_nothing_to_watch(server: FakeServer, page: Page, reason: str) -> None:
    peer = open_page(page, server, "?role=viewer")
    stop_clock(page)
    peer.welcome(PLACE, role="viewer")
    state(page, "live")
    # Somebody who was in line has a session already, which nobody can watch yet.
    server.health = (200, {"status": "ok", "model": "fake", "sessions": 1})
    peer.bye(reason)
    state(page, "ended")
    page.get_by_role("button", name="Reconnect now").click()
    peer = server.accept()
    refused = {"reason": "refused", "message": "no session runs that a viewer could watch"}
    peer.say("reactor.bye", {**refused, "code": "no_session", "status": 503, "retry_after": 1})
    peer.socket.close(1013)
    words = "The model failed." if reason == "model_error" else "The session you watched has ended."
    expect(page.locator("#overlay-text")).to_have_text(words)
    expect(page.locator("#overlay-note")).to_contain_text("You see the next session when it begins. Trying again in")


def test_a_lost_connection_is_over_once_the_page_is_live_again(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(PLACE)
    state(page, "live")
    peer.socket.close(1001)
    server.accept().welcome(PLACE)
    state(page, "live")
    expect(page.locator(".toast")).to_have_count(0)


def test_the_settings_of_before_are_offered_until_they_are_taken(server: FakeServer, page: Page) -> None:
    bright = command("set_bright", bright={"type": "number", "minimum": 0, "maximum": 1, "default": 1, "title": "Bright"})
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(bright)
    state(page, "live")
    page.get_by_label("Bright", exact=True).fill("0.5")
    peer.ack(peer.next())
    peer.bye("model_error")
    peer = server.accept()
    peer.welcome(bright)
    page.get_by_role("button", name="Use the old settings").click()
    sent = peer.next()
    assert (sent["type"], sent["data"]) == ("set_bright", {"bright": 0.5})
    expect(page.locator(".toast")).to_have_count(0)


#: How well an element's text can be read on its own ground: the ratio of WCAG.
CONTRAST = """(element) => {
    const context = new OffscreenCanvas(1, 1).getContext("2d");
    const light = (colour) => {
        context.fillStyle = colour;
        context.fillRect(0, 0, 1, 1);
        const [r, g, b] = [...context.getImageData(0, 0, 1, 1).data].map((c) => {
            const part = c / 255;
            return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const clear = (colour) => /, 0\\)$|^transparent$/.test(colour);
    let ground = element;
    while (clear(getComputedStyle(ground).backgroundColor)) ground = ground.parentElement;
    const colours = [getComputedStyle(element).color, getComputedStyle(ground).backgroundColor];
    const [dark, bright] = colours.map(light).sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
}"""


def test_a_slow_session_is_no_broken_one_and_moves_nothing(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(tracks=[video()])
    peer.frame(0, picture(9, 9, 9))
    expect(page.locator("#link")).to_contain_text("live")  # which it says from the first picture on
    pill = """(grade) => {
        const link = document.querySelector("#link");
        link.dataset.quality = grade;
        const seen = (each) => each.offsetWidth && getComputedStyle(each).position !== "absolute";
        const words = [...link.children].filter(seen).map((each) => each.textContent);
        return [link.offsetWidth, getComputedStyle(link, "::before").backgroundColor, words.join(" ")];
    }"""
    good, fair, poor = (page.evaluate(pill, grade) for grade in ("good", "fair", "poor"))
    assert (good[2], fair[2], poor[2]) == ("live", "live", "slow")
    assert good[0] == fair[0] == poor[0]
    assert good[1] != fair[1] == poor[1]
    peer.bye("done")
    state(page, "ended")
    assert page.evaluate(pill, "poor")[1] not in (good[1], poor[1])


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_time_of_a_recording_and_notes_can_be_read(server: FakeServer, page: Page, theme: Theme) -> None:
    page.emulate_media(color_scheme=theme)
    page.goto(server.url)
    peer = server.accept()
    peer.welcome()
    peer.frame(0, picture(9, 9, 9))
    record = page.locator("#record")
    record.click()  # and the pointer stays on it
    expect(page.locator("#record-time")).not_to_be_empty()
    assert page.locator("#record-time").evaluate(CONTRAST) >= 4.5
    page.mouse.move(0, 0)
    assert page.locator("#record-time").evaluate(CONTRAST) >= 4.5
    page.evaluate("document.querySelector('#toasts').innerHTML = '<p class=\"toast error\">Something is wrong</p>'")
    toast = page.locator(".toast")
    assert toast.evaluate(CONTRAST) >= 4.5
    ground = toast.evaluate("(each) => getComputedStyle(each).backgroundColor")
    assert ground == page.locator("#log").evaluate("(each) => getComputedStyle(each).backgroundColor")
