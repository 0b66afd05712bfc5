"""The viewer page against a fake server: what the page shows and sends, and how it handles refusals."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import Page, expect

from tests.support.fake_page_server import FakeServer, Peer, command, picture, video
from tests.support.page_scripts import MIDDLE, NO_WORKER
from tests.support.page_windows import window

BRIGHTNESS = command(
    "set_brightness",
    brightness={"type": "number", "minimum": 0, "maximum": 2, "default": 1.0, "description": "Brightness multiplier"},
)


def open_page(page: Page, server: FakeServer, query: str = "") -> Peer:
    page.goto(server.url + query)
    return server.accept()


def state(page: Page, name: str) -> None:
    expect(page.locator(f'body[data-state="{name}"]')).to_be_attached()


def pixel(page: Page, track: str = "main_video") -> list[int]:
    return page.locator(f'canvas[data-track="{track}"]').evaluate(MIDDLE)


def stop_clock(page: Page) -> None:
    """From now on only `run_for` advances the time of the page."""
    page.clock.pause_at(page.evaluate("Date.now()") + 1000)


def wait_for_colour(page: Page, colour: tuple[int, int, int], track: str = "main_video") -> None:
    page.wait_for_function(
        f"""([track, colour]) => {{
            const canvas = document.querySelector(`canvas[data-track="${{track}}"]`);
            if (!canvas) return false;
            const pixel = ({MIDDLE})(canvas);
            return colour.every((value, i) => Math.abs(value - pixel[i]) <= 3);
        }}""",
        arg=[track, list(colour)],
    )


# What the page requests


# What Debian's Chromium can do in a secure context, best first.
VIDEO, AUDIO = "video=h264%2Cvp8%2Cvp9%2Cav1%2Cjpeg", "audio=opus%2Cpcm_s16le"
ASKED = f"{VIDEO}&{AUDIO}"


def test_the_page_requests_the_codecs_that_it_decodes_and_the_subprotocol(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    assert peer.path == f"/ws?{ASKED}&feedback=1&follow=1"
    assert peer.asks
    assert peer.subprotocol == "reactor.v1"


def test_the_pages_query_is_passed_on(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server, "?video=hevc,raw,jpeg&role=viewer&model=fake&token=a%26b")
    assert peer.path == f"/ws?video=raw%2Cjpeg&{AUDIO}&role=viewer&model=fake&token=a%26b&feedback=1&cadence=1&follow=1"


def test_the_page_can_request_no_sound(server: FakeServer, page: Page) -> None:
    assert open_page(page, server, "?audio=none").path == f"/ws?{VIDEO}&audio=none&feedback=1&follow=1"


def test_the_page_works_behind_a_path_prefix(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server, "prefix/")
    assert peer.path == f"/prefix/ws?{ASKED}&feedback=1&follow=1"
    peer.welcome()
    state(page, "live")


# Pictures


def test_a_jpeg_is_drawn_in_its_size(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome()
    peer.say("reactor.track", video(width=64, height=48))
    peer.frame(0, picture(200, 30, 60))
    wait_for_colour(page, (200, 30, 60))
    canvas = page.locator("canvas")
    assert (canvas.get_attribute("width"), canvas.get_attribute("height")) == ("64", "48")
    expect(page.locator("#figure-format")).to_have_text("64×48 jpeg")


def test_raw_rgb_is_drawn_to_the_value(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server, "?video=raw")
    peer.welcome(tracks=[video(codec="raw")])
    peer.say("reactor.track", video(codec="raw", width=5, height=3))
    peer.frame(0, picture(1, 128, 254, 5, 3), raw=True)
    wait_for_colour(page, (1, 128, 254))
    assert pixel(page) == [1, 128, 254]
    peer.say("reactor.track", video(codec="raw", width=8, height=2))
    peer.frame(1, picture(9, 8, 7, 8, 2), raw=True)
    wait_for_colour(page, (9, 8, 7))
    assert page.locator("canvas").get_attribute("width") == "8"


def test_every_video_track_has_its_canvas_and_sound_its_button(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    sound = video(2, "main_audio", "pcm_s16le", kind="audio", sample_rate=48_000)
    camera = video(3, "camera", direction="in")
    peer.welcome(tracks=[video(0, "main_video"), video(1, "depth"), sound, camera])
    peer.frame(0, picture(200, 0, 0))
    peer.frame(0, picture(0, 200, 0), track=1)
    wait_for_colour(page, (200, 0, 0))
    wait_for_colour(page, (0, 200, 0), "depth")
    expect(page.locator("figcaption")).to_have_text(["main_video", "depth"])
    expect(page.get_by_role("button", name="Play sound", pressed=False)).to_be_visible()
    expect(page.locator("#notes")).to_be_hidden()
    widths = page.locator("canvas").evaluate_all("all => all.map((canvas) => canvas.getBoundingClientRect().width)")
    assert widths[0] == widths[1]  # two share the stage


def test_an_undecodable_frame_is_reported_once_and_the_next_is_shown(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server, "?video=raw")
    peer.welcome(tracks=[video(codec="raw", width=5, height=3)])
    peer.frame(0, picture(1, 2, 3, 4, 3), raw=True)
    peer.frame(1, picture(1, 2, 3, 4, 3), raw=True)
    peer.frame(2, picture(4, 5, 6, 5, 3), raw=True)
    wait_for_colour(page, (4, 5, 6))
    expect(page.locator("#log-count")).to_have_text("1")
    page.click("#log summary")
    expect(page.locator("#log-list li")).to_contain_text("main_video, frame 0: 36 bytes are not an RGB picture of 5×3")


# Delays the decoding of a JPEG, and the animation frame of a raw frame, until `gate.open()`.
GATE = """
    const decode = window.createImageBitmap.bind(window);
    const turn = window.requestAnimationFrame.bind(window);
    window.gate = {};
    window.gate.opened = new Promise((open) => { window.gate.open = open; });
    window.createImageBitmap = async (blob) => { await window.gate.opened; return decode(blob); };
    window.requestAnimationFrame = (callback) => window.gate.opened.then(() => turn(callback));
"""


@pytest.mark.parametrize("codec", ["jpeg", "raw"])
def test_while_one_frame_is_drawn_only_the_newest_waits(server: FakeServer, page: Page, codec: str) -> None:
    page.add_init_script(NO_WORKER + GATE)
    peer = open_page(page, server)
    peer.welcome(tracks=[video(codec=codec, width=64, height=48)])
    for seq, red in ((0, 10), (1, 90), (3, 170), (4, 250)):
        peer.frame(seq, picture(red, 0, 0), raw=codec == "raw")
    peer.say("progress", {"all": "sent"})
    expect(page.locator("#log-count")).to_have_text("1")
    page.evaluate("window.gate.open()")
    wait_for_colour(page, (250, 0, 0))
    # 0 was in the decoder and 4 the newest: the page skipped 1 and 3; 2 was lost on the way.
    expect(page.locator("#figure-skipped")).to_have_text("2")
    expect(page.locator("#figure-gaps")).to_have_text("1")
    expect(page.locator("#figure-drops")).to_have_text("3")
    # Feedback is cumulative: 1 and 3 were skipped before 0 was decoded.
    said = [peer.feedback.get(timeout=120)["data"] for _ in range(2)]
    assert [(data["track"], data["seq"]) for data in said] == [(0, 3), (0, 4)]
    assert all(data["held_us"] > 0 for data in said)


def test_a_viewer_acknowledges_as_rarely_as_the_server_allows(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server, "?role=viewer")
    peer.welcome(role="viewer")
    peer.frame(0, picture(10, 0, 0))
    assert peer.feedback.get(timeout=120)["data"]["seq"] == 0
    peer.say("reactor.cadence", {"track": 0, "every_us": 3_600_000_000})
    for seq, red in ((1, 90), (2, 250)):
        peer.frame(seq, picture(red, 0, 0))
        wait_for_colour(page, (red, 0, 0))
    assert peer.feedback.empty()
    peer.say("reactor.cadence", {"track": 0, "every_us": 0})
    assert peer.feedback.get(timeout=120)["data"]["seq"] == 2


def test_a_frame_still_being_decoded_is_not_drawn_into_the_next_session(server: FakeServer, page: Page) -> None:
    tracks = [video(0), video(1, "depth")]
    page.add_init_script(NO_WORKER + GATE)
    peer = open_page(page, server)
    peer.welcome(tracks=tracks)
    peer.frame(0, picture(200, 0, 0))
    peer.say("progress", {})
    expect(page.locator("#log-count")).to_have_text("1")
    peer.bye("done")
    page.get_by_role("button", name="Reconnect now").click()
    peer = server.accept()
    peer.welcome(tracks=tracks)
    page.evaluate("window.gate.open()")
    peer.frame(0, picture(0, 200, 0), track=1)
    wait_for_colour(page, (0, 200, 0), "depth")
    assert pixel(page) == [0, 0, 0]


# Controls


def control(page: Page, name: str):
    return page.locator(f'[data-command="{name}"]')


def test_each_kind_of_property_gets_its_control(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(
        BRIGHTNESS,
        command("set_steps", steps={"type": "integer", "minimum": 1, "maximum": 50, "default": 4}),
        command("set_seed", seed={"type": "integer", "default": 7}),
        command("set_prompt", prompt={"type": "string", "default": "a fox", "title": "What to paint"}),
        command("set_name", name={"type": "string", "maxLength": 20, "default": "x"}),
        command("set_mode", mode={"enum": ["calm", "wild"], "default": "wild"}),
        command("set_mirror", mirror={"type": "boolean", "default": True}),
        command("set_points", points={"type": "array", "items": {"type": "number"}, "default": [1, 2]}),
    )
    state(page, "live")
    slider = control(page, "set_brightness").locator("input[type=range]")
    assert slider.evaluate("i => [i.min, i.max, i.step, i.value]") == ["0", "2", "0.01", "1"]
    expect(control(page, "set_brightness").locator("label")).to_have_text("Brightness")
    expect(control(page, "set_brightness").locator(".description")).to_have_text("Brightness multiplier")
    assert control(page, "set_steps").locator("input[type=range]").get_attribute("step") == "1"
    expect(control(page, "set_seed").locator("input[type=number]")).to_have_value("7")
    expect(page.get_by_label("What to paint")).to_have_value("a fox")
    assert control(page, "set_prompt").locator("textarea").count() == 1
    expect(control(page, "set_name").locator("input[type=text]")).to_have_value("x")
    expect(control(page, "set_mode").locator("select option:checked")).to_have_text("Wild")
    expect(control(page, "set_mirror").locator("input[type=checkbox]")).to_be_checked()
    expect(control(page, "set_points").locator("textarea")).to_have_value("[1,2]")

    def sent(data: dict[str, object]) -> None:
        message = peer.next()
        assert message["data"] == data
        peer.ack(message)

    slider.fill("0.5")
    sent({"brightness": 0.5})
    control(page, "set_seed").locator("input").fill("12")
    control(page, "set_seed").locator("input").press("Enter")
    sent({"seed": 12})
    page.get_by_label("What to paint").fill("an owl")
    page.get_by_label("What to paint").press("Enter")
    sent({"prompt": "an owl"})
    control(page, "set_name").locator("input").fill("y")
    control(page, "set_name").locator("input").blur()
    sent({"name": "y"})
    control(page, "set_mirror").locator("input").uncheck()
    sent({"mirror": False})
    control(page, "set_points").locator("textarea").fill("[3]")
    control(page, "set_points").locator("textarea").press("Enter")  # a line break
    control(page, "set_points").locator("textarea").press("Control+Enter")
    sent({"points": [3]})
    control(page, "set_mode").locator("select").select_option("Calm")
    sent({"mode": "calm"})
    assert peer.silent()


def test_a_nullable_property_can_be_set_and_cleared(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    kinds = [
        ("steps", {"type": "integer", "minimum": 0, "maximum": 9}, lambda c: c.locator("input[type=range]").fill("3"), 3),
        ("text", {"type": "string"}, lambda c: (c.locator("textarea").fill("x"), c.locator("textarea").press("Enter")), "x"),
        ("choice", {"enum": ["a", "b"]}, lambda c: c.locator("select").select_option("B"), "b"),
        ("switch", {"type": "boolean"}, lambda c: c.locator("input").check(), True),
    ]
    nullable = {name: {"anyOf": [inner, {"type": "null"}], "default": None} for name, inner, _, _ in kinds}
    peer.welcome(*(command(f"set_{name}", **{name: schema}) for name, schema in nullable.items()))
    for name, _, give, value in kinds:
        none = control(page, f"set_{name}").get_by_role("button", name=f"{name.capitalize()}: none")
        expect(none).to_have_attribute("aria-pressed", "true")
        give(control(page, f"set_{name}"))
        message = peer.next()
        assert message["data"] == {name: value}
        expect(none).to_have_attribute("aria-pressed", "false")
        peer.ack(message)
        none.click()
        message = peer.next()
        assert message["data"] == {name: None}
        peer.ack(message)


def test_one_value_is_in_flight_and_the_newest_follows(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(BRIGHTNESS)
    slider = page.get_by_label("Brightness", exact=True)
    for value in ("0.1", "0.2", "0.3", "0.4"):
        slider.fill(value)
    first = peer.next()
    assert first["data"] == {"brightness": 0.1}
    assert peer.silent()
    peer.ack(first)
    last = peer.next()
    assert last["data"] == {"brightness": 0.4}
    peer.ack(last)
    page.get_by_label("Brightness, exact value").fill("0.7")
    page.keyboard.press("Enter")
    assert peer.next()["data"] == {"brightness": 0.7}


def test_a_refusal_is_shown_and_the_control_returns_to_the_models_value(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(BRIGHTNESS)
    slider = page.get_by_label("Brightness", exact=True)
    slider.fill("0.5")
    peer.ack(peer.next())
    exact = page.get_by_label("Brightness, exact value")
    exact.fill("9")
    exact.press("Enter")
    peer.refuse(peer.next(), "Expected `float` <= 2.0 - at $.brightness <b>")
    refusal = control(page, "set_brightness").get_by_role("alert")
    expect(refusal.locator("summary")).to_have_text("Choose at most 2.")
    expect(refusal.locator("code")).to_have_text("Expected `float` <= 2.0 - at $.brightness <b>")
    expect(slider).to_have_value("0.5")
    expect(exact).to_have_value("0.5")
    slider.fill("0.6")
    expect(refusal).to_be_hidden()
    assert peer.next()["data"] == {"brightness": 0.6}


def test_an_invalid_value_is_not_sent(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(command("set_points", points={"type": "array", "default": []}), BRIGHTNESS)
    area = control(page, "set_points").locator("textarea")
    area.fill("[1,")
    area.press("Control+Enter")
    expect(control(page, "set_points").get_by_role("alert")).to_contain_text("not JSON")
    page.get_by_label("Brightness", exact=True).fill("0.5")
    assert peer.next()["type"] == "set_brightness"


def test_a_command_without_arguments_is_a_button_and_its_reply_is_logged(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(command("reset", "Begin anew"))
    page.get_by_role("button", name="Reset").click()
    message = peer.next()
    assert (message["type"], message["data"]) == ("reset", {})
    peer.ack(message, {"seed": 3})
    expect(page.locator("#log-count")).to_have_text("1")
    page.click("#log summary")
    expect(page.locator("#log-list li")).to_contain_text('Reset seed 3')
    expect(page.get_by_text("Begin anew")).to_be_visible()


def test_a_command_with_arguments_is_a_form_that_leaves_defaults_to_the_model(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    schema = {
        "text": {"type": "string", "maxLength": 40},
        "size": {"$ref": "#/$defs/Size"},
        "loud": {"type": "boolean", "default": False},
    }
    say = command("say_it", required=("text",), **schema)
    say["schema"]["$defs"] = {"Size": {"type": "integer", "default": 3}}
    peer.welcome(say)
    page.get_by_label("Text").fill("hello")
    page.get_by_label("Text").press("Enter")
    message = peer.next()
    assert (message["type"], message["data"]) == ("say_it", {"text": "hello"})
    peer.refuse(message, "too loud", "quiet_please")
    expect(control(page, "say_it").get_by_role("alert")).to_have_text("too loud")
    page.get_by_label("Size").fill("4")
    page.get_by_label("Loud").check()
    page.get_by_role("button", name="Say it").click()
    assert peer.next()["data"] == {"text": "hello", "size": 4, "loud": True}


def test_a_viewer_gets_no_controls(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server, "?role=viewer")
    peer.welcome(BRIGHTNESS, command("key_w"), role="viewer")
    state(page, "live")
    expect(page.locator("#role-note")).to_be_visible()
    assert page.locator("[data-command]:not([data-command^=set_])").count() == 0
    assert page.locator("#controls").locator("input:enabled, button:enabled").count() == 0  # its settings are to look at
    page.keyboard.press("w")
    peer.say("reactor.bye", {"reason": "done", "message": None})
    peer.socket.close(1001)
    assert peer.inbox.get(timeout=120) is None


def test_text_from_the_server_is_never_markup(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    bad = "<img src=x onerror=alert(1)>"
    peer.welcome(
        command("set_x", bad, x={"enum": [bad, "b"], "title": bad, "default": bad, "description": bad}),
        command("go", bad), command("key_q", bad), tracks=[video(name=bad)],
    )  # fmt: skip
    peer.say(bad, {"text": bad})
    expect(page.locator("#log-count")).to_have_text("1")
    assert page.locator("img").count() == 0
    expect(page.locator("figcaption")).to_have_text(bad)


# Keys


def test_keys_press_their_commands_but_not_while_typing(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(
        *(command(f"key_{name}") for name in ("w", "a", "s", "d", "space", "left", "1", "escape")),
        command("set_name", name={"type": "string", "maxLength": 20, "default": ""}),
    )
    state(page, "live")
    for key, name in (("w", "w"), ("D", "d"), (" ", "space"), ("ArrowLeft", "left"), ("1", "1"), ("Escape", "escape")):
        page.keyboard.press(key)
        message = peer.next()
        assert (message["type"], message["data"]) == (f"key_{name}", {})
        peer.ack(message)
    page.get_by_label("Name").focus()
    page.keyboard.type("was d1")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert peer.next()["data"] == {"name": "was d1"}
    page.get_by_label("Name").blur()
    page.keyboard.press("Control+a")
    page.keyboard.press("s")
    assert peer.next()["type"] == "key_s"


def test_a_held_key_repeats_no_faster_than_the_model_answers(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(command("key_w"), command("key_x"))
    state(page, "live")
    for _ in range(5):  # the first is a press, the others are repeats
        page.keyboard.down("w")
    first = peer.next()
    page.keyboard.press("x")
    assert peer.next()["type"] == "key_x"
    peer.ack(first)
    peer.say("told", {})
    expect(page.locator("#log-count")).to_have_text("1")
    page.keyboard.down("w")
    assert peer.next()["type"] == "key_w"
    assert peer.silent()


def test_a_key_with_down_sends_its_release(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(command("key_w", "Walk", required=("down",), down={"type": "boolean"}), BRIGHTNESS)
    state(page, "live")

    def sent(down: bool) -> None:
        message = peer.next()
        assert (message["type"], message["data"]) == ("key_w", {"down": down})
        peer.ack(message)

    page.keyboard.down("w")
    page.keyboard.down("w")
    sent(True)
    page.keyboard.up("w")
    sent(False)
    page.keyboard.down("w")
    sent(True)
    page.evaluate("window.dispatchEvent(new Event('blur'))")
    sent(False)
    page.keyboard.up("w")
    legend = page.get_by_role("button", name="Walk")
    legend.hover()
    page.mouse.down()
    sent(True)
    page.mouse.up()
    sent(False)
    assert peer.silent()


def test_all_taps_arrive_in_order_even_if_answers_are_slow(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(
        command("key_w"), command("key_d", required=("down",), down={"type": "boolean"}), command("go"),
        command("say_it", required=("text",), text={"type": "string", "maxLength": 40}),
    )  # fmt: skip
    state(page, "live")
    for key in "wwdwdd":
        page.keyboard.press(key)
    page.get_by_role("button", name="Go", exact=True).click(click_count=3)
    page.get_by_label("Text").fill("hello")
    for _ in range(2):
        page.get_by_label("Text").press("Enter")
    w, d = [("key_w", {})], [("key_d", {"down": True}), ("key_d", {"down": False})]
    said = [peer.next() for _ in range(14)]  # without an answer
    assert [(message["type"], message["data"]) for message in said] == [
        *w, *w, *d, *w, *d, *d, *[("go", {})] * 3, *[("say_it", {"text": "hello"})] * 2,
    ]  # fmt: skip
    for message in said:
        peer.ack(message)
    peer.say("told", {})
    expect(page.locator("#log-count")).to_have_text("1")
    assert peer.silent()


def test_a_finger_that_slides_to_the_next_key_releases_the_first(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    down = {"type": "boolean"}
    peer.welcome(*(command(f"key_{name}", required=("down",), down=down) for name in "wasd"))
    state(page, "live")
    finger = page.context.new_cdp_session(page)

    def touch(kind: str, *keys: str) -> None:
        boxes = [control(page, f"key_{key}").bounding_box() for key in keys]
        points = [{"x": box["x"] + 9, "y": box["y"] + 9, "id": i} for i, box in enumerate(boxes)]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def sent(*said: tuple[str, bool]) -> None:
        for key, is_down in said:
            message = peer.next()
            assert (message["type"], message["data"]) == (f"key_{key}", {"down": is_down})

    touch("touchStart", "a")
    sent(("a", True))
    touch("touchMove", "s")
    sent(("a", False), ("s", True))
    expect(control(page, "key_a")).to_have_class("key")
    expect(control(page, "key_s")).to_have_class("key held")
    touch("touchStart", "s", "w")  # a second finger
    sent(("w", True))
    touch("touchMove", "d", "w")
    sent(("s", False), ("d", True))
    touch("touchMove", "w", "w")  # both on one key: it stays pressed until the last of them is gone
    sent(("d", False))
    touch("touchEnd", "w")
    touch("touchEnd")
    sent(("w", False))
    assert peer.silent()


def test_a_slider_keeps_the_arrow_keys(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(command("key_left"), command("key_w"), BRIGHTNESS)
    page.get_by_label("Brightness", exact=True).focus()
    page.keyboard.press("ArrowLeft")
    message = peer.next()
    assert message["data"] == {"brightness": 0.99}
    page.keyboard.press("w")
    assert peer.next()["type"] == "key_w"
    assert peer.silent()


def test_the_picture_gets_the_keyboard_back_after_the_use_of_a_control(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(
        *(command(f"key_{name}") for name in ("w", "left", "space", "enter")), command("go"), BRIGHTNESS,
        command("set_name", name={"type": "string", "maxLength": 20, "default": ""}),
        command("set_seed", seed={"type": "integer", "default": 7}),
        command("set_mirror", mirror={"type": "boolean", "default": True}),
        command("set_mode", mode={"enum": ["calm", "wild"], "default": "wild"}),
        command("jump", required=("height",), height={"type": "number", "minimum": 0}),
    )  # fmt: skip
    state(page, "live")

    def sent(kind: str, **data: object) -> None:
        message = peer.next()
        assert (message["type"], message["data"]) == (kind, data)
        peer.ack(message)

    def plays(key: str, name: str) -> None:
        page.keyboard.press(key)
        sent(f"key_{name}")

    name, seed, mode = page.get_by_label("Name"), page.get_by_label("Seed"), control(page, "set_mode").locator("select")
    name.click()
    page.keyboard.type("was")
    page.keyboard.press("Enter")
    sent("set_name", name="was")
    plays("w", "w")
    plays("Enter", "enter")
    expect(name).to_have_value("was")
    seed.click()
    page.keyboard.type("8")
    page.keyboard.press("Enter")
    sent("set_seed", seed=78)
    plays("w", "w")
    page.get_by_label("Brightness", exact=True).click(position={"x": 2, "y": 8})
    sent("set_brightness", brightness=0)
    plays("ArrowLeft", "left")
    page.get_by_text("Mirror").click()
    sent("set_mirror", mirror=False)
    plays(" ", "space")
    mode.focus()
    mode.dispatch_event("pointerdown")  # what opens its list, which no test can point at
    mode.select_option("Calm")
    sent("set_mode", mode="calm")
    plays("w", "w")
    page.get_by_role("button", name="Go", exact=True).click()
    sent("go")
    plays("Enter", "enter")
    page.get_by_label("Height").click()
    page.keyboard.type("3")
    page.keyboard.press("Enter")
    sent("jump", height=3)
    plays("w", "w")
    # A user who moves between controls by keyboard keeps the focus there; a field that was left does not get it back.
    page.get_by_label("Brightness", exact=True).focus()
    for brightness in (0.01, 0.02):
        page.keyboard.press("ArrowRight")
        sent("set_brightness", brightness=brightness)
    name.click()
    page.keyboard.type("!")
    seed.click()
    sent("set_name", name="was!")
    expect(seed).to_be_focused()
    assert peer.silent()


def test_without_keys_a_field_keeps_the_keyboard(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(command("set_name", name={"type": "string", "maxLength": 20, "default": ""}))
    name = page.get_by_label("Name")
    name.click()
    page.keyboard.type("a")
    page.keyboard.press("Enter")
    peer.ack(peer.next())
    expect(name).to_be_focused()


def test_keys_belong_to_the_browser_again_after_the_session(server: FakeServer, page: Page) -> None:
    press = """() => {
        const event = new KeyboardEvent("keydown", { key: "w", code: "KeyW", cancelable: true, bubbles: true });
        return !document.body.dispatchEvent(event);
    }"""
    peer = open_page(page, server)
    peer.welcome(command("key_w"))
    state(page, "live")
    assert page.evaluate(press)
    expect(control(page, "key_w")).to_have_class("key held")
    peer.bye("done")
    state(page, "ended")
    assert not page.evaluate(press)
    expect(control(page, "key_w")).to_have_class("key")


# Figures


def test_latency_is_from_sending_to_the_first_picture_made_with_it(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(BRIGHTNESS)
    peer.frame(0, picture(1, 1, 1))
    page.get_by_label("Brightness", exact=True).fill("0.5")
    message = peer.next()
    peer.frame(1, picture(100, 1, 1))
    wait_for_colour(page, (100, 1, 1))
    page.locator("#stats summary").first.click()
    expect(page.locator("#figure-freezes")).to_be_visible()
    expect(page.get_by_text("Command to picture", exact=True).first).to_be_hidden()  # nothing was measured
    peer.ack(message)
    peer.frame(2, picture(200, 1, 1), command=message["id"])
    expect(page.locator("#figure-latency")).to_have_text(re.compile(r"^\d+$"))
    expect(page.get_by_text("Command to picture", exact=True).first).to_be_visible()
    expect(page.locator("#figure-latency-p50")).to_have_text(re.compile(r"^\d+$"))
    peer.frame(3, picture(210, 1, 1), command=message["id"])
    expect(page.locator("#figure-fps")).to_have_text(re.compile(r"^\d+\.\d$"))
    expect(page.locator("#figure-jitter")).to_have_text(re.compile(r"^\d+\.\d$"))


def test_figures_are_those_of_the_first_track(server: FakeServer, page: Page) -> None:
    page.clock.install()
    peer = open_page(page, server)
    peer.welcome(BRIGHTNESS, tracks=[video(0), video(1, "depth")])
    page.get_by_label("Brightness", exact=True).fill("0.5")
    message = peer.next()
    peer.frame(0, picture(0, 200, 0), track=1, command=message["id"])
    wait_for_colour(page, (0, 200, 0), "depth")
    page.clock.run_for(300)
    expect(page.locator("#figure-latency")).to_have_text("")
    peer.frame(0, picture(200, 0, 0), command=message["id"])
    wait_for_colour(page, (200, 0, 0))
    page.clock.run_for(300)
    expect(page.locator("#figure-latency")).to_have_text(re.compile(r"^\d+$"))


def test_the_log_keeps_the_last_hundred(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome()
    for i in range(103):
        peer.say("progress", {"i": i})
    expect(page.locator("#log-count")).to_have_text("103")
    lines = page.locator("#log-list li")
    assert lines.count() == 100
    expect(lines.first).to_contain_text("progress i 102")


# Refusals, waiting and ends


def test_the_queue_position_is_shown(server: FakeServer, page: Page) -> None:
    page.add_init_script(NO_WORKER)  # whose clock goes on
    page.clock.install()
    peer = open_page(page, server)
    stop_clock(page)
    peer.say("reactor.queued", {"position": 2, "total": 3})
    state(page, "queued")
    text, note, details = (page.locator(f"#overlay-{part}") for part in ("text", "note", "details"))
    expect(text).to_have_text("One person is before you.")
    expect(note).to_have_text("Your session begins by itself.")
    page.clock.run_for(65_000)
    peer.say("reactor.queued", {"position": 1, "total": 3})
    expect(text).to_have_text("You are next.")
    expect(note).to_have_text("Your session begins by itself. You have waited 1 min 5 s.")
    peer.say("reactor.queued", {"position": 1, "total": 3, "wait": 90, "reason": "a step of the model does not end"})
    expect(note).to_have_text("Your session begins by itself, in 1 min 30 s at most. You have waited 1 min 5 s.")
    words = details.get_by_text("Place 1 of 3: a step of the model does not end", exact=True)
    expect(words).to_be_hidden()
    details.locator("summary").click()
    expect(words).to_be_visible()
    peer.welcome()
    state(page, "live")
    peer.frame(0, picture(200, 0, 0))
    expect(page.locator("#overlay")).to_be_hidden()


def test_until_the_first_picture_the_page_names_the_event_that_it_waits_for(server: FakeServer, page: Page) -> None:
    page.add_init_script(NO_WORKER)
    page.clock.install()
    peer = open_page(page, server)
    stop_clock(page)
    where = {"x": {"type": "number"}, "y": {"type": "number"}}
    camera = video(1, "camera", direction="in")
    peer.welcome(command("pointer_down", required=("x", "y"), **where), tracks=[video(), camera])
    state(page, "live")
    status, text, note = page.locator("#status"), page.locator("#overlay-text"), page.locator("#overlay-note")
    expect(status).to_have_text("waiting")
    expect(text).to_have_text("Turn on the camera to begin.")
    expect(note).to_have_text("")
    expect(page.locator("#overlay-details")).to_be_hidden()
    page.clock.run_for(12_000)
    expect(text).to_have_text("Turn on the camera to begin.")
    expect(note).to_have_text("")  # it waits for the user
    page.locator("#calls").get_by_role("button", name="Turn on the camera").click()
    page.clock.run_for(1000)
    expect(text).to_have_text("The model is warming up.")
    page.clock.run_for(10_000)
    expect(text).to_have_text("The model may be waiting for a setting or an action of yours.")
    expect(note).to_have_text(re.compile(r"You have waited 1\d s\."))  # since the camera is on
    page.locator("#hero canvas").click()  # it may be this for which the model waits
    assert peer.next()["type"] == "pointer_down"
    peer.frame(0, picture(200, 0, 0))
    expect(status).to_have_text("live")
    expect(page.locator("#overlay")).to_be_hidden()
    peer.bye("done")  # the picture that it leaves is not that of the next session
    page.get_by_role("button", name="Reconnect now").click()
    server.accept().welcome()
    expect(status).to_have_text("starting")
    expect(text).to_have_text("The model is warming up.")


def test_a_picture_of_any_track_ends_the_wait_for_the_first_one(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome(tracks=[video(width=640, height=640), video(1, "depth")])
    expect(page.locator("#status")).to_have_text("starting")
    ratio = "document.documentElement.style.getPropertyValue('--ratio')"
    assert page.evaluate(ratio) == "1.0000"  # the stage has its shape before the first picture
    peer.frame(0, picture(200, 0, 0), track=1)
    expect(page.locator("#status")).to_have_text("live")
    expect(page.locator("#overlay")).to_be_hidden()
    assert page.locator("#figure-fps").text_content() in ("", "0.0")  # the figures are of the first track


def test_a_page_that_requests_no_video_does_not_wait_for_a_picture(server: FakeServer, page: Page) -> None:
    open_page(page, server, "?video=none").welcome()
    state(page, "live")
    expect(page.locator("#status")).to_have_text("live")
    expect(page.locator("#overlay")).to_be_hidden()


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("done", "The session is over."),
        ("taken_over", "Another client has taken over this session."),
        ("revoked", "Access to this session was withdrawn."),
        ("idle", "The session ended because nothing was done for a while."),
    ],
)
def test_an_intended_end_is_final(server: FakeServer, page: Page, reason: str, words: str) -> None:
    page.clock.install()
    peer = open_page(page, server)
    peer.welcome(BRIGHTNESS)
    peer.frame(0, picture(200, 0, 0))
    wait_for_colour(page, (200, 0, 0))
    peer.bye(reason)
    state(page, "ended")
    expect(page.locator("#overlay-text")).to_have_text(words)
    wait_for_colour(page, (200, 0, 0))  # the last picture stays
    expect(page.get_by_label("Brightness", exact=True)).to_be_disabled()
    page.clock.run_for(60_000)
    assert server.peers.empty()
    page.get_by_role("button", name="Reconnect now").click()
    server.accept().welcome(BRIGHTNESS)
    state(page, "live")


def test_an_announced_end_is_counted_down_and_may_be_taken_back(server: FakeServer, page: Page) -> None:
    page.clock.install()
    peer = open_page(page, server)
    peer.welcome(BRIGHTNESS)
    banner = page.locator("#ending")
    state(page, "live")
    expect(banner).to_be_hidden()
    peer.say("reactor.ending", {"reason": "idle", "seconds": 60.0})
    expect(banner).to_be_visible()  # what shows it is loaded with the first
    stop_clock(page)
    peer.say("reactor.ending", {"reason": "idle", "seconds": 10.0})
    expect(banner).to_have_text("Nothing was done for a while. The session ends in 10 s")
    page.clock.run_for(3500)
    expect(banner).to_have_text("Nothing was done for a while. The session ends in 7 s")
    peer.say("reactor.ending", {"reason": "idle", "seconds": None})
    expect(banner).to_be_hidden()
    peer.say("reactor.ending", {"reason": "draining", "seconds": 1.5})
    expect(banner).to_have_text("The server is shutting down. The session ends in 2 s")
    page.clock.run_for(5000)
    expect(banner).to_have_text("The server is shutting down. The session ends in 0 s")
    peer.bye("expired")
    state(page, "ended")
    expect(banner).to_be_hidden()


def test_the_page_reconnects_at_growing_intervals_and_counts_them_down(server: FakeServer, page: Page) -> None:
    page.add_init_script("Math.random = () => 0.5")
    page.clock.install()
    peer = open_page(page, server)
    stop_clock(page)
    text, note = page.locator("#overlay-text"), page.locator("#overlay-note")
    for wait in (500, 1000, 2000, 4000, 8000, 8000):
        peer.welcome(BRIGHTNESS)
        state(page, "live")
        peer.bye("model_error", "It divided.")
        for left in range(-(-wait // 1000), 0, -1):
            expect(text).to_have_text("The model failed. It divided.")
            expect(note).to_have_text(f"Please tell whoever runs this page. Trying again in {left} s.")
            assert server.peers.empty()
            page.clock.run_for(min(wait, 1000))
        peer = server.accept()
    peer.welcome(BRIGHTNESS)
    state(page, "live")
    page.clock.run_for(6000)  # it has settled: the next trouble is a new one
    peer.bye("draining")
    expect(text).to_have_text("The server is shutting down.")
    expect(note).to_have_text("Trying again in 1 s.")


def test_a_new_session_starts_from_the_defaults(server: FakeServer, page: Page) -> None:
    page.clock.install()
    peer = open_page(page, server)
    peer.welcome(BRIGHTNESS)
    peer.frame(0, picture(200, 0, 0))
    wait_for_colour(page, (200, 0, 0))
    page.get_by_label("Brightness", exact=True).fill("0.2")
    peer.ack(peer.next())
    stop_clock(page)  # the page would try again by itself
    peer.socket.close(1001)
    expect(page.locator("#overlay-text")).to_contain_text("The connection was lost.")
    page.get_by_role("button", name="Reconnect now").click()
    peer = server.accept()
    peer.welcome(BRIGHTNESS)
    state(page, "live")
    wait_for_colour(page, (200, 0, 0))  # until there is a newer one
    expect(page.get_by_label("Brightness", exact=True)).to_have_value("1")
    page.get_by_label("Brightness", exact=True).fill("0.3")
    assert peer.next()["id"] == 1


def test_the_page_shows_that_a_server_is_not_ready(server: FakeServer, page: Page, troubles: list[str]) -> None:
    server.refuse_with = 503
    server.health = (503, {"status": "loading", "model": "fake", "reason": "the model is loading"})
    page.goto(server.url)
    expect(page.locator("#overlay-text")).to_have_text("Server not ready or busy: the model is loading.")
    expect(page.locator("#overlay-note")).to_contain_text("Trying again")
    server.refuse_with = None
    server.accept().welcome()
    state(page, "live")
    assert all("503" in trouble for trouble in troubles), troubles
    troubles.clear()


def test_another_model_is_final(server: FakeServer, page: Page, troubles: list[str]) -> None:
    server.refuse_with = 404
    page.goto(server.url + "?model=other")
    expect(page.locator("#overlay-text")).to_have_text("This server runs the model “fake”, not “other”.")
    state(page, "ended")
    assert all("404" in trouble for trouble in troubles), troubles
    troubles.clear()


def test_a_browser_without_storage_shows_the_page(server: FakeServer, page: Page) -> None:
    page.add_init_script("""
        for (const name of ["localStorage", "sessionStorage"]) {
            Object.defineProperty(window, name, { get() { throw new DOMException("access is denied", "SecurityError"); } });
        }
    """)
    peer = open_page(page, server)
    peer.welcome()
    peer.frame(0, picture(200, 0, 0))
    wait_for_colour(page, (200, 0, 0))
    page.locator("#stats summary").first.click()
    page.locator("#more-figures > summary").click()
    page.locator("#lead-toggle").uncheck()
    peer.frame(1, picture(0, 200, 0))
    expect(page.locator("#figure-lead")).to_have_text("off")


def test_an_invalid_message_is_logged_and_the_session_goes_on(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    peer.welcome()
    peer.socket.send("not json")
    peer.socket.send(b"\xc1")
    peer.say("reactor.error", {"code": "protocol_error", "message": "what was that"})
    peer.say("reactor.later", {"unknown": True})
    peer.socket.send(json.dumps({"type": "hello", "data": {}}))
    expect(page.locator("#log-count")).to_have_text("4")
    assert page.locator("#log-list .error").count() == 3
    state(page, "live")


# Layout


def test_the_page_is_not_wider_than_the_window(server: FakeServer, page: Page) -> None:
    peer = open_page(page, server)
    long = "word" * 60
    peer.welcome(
        BRIGHTNESS,
        command("set_prompt", prompt={"type": "string", "default": long, "title": long, "description": long}),
        command("go_" + long, long), *(command(f"key_{name}", long) for name in "wasd1"),
        tracks=[video(0, long), video(1, "b"), video(2, "c")],
    )  # fmt: skip
    peer.say(long, {"text": long})
    page.click("#log summary")
    state(page, "live")
    for width in (320, 390, 799, 801, 1920):
        with window(page, (width, 700)):
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_phone_the_controls_are_below_the_picture_which_stays_visible(server: FakeServer, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    peer = open_page(page, server)
    peer.welcome(BRIGHTNESS, *(command(f"set_{name}", **{name: {"type": "string"}}) for name in "abcdefghij"))
    peer.frame(0, picture(1, 2, 3, 640, 480))
    wait_for_colour(page, (1, 2, 3))
    above, below = page.locator("canvas").bounding_box(), control(page, "set_brightness").bounding_box()
    assert above["y"] + above["height"] <= below["y"]
    assert above["width"] == 390
    control(page, "set_j").locator("textarea").focus()
    below = control(page, "set_j").bounding_box()
    assert page.locator("canvas").bounding_box() == above  # the controls scroll, the picture stays
    assert above["y"] + above["height"] <= below["y"] < 800
