"""How the page looks: where its parts lie in windows of every shape, that nothing jumps, and that everyone can use it."""

from __future__ import annotations

import re
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, expect

from tests.browser.test_page import state, wait_for_colour
from tests.support.fake_page_server import FakeServer, Peer, command, picture, video
from tests.support.page_windows import PLACES, named, window

AXE = Path(__file__).parents[2] / "clients/web/node_modules/axe-core/axe.min.js"
SIZES = [(1440, 900), (1280, 720), (820, 1180), (390, 844), (844, 390)]
SCHEMES: tuple[Literal["dark"], Literal["light"]] = ("dark", "light")
#: Colours of the system, and whether it forces them.
COLOURS: list[tuple[Literal["dark", "light"], Literal["active", "none"]]] = [
    ("light", "none"), ("dark", "none"), ("light", "active"),
]  # fmt: skip
NUMBER = {"type": "number", "minimum": 0, "maximum": 2, "default": 1.0}
COMMANDS = [
    command("set_brightness", "How bright it is", brightness={**NUMBER, "title": "Brightness"}),
    command("set_prompt", prompt={"type": "string", "default": "hills", "title": "Prompt", "maxLength": 200}),
    command("set_fog", fog={"type": "boolean", "default": False, "title": "Fog"}),
    command("set_season", season={"enum": ["spring", "autumn"], "default": "spring", "title": "Season"}),
    command("set_seed", seed={"type": "integer", "default": 7, "title": "Seed"}),
    *(command(f"key_{key}", f"Go {key}", down={"type": "boolean"}) for key in "wasd"),
    command("reset", "Begin again"),
]
ABOUT = {
    "title": "Hills", "description": "A **landscape**.\n\n- one\n- two", "author": "Ada", "hint": "W A S D to walk",
    "links": [{"label": "Source", "url": "https://example.org/"}],
    "examples": [{"name": "Morning", "picture": None, "values": {"brightness": 0.5}}],
    "settings": {"brightness": {"group": "Light", "advanced": False, "unit": "%"},
                 "seed": {"group": None, "advanced": True, "unit": None}},
}  # fmt: skip
#: A track whose pictures have a known size.
WIDE = video(width=1280, height=720)
#: Adds up how far what was visible has moved without the user's doing (https://web.dev/articles/cls).
SHIFTS = """
window.shifted = 0;
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) if (!entry.hadRecentInput) window.shifted += entry.value;
}).observe({ type: "layout-shift", buffered: true });
"""


def live(page: Page, server: FakeServer, **how: Any) -> Peer:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(*COMMANDS, about=ABOUT, share="s", state={}, **({"tracks": [WIDE]} | how))
    peer.frame(0, picture(200, 30, 60, 1280, 720))
    wait_for_colour(page, (200, 30, 60))
    state(page, "live")
    return peer


def box(page: Page, selector: str) -> tuple[float, float, float, float]:
    """Left, top, right and bottom edge."""
    found = page.locator(selector).bounding_box()
    assert found is not None, selector
    return found["x"], found["y"], found["x"] + found["width"], found["y"] + found["height"]


#: Where the picture lies in its canvas, which is as large as the stage.
PICTURE = """() => {
    const { x, y, width, height } = document.querySelector("#hero canvas").getBoundingClientRect();
    const ratio = getComputedStyle(document.documentElement).getPropertyValue("--ratio");
    const [across, down] = [Math.min(width, height * ratio), Math.min(height, width / ratio)];
    return [x + (width - across) / 2, y + (height - down) / 2, x + (width + across) / 2, y + (height + down) / 2];
}"""


def on_the_picture_lies_nothing(page: Page) -> None:
    """Header, bar and panel of a low window are beside the picture."""
    left, _, right, _ = page.evaluate(PICTURE)
    parts = "header > :visible, #bar button:visible, #bar summary:visible, #panel:visible"
    for each in page.locator(parts).evaluate_all(PLACES):
        assert each["x"] + each["width"] <= left or each["x"] >= right, each


def gives_the_picture_all_room(page: Page, width: int, height: int) -> None:
    """The picture is as wide as the window, or as the panel leaves; once that is closed, it has the height, too."""
    left, top, right, bottom = page.evaluate(PICTURE)
    if width > height and height > 480:  # a desktop: the panel is at its side
        panel = box(page, "#panel")
        assert left <= 17 < panel[0] - 13 <= right <= panel[0] < panel[2] == width
        assert box(page, "#bar")[1] - bottom <= 8  # the stage has the picture's shape
    elif width > height:  # a phone on its side: the picture has the height, and nothing lies on it
        expect(page.locator("#panel")).to_be_hidden()
        assert box(page, "#hero") == (108, 0, width - 60, height)
        on_the_picture_lies_nothing(page)
    else:  # in the hand: the panel is a sheet below
        panel = box(page, "#panel")
        assert (left, right) == (0, width)
        assert bottom <= box(page, "#bar")[1] < panel[1] < panel[3] == height
    page.locator("#panel-toggle").click()
    if width > height and height <= 480:
        expect(page.locator("#panel")).to_be_visible()
        on_the_picture_lies_nothing(page)
        assert box(page, "#bar")[2] <= box(page, "#panel")[0] < box(page, "#panel")[2] == width
        page.locator("#panel-toggle").click()  # which the panel does not cover
        expect(page.locator("#panel")).to_be_hidden()
    else:
        expect(page.locator("#panel")).to_be_hidden()
        left, top, right, bottom = page.evaluate(PICTURE)
        assert right - left >= width - 24 or bottom - top >= height - 116  # what header and bar leave
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.scrollHeight") <= height


def has_all_buttons_in_one_row(page: Page, width: int, height: int) -> None:
    """The buttons of the bar lie beside each other below the picture, or one below another at its side."""
    low = height <= 480
    expect(page.get_by_role("button", name="Keys and controls (?)")).to_be_visible()
    boxes = page.locator("#bar button:visible, #bar summary").evaluate_all(PLACES)
    assert len(boxes) == (8 if width <= 700 or low else 9)  # a short bar leaves out the one that copies
    place, size = ("y", "height") if low else ("x", "width")
    rows = {round(each["x"] + each["width"] / 2 if low else each["y"] + each["height"] / 2) for each in boxes}
    assert len(rows) == 1, rows
    picture = box(page, "#stage")
    assert all(picture[0] <= each["x"] and each["x"] + each["width"] <= picture[2] for each in boxes)
    assert all(each["y"] + each["height"] <= height for each in boxes)
    ends = sorted((each[place], each[place] + each[size]) for each in boxes)
    assert all(end <= begin for (_, end), (begin, _) in pairwise(ends))


def test_a_page_that_loads_does_not_jump_and_gives_the_picture_all_room(server: FakeServer, page: Page) -> None:
    page.emulate_media(reduced_motion="no-preference")
    page.add_init_script(f"localStorage.clear(); localStorage.room = '1.7778  fake'; {SHIFTS}")  # a user's second visit
    for size in SIZES:
        with window(page, size):
            peer = live(page, server, transport=("pause", "step", "restart"))
            peer.say("progress", {"n": 1})
            expect(page.locator("#log-count")).to_have_text("1")
            assert page.evaluate("window.shifted") < 0.02
            has_all_buttons_in_one_row(page, *size)
            gives_the_picture_all_room(page, *size)


#: As PLACES, each when the user has scrolled to it.
SCROLLED_PLACES = """all => all.map((each) => {
    each.scrollIntoView({ block: "nearest" });
    return each.getBoundingClientRect().toJSON();
})"""


def test_controls_that_do_not_fit_into_the_panel_are_below_it(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    peer = server.accept()
    many = [command(f"set_level_{i}", **{f"level_{i}": {"type": "number", "minimum": 0, "maximum": 1}}) for i in range(12)]
    peer.welcome(*COMMANDS, *many, about=ABOUT, state={}, tracks=[video(), video(1, "camera", direction="in")])
    expect(page.locator("#inputs .start")).to_be_visible()
    panel = page.locator("#panel-content")
    for size in SIZES:
        with window(page, size):
            if not panel.is_visible():  # it closes where it would lie on the picture
                page.locator("#panel-toggle").click()
            assert panel.evaluate("(panel) => panel.scrollWidth - panel.clientWidth") == 0
            sections = panel.locator("section:visible").evaluate_all(SCROLLED_PLACES)
            assert len(sections) >= 4
            left, top, right, bottom = box(page, "#panel-content")
            for found in sections:
                assert left <= found["x"] < found["x"] + found["width"] <= right
                assert found["y"] < bottom
                assert found["y"] + found["height"] > top


def test_the_panel_stays_as_the_user_left_it(server: FakeServer, page: Page) -> None:
    live(page, server)
    toggle = page.get_by_role("button", name="Controls", exact=True)
    expect(toggle).to_have_attribute("aria-pressed", "true")
    toggle.click()
    live(page, server)
    expect(toggle).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#panel")).to_be_hidden()


def test_the_grip_makes_the_sheet_higher_and_closes_it(server: FakeServer, page: Page) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    live(page, server)
    grip = page.get_by_role("separator", name="Divider")
    before = box(page, "#panel")[1]
    grip.press("ArrowUp")
    assert box(page, "#panel")[1] == pytest.approx(before - 64, abs=1)
    x, y, right, bottom = box(page, "#grip")
    page.mouse.move((x + right) / 2, (y + bottom) / 2)
    page.mouse.down()
    page.mouse.move(195, 500)
    assert box(page, "#panel")[1] == pytest.approx(500, abs=1)
    page.mouse.move(195, 790)
    page.mouse.up()
    expect(page.locator("#panel")).to_be_hidden()
    page.locator("#panel-toggle").click()
    assert box(page, "#panel")[1] == pytest.approx(before, abs=1)


def test_in_a_low_window_the_panel_is_beside_the_picture(server: FakeServer, page: Page) -> None:
    page.set_viewport_size({"width": 667, "height": 375})
    live(page, server, tracks=[video(), video(1, "depth")]).frame(0, picture(0, 0, 0), track=1)
    expect(page.locator("#others figure")).to_be_visible()
    name = box(page, "#hero figcaption")
    assert box(page, "#status")[2] <= name[0]
    page.locator("#panel-toggle").click()
    left, *others = box(page, "#panel")
    assert others == [0, 667, 375]  # no sheet, as in a high window of this width
    assert box(page, "#hero")[2] <= box(page, "#bar")[0] < box(page, "#bar")[2] <= left


def test_the_glow_of_a_light_page_is_a_pale_tint_and_lies_on_no_card(server: FakeServer, page: Page) -> None:
    """A dark picture makes no stain."""
    page.emulate_media(color_scheme="light")
    page.clock.install()
    peer = live(page, server)
    page.clock.fast_forward(3000)  # the picture's edges are looked at now and then
    peer.frame(1, picture(70, 55, 30, 1280, 720))
    page.wait_for_selector("#hero[style*='--glow-left']")
    shadow = page.evaluate("getComputedStyle(document.querySelector('#hero'), '::before').boxShadow")
    tints = [(float(light), float(chroma)) for light, chroma in re.findall(r"oklch\(([\d.]+) ([\d.]+)", shadow)]
    assert len(tints) == 4, shadow
    assert min(light for light, _ in tints) >= 0.92, shadow
    assert max(chroma for _, chroma in tints) <= 0.02, shadow  # a pale blue with more is shown as turquoise
    assert max(int(blur) for blur in re.findall(r"px \S+px (\d+)px", shadow)) <= 60, shadow
    left, top, *_ = box(page, "#settings")
    clip: Any = {"x": left + 1, "y": top + 16, "width": 60, "height": 100}  # without the round corners
    with_it = page.screenshot(clip=clip)
    page.evaluate("document.querySelector('#hero').removeAttribute('style')")
    assert page.screenshot(clip=clip) == with_it


def test_figures_are_one_line_until_somebody_asks(server: FakeServer, page: Page) -> None:
    peer = live(page, server)
    expect(page.locator("#figures")).to_be_hidden()
    for seq in range(1, 12):
        peer.frame(seq, picture(200, 30, 60))
        page.wait_for_function("seq => document.querySelector('#figure-format').textContent && seq", arg=seq)
    page.locator("#stats summary").first.click()
    expect(page.locator("#figures")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#figures")).to_be_hidden()


def test_the_mouse_and_the_bar_hide_while_the_mouse_rests(server: FakeServer, page: Page) -> None:
    page.clock.install()
    live(page, server)
    page.mouse.move(400, 300)
    stage, bar = page.locator("#stage"), page.locator("#bar")
    expect(stage).not_to_have_class("idle")
    page.clock.run_for(3000)
    expect(stage).to_have_class("idle")
    expect(page.locator("#hero")).to_have_css("cursor", "none")
    expect(bar).to_have_css("opacity", "1")  # it lies below the picture
    page.set_viewport_size({"width": 844, "height": 390})
    expect(bar).to_have_css("opacity", "1")  # at its side
    page.evaluate("document.querySelector('#stage').classList.remove('idle')")
    page.locator("#fullscreen").click()
    page.clock.run_for(3000)
    expect(bar).to_have_css("opacity", "0")  # here it lies on it
    page.mouse.move(410, 300)
    expect(stage).not_to_have_class("idle")
    page.locator("#snapshot").focus()  # by the keyboard: the bar is there
    page.clock.run_for(3000)
    expect(bar).to_have_css("opacity", "1")


def test_colours_follow_the_system_until_the_user_chooses(server: FakeServer, page: Page) -> None:
    def is_light() -> bool:
        return bool(page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(244, 246, 249)")

    page.goto(server.url)
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        assert is_light() == (scheme == "light")
        page.get_by_role("button", name="Colours: as the system says").click()
        assert is_light()
        page.get_by_role("button", name="Colours: light").click()
        assert not is_light()
        page.reload()
        dark = page.get_by_role("button", name="Colours: dark")
        expect(dark).to_be_visible()
        assert not is_light()
        dark.click()


# Full screen


def full_screen(page: Page, full: bool) -> None:
    page.locator("#hero").hover()
    page.locator("#fullscreen").click()
    page.wait_for_function("full => document.fullscreenElement === (full ? document.querySelector('main') : null)", arg=full)


#: They lie on the picture, too.
PARTS = ("#others .enlarge", "#ending", ".toast")


def test_in_full_screen_the_panel_lies_beside_the_picture(server: FakeServer, page: Page) -> None:
    peer = live(page, server, tracks=[video(), video(1, "depth")])
    peer.frame(0, picture(0, 0, 0), track=1)
    reached = """(selector) => {
        const { x, y, width, height } = document.querySelector(selector).getBoundingClientRect();
        return document.elementFromPoint(x + width / 2, y + height / 2)?.closest(selector) !== null;
    }"""
    panel = page.locator("#panel")
    for width, height in SIZES:
        with window(page, (width, height)):
            full_screen(page, True)
            expect(panel).to_be_hidden()
            page.locator("#panel-toggle").click()
            expect(panel).to_be_visible()
            left, top, right, bottom = box(page, "#panel")
            assert (right, bottom) == (width, height)
            assert box(page, "#hero canvas") == (0, 0, *((left, height) if left else (width, top)))
            assert (right - left) * (bottom - top) < 0.61 * width * height
            peer.say("reactor.ending", {"reason": "idle", "seconds": 10.0})
            expect(page.locator("#ending")).to_be_visible()
            page.evaluate("document.querySelector('#toasts').innerHTML = '<p class=toast>Something is wrong</p>'")
            for part in ("#bar", *PARTS):
                beside = box(page, part)
                assert beside[2] <= left or beside[3] <= top, part
            for part in (*PARTS, "#panel-toggle", "#fullscreen", "#snapshot", "#panel-content"):
                assert page.evaluate(reached, part), part
            prompt = f"dunes of {width}"
            page.get_by_label("Prompt").fill(prompt)
            page.get_by_label("Prompt").press("Enter")
            message = peer.next()
            assert message["data"] == {"prompt": prompt}
            peer.ack(message)
            page.locator("#panel-toggle").click()
            expect(panel).to_be_hidden()
            full_screen(page, False)


def test_full_screen_is_black_and_its_tools_are_one_pill_that_fits(server: FakeServer, page: Page) -> None:
    """The picture is larger than without it, and the buttons for fingers are on the screen."""
    page.goto(server.url)
    peer = server.accept()
    others = ("Use", "Sleep", "Place a table", "Place a stone", "Plant a sapling", "Wait")
    keys = [command(f"key_{i}", does, down={"type": "boolean"}) for i, does in enumerate(others)]
    peer.welcome(*COMMANDS, *keys, state={}, transport=("pause", "step", "restart"))
    peer.frame(0, picture(200, 30, 60, 1280, 720))
    state(page, "live")
    page.evaluate("localStorage.setItem('pads', 'on')")
    page.locator("#legend-toggle").click()
    page.locator("#key-legend select").select_option("on")
    page.keyboard.press("Escape")
    expect(page.locator("#pads")).to_be_visible()
    button = page.locator("#fullscreen")
    signs = []
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        for width, height in ((1280, 720), (390, 844), (844, 390)):
            with window(page, (width, height)), named(f"{scheme}, {width} wide"):
                left, top, right, bottom = page.evaluate(PICTURE)
                before = (right - left) * (bottom - top)
                signs.append(button.locator("path").get_attribute("d"))
                full_screen(page, True)
                expect(button).to_have_accessible_name("Leave full screen")
                signs.append(button.locator("path").get_attribute("d"))
                expect(page.locator("main")).to_have_css("background-color", "rgb(0, 0, 0)")
                left, top, right, bottom = page.evaluate(PICTURE)
                assert (right - left) * (bottom - top) > before or (left, right) == (0, width)
                for each in page.locator("#pads button, #bar button:visible, #bar summary").evaluate_all(PLACES):
                    assert 12 <= each["x"] < each["x"] + each["width"] <= width - 12, each
                    assert 12 <= each["y"] < each["y"] + each["height"] <= height - 12, each
                full_screen(page, False)
                expect(button).to_have_accessible_name("Full screen")
    assert len(set(signs[::2])) == len(set(signs[1::2])) == 1 < len(set(signs))


def test_full_screen_begins_with_a_closed_panel_and_gives_the_former_one_back(server: FakeServer, page: Page) -> None:
    live(page, server)
    panel = page.locator("#panel")
    before = box(page, "#panel")
    full_screen(page, True)
    expect(panel).to_be_hidden()
    full_screen(page, False)
    expect(panel).to_be_visible()
    assert box(page, "#panel") == before
    page.locator("#panel-toggle").click()
    full_screen(page, True)
    page.locator("#panel-toggle").click()
    expect(panel).to_be_visible()
    full_screen(page, False)
    expect(panel).to_be_hidden()
    assert page.evaluate("localStorage.getItem('panel')") == "closed"  # what the user chose outside of full screen


def test_the_panel_in_full_screen_can_be_read(server: FakeServer, page: Page) -> None:
    live(page, server)
    full_screen(page, True)
    page.locator("#panel-toggle").click()
    panel = page.locator("#panel")
    expect(panel).to_be_visible()
    for scheme, forced in COLOURS:
        page.emulate_media(color_scheme=scheme, forced_colors=forced)
        with named(f"{scheme}, forced colours {forced}"):
            assert panel.evaluate("panel => /^rgb\\(/.test(getComputedStyle(panel).backgroundColor)")  # opaque
            assert check_with_axe(page) == []


# Everyone can use it


def check_with_axe(page: Page) -> list[str]:
    """What axe finds, as "rule: element"; it looks at contrast, names, roles and order."""
    page.evaluate(AXE.read_text())
    rules = "'label-content-name-mismatch': { enabled: true }"  # voice users say what they read
    found = page.evaluate(f"axe.run(document, {{ resultTypes: ['violations'], rules: {{ {rules} }} }})")
    return [f"{rule['id']}: {node['html'][:120]}" for rule in found["violations"] for node in rule["nodes"]]


def axe_finds_nothing(page: Page) -> None:
    """Neither in dark nor in light colours."""
    for scheme in SCHEMES:
        page.emulate_media(color_scheme=scheme)
        with named(scheme):
            assert check_with_axe(page) == []


def test_axe_finds_nothing_in_a_live_session(server: FakeServer, page: Page) -> None:
    camera = video(1, "camera", direction="in")
    live(page, server, tracks=[video(), camera])
    page.locator("#stats summary").first.click()
    expect(page.get_by_role("button", name="Turn on the camera").first).to_be_visible()
    for size in ((1280, 800), (390, 844)):
        with window(page, size):
            axe_finds_nothing(page)


def test_axe_finds_nothing_while_there_is_no_session(server: FakeServer, page: Page) -> None:
    server.about = ABOUT
    page.goto(server.url)
    peer = server.accept()
    peer.say("reactor.queued", {"position": 2, "total": 3})
    expect(page.locator("#name")).to_have_text("Hills")
    axe_finds_nothing(page)
    peer.welcome(*COMMANDS, about=ABOUT)
    state(page, "live")
    axe_finds_nothing(page)
    peer.bye("done")
    state(page, "ended")
    axe_finds_nothing(page)


#: What has the focus, and whether that is seen.
FOCUSED = """() => {
    const at = document.activeElement;
    const ring = getComputedStyle(at).outlineStyle !== 'none' || at.matches('canvas, body');
    return [at.name || at.id || at.textContent.trim(), ring];
}"""


def test_the_keyboard_reaches_every_control_and_shows_where_it_is(server: FakeServer, page: Page) -> None:
    peer = live(page, server, transport=("pause", "restart"))
    page.evaluate("document.activeElement?.blur()")
    stops: list[str] = []

    def press(key: str) -> str:
        page.keyboard.press(key)
        name, ring = page.evaluate(FOCUSED)
        assert ring, f"no focus ring on {name}"
        return str(name)

    while (stop := press("Tab")) not in stops:
        stops.append(stop)
    assert stops[0] == "skip"
    assert stops.index("prompt") <= 12  # its first setting
    wanted = {"share", "theme", "pause-toggle", "copy-settings", "brightness", "prompt", "fog", "season", "Advanced", "W"}
    assert wanted <= set(stops)
    page.locator("#pause-toggle").focus()  # the bar is one stop, and the arrow keys move in it
    moved = [press("ArrowRight") for _ in range(9)]
    assert moved[1:8] == ["snapshot", "copy", "clip", "record", "fullscreen", "legend-toggle", "panel-toggle"]
    assert (moved[8], press("Home"), press("End")) == ("panel-toggle", "pause-toggle", "panel-toggle")
    assert [press("Shift+Tab"), press("Tab")] == ["theme", "panel-toggle"]
    peer.frame(1, picture(1, 1, 1))
    page.locator("#panel-toggle").click()  # closed
    page.locator("#skip").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#panel-content")).to_be_focused()
    assert peer.silent()


def test_the_whole_page_in_a_script_that_goes_from_right_to_left(server: FakeServer, page: Page) -> None:
    live(page, server, transport=("pause",))
    page.evaluate("document.documentElement.dir = 'rtl'")
    for size in ((1280, 720), (390, 844), (844, 390)):
        with window(page, size):
            width = size[0]
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            assert box(page, "#name")[2] > width - 60
            if size[1] > 480:
                assert box(page, "#pause-toggle")[0] > box(page, "#panel-toggle")[2]
            else:
                assert box(page, "#bar")[2] <= box(page, "#hero")[0] < box(page, "#hero")[2] <= box(page, "#name")[0]
            if width == 1280:
                assert box(page, "#panel")[0] == 0
                left, right = (box(page, f".cross > :nth-child({i})") for i in (2, 4))
                assert left[2] <= right[0]  # keys lie as on the keyboard
                assert box(page, "#hero")[0] >= box(page, "#panel")[2]
                page.locator("#pause-toggle").focus()
                page.keyboard.press("ArrowLeft")
                expect(page.locator("#snapshot")).to_be_focused()


def test_a_second_picture_is_there_from_its_first_frame(server: FakeServer, page: Page) -> None:
    peer = live(page, server, tracks=[WIDE, video(1, "depth")])
    depth, name = page.locator("#others figure"), page.locator("#hero figcaption")
    expect(depth).to_be_hidden()
    expect(name).to_be_hidden()
    before = box(page, "#hero")
    assert page.evaluate(PICTURE)[3] - before[3] == pytest.approx(0, abs=1)
    peer.frame(0, picture(0, 0, 200), track=1)
    expect(depth).to_be_visible()
    expect(name).to_have_text("main_video")
    for width, height in SIZES:
        with window(page, (width, height)):
            small, bar = box(page, "#others figure"), box(page, "#bar")
            assert small[3] <= bar[1] or small[1] >= bar[3] or small[2] <= bar[0]
            large = page.evaluate(PICTURE)
            assert small[0] >= large[2] - 1 or small[1] >= large[3] - 1  # beside or below the picture, not on it


def test_the_first_view_of_a_phone_has_a_setting_and_a_desktop_whole_examples(server: FakeServer, page: Page) -> None:
    examples = [{"name": f"Example {i}", "picture": None, "values": {"brightness": i / 10}} for i in range(4)]
    about = ABOUT | {"description": "A landscape that a small network draws. " * 8, "examples": examples}
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(*COMMANDS, about=about, state={})
    peer.frame(0, picture(200, 30, 60, 1280, 720))
    state(page, "live")
    more, words = page.get_by_role("button", name="More"), page.locator("#about .prose")
    with window(page, (390, 844)):
        assert box(page, "[data-command=set_prompt]")[3] <= 844
        folded = box(page, "#about .prose")
        more.click()
        assert box(page, "#about .prose")[3] - folded[1] > 3 * (folded[3] - folded[1])
        page.get_by_role("button", name="Less").click()
        cards = page.locator(".preset").evaluate_all(PLACES)
        assert len({card["y"] for card in cards}) == 1
    with window(page, (1280, 720)):
        expect(more).to_be_hidden()
        cards = page.locator(".preset").evaluate_all(PLACES)
        assert [len({card[edge] for card in cards}) for edge in ("x", "y")] == [2, 2]
        assert all(card["x"] + card["width"] <= 1280 for card in cards)
        assert box(page, "[data-command=set_prompt]")[3] <= 720
        shown = "all.filter((each) => each.checkVisibility())"
        sizes = f"all => new Set({shown}.map((each) => getComputedStyle(each).fontSize)).size"
        assert 4 <= page.locator("body *").evaluate_all(sizes) <= 7
        dots = f"all => {shown}.filter((each) => getComputedStyle(each, '::before').borderRadius === '50%').length"
        assert page.locator("header *").evaluate_all(dots) == 1
    assert words.text_content()


def test_the_models_colour_and_mark_are_those_of_the_page(server: FakeServer, page: Page) -> None:
    from tests.browser.test_page_introduction import png

    server.pictures["mark.png"] = png(picture(9, 200, 30))
    page.goto(server.url)
    colours = {"light": "#b94625", "dark": "#e55c34"}
    server.accept().welcome(*COMMANDS, about=ABOUT | {"accent": colours, "mark": "pictures/mark.png"}, state={})
    state(page, "live")
    expect(page.locator("#mark")).to_be_visible()
    page.wait_for_function("() => document.querySelector('#mark').naturalWidth === 64")
    for scheme, rgb in (("light", "rgb(185, 70, 37)"), ("dark", "rgb(229, 92, 52)")):
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        expect(page.locator("#about a").first).to_have_css("color", rgb)
