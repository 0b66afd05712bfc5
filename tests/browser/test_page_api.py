"""Widgets that the author chose, and the dialog for programmers, against a fake server."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Page, expect

from tests.support.fake_page_server import FakeServer, Peer, command, picture

HINT = {"group": None, "advanced": False, "unit": None}
SWITCH = {"type": "boolean", "default": False}
STYLES = ["ink", "oil"]
COMMANDS = [
    command("set_style", required=("style",), style={"enum": STYLES, "default": "ink"}),
    command("set_tint", required=("tint",), tint={"type": "string", "default": "#ff8800"}),
    command("set_seed", required=("seed",), seed={"type": "integer", "minimum": 5, "maximum": 6, "default": 5}),
    command("set_text", required=("text",), text={"type": "string", "maxLength": 40, "default": ""}),
    command("set_level", required=("level",), level={"type": "number", "minimum": 0, "maximum": 1, "default": 0.5}),
    command("jump", "Jump ahead", required=("by",), by={"type": "integer", "minimum": 1}, wide=SWITCH),
]
ABOUT = {
    "settings": {
        "style": {**HINT, "label": "How it is painted", "widget": "radio"},
        "tint": {**HINT, "widget": "color"},
        "seed": {**HINT, "widget": "seed"},
        "text": {**HINT, "widget": "textarea"},
        "level": {**HINT, "widget": "number"},
    },
    "arguments": {"jump": {"by": {**HINT, "label": "How far", "unit": "m"}}},
}
VALUES = {"style": "ink", "tint": "#ff8800", "seed": 5, "text": "", "level": 0.5}


def begin(page: Page, server: FakeServer) -> Peer:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(*COMMANDS, about=ABOUT, state=VALUES, upload="u")
    peer.frame(0, picture(200, 30, 60))
    expect(page.locator("#snapshot")).to_be_enabled()
    return peer


def given(peer: Peer) -> tuple[str, Any]:
    message = peer.next()
    peer.ack(message)
    return message["type"], message["data"]


def test_widgets_and_the_api(server: FakeServer, page: Page) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    peer = begin(page, server)

    styles = page.get_by_role("radiogroup", name="How it is painted")
    expect(styles.get_by_role("radio", name="Ink")).to_be_checked()
    styles.get_by_text("oil").click()
    assert given(peer) == ("set_style", {"style": "oil"})
    peer.say("reactor.state", {"style": "ink"})  # the model's own doing
    expect(styles.get_by_role("radio", name="Ink")).to_be_checked()

    swatch = page.get_by_label("Choose a colour: Tint")
    expect(swatch).to_have_value("#ff8800")
    swatch.fill("#0000ff")
    assert given(peer) == ("set_tint", {"tint": "#0000ff"})
    page.get_by_label("Tint", exact=True).fill("#00ff00")
    expect(swatch).to_have_value("#00ff00")
    page.keyboard.press("Enter")
    assert given(peer) == ("set_tint", {"tint": "#00ff00"})

    page.get_by_role("button", name="Draw another number: Seed").click()
    name, data = given(peer)
    assert name == "set_seed"
    assert data["seed"] in (5, 6)

    expect(page.get_by_label("Text", exact=True)).to_have_attribute("rows", "4")
    expect(page.get_by_label("Level", exact=True)).to_have_attribute("type", "number")
    expect(page.locator("form[data-command=jump] label").first).to_have_text("How far")
    expect(page.locator("form[data-command=jump] .unit")).to_have_text("m")

    loaded = "performance.getEntriesByType('resource').filter(({ name }) => name.includes('api-page')).length"
    assert page.evaluate(loaded) == 0
    opener = page.get_by_role("button", name="Use from a program (API)", exact=True)
    opener.click()
    dialog = page.get_by_role("dialog", name="API of fake")
    expect(dialog.locator("[data-api]")).to_have_count(len(COMMANDS))
    connect = dialog.locator("#api-connect pre")
    expect(connect.nth(0)).to_contain_text(f'import {{ connect }} from "{server.url}page/client.js";')
    expect(connect.nth(1)).to_contain_text("async for frame in client.frames():")
    expect(connect.nth(2)).to_have_text(f"curl {server.url}schema")
    unfolded = "all => all.map((each) => each.open)"
    assert dialog.locator("[data-api]").evaluate_all(unfolded) == [True] + [False] * (len(COMMANDS) - 1)
    jump = dialog.locator("[data-api=jump]")
    jump.locator("summary").click()
    expect(jump.locator("tbody tr").first).to_contain_text("a whole number, at least 1")
    expect(jump.locator("thead th")).to_have_text(["Argument", "Type", "Needed"])  # no argument has a description
    expect(jump.locator("pre").nth(2)).to_have_text(f'reactor client {server.url} --send \'jump={{"by":1,"wide":false}}\'')
    jump.get_by_label("Arguments of jump as JSON").fill('{"by": 3}')
    expect(jump.locator("pre").nth(0)).to_contain_text('await client.command("jump", {"by":3});')
    expect(jump.get_by_role("button", name="Copy: Python")).to_be_hidden()  # one language at a time
    dialog.get_by_role("radio", name="Python").check()
    expect(dialog.locator("pre:visible")).to_have_count(4)  # to connect, two unfolded commands, files
    jump.get_by_role("button", name="Copy: Python").click()
    expect(jump.get_by_role("button", name="Copy: Python")).to_have_text("Copied")
    assert 'print(await client.command("jump", by=3))' in page.evaluate("navigator.clipboard.readText()")
    jump.get_by_role("button", name="Try it").click()
    message = peer.next()
    assert (message["type"], message["data"]) == ("jump", {"by": 3})
    peer.ack(message, reply={"far": True})
    expect(jump.locator("output")).to_contain_text('the reply is {"far":true}')
    jump.get_by_label("Arguments of jump as JSON").fill("[1")
    expect(jump.get_by_role("button", name="Try it")).to_be_disabled()
    expect(dialog.locator("section").nth(1)).to_contain_text(f'"{server.url}uploads?name=picture.png&mime_type=image/png"')
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(opener).to_be_focused()


def test_the_browsers_back_closes_the_api_page_and_an_address_opens_it(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    server.accept().welcome()
    dialog = page.locator("#api-page")
    page.locator("#api").click()
    expect(dialog).to_be_visible()
    assert page.evaluate("location.hash") == "#api"
    page.go_back()
    expect(dialog).to_have_count(0)
    assert page.evaluate("[location.hash, document.body.dataset.state]") == ["", "live"]
    page.evaluate("location.hash = 'api'")
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_have_count(0)
    page.wait_for_function("() => location.hash === ''")
    page.locator("#api").click()
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    page.wait_for_function("() => location.hash === '' && !history.state?.api")
