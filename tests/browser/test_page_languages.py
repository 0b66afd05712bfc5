"""The page in another language: its own texts, one request more, and the author's texts as they are."""

from __future__ import annotations

from playwright.sync_api import Browser, expect

from tests.browser.conftest import desktop_page
from tests.support.fake_page_server import FakeServer, command, picture

LEVEL = {"type": "number", "minimum": 0, "maximum": 1.5, "default": 0.5, "title": "Brightness", "description": "Settings"}

#: Texts of section heads that do not stand on one line, or reach out of their head.
ONE_LINE = """heads => heads.flatMap((head) => [...head.children].filter((each) =>
    each.clientHeight > 40 || each.scrollWidth > each.clientWidth + 1
    || each.getBoundingClientRect().right > head.getBoundingClientRect().right + 1).map((each) => each.textContent))"""


def test_the_page_speaks_german(server: FakeServer, browser: Browser, troubles: list[str]) -> None:
    with desktop_page(browser, troubles, locale="de-AT") as page:
        page.goto(server.url)
        peer = server.accept()
        peer.say("reactor.queued", {"position": 3, "total": 4, "reason": "busy"})
        expect(page.locator("#overlay-text")).to_have_text("2 Personen sind vor Ihnen.")
        expect(page.locator("#overlay-details summary")).to_have_text("Einzelheiten")
        set_level = command("set_level", required=("level",), level=LEVEL)
        peer.welcome(set_level, command("key_space", "Jump"), state={"level": 0.5})
        peer.frame(0, picture(200, 30, 60))
        expect(page.locator("#snapshot")).to_have_attribute("aria-label", "Bild speichern")
        expect(page.get_by_role("heading", name="Einstellungen")).to_be_visible()
        for width in (1280, 320):
            page.set_viewport_size({"width": width, "height": 720})
            assert page.locator("#settings .section-head").evaluate_all(ONE_LINE) == []
        expect(page.get_by_label("Brightness", exact=True)).to_be_visible()  # the author's words
        expect(page.locator("#settings .description")).to_have_text("Settings")
        page.get_by_label("Brightness, genauer Wert").fill("7")
        page.keyboard.press("Enter")
        peer.refuse(peer.next(), "Expected float <= 1.5 - at $.level")
        expect(page.locator(".refusal summary")).to_have_text("Wählen Sie höchstens 1,5.")
        expect(page.locator("#figure-frozen")).to_have_text("0,0")
        page.get_by_role("button", name="?").click()
        expect(page.get_by_role("dialog", name="Tasten und Bedienung")).to_contain_text("Leertaste")
        assert page.evaluate("document.documentElement.lang") == "de"
        names = page.evaluate("performance.getEntriesByType('resource').map(({ name }) => name.split('/').at(-1))")
        assert [name for name in names if name in ("de.js", "fr.js")] == ["de.js"]
        english = ("Settings", "Settings link", "Connecting", "Record", "Stats", "Full screen")
        outer = page.evaluate("document.body.outerHTML").replace('class="description" id="field-1-hint">Settings', "")
        assert [word for word in english if word in outer] == []
