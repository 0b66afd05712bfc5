"""Screenshot, recording, latency in parts and the link for viewers, against a fake server that the test controls."""

from __future__ import annotations

import re
import time
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser, Download, Page, expect

from tests.support.fake_page_server import FakeServer, Peer, command, picture, video
from tests.support.page_scripts import NO_WORKER
from tests.support.page_windows import PLACES, window

av = pytest.importorskip("av", reason="what the browser recorded is read with PyAV: reactor-trio[video]")

GO = command("go")


def begin(page: Page, server: FakeServer, *commands: dict[str, object], image: np.ndarray | None = None) -> Peer:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(*commands)
    peer.frame(0, picture(200, 30, 60) if image is None else image)
    expect(page.locator("#snapshot")).to_be_enabled()
    return peer


def play(page: Page, peer: Peer, count: int, width: int, height: int) -> None:
    """Send `count` pictures, each after the one before was shown, from black to red."""
    for i in range(count):
        peer.frame(1 + i, picture(250 * i // count, 0, 0, width, height))
        page.wait_for_timeout(40)


def pictures(path: Path) -> list[np.ndarray]:
    with av.open(path) as file:
        return [frame.to_ndarray(format="rgb24") for frame in file.decode(video=0)]


def saved(download: Download, folder: Path, ending: str) -> Path:
    assert re.fullmatch(rf"fake-\d{{8}}-\d{{6}}\.{ending}", download.suggested_filename)
    path = folder / download.suggested_filename
    download.save_as(path)
    return path


# Screenshot


def test_a_screenshot_is_the_shown_picture_in_its_size(server: FakeServer, page: Page, tmp_path: Path) -> None:
    image = np.random.default_rng(1).integers(0, 256, (30, 50, 3), np.uint8)
    page.goto(server.url + "?video=raw")
    peer = server.accept()
    raw = video(codec="raw", width=50, height=30)
    peer.welcome(tracks=[raw])
    button = page.locator("#snapshot")
    expect(button).to_be_disabled()
    peer.frame(0, image, raw=True)
    expect(button).to_be_enabled()
    page.locator("#hero").hover()
    with page.expect_download() as download:
        button.click()
    (shown,) = pictures(saved(download.value, tmp_path, "png"))
    np.testing.assert_array_equal(shown, image)
    peer.bye("done")
    expect(page.locator('body[data-state="ended"]')).to_be_attached()
    with page.expect_download() as download:  # the last picture can still be kept
        button.click()
    np.testing.assert_array_equal(pictures(saved(download.value, tmp_path, "png"))[0], image)


def test_a_model_without_pictures_has_nothing_to_save(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    server.accept().welcome(tracks=[])
    expect(page.locator("#notes")).to_be_visible()
    expect(page.locator("#snapshot")).to_be_hidden()
    expect(page.locator("#record")).to_be_hidden()


# Recording


@pytest.mark.parametrize(("size", "in_file"), [((320, 240), (320, 240)), ((65, 47), (66, 48))])
def test_a_recording_has_the_shown_pictures(
    server: FakeServer, page: Page, tmp_path: Path, size: tuple[int, int], in_file: tuple[int, int]
) -> None:
    peer = begin(page, server, image=picture(0, 0, 0, *size))
    button = page.locator("#record")
    page.locator("#hero").hover()
    expect(button).to_have_attribute("aria-pressed", "false")
    button.click()
    expect(button).to_have_attribute("aria-pressed", "true")
    expect(button).to_have_attribute("aria-label", "Stop recording and save")
    expect(page.locator("#record-time")).to_have_text(re.compile(r"^0:0\d$"))
    play(page, peer, 30, *size)
    with page.expect_download() as download:
        button.click()
    path = saved(download.value, tmp_path, "(mp4|webm)")
    expect(button).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#record-time")).to_be_empty()
    shown = pictures(path)
    assert 2 <= len(shown) <= 32
    assert {image.shape for image in shown} == {(in_file[1], in_file[0], 3)}
    assert shown[0][:20, :20, 0].mean() < 60
    assert shown[-1][:20, :20, 0].mean() > 180
    assert shown[-1][:20, :20, 2].mean() < 40


RECORDED_FOR = """() => {
    const range = document.createRange();
    range.selectNodeContents(document.querySelector("#record-time"));
    const [{ left, right, top, bottom }, ...more] = range.getClientRects();
    return { lines: 1 + more.length, left, right, top, bottom };
}"""


def test_the_time_of_a_recording_is_one_line_in_its_button_and_moves_no_other(server: FakeServer, page: Page) -> None:
    peer = begin(page, server)
    for number, size in enumerate(((390, 844), (844, 390), (1280, 720))):
        with window(page, size):
            before = page.locator("#bar button:visible").evaluate_all(PLACES)
            page.locator("#record").click()
            for seq in range(4):  # a recording without a picture is none
                peer.frame(1 + 4 * number + seq, picture(60 * seq, 0, 0))
                page.wait_for_timeout(40)
            expect(page.locator("#record-time")).to_have_text(re.compile(r"^0:0\d$"))
            time_of, button = page.evaluate(RECORDED_FOR), page.locator("#record").evaluate_all(PLACES)[0]
            assert time_of["lines"] == 1
            assert button["left"] <= time_of["left"] < time_of["right"] <= button["right"]
            assert button["top"] <= time_of["top"] < time_of["bottom"] <= button["bottom"]
            assert page.locator("#bar button:visible").evaluate_all(PLACES) == before
            with page.expect_download():
                page.locator("#record").click()
            expect(page.locator("#record-time")).to_be_empty()


def test_a_recording_ends_with_the_session_and_takes_pictures_of_other_sizes(
    server: FakeServer, page: Page, tmp_path: Path
) -> None:
    peer = begin(page, server, image=picture(0, 0, 0, 320, 240))
    page.locator("#hero").hover()
    page.locator("#record").click()
    play(page, peer, 8, 320, 240)
    for seq in range(9, 17):
        peer.frame(seq, picture(0, 0, 250, 160, 120))
        page.wait_for_timeout(40)
    with page.expect_download() as download:
        peer.bye("done")
    shown = pictures(saved(download.value, tmp_path, "(mp4|webm)"))
    assert {image.shape for image in shown} == {(240, 320, 3)}
    assert shown[-1][230, 310, 2] > 150  # the small ones fill the same place
    expect(page.locator("#record")).to_be_disabled()
    expect(page.locator("#log-count")).to_have_text("0")


# As in Firefox: the method `requestFrame` is on a canvas's stream, not on the stream's track.
STREAM_ASKS = """
    const { requestFrame } = CanvasCaptureMediaStreamTrack.prototype;
    delete CanvasCaptureMediaStreamTrack.prototype.requestFrame;
    const { captureStream } = HTMLCanvasElement.prototype;
    HTMLCanvasElement.prototype.captureStream = function (...rate) {
        const stream = captureStream.apply(this, rate);
        stream.requestFrame = () => requestFrame.call(stream.getVideoTracks()[0]);
        return stream;
    };
"""


def test_a_recording_where_the_stream_requests_frames(server: FakeServer, page: Page, tmp_path: Path) -> None:
    page.add_init_script(STREAM_ASKS)
    peer = begin(page, server, image=picture(0, 0, 0, 320, 240))
    page.locator("#hero").hover()
    page.locator("#record").click()
    play(page, peer, 10, 320, 240)
    with page.expect_download() as download:
        page.locator("#record").click()
    assert pictures(saved(download.value, tmp_path, "(mp4|webm)"))[-1][:20, :20, 0].mean() > 180


# A browser that refuses everything, each time with another message.
REFUSALS = """
    const refused = (what) => Object.assign(new Error(`no ${what} here`), { name: "NotAllowedError" });
    Element.prototype.requestFullscreen = async () => { throw refused("full screen"); };
    AudioWorklet.prototype.addModule = async () => { throw refused("worklet"); };
    HTMLCanvasElement.prototype.toBlob = () => { throw refused("file"); };
    CanvasRenderingContext2D.prototype.drawImage = function () { throw refused("drawing"); };
"""


def test_errors_are_shown_on_the_picture(server: FakeServer, page: Page) -> None:
    page.add_init_script(NO_WORKER + REFUSALS)
    page.goto(server.url + "?video=raw")
    peer = server.accept()
    peer.welcome(tracks=[
        video(codec="raw", width=64, height=48), video(1, "main_audio", "pcm_s16le", kind="audio", sample_rate=48_000),
    ])  # fmt: skip
    peer.frame(0, picture(200, 30, 60), raw=True)
    expect(page.locator("#snapshot")).to_be_enabled()
    toasts = page.locator("#hero .toast")
    page.locator("#hero").hover()
    for button, text in (
        ("#snapshot", "screenshot: no file here"), ("#fullscreen", "full screen: no full screen here"),
        ("#sound-toggle", "sound: no worklet here"), ("#record", "recording: no drawing here"),
    ):  # fmt: skip
        page.locator(button).click()
        expect(toasts.filter(has_text=text)).to_be_visible()
    expect(page.locator("#record")).to_have_attribute("aria-pressed", "false")
    for _ in range(toasts.count()):
        toasts.first.click()
    expect(toasts).to_have_count(0)


def test_one_message_at_a_time_lies_on_the_picture_and_none_comes_along_into_full_screen(
    server: FakeServer, page: Page
) -> None:
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: { writeText: async () => {} } })")
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(GO, share="s3")
    peer.frame(0, picture(200, 30, 60))
    expect(page.locator("#snapshot")).to_be_enabled()
    toasts = page.locator("#toasts .toast")
    for _ in range(3):
        page.locator("#share").click()
    expect(toasts.filter(has_text="Link copied")).to_have_count(1)
    with page.expect_download():
        page.locator("#snapshot").click()
    expect(toasts.filter(has_text="Saved")).to_be_visible()
    expect(toasts).to_have_count(1)
    page.locator("#fullscreen").click()
    page.wait_for_selector("main:fullscreen")
    expect(toasts).to_have_count(0)


def test_a_browser_that_cannot_record_says_so(server: FakeServer, page: Page) -> None:
    page.add_init_script("MediaRecorder.isTypeSupported = () => false")
    begin(page, server)
    page.locator("#hero").hover()
    page.locator("#record").click()
    expect(page.locator("#hero .toast")).to_have_text("recording: this browser cannot record video")
    page.click("#log summary")
    expect(page.locator("#log-list li")).to_contain_text("recording: this browser cannot record video")
    expect(page.locator("#record")).to_have_attribute("aria-pressed", "false")


def test_sound_that_is_on_is_recorded(server: FakeServer, page: Page, tmp_path: Path) -> None:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(tracks=[video(), video(1, "main_audio", "pcm_s16le", kind="audio", sample_rate=48_000)])
    page.locator("#sound-toggle").click()
    expect(page.locator("#sound")).to_have_attribute("data-sound", "on")
    page.locator("#sound-volume").fill("0")  # what the user hears is not what is recorded
    peer.frame(0, picture(200, 30, 60))
    expect(page.locator("#record")).to_be_enabled()
    page.locator("#hero").hover()
    page.locator("#record").click()
    samples = (12_000 * np.sin(2 * np.pi * 500 * np.arange(1600) / 48_000)).astype("<i2")
    start = time.monotonic()
    for block in range(60):
        page.wait_for_timeout(max(0.0, 1000 * (start + block / 30 - time.monotonic())))
        peer.block(block, samples, track=1)
        peer.frame(1 + block, picture(0, 4 * block, 0))
    with page.expect_download() as download:
        page.locator("#record").click()
    path = saved(download.value, tmp_path, "(mp4|webm)")
    assert pictures(path)
    with av.open(path) as file:
        heard = np.concatenate([frame.to_ndarray().ravel() for frame in file.decode(audio=0)])
    assert np.abs(heard).max() > 0.2


# Latency in parts


def test_the_time_from_command_to_picture_is_shown_in_parts(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, GO)
    panel = page.locator("#latency")
    page.get_by_role("button", name="Go").click()
    page.locator("#stats summary").first.click()
    page.locator("#more-figures > summary").click()
    expect(panel).to_be_hidden()
    message = peer.next()
    peer.ack(message)
    peer.frame(1, picture(1, 200, 1), command=message["id"], timing=[1500, 2000, 500, 250])
    figures = re.compile(r"^Command to picture median [\d.]+ ms, 95 % within [\d.]+ ms$")
    expect(panel.locator("summary")).to_have_text(figures)
    panel.locator("summary").click()
    rows = panel.locator("tbody tr")
    expect(rows.locator("th")).to_have_text(["wait", "step", "queue", "encode", "network", "decode", "total"])
    for part, value in (("wait", "1.5"), ("step", "2.0"), ("queue", "0.5"), ("encode", "0.3")):
        expect(page.locator(f"#latency-{part}-p50")).to_have_text(value)
        expect(page.locator(f"#latency-{part}-p95")).to_have_text(value)
    parts = {
        part: float(page.locator(f"#latency-{part}-p50").inner_text())
        for part in ("wait", "step", "queue", "encode", "network", "decode", "total")
    }
    total = parts.pop("total")
    assert total == pytest.approx(sum(parts.values()), abs=1.6)  # each is rounded
    widths = panel.locator(".bar span").evaluate_all("all => all.map((slice) => slice.getBoundingClientRect().width)")
    assert widths[1] == pytest.approx(widths[0] * 2 / 1.5, abs=1)
    assert sum(widths) == pytest.approx(panel.locator(".bar").evaluate("bar => bar.clientWidth"), abs=6)
    expect(panel.locator(".bar")).to_have_attribute("aria-label", re.compile(r"^Median: wait 1.5 ms, step 2.0 ms, queue"))
    peer.bye("done")
    expect(page.locator('body[data-state="ended"]')).to_be_attached()
    expect(panel).to_be_visible()  # to be read when it is over
    page.get_by_role("button", name="Reconnect now").click()
    server.accept().welcome(GO)
    page.locator("#stats summary").first.click()
    expect(page.locator("#figures")).to_be_visible()
    expect(panel).to_be_hidden()


# The link for viewers


def test_the_link_for_viewers_is_copied_and_its_page_is_marked_as_a_viewer(server: FakeServer, browser: Browser) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(server.url + "?model=fake&token=mine#top")
    peer = server.accept()
    assert peer.path.endswith("&model=fake&token=mine&feedback=1&follow=1")
    expect(page.locator("#share")).to_be_hidden()
    peer.welcome(GO, share="s&3")
    page.get_by_role("button", name="Watch link").click()
    told = "Link copied: anyone who has it can watch. It works on this computer only."
    expect(page.locator("#toasts .info")).to_have_text(told)
    link = page.evaluate("navigator.clipboard.readText()")
    assert link == server.url + "?model=fake&role=viewer#token=s%263"
    viewer = context.new_page()
    viewer.goto(link)
    watching = server.accept()
    assert watching.path.endswith("&role=viewer&model=fake&token=s%263&feedback=1&cadence=1&follow=1")
    watching.welcome(GO, role="viewer")
    expect(viewer.locator("#role-note")).to_contain_text("Somebody else is playing; you are watching.")
    expect(viewer.locator("#share")).to_be_hidden()
    assert viewer.evaluate("document.querySelector('meta[name=referrer]').content") == "no-referrer"
    peer.bye("done")
    expect(page.locator("#share")).to_be_hidden()
    context.close()


def test_where_a_page_may_not_copy_the_link_is_shown(server: FakeServer, page: Page) -> None:
    lan = server.url.replace("127.0.0.1", "lan.test")  # no secure context, so no clipboard
    page.goto(lan)
    server.accept().welcome(GO, share="s3")
    page.get_by_role("button", name="Watch link").click()
    field = page.get_by_label("Link for viewers")
    expect(field).to_have_value(lan + "?role=viewer#token=s3")
    expect(field).to_be_focused()
    assert field.evaluate("field => field.selectionEnd - field.selectionStart") == len(lan + "?role=viewer#token=s3")
    page.keyboard.press("Escape")
    expect(field).to_be_hidden()


def test_a_page_with_every_control_is_not_wider_than_the_window(server: FakeServer, page: Page) -> None:
    page.goto(server.url.replace("127.0.0.1", "lan.test"))
    peer = server.accept()
    pad = [command(f"gamepad_{name}", "word " * 20) for name in ("a", "b", "x", "y", "lb", "rb", "start", "home")]
    peer.welcome(
        GO, *pad, share="s" * 60, tracks=[video(), video(1, "main_audio", "pcm_s16le", kind="audio", sample_rate=48_000)]
    )
    page.get_by_role("button", name="Go").click()
    peer.frame(0, picture(1, 200, 1, 640, 480), command=peer.next()["id"], timing=[1500, 2000, 500, 250])
    page.locator("#stats summary").first.click()
    page.locator("#more-figures > summary").click()
    page.locator("#latency summary").click()
    widths = (320, 390, 1280)
    for width in widths:
        with window(page, (width, 800)):
            assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.get_by_role("button", name="Watch link").click()
    expect(page.get_by_label("Link for viewers")).to_be_visible()
    for width in widths:
        with window(page, (width, 800)):
            assert page.evaluate("document.documentElement.scrollWidth") <= width
            box = page.get_by_label("Link for viewers").bounding_box()
            assert box is not None
            assert box["x"] >= 0
            assert box["x"] + box["width"] <= width
