"""Hands on the viewer page: touch pads, other keys for commands, the key legend, and calls to start an input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, CDPSession, FloatRect, Locator, Page, expect

from tests.browser.test_page import state
from tests.support.fake_page_server import FakeServer, Peer, command, picture, video
from tests.support.page_promises import promised
from tests.support.page_scripts import READ_BACK
from tests.support.page_windows import DRAWN, PLACES, named, window

AXE = Path(__file__).parents[2] / "clients/web/node_modules/axe-core/axe.min.js"
DOWN = {"type": "boolean"}
NUMBER = {"type": "number"}
#: How far a button reaches at least in each direction, in px.
FINGER = 44
#: A phone, a phone on its side, a tablet.
WINDOWS = [(390, 844), ON_ITS_SIDE := (844, 390), (820, 1180)]


def held(name: str, description: str = "") -> dict[str, Any]:
    """A key that tells its release."""
    return command(f"key_{name}", description, required=("down",), down=DOWN)


WALK = [held("w", "Forward"), held("a", "Left"), held("s", "Back"), held("d", "Right")]
POINT = command("pointer_down", "Touch it", required=("x", "y"), x=NUMBER, y=NUMBER)
LOOK = command("pointer_look", "Turn the head", required=("dx", "dy"), dx=NUMBER, dy=NUMBER)


@pytest.fixture
def touch_page(browser: Browser, troubles: list[str]) -> Iterator[Page]:
    """A page that is used with fingers; a test gives it the windows."""
    phone = {"viewport": {"width": 390, "height": 844}, "has_touch": True, "is_mobile": True}
    context = browser.new_context(**phone, reduced_motion="reduce")
    context.add_init_script(READ_BACK)
    page = context.new_page()
    page.set_default_timeout(90_000)
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    yield page
    context.close()
    assert troubles == []


@contextmanager
def held_in(page: Page, size: tuple[int, int]) -> Iterator[None]:
    """Give the page such a window. Its panel is as in a page that loads there: closed where it lies on the picture."""
    with window(page, size):
        panel = "closed" if size == ON_ITS_SIDE else "open"
        if page.evaluate("document.body.dataset.panel") != panel:
            page.evaluate("document.querySelector('#panel-toggle').click()")
            promised(page, DRAWN)
        yield


def begin(page: Page, server: FakeServer, *commands: Any, shown: bool = True, **more: Any) -> Peer:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(*commands, command("ask"), **more)
    if shown:
        peer.frame(0, picture(200, 30, 60))
        expect(page.locator("#snapshot")).to_be_enabled()
    state(page, "live")
    return peer


def heard(peer: Peer, *said: tuple[str, bool]) -> None:
    """The peer gets these presses and releases."""
    for key, down in said:
        message = peer.next()
        assert (message["type"], message["data"]) == (f"key_{key}", {"down": down})
        peer.ack(message)


def silent(page: Page, peer: Peer) -> bool:
    """Whether the page has sent nothing more."""
    page.evaluate("document.querySelector('[data-command=ask] button').click()")
    message = peer.next()
    peer.ack(message)
    return message["type"] == "ask"


class Fingers:
    """Fingers on the page, by their numbers."""

    def __init__(self, page: Page) -> None:
        self._session: CDPSession = page.context.new_cdp_session(page)
        self._points: dict[int, tuple[float, float]] = {}

    def put(self, finger: int, place: tuple[float, float]) -> None:
        self._points[finger] = place
        self._tell("touchStart")

    def move(self, finger: int, place: tuple[float, float]) -> None:
        self._points[finger] = place
        self._tell("touchMove")

    def lift(self, finger: int) -> None:
        x, y = self._points.pop(finger)
        self._session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": [{"x": x, "y": y, "id": finger}]})

    def cancel(self) -> None:
        self._points.clear()
        self._session.send("Input.dispatchTouchEvent", {"type": "touchCancel", "touchPoints": []})

    def _tell(self, kind: str) -> None:
        points = [{"x": x, "y": y, "id": finger} for finger, (x, y) in self._points.items()]
        self._session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})


def area(part: Locator) -> FloatRect:
    found = part.bounding_box()
    assert found is not None
    return found


def box(page: Page, selector: str) -> FloatRect:
    return area(page.locator(selector))


def overlap(one: Any, other: Any) -> bool:
    """Whether two places share a point."""
    sides = (("x", "width"), ("y", "height"))
    return all(one[at] < other[at] + other[size] and other[at] < one[at] + one[size] for at, size in sides)


def middle(page: Page, selector: str) -> tuple[float, float]:
    place = box(page, selector)
    return place["x"] + place["width"] / 2, place["y"] + place["height"] / 2


def pad(key: str) -> str:
    return f"[data-pad={key}]"


def accessible(page: Page) -> None:
    """Axe finds nothing."""
    page.evaluate(AXE.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run()")["violations"]
    assert [(each["id"], [node["html"] for node in each["nodes"]]) for each in found] == []


# Touch pads


def test_pads_lie_below_the_picture_or_beside_it_and_say_what_they_do(server: FakeServer, touch_page: Page) -> None:
    page = touch_page
    door = command("key_e", "Open the door (near it)")
    others = [command("key_space", "Jump"), door, *(command(f"key_{i}") for i in range(8))]
    peer = begin(page, server, *WALK, *others, tracks=[video(), video(1, "map")])
    peer.frame(0, picture(0, 0, 0), track=1)
    expect(page.locator("#others figure")).to_be_visible()
    listed = page.locator("#keys .key:visible")
    expect(page.locator("#pads [data-pad]")).to_have_count(4 + 8)  # eight round ones at most
    expect(page.locator("#pads .round-pad button")).to_have_text(["Jump", "Open the door", "0", "1", "2", "3", "4", "5"])
    for size in WINDOWS:
        with held_in(page, size):
            shown, bar = box(page, "#hero"), box(page, "#bar")
            places = page.locator("#pads [data-pad]").evaluate_all(PLACES)
            for place in places:
                assert min(place["width"], place["height"]) >= FINGER
                assert place["x"] >= 0
                assert place["x"] + place["width"] <= size[0]
                right, bottom = place["x"] + place["width"], place["y"] + place["height"]
                if size == ON_ITS_SIDE:
                    assert right <= shown["x"] or place["x"] >= shown["x"] + shown["width"]
                    assert place["y"] >= bar["y"] + bar["height"] or right <= bar["x"]
                else:
                    assert place["y"] >= max(shown["y"] + shown["height"], bar["y"] + bar["height"])
                    assert bottom <= box(page, "#panel")["y"]
            targets = page.locator("#bar button:visible, header button:visible, header summary:visible").evaluate_all(PLACES)
            for target in targets:
                assert min(target["width"], target["height"]) >= FINGER
                assert 0 <= target["x"] <= size[0] - target["width"]
            expect(listed).to_have_count(0 if size == ON_ITS_SIDE else 2)  # what the pads have no room for
            left, right_pad = box(page, ".cross-pad"), box(page, ".round-pad")
            assert left["x"] + left["width"] < right_pad["x"]
            accessible(page)


def test_a_turned_phone_keeps_the_picture_free(server: FakeServer, touch_page: Page) -> None:
    page = touch_page
    peer = begin(page, server, *WALK, shown=False)
    panel, pads = page.locator("#panel"), page.locator("#pads")
    expect(pads).to_have_css("opacity", "0.4")  # there is nothing to steer yet
    peer.frame(0, picture(200, 30, 60))
    expect(pads).to_have_css("opacity", "1")
    expect(panel).to_be_visible()
    with window(page, ON_ITS_SIDE):
        expect(panel).to_be_hidden()  # it would lie on the picture
        expect(pads).to_be_visible()
        page.locator("#panel-toggle").click()
        expect(panel).to_be_visible()
        expect(pads).to_be_visible()
    with window(page, WINDOWS[0]):
        expect(panel).to_be_visible()
        expect(pads).to_be_visible()


def test_a_hint_is_for_fingers_and_stays_until_they_have_done_something(server: FakeServer, touch_page: Page) -> None:
    page = touch_page
    peer = begin(page, server, *WALK, about={"hint": "W A S D to walk", "hints": {"gamepad": "The left stick walks"}})
    hint = page.locator("#hint")
    expect(hint).to_have_text("↑ Forward · ← Left · ↓ Back · → Right")
    for size in WINDOWS:
        with held_in(page, size):
            place, stage = box(page, "#hint"), box(page, "#hero")
            if size == ON_ITS_SIDE:  # at the picture's side, above the pads
                assert place["x"] + place["width"] <= stage["x"]
                assert place["y"] + place["height"] <= box(page, ".cross-pad")["y"]
            else:  # right below the picture
                assert place["x"] >= stage["x"]
                assert 0 <= place["y"] - (stage["y"] + stage["height"]) <= 12
                for other in page.locator("#bar button:visible, .cross-pad").evaluate_all(PLACES):
                    assert not overlap(place, other)
    page.locator(pad("w")).tap()
    heard(peer, ("w", True), ("w", False))
    expect(hint).to_be_hidden()


def test_a_finger_slides_over_the_cross_and_presses_two_keys_between_two(server: FakeServer, touch_page: Page) -> None:
    page = touch_page
    peer = begin(page, server, *WALK)
    fingers = Fingers(page)
    for size in WINDOWS:
        with held_in(page, size):
            up, right = middle(page, pad("w")), middle(page, pad("d"))
            fingers.put(0, up)
            heard(peer, ("w", True))
            expect(page.locator(pad("w"))).to_have_class("held")
            fingers.move(0, (right[0] - 4, up[1] + 4))
            heard(peer, ("d", True))
            fingers.move(0, right)
            heard(peer, ("w", False))
            expect(page.locator(pad("w"))).not_to_have_class("held")
            fingers.move(0, (up[0], right[1]))  # the middle presses nothing
            heard(peer, ("d", False))
            fingers.move(0, right)
            heard(peer, ("d", True))
            fingers.cancel()
            heard(peer, ("d", False))
            assert silent(page, peer)


def test_fingers_on_pads_and_on_the_picture_are_apart(server: FakeServer, touch_page: Page) -> None:
    page = touch_page
    peer = begin(page, server, *WALK, held("space", "Jump"), POINT, LOOK)
    fingers = Fingers(page)
    for size in WINDOWS:
        with held_in(page, size):
            canvas = box(page, "#hero canvas")
            fingers.put(0, middle(page, pad("a")))  # the browser's primary finger
            heard(peer, ("a", True))
            fingers.put(1, middle(page, pad("space")))
            heard(peer, ("space", True))
            place = canvas["x"] + canvas["width"] / 2, canvas["y"] + canvas["height"] / 2
            fingers.put(2, place)
            message = peer.next()
            assert (message["type"], round(message["data"]["x"], 2)) == ("pointer_down", 0.5)
            peer.ack(message)
            fingers.move(2, (place[0] + 20, place[1]))
            message = peer.next()
            assert message["type"] == "pointer_look"
            peer.ack(message)
            fingers.lift(1)
            heard(peer, ("space", False))
            fingers.lift(2)
            fingers.lift(0)
            heard(peer, ("a", False))
            assert silent(page, peer)


def test_a_hidden_page_releases_the_pads_until_the_finger_is_lifted(server: FakeServer, touch_page: Page) -> None:
    page = touch_page
    peer = begin(page, server, *WALK)
    fingers = Fingers(page)
    for size in WINDOWS:
        with held_in(page, size):
            fingers.put(0, middle(page, pad("w")))
            heard(peer, ("w", True))
            page.evaluate("window.dispatchEvent(new Event('blur'))")
            heard(peer, ("w", False))
            fingers.move(0, middle(page, pad("d")))
            fingers.lift(0)
            fingers.put(0, middle(page, pad("s")))
            heard(peer, ("s", True))
            fingers.lift(0)
            heard(peer, ("s", False))
            assert silent(page, peer)


def test_a_held_pad_repeats_a_key_without_release(server: FakeServer, touch_page: Page) -> None:
    page = touch_page
    page.clock.install()
    peer = begin(page, server, command("key_space", "Step"))
    page.clock.pause_at(page.evaluate("Date.now()") + 1000)
    fingers = Fingers(page)
    for count, size in enumerate(WINDOWS, 1):
        page.set_viewport_size({"width": size[0], "height": size[1]})
        with named(f"in a window of {size[0]}×{size[1]}"):
            # The pads move when the page hears of its new window, which is with the next frame; its clock stands still.
            expect(page.locator("body")).to_have_attribute("data-panel", "closed" if size == ON_ITS_SIDE else "open")
            fingers.put(0, middle(page, pad("space")))
            peer.ack(peer.next())
            peer.say("told", {})
            # Chromium handles messages late while a finger begins to touch.
            expect(page.locator("#log-count")).to_have_text(str(count))
            page.clock.run_for(450)
            assert silent(page, peer)
            page.clock.run_for(100)
            message = peer.next()
            assert message["type"] == "key_space"
            fingers.lift(0)
            peer.ack(message)


def test_the_pads_are_a_choice_that_is_kept(server: FakeServer, page: Page) -> None:
    begin(page, server, *WALK)
    expect(page.locator("#pads")).to_have_count(0)  # a mouse
    page.keyboard.press("?")
    page.get_by_label("Buttons for fingers").select_option("Always")
    expect(page.locator("#pads [data-pad]")).to_have_count(4)
    page.keyboard.press("Escape")
    page.reload()
    peer = server.accept()
    peer.welcome(*WALK)
    expect(page.locator("#pads [data-pad]")).to_have_count(4)
    page.locator(pad("w")).dispatch_event("click", {"detail": 0})  # as a screen reader does it
    heard(peer, ("w", True), ("w", False))
    page.locator(pad("w")).hover()
    page.mouse.down()
    heard(peer, ("w", True))
    page.mouse.up()
    heard(peer, ("w", False))


@pytest.mark.parametrize("tracks", [1, 2])
def test_a_message_lies_neither_on_the_pads_nor_on_other_pictures(server: FakeServer, touch_page: Page, tracks: int) -> None:
    page = touch_page
    peer = begin(page, server, *WALK, command("key_space", "Jump"), tracks=[video(i, f"track {i}") for i in range(tracks)])
    for track in range(1, tracks):
        peer.frame(0, picture(0, 0, 0), track=track)
    peer.say("reactor.ending", {"reason": "idle", "seconds": 10.0})
    expect(page.locator("#ending")).to_be_visible()
    page.evaluate("document.querySelector('#toasts').innerHTML = `<p class=toast>${'Wrong '.repeat(12)}</p>`")
    for size in WINDOWS:
        with held_in(page, size):
            toast = box(page, ".toast")
            for place in page.locator("#pads .pad, #others figure, #bar button:visible, #ending").evaluate_all(PLACES):
                beside = toast["x"] + toast["width"] <= place["x"] or place["x"] + place["width"] <= toast["x"]
                above = toast["y"] + toast["height"] <= place["y"]
                assert beside or above or place["y"] + place["height"] <= toast["y"]


def test_the_legend_takes_the_keys_from_a_finger_on_a_pad(server: FakeServer, touch_page: Page) -> None:
    page = touch_page
    peer = begin(page, server, *WALK, command("key_space", "Jump"))
    fingers = Fingers(page)
    for size in WINDOWS:
        with held_in(page, size):
            fingers.put(0, middle(page, pad("w")))
            fingers.put(1, middle(page, pad("space")))
            heard(peer, ("w", True))
            peer.ack(peer.next())
            page.keyboard.press("?")
            expect(page.get_by_role("dialog")).to_be_visible()
            while (message := peer.next())["type"] == "key_space":  # it repeated until the dialog opened
                peer.ack(message)
            assert (message["type"], message["data"]) == ("key_w", {"down": False})
            peer.ack(message)
            expect(page.locator("#pads .held")).to_have_count(0)
            page.wait_for_timeout(700)  # longer than until a key repeats
            assert peer.inbox.empty()
            fingers.cancel()
            page.keyboard.press("Escape")
            expect(page.get_by_role("dialog")).to_have_count(0)


# The key legend


def test_the_legend_lists_everything_and_is_a_dialog(server: FakeServer, page: Page) -> None:
    begin(page, server, *WALK, command("key_up"), POINT, LOOK, command("gamepad_a", "Jump"))
    page.keyboard.press("?")
    legend = page.get_by_role("dialog", name="Keys and controls")
    expect(legend).to_be_visible()
    rows = legend.get_by_role("listitem")
    expect(rows).to_have_text([
        "WForwardChange", "ALeftChange", "SBackChange", "DRightChange", "↑UpChange",
        "PressTouch it", "LookTurn the head: click the picture to look with the mouse, or drag with a finger or a pen",
        "AJump", "?show or close this", "Escclose this, give the mouse back, or leave full screen",
        "Save the picture", "Copy the picture", "Save the last ten seconds", "Record to a file", "Full screen",
        "Keys and controls (?)", "Controls",
    ])  # fmt: skip
    headings = ["Keys and controls", "Keys", "On the picture", "Gamepad", "This page", "Buttons at the picture"]
    expect(legend.get_by_role("heading")).to_have_text(headings)
    expect(legend).to_be_focused()
    accessible(page)
    page.keyboard.press("Escape")
    expect(legend).to_have_count(0)
    opener = page.get_by_role("button", name="Keys and controls (?)")
    opener.focus()
    page.keyboard.press("Enter")
    expect(legend).to_be_visible()
    page.keyboard.press("Escape")
    expect(legend).to_have_count(0)
    expect(opener).to_be_focused()
    opener.click()
    expect(legend).to_be_visible()
    page.keyboard.press("?")
    expect(legend).to_have_count(0)


def test_a_question_mark_in_a_text_is_text_and_the_model_gets_no_key_of_the_dialog(server: FakeServer, page: Page) -> None:
    prompt = command("set_prompt", prompt={"type": "string", "title": "Prompt"})
    peer = begin(page, server, prompt, *WALK, command("key_escape"))
    page.get_by_label("Prompt").press("?")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.get_by_label("Prompt")).to_have_value("?")
    page.get_by_label("Prompt").fill("")
    page.locator("#hero canvas").focus()
    page.keyboard.down("w")
    heard(peer, ("w", True))
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    heard(peer, ("w", False))
    page.keyboard.up("w")
    page.keyboard.press("a")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    page.keyboard.press("d")
    heard(peer, ("d", True), ("d", False))
    assert silent(page, peer)


def test_the_legend_closes_with_its_session(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, *WALK)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    peer.bye("done")
    state(page, "ended")
    expect(page.get_by_role("dialog")).to_have_count(0)
    expect(page.locator("#legend-toggle")).to_have_count(0)


def test_all_of_the_legend_is_large_enough_for_fingers(server: FakeServer, touch_page: Page) -> None:
    page = touch_page
    begin(page, server, *WALK, command("key_space", "Jump " * 20), LOOK)
    targets = page.get_by_role("dialog").locator("button, select")
    for size in WINDOWS:
        with held_in(page, size):
            page.locator("#legend-toggle").tap()
            expect(targets).to_have_count(8)  # to close, five keys, the pads, and the reset
            for place in targets.evaluate_all(PLACES):
                assert min(place["width"], place["height"]) >= FINGER
            page.keyboard.press("Escape")
            expect(targets).to_have_count(0)


# Other keys


def test_help_for_fingers_begins_with_what_they_press(server: FakeServer, touch_page: Page) -> None:
    page = touch_page
    keys = ("up", "left", "down", "right", "space")
    begin(page, server, *(command(f"key_{key}", key.capitalize()) for key in keys))
    expect(page.locator("#hint")).to_have_text("Play with the buttons at the picture")
    page.get_by_role("button", name="?").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading", level=3).first).to_have_text("Buttons at the picture")
    expect(dialog.get_by_role("button", name="Change")).to_have_count(0)
    dialog.get_by_text("Keyboard", exact=True).click()
    expect(dialog.get_by_role("button", name="Change")).to_have_count(5)


def test_a_user_gives_a_command_another_key_and_takes_it_back(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, *WALK, command("key_space", "Jump"))
    page.keyboard.press("?")
    legend = page.get_by_role("dialog")
    change = legend.get_by_role("button", name="Change the key of Jump")
    reset = legend.get_by_role("button", name="Reset keys")
    expect(reset).to_be_disabled()
    change.click()
    expect(change).to_have_text("Press a key …")
    page.keyboard.press("Escape")  # leaves the key as it is, and the dialog open
    expect(change).to_have_text("Change")
    expect(legend).to_be_visible()
    change.press("Enter")
    page.keyboard.press("f")
    expect(legend.get_by_role("status")).to_have_text("Jump: F")
    expect(legend.locator("li kbd").nth(4)).to_have_text("F")
    expect(page.locator("[data-key=space]")).to_have_text("F")
    expect(page.locator("#keys .notes li").last).to_have_text("F Jump")
    page.keyboard.press("Escape")
    page.keyboard.press("f")
    assert peer.next()["type"] == "key_space"
    page.keyboard.press(" ")
    assert silent(page, peer)

    page.reload()
    peer = server.accept()
    peer.welcome(*WALK, command("key_space", "Jump"), command("ask"))
    expect(page.locator("[data-key=space]")).to_have_text("F")
    page.keyboard.press("f")
    assert peer.next()["type"] == "key_space"
    page.keyboard.press("?")
    reset.click()
    expect(legend.get_by_role("status")).to_have_text("All keys are the model's own.")
    expect(page.locator("[data-key=space]")).to_have_text("Space")
    assert page.evaluate("localStorage.getItem('keys:fake')") is None


def test_two_commands_change_keys(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, *WALK)
    page.keyboard.press("?")
    page.get_by_role("button", name="Change the key of Forward").click()
    page.keyboard.press("s")
    page.keyboard.press("Escape")
    expect(page.locator("[data-key=w]")).to_have_text("S")
    expect(page.locator("[data-key=s]")).to_have_text("W")
    page.keyboard.press("s")
    heard(peer, ("w", True), ("w", False))
    page.keyboard.press("w")
    heard(peer, ("s", True), ("s", False))


def test_letters_of_a_cross_go_by_their_place(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, *WALK, held("q"))

    def press(key: str, code: str) -> None:
        for kind in ("keydown", "keyup"):
            page.locator("body").dispatch_event(kind, {"key": key, "code": code, "bubbles": True})

    for key, code, name in (("z", "KeyW", "w"), ("q", "KeyA", "a"), ("a", "KeyQ", "q")):  # a French keyboard
        press(key, code)
        heard(peer, (name, True), (name, False))
    press("w", "KeyZ")
    assert silent(page, peer)


# As Chromium describes the user's keyboard; here a French one, and later one of Dvorak.
KEYBOARDS = """
    const keyboard = new EventTarget();
    keyboard.getLayoutMap = async () => new Map(Object.entries(keyboard.printed));
    keyboard.printed = { KeyW: "z", KeyA: "q", KeyS: "s", KeyD: "d", KeyI: "i", KeyJ: "j", KeyK: "k", KeyL: "l" };
    Object.defineProperty(navigator, "keyboard", { value: keyboard });
"""
DVORAK = """
    navigator.keyboard.printed = { KeyW: ",", KeyA: "a", KeyS: "o", KeyD: "e", KeyI: "c", KeyJ: "h", KeyK: "t", KeyL: "n" };
    navigator.keyboard.dispatchEvent(new Event("layoutchange"));
"""


def test_keys_that_go_by_their_place_have_the_signs_of_the_users_keyboard(server: FakeServer, page: Page) -> None:
    page.add_init_script(KEYBOARDS)
    arrows = [command(f"key_{name}") for name in ("up", "left", "down", "right")]
    turn = [command(f"key_{name}") for name in "ijkl"]
    peer = begin(page, server, *WALK, *arrows, *turn, about={"hint": "W A S D to walk"})
    keys, pads = page.locator("#keys .key"), page.locator(".round-pad button")
    walk = keys.and_(page.locator(".cross:first-child button"))
    expect(walk).to_have_text(["Z", "Q", "S", "D"])
    expect(page.locator("#keys .notes li")).to_have_text(["Z Forward", "Q Left", "S Back", "D Right"])
    expect(page.locator("#hint")).to_have_text("W A S D to walk")  # as the author wrote it
    page.keyboard.press("?")
    signs = page.get_by_role("dialog").locator("li kbd")
    expect(signs.first).to_have_text("Z")
    page.get_by_label("Buttons for fingers").select_option("Always")
    expect(pads).to_have_text(["I", "J", "K", "L"])
    page.evaluate(DVORAK)
    expect(signs.first).to_have_text(",")
    expect(walk).to_have_text([",", "A", "O", "E"])
    expect(pads).to_have_text(["C", "H", "T", "N"])
    page.get_by_role("button", name="Change the key of I").click()
    page.keyboard.press("m")
    expect(pads).to_have_text(["M", "H", "T", "N"])
    page.keyboard.press("Escape")
    page.keyboard.press("m")
    assert peer.next()["type"] == "key_i"


# Calls to action


def camera(**more: Any) -> dict[str, Any]:
    return video(1, "camera", direction="in", **more)


def test_the_camera_starts_on_the_picture_while_there_is_none(server: FakeServer, touch_page: Page) -> None:
    page = touch_page
    peer = begin(page, server, *WALK, tracks=[video(), camera()], shown=False)
    call, pads = page.locator("#calls").get_by_role("button", name="Turn on the camera"), page.locator("#pads")
    mirror = page.locator("#calls video")
    expect(call).to_be_visible()
    for size in WINDOWS:
        with held_in(page, size):
            stage, place = box(page, "#hero"), area(call)
            assert place["height"] >= FINGER
            assert stage["y"] <= place["y"] <= stage["y"] + stage["height"] - place["height"]
            expect(pads).to_be_hidden()  # the call has the picture for itself
            accessible(page)
            call.tap(trial=True)  # a finger reaches it
    call.tap()
    expect(page.locator("[data-input=camera]")).to_have_class("control input live")
    for size in WINDOWS:
        with held_in(page, size):
            expect(call).to_be_hidden()
            expect(mirror).to_be_visible()
    assert mirror.evaluate("(video) => getComputedStyle(video).transform") == "matrix(-1, 0, 0, 1, 0, 0)"
    preview = page.locator("[data-input=camera] video")
    assert preview.evaluate("(video) => video.className") == "mirrored"
    peer.frame(0, picture(200, 30, 60))
    for size in WINDOWS:
        with held_in(page, size):
            expect(mirror).to_be_hidden()
            expect(pads).to_be_visible()


def test_a_refused_camera_says_so_on_the_picture(server: FakeServer, page: Page) -> None:
    page.add_init_script(
        "navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException('not allowed', 'NotAllowedError'))"
    )
    begin(page, server, tracks=[video(), camera()], shown=False)
    call = page.locator("#calls").get_by_role("button", name="Turn on the camera")
    call.click()
    expect(page.locator("#calls").get_by_role("alert")).to_contain_text("refused the camera")
    expect(call).to_be_visible()


def test_a_camera_that_ends_later_says_so_on_its_card(server: FakeServer, page: Page) -> None:
    page.add_init_script("""
        const given = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
        navigator.mediaDevices.getUserMedia = async (wanted) => window.camera = await given(wanted);
    """)
    peer = begin(page, server, tracks=[video(), camera()], shown=False)
    page.locator("#calls").get_by_role("button", name="Turn on the camera").click()
    expect(page.locator("[data-input=camera]")).to_have_class("control input live")
    peer.frame(0, picture(200, 30, 60))
    expect(page.locator("#calls")).to_be_hidden()
    page.evaluate("""() => {
        const [track] = camera.getTracks();
        track.stop();
        track.dispatchEvent(new Event("ended"));
    }""")
    expect(page.locator("[data-input=camera]").get_by_role("alert")).to_be_visible()


def test_the_user_chooses_the_device_on_the_picture(server: FakeServer, page: Page) -> None:
    page.add_init_script("""
        navigator.mediaDevices.enumerateDevices = async () => ["front", "back"].map((name) => (
            { kind: "videoinput", deviceId: name, label: `The ${name} one` }));
        const given = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
        window.asked = [];
        navigator.mediaDevices.getUserMedia = (wanted) => {
            asked.push(JSON.stringify(wanted.video.deviceId));
            return given({ video: true });
        };
    """)
    begin(page, server, tracks=[video(), camera()], shown=False)
    page.get_by_label("Use camera").select_option("The back one")
    expect(page.locator("[data-input=camera]").get_by_label("Source")).to_have_value("back")
    page.locator("#calls").get_by_role("button", name="Turn on the camera").click()
    expect(page.locator("[data-input=camera]")).to_have_class("control input live")
    assert "back" in page.evaluate("asked[0]")


def test_the_only_file_of_a_model_is_asked_for_on_the_picture(server: FakeServer, page: Page) -> None:
    start = command("set_start", start={"x-reactor": "upload", "type": "object", "title": "Start"})
    page.clock.install()
    peer = begin(page, server, start, upload="u", shown=False)
    call = page.get_by_role("button", name="Choose a file for the model")
    with page.expect_file_chooser():
        call.click()
    peer.frame(0, picture(200, 30, 60))
    expect(call).to_be_hidden()
    # A file that the model may do without is asked for after a long wait alone.
    peer.bye("done")
    page.get_by_role("button", name="Reconnect now").click()
    load = command("load", start={"x-reactor": "upload", "type": "object", "title": "Start"})
    server.accept().welcome(load, upload="u")
    expect(page.locator("#overlay-text")).to_have_text("The model is warming up.")
    expect(call).to_be_hidden()
    page.clock.run_for(11_000)
    expect(call).to_be_visible()


# Full screen under a finger


def test_a_finger_that_went_into_full_screen_finds_the_way_out(server: FakeServer, touch_page: Page) -> None:
    """A finger that is lifted leaves the picture, as no resting mouse does: the tools stay for four seconds."""
    page = touch_page
    page.clock.install()
    begin(page, server, *WALK)
    stage, bar, button = page.locator("#stage"), page.locator("#bar"), page.locator("#fullscreen")
    for size in WINDOWS:
        with window(page, size):
            button.tap()
            page.wait_for_selector("main:fullscreen")
            page.clock.run_for(1000)
            expect(bar).to_have_css("opacity", "1")
            page.clock.run_for(4000)
            expect(stage).to_have_class("idle")
            expect(bar).to_have_css("opacity", "0")
            page.touchscreen.tap(size[0] / 2, size[1] / 3)
            page.clock.run_for(5000)
            expect(stage).to_have_class("idle")
            at = box(page, "#fullscreen")  # a tap that wakes the bar presses nothing of it
            page.touchscreen.tap(at["x"] + at["width"] / 2, at["y"] + at["height"] / 2)
            expect(stage).not_to_have_class("idle")
            assert page.evaluate("() => document.fullscreenElement !== null")
            page.clock.run_for(3000)
            expect(stage).not_to_have_class("idle")
            expect(bar).to_have_css("opacity", "1")
            button.tap()
            page.wait_for_selector("main:not(:fullscreen)")
