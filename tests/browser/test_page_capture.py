"""Camera and microphone of the viewer page, with Chromium's fake devices, against a fake server that the test controls."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import pytest
import simplejpeg
from playwright.sync_api import Locator, Page, expect

from tests.support.fake_page_server import FakeServer, Peer, Pushed, picture, video

# Records every stream that the page gets, and can delay the user's permission.
STREAMS = """
    const ask = navigator.mediaDevices.getUserMedia.bind(navigator.mediaDevices);
    window.streams = [];
    window.asked = 0;
    window.answer = Promise.resolve();
    navigator.mediaDevices.getUserMedia = async (constraints) => {
        window.asked += 1;
        await window.answer;
        const stream = await ask(constraints);
        window.streams.push(stream);
        return stream;
    };
"""
ALL_STOPPED = "() => streams.every((stream) => stream.getTracks().every((track) => track.readyState === 'ended'))"


def camera_track(index: int = 1, name: str = "camera", **more: Any) -> dict[str, Any]:
    return video(index, name, direction="in", **more)


def microphone_track(index: int = 2, rate: int = 16_000) -> dict[str, Any]:
    return video(index, "voice", "pcm_s16le", kind="audio", direction="in", sample_rate=rate)


def begin(page: Page, server: FakeServer, *tracks: dict[str, Any]) -> Peer:
    page.add_init_script(STREAMS)
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(tracks=[video(), *tracks])
    return peer


def card(page: Page, name: str) -> Locator:
    return page.locator(f'[data-input="{name}"]')


def size_of(packet: Pushed) -> tuple[int, int]:
    height, width, _ = simplejpeg.decode_jpeg(packet.payload).shape
    return width, height


def test_the_camera_is_sent_as_jpeg_packets_with_growing_times(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, camera_track())
    assert peer.media.empty()
    card(page, "camera").get_by_role("button", name="Turn on the camera").click()
    packets = [peer.pushed() for _ in range(8)]
    assert {packet.track for packet in packets} == {1}
    assert all(packet.meta == {"codec": "jpeg"} and packet.flags == 1 for packet in packets)
    assert {size_of(packet) for packet in packets} == {(640, 480)}
    assert len({packet.payload for packet in packets}) > 1  # it moves
    times = [packet.pts_us for packet in packets]
    assert times[0] == 0
    assert all(before < after for before, after in itertools.pairwise(times))
    seqs = [packet.seq for packet in packets]
    assert all(before < after for before, after in itertools.pairwise(seqs))
    expect(card(page, "camera").locator(".live-mark")).to_be_visible()
    expect(card(page, "camera").locator("video")).to_be_visible()
    expect(card(page, "camera").locator(".input-status")).to_have_text(re.compile(r"^sends \d+ pictures a second"))


def test_a_keyframe_is_sent_first_and_on_request(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, camera_track(codecs=["h264", "vp8", "jpeg", "raw"]))
    card(page, "camera").get_by_role("button", name="Turn on the camera").click()
    packets = [peer.pushed() for _ in range(5)]
    assert [packet.flags for packet in packets] == [1, 0, 0, 0, 0]
    assert packets[0].payload[:5] == b"\0\0\0\1\x67"  # Annex B, with its parameter set
    assert all(packet.meta["codec"] == "h264" for packet in packets)
    assert (packets[0].meta["width"], packets[0].meta["height"]) == (640, 480)
    assert packets[0].meta["matrix"] in ("smpte170m", "bt709")  # Chromium's choice, which changed between 150 and 156
    peer.say("reactor.keyframe", {"track": 7})  # another one's
    assert [peer.pushed().flags for _ in range(10)] == [0] * 10
    peer.say("reactor.keyframe", {"track": 1})
    flags = [peer.pushed().flags for _ in range(20)]
    assert flags.count(1) == 1


def test_size_and_rate_can_be_changed_while_the_camera_is_live(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, camera_track())
    camera = card(page, "camera")
    camera.get_by_label("Size").select_option("320×240")
    camera.get_by_role("button", name="Turn on the camera").click()
    first = peer.pushed()
    assert size_of(first) == (320, 240)
    camera.get_by_label("Size").select_option("1280×720")
    camera.get_by_label("Rate").select_option("10 fps")
    packet = first
    while size_of(packet) != (1280, 720):
        newer = peer.pushed()
        assert newer.seq > packet.seq
        assert newer.pts_us > packet.pts_us
        packet = newer
    # Ten a second, a quarter of a period early at most.
    times = []
    while len(times) < 4:
        times.append(peer.pushed().pts_us)
    assert times[-1] - times[0] >= 3 * 50_000


def test_the_size_that_the_model_declares_is_used(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, camera_track(width=256, height=256))
    card(page, "camera").get_by_role("button", name="Turn on the camera").click()
    assert size_of(peer.pushed()) == (256, 256)


@pytest.mark.parametrize("rate", [16_000, 48_000])
def test_the_microphone_is_sent_in_blocks_of_20_ms_timed_by_their_samples(server: FakeServer, page: Page, rate: int) -> None:
    peer = begin(page, server, microphone_track(rate=rate))
    card(page, "voice").get_by_role("button", name="Turn on the microphone").click()
    packets = [peer.pushed() for _ in range(60)]  # the fake device beeps once a second
    assert {(packet.track, packet.flags) for packet in packets} == {(2, 1)}
    assert all(packet.meta == {"codec": "pcm_s16le"} for packet in packets)
    assert {len(packet.payload) for packet in packets} == {2 * rate // 50}
    assert [packet.seq for packet in packets] == list(range(60))
    assert {after.pts_us - before.pts_us for before, after in itertools.pairwise(packets)} <= {19_999, 20_000, 20_001}
    assert abs(packets[-1].pts_us - packets[0].pts_us - 59 * 20_000) <= 1
    samples = np.concatenate([np.frombuffer(packet.payload, "<i2") for packet in packets])
    assert np.abs(samples).max() > 1000
    expect(card(page, "voice").locator("meter")).to_be_visible()
    expect(card(page, "voice").locator(".input-status")).to_have_attribute("title", f"{rate // 1000} kHz")


def test_camera_and_microphone_have_one_clock(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, camera_track(), microphone_track())
    card(page, "camera").get_by_role("button", name="Turn on the camera").click()
    assert peer.pushed().pts_us == 0
    for _ in range(3):
        newest = peer.pushed()
    card(page, "voice").get_by_role("button", name="Turn on the microphone").click()
    packet = peer.pushed()
    while packet.track != 2:
        newest = packet
        packet = peer.pushed()
    assert packet.pts_us > newest.pts_us - 1_000_000
    assert packet.pts_us > 0


# Delays the encoding of a picture until `encoder.release()`, and counts pictures.
ENCODER = """
    const encode = OffscreenCanvas.prototype.convertToBlob;
    window.encoder = { running: 0, most: 0 };
    encoder.held = new Promise((resolve) => { encoder.release = resolve; });
    OffscreenCanvas.prototype.convertToBlob = async function (options) {
        encoder.running += 1;
        encoder.most = Math.max(encoder.most, encoder.running);
        await encoder.held;
        const blob = await encode.call(this, options);
        encoder.running -= 1;
        return blob;
    };
"""


def test_one_picture_is_encoded_at_a_time_and_pictures_meanwhile_are_skipped(server: FakeServer, page: Page) -> None:
    page.add_init_script(ENCODER)
    peer = begin(page, server, camera_track())
    card(page, "camera").get_by_role("button", name="Turn on the camera").click()
    status = card(page, "camera").locator(".input-status")
    expect(status).to_have_text(re.compile(r", [1-9]\d* left out$"))
    assert peer.media.empty()
    page.evaluate("encoder.release()")
    first, second = peer.pushed(), peer.pushed()
    assert first.seq == 0
    assert second.seq > 1  # the gap says how many were skipped
    assert page.evaluate("encoder.most") == 1


def test_frames_are_skipped_while_the_socket_is_full(server: FakeServer, page: Page) -> None:
    page.add_init_script(
        "window.unsent = 0; Object.defineProperty(WebSocket.prototype, 'bufferedAmount', { get: () => window.unsent });"
    )
    peer = begin(page, server, camera_track(), microphone_track())
    for name in ("camera", "microphone"):
        page.locator("#controls").get_by_role("button", name=f"Turn on the {name}").click()
    seen = {peer.pushed().track for _ in range(20)}
    assert 2 in seen
    page.evaluate("window.unsent = 300 * 1024")  # too much for pictures; sound goes on
    nothing = re.compile(r"sends 0 pictures a second, [1-9]\d* left out$")
    expect(card(page, "camera").locator(".input-status")).to_have_text(nothing)
    while not peer.media.empty():
        peer.pushed()
    tracks = [peer.pushed().track for _ in range(60)]
    assert set(tracks[-20:]) == {2}  # a picture that was encoded before may still be under way
    page.evaluate("window.unsent = 1024 * 1024")
    expect(card(page, "voice").locator(".input-status")).to_have_text(re.compile(r"[1-9]\d* left out$"))
    while not peer.media.empty():
        peer.pushed()
    page.evaluate("window.unsent = 0")
    assert {peer.pushed().track for _ in range(50)} == {1, 2}


def test_an_input_stops_and_continues_its_numbers_after_a_restart(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, camera_track())
    start = page.locator("#controls").get_by_role("button", name="Turn on the camera")
    start.click()
    last = peer.pushed()
    page.get_by_role("button", name="Turn off the camera").click()
    expect(start).to_be_visible()
    assert page.evaluate(ALL_STOPPED)
    expect(card(page, "camera").locator(".live-mark")).to_be_hidden()
    peer.say("reactor.track", video(width=64, height=48))
    while not peer.media.empty():
        last = peer.pushed()
    start.click()
    again = peer.pushed()
    assert again.seq > last.seq
    assert again.pts_us > last.pts_us


def test_an_input_stops_when_the_session_ends(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, camera_track(), microphone_track())
    page.locator("#controls").get_by_role("button", name="Turn on the camera").click()
    page.locator("#controls").get_by_role("button", name="Turn on the microphone").click()
    while peer.pushed().track != 2:
        pass
    expect(page.locator(".live-mark:visible")).to_have_count(2)
    peer.bye("done")
    expect(page.locator('body[data-state="ended"]')).to_be_attached()
    assert page.evaluate("streams.length") == 2
    assert page.evaluate(ALL_STOPPED)
    expect(page.locator(".live-mark:visible")).to_have_count(0)
    expect(page.locator("#controls").get_by_role("button", name="Turn on the camera")).to_be_disabled()


def test_a_permission_that_is_granted_too_late_opens_no_device(server: FakeServer, page: Page) -> None:
    begin(page, server, camera_track())
    page.evaluate("() => { window.answer = new Promise((resolve) => { window.allow = resolve; }); }")
    page.locator("#controls").get_by_role("button", name="Turn on the camera").click()
    page.wait_for_function("() => asked === 1")  # the page loads first what opens devices
    page.get_by_role("button", name="Cancel").click()
    page.evaluate("window.allow()")
    page.wait_for_function("() => streams.length === 1")
    page.wait_for_function(ALL_STOPPED)
    expect(page.locator("#controls").get_by_role("button", name="Turn on the camera")).to_be_visible()
    expect(card(page, "camera").get_by_role("alert")).to_be_hidden()


def test_a_disconnected_device_is_reported(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, camera_track())
    page.locator("#controls").get_by_role("button", name="Turn on the camera").click()
    peer.pushed()
    page.evaluate("streams[0].getTracks()[0].dispatchEvent(new Event('ended'))")
    words = "The camera has ended: it was disconnected, or its use was stopped."
    expect(card(page, "camera").get_by_role("alert")).to_have_text(words)
    expect(page.locator("#controls").get_by_role("button", name="Turn on the camera")).to_be_visible()


def test_a_refused_camera_is_explained(server: FakeServer, page: Page) -> None:
    begin(page, server, camera_track())
    page.evaluate("""() => {
        navigator.mediaDevices.getUserMedia = () => Promise.reject(new DOMException("x", window.reason));
    }""")
    start = page.locator("#controls").get_by_role("button", name="Turn on the camera")
    for name, words in {
        "NotAllowedError": "The browser refused the camera. Allow it in the site settings beside the address",
        "NotFoundError": "No camera was found.",
        "NotReadableError": "The camera could not be opened. Another program may be using it.",
    }.items():
        page.evaluate("name => { window.reason = name; }", name)
        start.click()
        expect(card(page, "camera").get_by_role("alert")).to_contain_text(words)
        expect(start).to_be_enabled()


def test_without_https_the_page_names_the_remedy(server: FakeServer, page: Page) -> None:
    page.goto(server.url.replace("127.0.0.1", "lan.test"))
    server.accept().welcome(tracks=[video(), camera_track(), microphone_track()])
    for device in ("camera", "microphone"):
        page.locator("#controls").get_by_role("button", name=f"Turn on the {device}").click()
        expect(page.get_by_text(f"Browsers give the {device} only to pages of https or of localhost.")).to_be_visible()


def test_a_viewer_has_no_inputs(server: FakeServer, page: Page) -> None:
    page.goto(server.url + "?role=viewer")
    server.accept().welcome(tracks=[video(), camera_track()], role="viewer")
    expect(page.locator('body[data-state="live"]')).to_be_attached()
    assert page.locator("[data-input]").count() == 0
    expect(page.locator("#capture")).to_be_hidden()


def test_the_time_from_capture_to_picture_is_shown(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, camera_track())
    expect(page.locator("#figure-capture")).to_have_text("")
    page.locator("#controls").get_by_role("button", name="Turn on the camera").click()
    for seq in range(3):
        packet = peer.pushed()
        peer.frame(seq, picture(10 * seq, 0, 0), input_pts=packet.pts_us)
    expect(page.locator("#figure-capture")).to_have_text(re.compile(r"^\d+$"))
    expect(page.locator("#figure-capture-p50")).to_have_text(re.compile(r"^\d+$"))
