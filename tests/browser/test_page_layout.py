"""Where the page's parts lie, and that they stay there: from the first paint to play, and while a hand plays."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from playwright.sync_api import expect

from tests.browser.test_page import state
from tests.browser.test_page_design import ABOUT, COMMANDS, PICTURE, SHIFTS, box
from tests.support.fake_page_server import FakeServer, Peer, command, picture, video
from tests.support.page_windows import PLACES, named, window

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

DESKTOP, LAPTOP, TABLET, PHONE, ON_ITS_SIDE = (1440, 900), (1280, 720), (820, 1180), (390, 844), (844, 390)
TRANSPORT = ("pause", "step", "restart")
KEYS = [
    command("key_e", "Sleep", down={"type": "boolean"}),
    command("key_space", "Use what you face", down={"type": "boolean"}),
    command("key_1", "Place a table", down={"type": "boolean"}),
    command("key_2", "Place a stone", down={"type": "boolean"}),
    command("key_3", "Plant a sapling", down={"type": "boolean"}),
]


@contextmanager
def phone(browser: Browser) -> Iterator[Page]:
    """A page under fingers."""
    context = browser.new_context(has_touch=True, is_mobile=True, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(90_000)
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    yield page
    context.close()


def begin(page: Page, server: FakeServer, *commands: dict[str, Any], **how: Any) -> Peer:
    """A session whose first picture has not come."""
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(*(commands or COMMANDS), about=ABOUT, share="s", state={}, transport=TRANSPORT, **how)
    page.wait_for_selector('body[data-picture="awaited"]')
    return peer


def show(page: Page, peer: Peer, size: tuple[int, int] = (640, 480)) -> None:
    peer.frame(0, picture(200, 30, 60, *size))
    page.wait_for_selector('body[data-picture="shown"]')
    state(page, "live")


def boxes(page: Page) -> dict[str, tuple[float, float, float, float]]:
    page.evaluate("new Promise((drawn) => requestAnimationFrame(() => requestAnimationFrame(drawn)))")
    return {part: box(page, part) for part in ("#hero", "#bar", "#panel")}


def parts(page: Page) -> str:
    """What the stage has in it and how high it is, for the message of a failed test."""
    return str(
        page.evaluate("""[...document.querySelectorAll("#stage, #stage > *, #bar, #bar *, head link, #panel")]
        .filter((part) => part.tagName === "LINK" || part.checkVisibility())
        .map((part) => `${part.localName}#${part.id || part.href} ${part.offsetTop} ${part.offsetHeight}`)""")
    )


@pytest.mark.parametrize("size", [PHONE, ON_ITS_SIDE, TABLET, LAPTOP, DESKTOP])
def test_the_link_for_viewers_is_told_over_the_lower_edge_of_the_picture(
    server: FakeServer, page: Page, size: tuple[int, int]
) -> None:
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.set_viewport_size({"width": size[0], "height": size[1]})
    show(page, begin(page, server))
    page.get_by_role("button", name="Watch link").click()
    expect(page.locator("#toasts .toast")).to_contain_text("Link copied")
    left, top, right, bottom = box(page, "#toasts .toast")
    hero = box(page, "#hero")
    assert right - left >= 200
    assert bottom - top <= 90
    assert hero[0] <= left < right <= hero[2]
    assert (left + right) / 2 == pytest.approx((hero[0] + hero[2]) / 2, abs=1)
    assert (hero[1] + hero[3]) / 2 < top < bottom <= hero[3]


@pytest.mark.parametrize("shape", [(640, 480), (1280, 720), (480, 480)])
def test_from_the_first_paint_to_play_nothing_moves(
    server: FakeServer, browser: Browser, page: Page, shape: tuple[int, int]
) -> None:
    """The pads' room is there before they are, and a wide picture lies in the room that is there. So does one of
    another shape, after the first visit."""
    with phone(browser) as held:
        for used, size in ((page, DESKTOP), (held, PHONE)):
            used.set_viewport_size({"width": size[0], "height": size[1]})
            used.add_init_script(SHIFTS)
            used.emulate_media(reduced_motion="no-preference")  # words come after a moment
            for visit in ("first", "second"):
                with named(f"{size[0]} wide, {visit} visit"):
                    used.goto(server.url)
                    peer = server.accept()
                    used.wait_for_selector("body[data-panel]")
                    painted = boxes(used)
                    peer.welcome(*COMMANDS, *KEYS, about=ABOUT, share="s", state={}, transport=TRANSPORT)
                    used.wait_for_selector('body[data-picture="awaited"]')
                    begun, then = boxes(used), parts(used)
                    if used is held:
                        expect(used.locator("#pads")).to_be_visible()
                        assert boxes(used) == begun, f"{then}\n{parts(used)}"
                    show(used, peer, shape)
                    if visit == "first" and shape != (1280, 720):  # now the page knows its shape
                        continue
                    assert boxes(used) == begun
                    if visit == "second" or used is page:  # a phone learns of the keys with the session
                        assert painted == begun
                        assert used.evaluate("window.shifted") < 0.02
                    left, top, right, bottom = begun["#hero"]
                    if used is page:
                        least = 1052 / 784  # of what the window leaves
                        assert (right - left) / (bottom - top) == pytest.approx(max(shape[0] / shape[1], least), abs=0.02)


def test_picture_and_bar_lie_in_the_middle_of_the_stage_whatever_was_before(server: FakeServer, page: Page) -> None:
    """At the first visit and later ones, for those who watch, without a connection, and after it has come back."""
    page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
    places = []
    for where, role in (("", "controller"), ("", "controller"), ("?role=viewer", "viewer")):
        page.goto(server.url + where)
        peer = server.accept()
        peer.welcome(*COMMANDS, about=ABOUT, share="s", state={}, transport=TRANSPORT, role=role)
        show(page, peer, (1280, 720))
        places.append(boxes(page))
    peer.socket.close(1001)
    peer = server.accept()
    places.append(boxes(page))
    peer.welcome(*COMMANDS, role="viewer")
    show(page, peer, (1280, 720))
    places.append(boxes(page))
    page.evaluate("localStorage.room = '0.5000  another'")
    show(page, begin(page, server), (1280, 720))
    places.append(boxes(page))
    hero, bar = places[0]["#hero"], places[0]["#bar"]
    assert (hero[2] - hero[0]) / (hero[3] - hero[1]) == pytest.approx(16 / 9, abs=0.01)
    assert hero[1] - 52 == pytest.approx(900 - 8 - bar[3], abs=1)  # above it is the header, below it the window's edge
    for place in places[1:]:
        assert place["#hero"] == pytest.approx(hero, abs=0.2)
        assert place["#bar"] == pytest.approx(bar, abs=0.2)


def test_the_room_of_another_model_is_not_that_of_this_one(server: FakeServer, page: Page) -> None:
    page.add_init_script("localStorage.room ??= '1.0000 two another'")
    peer = begin(page, server)
    expect(page.locator("body:not([data-pads])")).to_have_count(1)
    assert page.evaluate("document.documentElement.style.getPropertyValue('--ratio')") == ""
    show(page, peer)
    assert page.evaluate("localStorage.room") == "1.3333  fake"


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_pause_moves_nothing(server: FakeServer, browser: Browser, page: Page, size: tuple[int, int]) -> None:
    """One step has its place, also while nobody may take it."""
    with phone(browser) as held:
        used = held if size == PHONE else page
        used.set_viewport_size({"width": size[0], "height": size[1]})
        peer = begin(used, server, *COMMANDS, *KEYS)
        show(used, peer)
        step, buttons = used.get_by_role("button", name="One step"), used.locator("#bar button:visible, #bar summary")
        expect(step).to_be_hidden()
        before, places = boxes(used), buttons.evaluate_all(PLACES)
        used.get_by_role("button", name="Pause").click()
        peer.next()
        peer.say("reactor.transport", {"paused": True})
        expect(step).to_be_visible()
        assert boxes(used) == before
        after = buttons.evaluate_all(PLACES)
        assert len(after) == len(places) + 1
        assert all(place in after for place in places)
        assert len({round(place["y"]) for place in after}) == 1
        assert all(0 <= place["x"] <= size[0] - place["width"] for place in after)


# Pads


def test_a_single_action_is_one_row_in_the_middle_and_without_keys_there_is_no_band(
    server: FakeServer, browser: Browser
) -> None:
    with phone(browser) as page:
        show(page, begin(page, server, command("key_space", "Drops anywhere")))
        expect(page.locator("#pads")).to_be_visible()
        left, top, right, bottom = box(page, "#pads button")
        assert bottom - top == 52
        assert left + right == pytest.approx(390, abs=1)
        assert box(page, "#pads")[3] - box(page, "#bar")[3] <= 72
        show(page, begin(page, server, command("set_fog", fog={"type": "boolean"})))
        expect(page.locator("#pads")).to_have_count(0)
        assert box(page, "#panel")[1] - box(page, "#bar")[3] <= 4


def main_action_lies_under_the_thumb(page: Page) -> None:
    """It is the largest button, no other reaches lower or further right, and beside it is one more."""
    places = page.locator(".round-pad button").evaluate_all(PLACES)
    main, *others = places
    assert page.locator(".round-pad button").first.get_attribute("data-pad") == "space"
    right, bottom = main["x"] + main["width"], main["y"] + main["height"]
    assert all(main["width"] * main["height"] > 1.2 * each["width"] * each["height"] for each in others)
    assert all(each["x"] + each["width"] <= right + 1 and each["y"] + each["height"] <= bottom + 1 for each in others)
    assert right == pytest.approx(max(each["x"] + each["width"] for each in others), abs=1)
    assert all(min(each["width"], each["height"]) >= 44 for each in places)


def test_the_main_action_lies_under_the_thumb_and_the_picture_is_the_largest_part(
    server: FakeServer, browser: Browser
) -> None:
    with phone(browser) as page:
        peer = begin(page, server, *COMMANDS, *KEYS, tracks=[video(width=640, height=480)])
        show(page, peer)
        expect(page.locator("#pads")).to_be_visible()
        order = page.locator(".round-pad button").all_text_contents()
        for size in (PHONE, ON_ITS_SIDE):
            with window(page, size):
                main_action_lies_under_the_thumb(page)
                page.locator("#fullscreen").click()
                page.wait_for_selector("main:fullscreen")
                main_action_lies_under_the_thumb(page)
                assert page.locator(".round-pad button").all_text_contents() == order
                page.evaluate("document.exitFullscreen()")
                page.wait_for_selector("main:not(:fullscreen)")
        with window(page, PHONE):
            left, top, right, bottom = box(page, "#hero")
            assert right - left == 390  # as wide as the window
            assert bottom - top >= 292
            assert bottom - top > max(box(page, part)[3] - box(page, part)[1] for part in ("#pads", "#panel"))


def test_on_a_lying_phone_the_pads_stay_beside_the_open_panel(server: FakeServer, browser: Browser) -> None:
    with phone(browser) as page:
        page.set_viewport_size({"width": ON_ITS_SIDE[0], "height": ON_ITS_SIDE[1]})
        show(page, begin(page, server, *COMMANDS, *KEYS))
        page.locator("#panel-toggle").click()
        panel, hero = box(page, "#panel"), box(page, "#hero")
        assert hero[2] - hero[0] >= 300
        for place in page.locator("#pads button").evaluate_all(PLACES):
            assert min(place["width"], place["height"]) >= 44
            right = place["x"] + place["width"]
            assert right <= hero[0] or hero[2] <= place["x"] < right <= panel[0]
        bar = box(page, "#bar")
        assert bar[2] <= panel[0]
        assert bar[3] <= box(page, ".round-pad")[1]


@pytest.mark.parametrize(("about", "rest"), [(ABOUT, ["#about", "#presets"]), ({"title": "Hills"}, [])])
def test_the_panel_of_a_tablet_has_the_settings_beside_the_rest(
    server: FakeServer, page: Page, about: dict[str, Any], rest: list[str]
) -> None:
    page.set_viewport_size({"width": TABLET[0], "height": TABLET[1]})
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(*COMMANDS[:5], *KEYS, command("explode"), about=about, state={})
    show(page, peer)
    settings = box(page, "#settings")
    left = [box(page, part) for part in [*rest, "#keys", "#actions"]]
    assert {(each[0], each[2]) for each in left} == {(16, 404)}
    assert (settings[0], settings[2]) == (416, 804)
    assert settings[1] == left[0][1]
    for above, below in pairwise(left):
        assert below[1] - above[3] == pytest.approx(12, abs=1)
    api = box(page, "#api")
    assert (api[0], api[2]) == (16, 804)
    assert api[1] >= max(settings[3], left[-1][3])


def test_the_panel_of_a_tablet_has_one_column_where_nothing_fills_the_other(server: FakeServer, page: Page) -> None:
    page.set_viewport_size({"width": TABLET[0], "height": TABLET[1]})
    for commands, role, part in ((COMMANDS[:5], "controller", "#settings"), (KEYS, "viewer", "#role-note")):
        page.goto(server.url)
        peer = server.accept()
        peer.welcome(*commands, state={}, role=role)
        show(page, peer)
        assert (box(page, part)[0], box(page, part)[2]) == (130, 690)
        assert (box(page, "#api")[0], box(page, "#api")[2]) == (130, 690)


@pytest.mark.parametrize("title", ["Moving light", "Landschaftsbilder von gestern"])
def test_a_lying_phone_has_the_models_name_whole(server: FakeServer, page: Page, title: str) -> None:
    page.set_viewport_size({"width": ON_ITS_SIDE[0], "height": ON_ITS_SIDE[1]})
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(*COMMANDS, about={"title": title}, share="s", state={})
    show(page, peer)
    name = page.locator("#name")
    assert name.evaluate("(name) => [name.scrollWidth - name.clientWidth, name.scrollHeight - name.clientHeight]") == [0, 0]
    assert box(page, "#theme")[1] >= box(page, "#name")[3]


def test_a_made_hint_has_its_keys_as_keys(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(command("key_space", "Next seed", down={"type": "boolean"}), KEYS[0], state={})
    show(page, peer)
    expect(page.locator("#hint")).to_have_text("Space\u00a0Next seed\u00a0· E\u00a0Sleep")
    assert page.locator("#hint kbd").all_text_contents() == ["Space", "E"]
    expect(page.locator("#hint kbd").first).to_have_css("border-top-width", "1px")


# Two pictures


@pytest.mark.parametrize("shape", [(640, 480), (640, 640), (1280, 720), (360, 640)])
def test_two_pictures_share_the_stage(server: FakeServer, page: Page, shape: tuple[int, int]) -> None:
    """Side by side, or one below the other in the hand; both as large."""
    peer = begin(page, server, tracks=[video(), video(1, "game")])
    show(page, peer, shape)
    peer.frame(0, picture(0, 0, 200, *shape), track=1)
    expect(page.locator("#others figure")).to_be_visible()
    for size in (DESKTOP, LAPTOP, TABLET, PHONE, ON_ITS_SIDE):
        with window(page, size):
            first, second = box(page, "#hero"), box(page, "#others canvas")
            assert [second[2] - second[0], second[3] - second[1]] == pytest.approx(
                [first[2] - first[0], first[3] - first[1]], abs=1.5
            )
            large, small = page.evaluate(PICTURE), box(page, "#others .enlarge")  # which is as large as its picture
            assert small[2] - small[0] == pytest.approx(large[2] - large[0], abs=1.5)
            name = box(page, "#others figcaption")
            assert name[0] - small[0] == pytest.approx(8, abs=1)
            hint = page.locator("#hint")
            if size[1] > 480 and size[0] > size[1]:
                assert small[0] - large[2] == pytest.approx(8, abs=1)
                assert large[1] - 52 == pytest.approx(size[1] - 8 - box(page, "#bar")[3], abs=1)
                told, bar = box(page, "#hint"), box(page, "#bar")
                assert bar[1] <= told[1] < told[3] <= bar[3]
                assert box(page, "#transport")[2] <= told[0] < told[2] <= box(page, "#snapshot")[0]
            else:
                expect(hint).to_be_hidden()
            if size[0] > size[1]:
                assert first[1] == pytest.approx(second[1], abs=1)
                assert first[2] <= second[0]
                assert second[2] - first[0] >= (0.55 if shape[0] > shape[1] else 0.5) * size[0]
            else:
                assert first[3] <= second[1]
                assert second[3] <= box(page, "#bar")[1]
                assert first[3] - first[1] >= 180


# One left edge, one right edge, one family of shapes

UNIT = {"settings": {"brightness": {"group": None, "advanced": False, "unit": "%"}}}
#: Where the text of a field ends.
TEXT_END = """(field) => {
    const { paddingRight, borderRightWidth } = getComputedStyle(field);
    return field.getBoundingClientRect().right - parseFloat(paddingRight) - parseFloat(borderRightWidth);
}"""


@pytest.mark.parametrize("size", [DESKTOP, LAPTOP])
def test_the_parts_of_a_desktop_line_up(server: FakeServer, page: Page, size: tuple[int, int]) -> None:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    level = {"type": "number", "minimum": 0, "maximum": 2, "default": 1.0}
    settings = [command("set_brightness", brightness=level), command("set_level", level=level)]
    page.goto(server.url)
    peer = server.accept()
    tracks = [video(width=1280, height=720)]
    peer.welcome(*COMMANDS, *settings[1:], about=ABOUT | UNIT, share="s", state={}, transport=TRANSPORT, tracks=tracks)
    show(page, peer, (1280, 720))
    left, _, right, bottom = box(page, "#hero")
    assert (left, box(page, "#name")[0]) == (16, 16)
    assert box(page, "#pause-toggle svg")[0] == 16
    assert box(page, "#panel-toggle svg")[2] == pytest.approx(right, abs=1)
    assert box(page, "#bar")[1] - bottom <= 4
    hint = box(page, "#hint")
    if size == DESKTOP:  # on a laptop one line matters more than the middle
        assert (hint[0] + hint[2]) / 2 == pytest.approx((left + right) / 2, abs=1)
    assert hint[2] <= box(page, "#snapshot")[0]
    assert hint[0] >= box(page, "#restart")[2]
    edges = [box(page, part) for part in ("#about .prose", "#presets .list", "#settings")]
    assert len({edge[0] for edge in edges}) == 1
    assert {edge[2] for edge in edges[1:]} == {size[0] - 16} == {box(page, "#theme")[2]}
    slider, unit = box(page, "#settings [name=brightness]"), box(page, "#settings .unit")
    assert unit[2] == slider[2]
    assert page.locator("#settings [data-command=set_level] .readout").evaluate(TEXT_END) == slider[2]


def test_without_a_live_picture_its_ground_is_exactly_as_large_as_it(server: FakeServer, page: Page) -> None:
    page.set_viewport_size({"width": DESKTOP[0], "height": DESKTOP[1]})
    peer = begin(page, server)
    show(page, peer, (480, 480))
    peer.bye("done")
    state(page, "ended")
    hero = page.locator("#hero")
    assert hero.evaluate("(hero) => getComputedStyle(hero).backgroundColor") == "rgba(0, 0, 0, 0)"
    ground = hero.evaluate("""(hero) => {
        const { left, right, top, bottom, width, height } = getComputedStyle(hero, "::before");
        return [left, right, top, bottom, width, height].map(parseFloat);
    }""")
    assert ground[0] == pytest.approx(ground[1]) == pytest.approx((1052 - 784) / 2, abs=2)
    assert (ground[4], ground[5]) == (pytest.approx(784, abs=2), pytest.approx(784, abs=2))


def test_cards_that_go_on_beside_the_screen_fade_at_its_edge(server: FakeServer, page: Page) -> None:
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    examples = [{"name": f"Example {i}", "picture": None, "values": {"brightness": i / 10}} for i in range(6)]
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(*COMMANDS, about=ABOUT | {"examples": examples}, state={})
    show(page, peer)
    assert (box(page, "#presets .list")[0], box(page, "#presets .list")[2]) == (0, 390)
    assert page.locator("#presets .list").evaluate("(list) => getComputedStyle(list).maskImage") != "none"


def test_dialogs_have_the_focus_themselves_and_change_is_seen_under_the_mouse(server: FakeServer, page: Page) -> None:
    show(page, begin(page, server))
    page.locator("#legend-toggle").click()
    expect(page.locator("#key-legend")).to_be_focused()
    expect(page.locator("#key-legend")).to_have_css("outline-style", "none")
    change = page.locator("#key-legend [data-change]").first
    expect(change).to_have_css("opacity", "0")
    change.hover()
    expect(change).to_have_css("opacity", "1")
    page.mouse.move(0, 0)
    change.focus()
    expect(change).to_have_css("opacity", "1")
    page.keyboard.press("Escape")
    page.locator("#api").click()
    expect(page.locator("#api-page")).to_be_focused()


#: The words of the parts that match `selector`, and whether each lies in one line.
WHOLE_WORDS = """(selector) => [...document.querySelectorAll(selector)].flatMap((part) => {
    const range = document.createRange();
    const text = document.createTreeWalker(part, NodeFilter.SHOW_TEXT).nextNode();
    return [...text.data.matchAll(/\\S+/g)].map(({ 0: word, index }) => {
        range.setStart(text, index);
        range.setEnd(text, index + word.length);
        return [word, new Set([...range.getClientRects()].map(({ y }) => Math.round(y))).size === 1];
    });
})"""


@pytest.mark.parametrize("label", ["Speed", "Geschwindigkeit"])
def test_on_a_lying_phone_the_words_of_the_settings_are_whole_and_in_their_card(
    server: FakeServer, browser: Browser, label: str
) -> None:
    level = {"type": "number", "minimum": 0, "maximum": 100, "default": 40}
    unit = {"settings": {"speed": {"label": label, "group": None, "advanced": False, "unit": "Pixel/s"}}}
    context = browser.new_context(has_touch=True, is_mobile=True, reduced_motion="reduce", locale="de")
    page = context.new_page()
    with window(page, ON_ITS_SIDE):
        page.goto(server.url)
        peer = server.accept()
        peer.welcome(command("set_speed", speed=level), *KEYS, about=ABOUT | unit, share="s", state={})
        show(page, peer)
        page.locator("#panel-toggle").click()
        expect(page.locator("#copy-settings")).to_have_text("Einstellungslink")
        card = box(page, "#settings")
        for part in ("#copy-settings", "#reset-settings", "#settings label", "#settings .readout", "#settings .unit"):
            left, _, right, _ = box(page, part)
            assert card[0] <= left < right <= card[2], part
        words = page.evaluate(WHOLE_WORDS, "#settings label, #copy-settings, #settings h2")
        assert [word for word, whole in words if not whole] == []
        assert len(words) >= 3
    context.close()


def test_a_phones_header_leaves_the_name_its_room_and_a_laptops_hint_is_one_line(server: FakeServer, page: Page) -> None:
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    page.goto(server.url)
    peer = server.accept()
    about = ABOUT | {"title": "Moving light", "hint": "Drag the brightness; raise the tone to hear it"}
    peer.welcome(*COMMANDS, about=about, share="s", state={}, transport=TRANSPORT)
    show(page, peer, (1280, 720))
    lines = """(part) => {
        const all = document.createRange();
        all.selectNodeContents(part);
        return new Set([...all.getClientRects()].map(({ y }) => Math.round(y))).size;
    }"""
    assert page.locator("#name").evaluate(lines) == 1
    link, word = box(page, "#link"), box(page, "#status")
    assert link[2] - word[2] <= 24  # "slow" is as wide
    page.set_viewport_size({"width": LAPTOP[0], "height": LAPTOP[1]})
    expect(page.locator("#hint")).to_be_visible()
    assert page.locator("#hint").evaluate(lines) == 1
