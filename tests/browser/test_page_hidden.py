"""The viewer page in a tab that nobody sees, and what it says beside a session that is not live; against a fake server."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Page, expect

from tests.browser.test_page_tools import begin, pictures, saved
from tests.support.fake_page_server import FakeServer, Peer, picture

#: In the page: what a browser does when its user looks at another tab.
HIDE = """
    window.hide = (hidden) => {
        Object.defineProperty(document, "hidden", { configurable: true, get: () => hidden });
        document.dispatchEvent(new Event("visibilitychange"));
    };
"""


#: In the page: whether the large picture is the last one of those that were sent.
SHOWS_THE_LAST = """() => {
    const copy = new OffscreenCanvas(8, 8).getContext("2d");
    copy.drawImage(document.querySelector("#hero canvas"), 0, 0, 8, 8);
    return copy.getImageData(4, 4, 1, 1).data[0] > 185;
}"""


def play(page: Page, peer: Peer, first: int, count: int) -> None:
    for seq in range(first, first + count):
        peer.frame(seq, picture(8 * seq, 0, 0, 320, 240))
        page.wait_for_timeout(40)


def test_a_hidden_page_asks_for_no_pictures_unless_it_records(server: FakeServer, page: Page, tmp_path: Path) -> None:
    page.add_init_script(HIDE)
    peer = begin(page, server, image=picture(0, 0, 0, 320, 240))
    page.evaluate("hide(true)")
    assert peer.asked_for("reactor.video") == {"video": ["none"]}
    page.evaluate("hide(false)")
    assert peer.asked_for("reactor.video")["video"][-1] == "jpeg"

    page.locator("#hero").hover()
    page.locator("#record").click()
    expect(page.locator("#record-time")).not_to_be_empty()
    play(page, peer, 1, 10)
    page.evaluate("hide(true)")
    play(page, peer, 11, 15)
    page.wait_for_function(SHOWS_THE_LAST)
    assert peer.silent()
    with page.expect_download() as download:
        page.evaluate("document.querySelector('#record').click()")
    shown = pictures(saved(download.value, tmp_path, "(mp4|webm)"))
    # A busy machine leaves pictures out; the last one, of the hidden time, is there.
    assert shown[-1][:20, :20, 0].mean() > 180
    assert peer.asked_for("reactor.video") == {"video": ["none"]}
    page.evaluate("hide(false)")
    assert peer.asked_for("reactor.video")["video"][-1] == "jpeg"

    play(page, peer, 26, 4)
    line, dot = page.locator("#stats-line"), page.locator("#link")
    expect(line).to_have_text(re.compile(r"^\d+ fps"))
    peer.bye("done")
    expect(page.locator('body[data-state="ended"]')).to_be_attached()
    assert (line.text_content(), dot.get_attribute("data-quality")) == ("Stats", "none")
