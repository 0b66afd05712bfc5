"""Uploads, the pointer and the model's reload on the viewer page, against a fake server that the test controls."""

from __future__ import annotations

import json
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.support.fake_page_server import FakeServer, Peer, command, picture, video
from tests.support.page_scripts import READ_BACK

FILE = {"type": "object", "properties": {"upload_id": {"type": "string"}}, "required": ["upload_id"], "x-reactor": "upload"}
PNG = {"name": "a cat.png", "mimeType": "image/png", "buffer": b"not really a picture"}


class UploadPeer:
    """Receives uploads; each waits until the test answers it."""

    def __init__(self, page: Page) -> None:
        self.routes: list[Route] = []
        self._page = page
        page.route("**/uploads?*", lambda route: self.routes.append(route))

    def next(self) -> Route:
        for _ in range(200):
            if self.routes:
                return self.routes.pop(0)
            self._page.wait_for_timeout(20)
        pytest.fail("no upload came")

    def accept(self, route: Route, upload_id: str) -> None:
        size = len(route.request.post_data_buffer or b"")
        body = {"upload_id": upload_id, "name": "a cat.png", "mime_type": "image/png", "size": size}
        route.fulfill(status=201, content_type="application/json", body=json.dumps(body))


def begin(page: Page, server: FakeServer, *commands: Any, **more: Any) -> Peer:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(*commands, **more)
    expect(page.locator('body[data-state="live"]')).to_be_attached()
    return peer


def drop(page: Page, selector: str) -> None:
    """Drop a file on the first element that `selector` finds, once there is a field for files: it loads what it shows."""
    expect(page.locator(".drop").first).to_be_visible()
    page.locator(selector).first.evaluate(
        """(target) => {
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File(["not really a picture"], "a cat.png", { type: "image/png" }));
            for (const type of ["dragover", "drop"]) {
                target.dispatchEvent(new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true }));
            }
        }"""
    )


def test_a_chosen_file_is_uploaded_and_then_named_in_the_command(server: FakeServer, page: Page) -> None:
    uploads = UploadPeer(page)
    peer = begin(page, server, command("look_at", required=("image",), image=FILE), upload="secret")
    form = page.locator('[data-command="look_at"]')
    form.locator("input[type=file]").set_input_files(PNG)
    route = uploads.next()
    assert route.request.method == "POST"
    assert route.request.url == server.url + "uploads?name=a+cat.png&mime_type=image%2Fpng&token=secret"
    assert route.request.post_data_buffer == PNG["buffer"]
    expect(form.locator("progress")).to_be_visible()
    expect(form.locator(".drop")).to_have_text("Sending a cat.png")
    assert peer.silent()
    uploads.accept(route, "u1")
    message = peer.next()
    assert (message["type"], message["data"]) == ("look_at", {"image": {"upload_id": "u1"}})
    expect(form.locator(".drop")).to_have_text("a cat.png, 20 bytes")
    expect(form.locator("progress")).to_be_hidden()
    peer.refuse(message, "I know this one")
    expect(form.get_by_text("I know this one")).to_be_visible()


def test_a_file_with_other_arguments_waits_for_the_button(server: FakeServer, page: Page) -> None:
    uploads = UploadPeer(page)
    paint = command("paint", required=("image",), image=FILE, times={"type": "integer", "default": 1})
    peer = begin(page, server, paint, command("ping"), upload="t")
    form = page.locator('[data-command="paint"]')
    form.get_by_role("button", name="Paint").click()
    expect(form.get_by_text("Image: a file is needed")).to_be_visible()
    form.locator("input[type=file]").set_input_files(PNG)
    route = uploads.next()
    form.get_by_role("button", name="Paint").click()
    expect(form.get_by_text("Image: the file is still being sent")).to_be_visible()
    uploads.accept(route, "u2")
    expect(form.locator(".drop")).to_have_text("a cat.png, 20 bytes")
    page.get_by_role("button", name="Ping").click()
    assert peer.next()["type"] == "ping"  # nothing was sent before
    form.get_by_label("Times").fill("3")
    form.get_by_role("button", name="Paint").click()
    assert peer.next()["data"] == {"image": {"upload_id": "u2"}, "times": 3}


def test_a_setting_accepts_a_file_or_none(server: FakeServer, page: Page) -> None:
    uploads = UploadPeer(page)
    nullable = {"anyOf": [FILE, {"type": "null"}], "default": None}
    peer = begin(page, server, command("set_reference", reference=nullable), upload="t")
    setting = page.locator('[data-command="set_reference"]')
    setting.locator("input[type=file]").set_input_files(PNG)
    uploads.accept(uploads.next(), "u3")
    message = peer.next()
    assert message["data"] == {"reference": {"upload_id": "u3"}}
    peer.ack(message)
    setting.get_by_role("button", name="Reference: none").click()
    message = peer.next()
    assert message["data"] == {"reference": None}
    expect(setting.locator(".drop")).to_have_text("Choose a file or drop it here")


@pytest.mark.parametrize("selector", ["[data-command] .drop", "#hero"])
def test_a_file_is_dropped_on_its_field_or_anywhere_if_it_is_the_only_one(
    server: FakeServer, page: Page, selector: str
) -> None:
    uploads = UploadPeer(page)
    peer = begin(page, server, command("look_at", required=("image",), image=FILE), upload="t")
    drop(page, selector)
    uploads.accept(uploads.next(), "u4")
    assert peer.next()["data"] == {"image": {"upload_id": "u4"}}
    assert uploads.routes == []
    assert peer.silent()


def test_with_two_fields_a_file_goes_to_the_field_that_it_is_dropped_on(server: FakeServer, page: Page) -> None:
    uploads = UploadPeer(page)
    peer = begin(page, server, command("first", a=FILE), command("second", b=FILE), upload="t")
    drop(page, "#hero")
    drop(page, '[data-command="second"] .drop')
    uploads.accept(uploads.next(), "u5")
    assert peer.next()["data"] == {"b": {"upload_id": "u5"}}
    assert uploads.routes == []


def test_a_model_that_accepts_files_outside_commands_gets_a_card_for_them(server: FakeServer, page: Page) -> None:
    uploads = UploadPeer(page)
    peer = begin(page, server, command("reset"), upload="t")
    drop(page, "#hero")
    uploads.accept(uploads.next(), "u6")
    expect(page.locator("[data-upload] .drop")).to_have_text("a cat.png, 20 bytes")
    page.get_by_role("button", name="Reset").click()
    assert peer.next()["type"] == "reset"


def test_without_an_upload_token_there_is_no_card_for_files(server: FakeServer, page: Page) -> None:
    begin(page, server, command("reset"))
    assert page.locator(".drop").count() == 0


def test_a_refused_upload_says_why(server: FakeServer, page: Page, troubles: list[str]) -> None:
    uploads = UploadPeer(page)
    peer = begin(page, server, command("look_at", image=FILE), command("reset"), upload="t")
    for status, kind, body, words in [
        (413, "text/plain", "a file may have at most 8 MB\n", "Refused: a file may have at most 8 MB (413)"),
        (429, "application/json", '{"message": "no more than 4 files"}', "Refused: no more than 4 files (429)"),
        (201, "text/plain", "what", "Refused: what (201)"),
    ]:
        page.locator("input[type=file]").set_input_files(PNG)
        uploads.next().fulfill(status=status, content_type=kind, body=body)
        expect(page.locator('[data-command="look_at"]').get_by_text(words)).to_be_visible()
        expect(page.locator(".drop")).to_have_text("Choose a file or drop it here")
        page.get_by_role("button", name="Reset").click()
        message = peer.next()
        assert message["type"] == "reset"  # no command was sent
        peer.ack(message)
        assert all(str(status) in trouble for trouble in troubles), troubles
        troubles.clear()


def test_an_upload_can_be_cancelled_and_ends_with_the_session(server: FakeServer, page: Page) -> None:
    failed: list[str] = []
    page.on("requestfailed", lambda request: failed.append(request.method))
    uploads = UploadPeer(page)
    peer = begin(page, server, command("look_at", image=FILE), upload="t")
    for end in (lambda: page.get_by_role("button", name="Cancel").click(), lambda: peer.bye("done")):
        page.locator("input[type=file]").set_input_files(PNG)
        uploads.next()
        with page.expect_event("requestfailed"):
            end()
        expect(page.locator("progress")).to_be_hidden()
        expect(page.locator(".drop")).to_have_text("Choose a file or drop it here")
        expect(page.get_by_role("alert").filter(visible=True)).to_have_count(0)
    assert failed == ["POST", "POST"]
    assert peer.inbox.get(timeout=120) is None


# Pointer

XY = {"x": {"type": "number", "minimum": 0, "maximum": 1}, "y": {"type": "number", "minimum": 0, "maximum": 1}}


def pointer(*parts: str) -> list[dict[str, Any]]:
    return [command(f"pointer_{part}", f"{part} it", required=("x", "y"), **XY) for part in parts]


def picture_box(page: Page, width: int = 64, height: int = 48) -> tuple[float, float, float, float]:
    """Where the picture is drawn in the window, from what CSS says of `object-fit: contain`."""
    box = page.locator("#hero canvas").bounding_box()
    assert box is not None
    scale = min(box["width"] / width, box["height"] / height)
    drawn = (width * scale, height * scale)
    return box["x"] + (box["width"] - drawn[0]) / 2, box["y"] + (box["height"] - drawn[1]) / 2, *drawn


def show(page: Page, peer: Peer) -> tuple[float, float, float, float]:
    peer.frame(0, picture(9, 9, 9))
    page.wait_for_function("() => document.querySelector('#hero canvas').width === 64")
    return picture_box(page)


def told(peer: Peer) -> tuple[str, float, float]:
    message = peer.next()
    peer.ack(message)
    return message["type"], message["data"]["x"], message["data"]["y"]


def test_the_pointers_position_is_relative_to_the_picture_without_the_bars(server: FakeServer, page: Page) -> None:
    page.set_viewport_size({"width": 1280, "height": 500})
    peer = begin(page, server, *pointer("down", "move", "up"))
    x, y, width, height = show(page, peer)
    assert x > page.locator("#hero canvas").bounding_box()["x"] + 20  # there are bars
    page.mouse.move(x + width / 2, y + height / 2)  # not pressed: nothing
    page.mouse.click(x - 10, y + height / 2)  # a bar
    page.mouse.move(x + width / 4, y + height / 2)
    page.mouse.down()
    assert told(peer) == ("pointer_down", pytest.approx(0.25, abs=0.01), pytest.approx(0.5, abs=0.01))
    page.mouse.move(x + width / 2, y + height * 0.75)
    assert told(peer) == ("pointer_move", pytest.approx(0.5, abs=0.01), pytest.approx(0.75, abs=0.01))
    page.mouse.move(x + width + 300, y - 30)  # outside: its edge, and the page keeps the pointer
    assert told(peer) == ("pointer_move", 1, 0)
    page.mouse.up()
    assert told(peer) == ("pointer_up", 1, 0)
    page.mouse.move(x + width / 2, y + height / 2)
    page.mouse.click(x + width / 2, y + height / 2, button="right")
    page.mouse.click(x + width / 2, y + height / 2)
    assert told(peer)[0] == "pointer_down"
    assert told(peer)[0] == "pointer_up"
    assert peer.silent()
    expect(page.locator("#pointer")).to_contain_text("Press down it")
    expect(page.locator("#pointer li")).to_have_count(3)


def test_one_move_is_in_flight_and_none_follows_the_release(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, *pointer("down", "move", "up"))
    x, y, width, height = show(page, peer)
    page.mouse.move(x + 20, y + 20)  # the corners are round
    page.mouse.down()
    down = peer.next()
    for part in (0.1, 0.2, 0.3, 0.4):
        page.mouse.move(x + width * part, y + height / 2)
    first = peer.next()
    assert first["data"]["x"] == pytest.approx(0.1, abs=0.01)
    peer.ack(down)
    peer.ack(first)
    second = peer.next()
    assert second["data"]["x"] == pytest.approx(0.4, abs=0.01)
    page.mouse.move(x + width * 0.5, y + height / 2)
    page.mouse.up()
    assert peer.next()["type"] == "pointer_up"
    peer.ack(second)
    page.mouse.down()
    assert peer.next()["type"] == "pointer_down"
    assert peer.silent()


def test_a_model_with_moves_only_gets_them_without_a_press(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, *pointer("move"))
    x, y, width, height = show(page, peer)
    page.mouse.move(x + width / 2, y + height / 2)
    assert told(peer) == ("pointer_move", pytest.approx(0.5, abs=0.01), pytest.approx(0.5, abs=0.01))
    page.mouse.move(x - 10, y)
    page.mouse.move(x + width / 4, y + height / 4)
    assert told(peer) == ("pointer_move", pytest.approx(0.25, abs=0.01), pytest.approx(0.25, abs=0.01))
    expect(page.locator("#pointer")).to_contain_text("Move")


def test_a_refused_position_is_shown_in_the_legend(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, *pointer("down"))
    x, y, width, height = show(page, peer)
    page.mouse.click(x + width / 2, y + height / 2)
    peer.refuse(peer.next(), "not there")
    expect(page.locator("#pointer").get_by_role("alert")).to_have_text("not there")


def test_a_pointer_command_with_other_arguments_is_an_action(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, command("pointer_down", required=("x",), x={"type": "string"}))
    expect(page.locator("#actions")).to_be_visible()
    expect(page.locator("#pointer")).to_be_hidden()
    assert peer.silent()


def test_a_finger_draws_and_does_not_scroll(server: FakeServer, browser: Browser) -> None:
    phone = browser.new_context(viewport={"width": 390, "height": 800}, is_mobile=True, has_touch=True)
    phone.add_init_script(READ_BACK)
    page = phone.new_page()
    try:
        filler = [command(f"set_{name}", **{name: {"type": "string"}}) for name in "abcdefghij"]
        peer = begin(page, server, *pointer("down", "move", "up"), *filler)
        x, y, width, height = show(page, peer)
        touch = phone.new_cdp_session(page)

        def finger(kind: str, *place: float) -> None:
            points = [{"x": x + width * place[0], "y": y + height * place[1]}] if place else []
            touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

        finger("touchStart", 0.5, 0.8)
        assert told(peer) == ("pointer_down", pytest.approx(0.5, abs=0.01), pytest.approx(0.8, abs=0.01))
        finger("touchMove", 0.5, 0.2)
        assert told(peer) == ("pointer_move", pytest.approx(0.5, abs=0.01), pytest.approx(0.2, abs=0.01))
        finger("touchEnd")
        assert told(peer) == ("pointer_up", pytest.approx(0.5, abs=0.01), pytest.approx(0.2, abs=0.01))
        assert page.evaluate("window.scrollY") == 0
        assert peer.silent()
    finally:
        phone.close()


def test_in_a_session_without_pointer_commands_the_picture_scrolls_again(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, *pointer("down"))
    show(page, peer)
    expect(page.locator("canvas.pointed")).to_have_count(1)
    peer.bye("done")
    page.get_by_role("button", name="Reconnect now").click()
    peer = server.accept()
    peer.welcome(command("ping"), tracks=[video()])
    expect(page.locator("#actions")).to_be_visible()
    page.locator("#hero canvas").click()
    expect(page.locator("canvas.pointed")).to_have_count(0)
    page.get_by_role("button", name="Ping").click()
    assert peer.next()["type"] == "ping"


# Reload


def test_during_a_model_reload_the_page_says_so_and_then_reconnects_at_once(
    server: FakeServer, page: Page, troubles: list[str]
) -> None:
    brightness = command("set_brightness", brightness={"type": "number", "minimum": 0, "maximum": 2, "default": 1.0})
    peer = begin(page, server, brightness)
    page.get_by_label("Brightness", exact=True).fill("0.5")
    peer.ack(peer.next())
    server.health = (503, {"status": "loading", "reason": "SyntaxError in pipeline.py"})
    peer.bye("model_restarting", "pipeline.py has changed.")
    expect(page.locator("#overlay-text")).to_have_text("The model is being reloaded: SyntaxError in pipeline.py")
    expect(page.locator("#status")).to_have_text("reloading")
    expect(page.locator("#reconnect")).to_be_hidden()
    assert server.peers.empty()
    server.health = (200, {"status": "ok"})
    server.accept().welcome(brightness)
    expect(page.locator('body[data-state="live"]')).to_be_attached()
    expect(page.get_by_label("Brightness", exact=True)).to_have_value("1")
    assert all("503" in trouble for trouble in troubles), troubles
    troubles.clear()


def test_the_reason_for_reloading_is_shown_first(server: FakeServer, page: Page) -> None:
    page.clock.install()
    peer = begin(page, server)
    page.clock.pause_at(page.evaluate("Date.now()") + 1000)  # or the quarter of a second passes on a busy machine
    peer.bye("model_restarting", "pipeline.py has changed.")
    expect(page.locator("#overlay-text")).to_have_text("The model is being reloaded: pipeline.py has changed.")
    page.clock.run_for(240)
    assert server.peers.empty()
    page.clock.run_for(20)
    server.accept().welcome()
    expect(page.locator('body[data-state="live"]')).to_be_attached()
