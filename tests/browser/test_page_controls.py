"""Gamepad, looking around with the pointer, and full screen on the viewer page, against a fake server."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.support.fake_page_server import FakeServer, Peer, command, picture, video

av = pytest.importorskip("av", reason="what the browser saved is read with PyAV: reactor-trio[video]")

NUMBER = {"type": "number"}
DOWN = {"type": "boolean"}
LOOK = command("pointer_look", "Turn the head", required=("dx", "dy"), dx={**NUMBER, "minimum": -1, "maximum": 1}, dy=NUMBER)

# A gamepad that the test plugs in and controls, and the number of reads.
PAD = """
    window.plugged = false;
    window.reads = 0;
    window.pad = {
        id: "Test Pad", index: 1, connected: true, mapping: "standard", axes: [0, 0, 0, 0],
        buttons: Array.from({ length: 17 }, () => ({ pressed: false, value: 0 })),
    };
    navigator.getGamepads = () => { reads += 1; return [null, plugged ? pad : null, null, null]; };
    window.plug = (whether) => {
        plugged = whether;
        window.dispatchEvent(new Event(whether ? "gamepadconnected" : "gamepaddisconnected"));
    };
    window.hold = (i, value) => { pad.buttons[i] = { pressed: value > 0.1, value }; };
    window.hide = (whether) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => whether });
        document.dispatchEvent(new Event("visibilitychange"));
    };
"""
FRAME_MS = 20  # longer than one turn of the screen


def begin(page: Page, server: FakeServer, *commands: Any, role: str = "control") -> Peer:
    """A session with a drawn picture; if the test has installed a clock, time stands still."""
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(*commands, role=role)
    peer.frame(0, picture(200, 30, 60))
    expect(page.locator("#snapshot")).to_be_enabled()
    return peer


def with_pad(page: Page, server: FakeServer, *commands: Any) -> Peer:
    page.add_init_script(PAD)
    page.clock.install()
    peer = begin(page, server, *commands)
    page.clock.pause_at(page.evaluate("Date.now()") + 1000)  # from here on time passes by `run_for` only
    page.evaluate("plug(true)")
    return peer


def sent(peer: Peer, name: str, **data: Any) -> dict[str, Any]:
    message = peer.next()
    while message["type"] == "reactor.video":  # a page that is hidden or shown asks for other pictures, too
        message = peer.next()
    assert (message["type"], message["data"]) == (name, data)
    return message


def settled(page: Page, peer: Peer) -> bool:
    """Whether the page has sent nothing more; it must have answered a command that came last."""
    page.evaluate("document.querySelector('[data-command=ask] button').click()")
    message = peer.next()
    peer.ack(message)
    return message["type"] == "ask"


# Gamepad


def test_a_gamepad_presses_the_commands_of_its_buttons(server: FakeServer, page: Page) -> None:
    peer = with_pad(
        page, server,
        command("gamepad_a", "Jump"), command("gamepad_left", required=("down",), down=DOWN), command("ask"),
        command("gamepad_rt", "Go", required=("value",), value={**NUMBER, "minimum": 0, "maximum": 1}),
    )  # fmt: skip
    section = page.locator("#gamepad")
    expect(section.locator("[data-gamepad]")).to_have_text("Test Pad")
    expect(section.get_by_role("button")).to_have_text(["A", "←", "RT"])
    expect(section.locator(".notes li")).to_have_text(["A Jump", "RT Go"])
    page.evaluate("hold(0, 1)")
    page.clock.run_for(FRAME_MS)
    peer.ack(sent(peer, "gamepad_a"))
    expect(page.get_by_role("button", name="Jump")).to_have_class("key held")
    page.evaluate("hold(0, 0)")
    page.clock.run_for(FRAME_MS)
    expect(page.get_by_role("button", name="Jump")).to_have_class("key")
    page.evaluate("hold(14, 1)")
    page.clock.run_for(FRAME_MS)
    peer.ack(sent(peer, "gamepad_left", down=True))
    page.evaluate("hold(14, 0)")
    page.clock.run_for(FRAME_MS)
    peer.ack(sent(peer, "gamepad_left", down=False))
    for value in (0.25, 0.75, 0):
        page.evaluate(f"hold(7, {value})")
        page.clock.run_for(FRAME_MS)
        peer.ack(sent(peer, "gamepad_rt", value=value))
    assert settled(page, peer)


def test_a_held_button_repeats_as_a_key_does(server: FakeServer, page: Page) -> None:
    peer = with_pad(page, server, command("gamepad_up"), command("ask"))
    page.evaluate("hold(12, 1)")
    page.clock.run_for(FRAME_MS)
    peer.ack(sent(peer, "gamepad_up"))
    page.clock.run_for(450)
    assert settled(page, peer)
    page.clock.run_for(100)
    second = sent(peer, "gamepad_up")
    page.clock.run_for(500)  # not while the one before is not answered
    assert settled(page, peer)
    peer.ack(second)
    peer.say("progress", {})
    page.wait_for_function("() => document.getElementById('log-count').textContent === '1'", polling=50)
    assert settled(page, peer)  # and none was kept for then
    page.clock.run_for(100)
    assert sent(peer, "gamepad_up")


def test_axes_are_sent_when_they_have_changed_one_message_at_a_time(server: FakeServer, page: Page) -> None:
    peer = with_pad(page, server, command("gamepad_axes", left_x=NUMBER, left_y=NUMBER, rt=NUMBER), command("ask"))
    page.clock.run_for(200)
    page.evaluate("pad.axes = [0.1, 0.02, 1, 1]")  # drift, and a stick that is not asked for
    page.clock.run_for(200)
    assert settled(page, peer)
    page.evaluate("pad.axes = [0.56, 0, 0, 0]")
    page.clock.run_for(200)
    first = sent(peer, "gamepad_axes", left_x=0.5, left_y=0, rt=0)
    for place in ("0, -0.56", "0, 1", "-1, 0"):
        page.evaluate(f"pad.axes = [{place}, 0, 0]")
        page.clock.run_for(FRAME_MS)
    assert settled(page, peer)
    peer.ack(first)
    peer.refuse(sent(peer, "gamepad_axes", left_x=-1, left_y=0, rt=0), "not so fast")
    expect(page.locator("#gamepad").get_by_role("alert")).to_have_text("not so fast")
    page.evaluate("plug(false)")
    peer.ack(sent(peer, "gamepad_axes", left_x=0, left_y=0, rt=0))
    expect(page.locator("#gamepad").get_by_role("alert")).to_be_hidden()
    assert settled(page, peer)


def test_a_gamepad_that_takes_anothers_place_is_named(server: FakeServer, page: Page) -> None:
    with_pad(page, server, command("gamepad_a"))
    status = page.locator("#gamepad [data-gamepad]")
    expect(status).to_have_text("Test Pad")
    page.evaluate("pad.id = 'Other Pad'; pad.mapping = ''; plug(true)")
    expect(status).to_have_text("Other Pad: its layout is unknown, buttons may be in other places")
    page.evaluate("plug(false)")
    expect(status).to_have_text("Press a button of a gamepad to connect it.")


@pytest.mark.parametrize("away", ["hide(true)", "plug(false)"])
def test_an_unplugged_gamepad_or_a_hidden_page_releases_everything(server: FakeServer, page: Page, away: str) -> None:
    peer = with_pad(page, server, command("gamepad_b", required=("down",), down=DOWN))
    page.evaluate("hold(1, 1)")
    page.clock.run_for(FRAME_MS)
    peer.ack(sent(peer, "gamepad_b", down=True))
    page.evaluate(away)
    peer.ack(sent(peer, "gamepad_b", down=False))
    before = page.evaluate("reads")
    page.clock.run_for(1000)
    assert page.evaluate("reads") == before
    page.evaluate("hide(false)")
    page.evaluate("plug(true)")
    peer.ack(sent(peer, "gamepad_b", down=True))
    peer.bye("done")
    expect(page.locator('body[data-state="ended"]')).to_be_attached()
    before = page.evaluate("reads")
    page.clock.run_for(1000)
    page.evaluate("plug(false)")
    assert page.evaluate("reads") == before
    expect(page.locator("[data-command=gamepad_b]")).to_have_class("key")


def test_without_commands_for_it_a_gamepad_is_not_read(server: FakeServer, page: Page) -> None:
    with_pad(page, server, command("key_a"))
    page.clock.run_for(200)
    assert page.evaluate("reads") == 0
    expect(page.locator("#gamepad")).to_be_hidden()


def test_the_legend_shows_the_layout_and_its_buttons_work_without_a_gamepad(server: FakeServer, page: Page) -> None:
    page.add_init_script(PAD)
    peer = begin(page, server, command("gamepad_rt", required=("value",), value=NUMBER))
    status = page.locator("[data-gamepad]")
    expect(status).to_have_text("Press a button of a gamepad to connect it.")
    page.get_by_role("button", name="gamepad rt").hover()
    page.mouse.down()
    peer.ack(sent(peer, "gamepad_rt", value=1))
    page.mouse.up()
    peer.ack(sent(peer, "gamepad_rt", value=0))
    page.evaluate("pad.mapping = ''")
    page.evaluate("plug(true)")
    expect(status).to_have_text("Test Pad: its layout is unknown, buttons may be in other places")


# Looking around


def test_a_click_locks_the_pointer_and_movement_is_summed(server: FakeServer, lockable_page: Page) -> None:
    page = lockable_page
    peer = begin(page, server, LOOK, command("ask"))
    canvas = page.locator("#hero canvas")
    box = canvas.bounding_box()
    assert box is not None
    width = min(box["width"], box["height"] * 64 / 48)  # of the picture as it is drawn
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.move(middle[0] + 5, middle[1])
    expect(page.locator("[data-command=pointer_look]")).to_contain_text("Click the picture to look with the mouse.")
    assert settled(page, peer)  # only while the picture holds it
    canvas.click()
    page.wait_for_function("() => document.pointerLockElement?.tagName === 'CANVAS'")
    expect(page.locator("[data-command=pointer_look]")).to_contain_text("Escape gives the mouse back.")
    moved = """([right, down]) => document.pointerLockElement.dispatchEvent(
        new PointerEvent("pointermove", { pointerType: "mouse", movementX: right, movementY: down, bubbles: true })
    )"""
    for right, down in ((10, 0), (20, 5), (-5, 5), (10, 10)):
        page.evaluate(moved, [right, down])
    first = peer.next()
    assert first["data"] == {"dx": pytest.approx(10 / width), "dy": 0}
    assert settled(page, peer)
    peer.ack(first)
    second = peer.next()
    assert second["data"] == {"dx": pytest.approx(25 / width), "dy": pytest.approx(20 / width)}
    peer.ack(second)
    page.evaluate("document.exitPointerLock()")
    expect(page.locator("[data-command=pointer_look]")).to_contain_text("Click the picture")
    assert settled(page, peer)


def test_a_locked_pointer_presses_in_the_middle_and_is_released_at_the_end(server: FakeServer, lockable_page: Page) -> None:
    page = lockable_page
    places = {"x": NUMBER, "y": NUMBER}
    peer = begin(page, server, LOOK, command("pointer_down", **places), command("pointer_up", **places))
    page.locator("#hero canvas").click(position={"x": 500, "y": 200})
    assert peer.next()["data"]["x"] > 0.5
    peer.next()
    page.wait_for_function("() => document.pointerLockElement?.tagName === 'CANVAS'")
    page.mouse.down()
    sent(peer, "pointer_down", x=0.5, y=0.5)
    page.mouse.up()
    sent(peer, "pointer_up", x=0.5, y=0.5)
    peer.bye("done")
    page.wait_for_function("() => document.pointerLockElement === null")


@pytest.mark.parametrize("hand", ["touch", "pen"])
def test_a_finger_or_a_pen_looks_by_dragging(server: FakeServer, page: Page, hand: str) -> None:
    peer = begin(page, server, LOOK)
    width = page.locator("#hero canvas").evaluate("c => Math.min(c.clientWidth, c.clientHeight * 64 / 48)")
    drag = """([pointerType, steps]) => {
        const canvas = document.querySelector("#hero canvas");
        canvas.setPointerCapture = () => {}; // a made-up finger cannot be held
        for (const [type, clientX, clientY] of steps) {
            canvas.dispatchEvent(new PointerEvent(type, { pointerType, pointerId: 7, isPrimary: true, clientX, clientY }));
        }
    }"""
    steps = [("pointerdown", 100, 100), ("pointermove", 130, 90), ("pointerup", 130, 90), ("pointermove", 300, 300)]
    page.evaluate(drag, [hand, steps])
    message = peer.next()
    assert message["data"] == {"dx": pytest.approx(30 / width), "dy": pytest.approx(-10 / width)}
    peer.ack(message)
    peer.say("progress", {})
    expect(page.locator("#log-count")).to_have_text("1")
    assert peer.silent()


# Full screen


def test_keys_work_in_full_screen_also_space(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, command("key_space"), command("key_w", required=("down",), down=DOWN))
    button = page.locator("#fullscreen")
    page.locator("#hero").hover()
    button.click()
    page.wait_for_function("() => document.fullscreenElement?.matches('main')")
    expect(button).to_have_accessible_name("Leave full screen")
    page.keyboard.press(" ")
    peer.ack(sent(peer, "key_space"))
    page.keyboard.down("w")
    peer.ack(sent(peer, "key_w", down=True))
    page.keyboard.up("w")
    peer.ack(sent(peer, "key_w", down=False))
    button.click()
    page.wait_for_function("() => document.fullscreenElement === null")
    expect(button).to_have_accessible_name("Full screen")
    assert peer.silent()


def test_without_full_screen_there_is_no_button_for_it(server: FakeServer, page: Page) -> None:
    page.add_init_script("Object.defineProperty(document, 'fullscreenEnabled', { get: () => false })")
    begin(page, server)
    expect(page.locator("#fullscreen")).to_be_hidden()


@pytest.mark.parametrize("size", [(390, 800), (780, 360)])
def test_full_screen_on_a_phone_fills_the_screen(server: FakeServer, page: Page, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    begin(page, server)
    page.locator("#hero").hover()
    page.locator("#fullscreen").click()
    page.wait_for_function("() => document.fullscreenElement?.matches('main')")
    canvas = page.locator("#hero canvas")
    assert canvas.evaluate("canvas => [canvas.clientWidth, canvas.clientHeight]") == list(size)
    assert canvas.evaluate("canvas => getComputedStyle(canvas).objectFit") == "contain"


# Other tracks


def test_another_track_can_be_made_the_large_one(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    peer = server.accept()
    places = {"x": NUMBER, "y": NUMBER}
    long = "segmentation_of_what_is_seen"
    peer.welcome(command("pointer_down", **places), tracks=[video(), video(1, "depth"), video(2, long)])
    for track in range(3):
        peer.frame(0, picture(80 * track, 0, 0), track=track)
    expect(page.locator("#snapshot")).to_be_enabled()
    order = "() => [...document.querySelectorAll('canvas')].map((canvas) => canvas.dataset.track)"
    # A name has one line, however small the picture.
    heights = page.locator("figcaption").evaluate_all("all => all.map((name) => name.getBoundingClientRect().height)")
    assert max(heights) == min(heights)
    page.get_by_role("button", name="Enlarge depth").click()
    assert page.evaluate(order) == ["depth", "main_video", long]
    page.locator("#hero canvas").click()  # not what the model's pointer is for
    with page.expect_download() as download:
        page.locator("#hero").hover()
        page.locator("#snapshot").click()
    with av.open(download.value.path()) as file:
        (shown,) = [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]
    assert abs(int(shown[0, 0, 0]) - 80) < 4  # what is large
    assert peer.silent()
    page.get_by_role("button", name="Enlarge main_video").press("Enter")
    assert page.evaluate(order) == ["main_video", "depth", long]
    expect(page.get_by_role("button", name="Enlarge depth")).to_be_focused()
    page.locator("#hero canvas").click()
    assert peer.next()["type"] == "pointer_down"
