"""The button that saves the last ten seconds, against scripted servers and a real one."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import numpy as np
import pytest
from playwright.sync_api import Page, expect

from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media.codec_settings import CodecSettings
from reactor_trio.media.codecs import open_encoder
from tests.support.colour_chart import SIZES, chart, furthest, means
from tests.support.fake_page_server import FakeServer, Peer, picture, video
from tests.support.page_promises import promised
from tests.support.real_server import real_server

av = pytest.importorskip("av", reason="what the page saved is read with PyAV: reactor-trio[video]")

#: 4 red levels for each picture, from the moment on in which it is allowed to begin
MODEL = """
import numpy as np
from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, Video

class Picture(Output):
    main_video: Video

class Settings(InputState):
    fade: bool = InputField(default=False)

class Fading(ReactorPipeline):
    state: Settings
    output: Picture
    fps = 30

    def inference(self):
        level = 0
        while True:
            yield Picture(main_video=np.full((96, 128, 3), (level, 0, 128), np.uint8))
            if self.state.fade:
                level = min(level + 4, 255)
"""
RED_IS_OVER = """(level) => {
    const copy = new OffscreenCanvas(8, 8).getContext("2d");
    copy.drawImage(document.querySelector("#hero canvas"), 0, 0, 8, 8);
    return copy.getImageData(4, 4, 1, 1).data[0] > level;
}"""

#: a picture as PNG
PIXELS = """const pixels = async (image, width, height) => {
    const copy = new OffscreenCanvas(width, height);
    copy.getContext("2d", { alpha: false }).drawImage(image, 0, 0);
    const bytes = new Uint8Array(await (await copy.convertToBlob()).arrayBuffer());
    return bytes.toBase64();
};"""
SHOWN = f"""async () => {{
    {PIXELS}
    const canvas = document.querySelector("#hero canvas");
    return pixels(canvas, canvas.width, canvas.height);
}}"""
#: what the browser's H.264 encoder makes of the shown picture, without anything of ours
BARE = """async () => {
    const canvas = document.querySelector("#hero canvas");
    const { width, height } = canvas;
    let made;
    const output = (chunk) => chunk.copyTo((made = new Uint8Array(chunk.byteLength)));
    const encoder = new VideoEncoder({ output, error: reportError });
    encoder.configure({ codec: "avc1.640034", width, height, bitrate: width * height * 6, avc: { format: "annexb" } });
    const frame = new VideoFrame(canvas, { timestamp: 0 });
    encoder.encode(frame, { keyFrame: true });
    frame.close();
    await encoder.flush();
    encoder.close();
    return made.toBase64();
}"""
PLAYED = f"""async (film) => {{
    {PIXELS}
    const video = Object.assign(document.createElement("video"), {{ muted: true }});
    video.src = URL.createObjectURL(new Blob([Uint8Array.fromBase64(film)], {{ type: "video/mp4" }}));
    await new Promise((resolve, reject) => Object.assign(video, {{ onloadeddata: resolve, onerror: reject }}));
    await new Promise((resolve) => Object.assign(video, {{ onseeked: resolve, currentTime: 0.01 }}));
    return pixels(video, video.videoWidth, video.videoHeight);
}}"""


class Clip(NamedTuple):
    """Of each picture the time in seconds and the mean colour."""

    times: list[float]
    colours: np.ndarray
    size: tuple[int, int]


def save_clip(page: Page, folder: Path) -> Clip:
    page.locator("#hero").hover()
    with page.expect_download() as download:
        page.locator("#clip").click()
    assert re.fullmatch(r"[\w.-]+-\d{8}-\d{6}\.mp4", download.value.suggested_filename)
    path = folder / "clip.mp4"
    download.value.save_as(path)
    expect(page.locator("#clip")).to_be_enabled()
    with av.open(path) as file:
        frames = list(file.decode(video=0))
    colours = np.array([frame.to_ndarray(format="rgb24").mean((0, 1)) for frame in frames])
    return Clip([frame.time for frame in frames], colours, (frames[0].width, frames[0].height))


def begin(page: Page, server: FakeServer, *tracks: dict[str, object]) -> Peer:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(tracks=list(tracks) or [video()])
    return peer


def play(page: Page, peer: Peer, count: int, size: tuple[int, int] = (64, 48)) -> None:
    """Show `count` pictures, a thirtieth of a second each; red tells the second, blue is in the last one only."""
    for seq in range(count):
        peer.frame(seq, picture(seq // 30 * 15, 0, 250 if seq == count - 1 else 0, *size))
    page.wait_for_function("() => document.querySelector('#hero canvas').width > 0")
    page.wait_for_function(
        """() => {
            const copy = new OffscreenCanvas(8, 8).getContext("2d");
            copy.drawImage(document.querySelector("#hero canvas"), 0, 0, 8, 8);
            return copy.getImageData(4, 4, 1, 1).data[2] > 200;
        }"""
    )


def test_it_has_the_last_ten_seconds_and_nothing_before(server: FakeServer, page: Page, tmp_path: Path) -> None:
    peer = begin(page, server)
    expect(page.locator("#clip")).to_be_disabled()
    play(page, peer, 450)
    clip = save_clip(page, tmp_path)
    assert (len(clip.times), clip.times[0]) == (301, 0)  # ten seconds have both ends
    np.testing.assert_allclose(np.diff(clip.times), 1 / 30, atol=0.001)
    expected = [seq // 30 * 15 for seq in range(149, 450)]
    np.testing.assert_allclose(clip.colours[:-1, 0], expected[:-1], atol=16)
    assert clip.colours[-1, 2] > 200


def test_a_short_session_is_saved_whole_and_an_odd_size_made_even(server: FakeServer, page: Page, tmp_path: Path) -> None:
    play(page, begin(page, server), 20, (65, 47))
    clip = save_clip(page, tmp_path)
    assert (len(clip.times), clip.size) == (20, (64, 46))
    expect(page.locator("#hero .toast")).to_have_text(re.compile("^Saved: "))  # one message at a time


def test_a_slow_link_that_changes_size_and_codec_takes_nothing_away(server: FakeServer, page: Page, tmp_path: Path) -> None:
    peer = begin(page, server)
    for seq in range(5):
        peer.frame(seq, picture(0, 0, 250))
    peer.say("reactor.track", video(codec="raw", width=32, height=24, pixel_format="rgb24"))
    for seq in range(5, 10):
        peer.frame(seq, picture(250, 0, 0, 32, 24), raw=True)
    page.wait_for_function(RED_IS_OVER, arg=200)
    clip = save_clip(page, tmp_path)
    assert (len(clip.times), clip.size) == (10, (64, 48))
    assert np.all(clip.colours[:4, 2] > 200)
    assert np.all(clip.colours[6:, 0] > 200)  # all of the picture


def first_picture(data: bytes) -> np.ndarray:
    """The means of the chart's patches in the first picture of a film or an image."""
    with av.open(io.BytesIO(data)) as file:
        return means(next(file.decode(video=0)).to_ndarray(format="rgb24"))


def test_it_has_the_colours_that_were_shown(server: FakeServer, page: Page, tmp_path: Path) -> None:
    """A real H.264 stream. In Chromium and in FFmpeg the clip differs by at most 3 levels, or by what the encoder loses.

    Chromium's software encoder keeps a flat patch to 4 levels only, at any bitrate: it does not quantise finer.
    """
    page.goto(server.url)
    peer = server.accept()
    player = page.context.new_page()  # the page's policy allows no film
    seq = 0
    for width, height in SIZES:
        spec = TrackSpec("main_video", "video", "out")
        encoder = open_encoder(spec, "h264", CodecSettings())
        packets = [encoder.encode(chart(width, height)) for _ in range(3)]
        track = json.loads(msgspec.json.encode(encoder.describe(0, spec, (width, height))))
        if seq == 0:
            peer.welcome(tracks=[track])
        else:
            peer.say("reactor.track", track)
        for packet in packets:
            peer.packet(seq, bytes(packet.payload), key=packet.keyframe)
            seq += 1
        seq += 400  # more than the ten seconds of a clip
        page.wait_for_function("(width) => document.querySelector('#hero canvas')?.width === width", arg=width)
        shown, bare = (first_picture(base64.b64decode(promised(page, what))) for what in (SHOWN, BARE))
        assert save_clip(page, tmp_path).size == (width, height)
        film = (tmp_path / "clip.mp4").read_bytes()
        played = first_picture(base64.b64decode(promised(player, PLAYED, base64.b64encode(film).decode())))
        in_chromium, in_ffmpeg, by_encoder = (furthest(seen, shown) for seen in (played, first_picture(film), bare))
        print(width, height, in_chromium, in_ffmpeg, by_encoder)  # shown if it fails
        assert max(in_chromium, in_ffmpeg) <= max(3, by_encoder) <= 4


def test_it_is_there_after_the_session(server: FakeServer, page: Page, tmp_path: Path) -> None:
    peer = begin(page, server)
    play(page, peer, 30)
    peer.bye("done")
    expect(page.locator('body[data-state="ended"]')).to_be_attached()
    assert len(save_clip(page, tmp_path).times) == 30


def test_it_is_of_the_large_picture(server: FakeServer, page: Page, tmp_path: Path) -> None:
    peer = begin(page, server, video(), video(1, "depth"))
    for seq in range(10):
        peer.frame(seq, picture(250, 0, 0))
        peer.frame(seq, picture(0, 0, 250), track=1)
    page.locator("#others .enlarge").click()
    expect(page.locator('#hero canvas[data-track="depth"]')).to_be_visible()
    expect(page.locator("#clip")).to_be_enabled()
    assert save_clip(page, tmp_path).colours[0, 2] > 200


def test_a_browser_that_cannot_encode_says_so(server: FakeServer, page: Page) -> None:
    page.add_init_script("VideoEncoder.isConfigSupported = async (config) => ({ supported: false, config })")
    play(page, begin(page, server), 3)
    page.locator("#hero").hover()
    page.locator("#clip").click()
    expect(page.locator("#hero .toast").last).to_have_text("last ten seconds: this browser cannot make an MP4")
    expect(page.locator("#clip")).to_be_enabled()


def test_a_browser_without_webcodecs_and_a_model_without_pictures_have_no_button(server: FakeServer, page: Page) -> None:
    begin(page, server, video(1, "main_audio", "pcm_s16le", kind="audio", sample_rate=48_000))
    expect(page.locator("#notes")).to_be_visible()
    expect(page.locator("#clip")).to_be_hidden()
    page.add_init_script("delete globalThis.VideoEncoder")
    play(page, begin(page, server), 3)
    expect(page.locator("#snapshot")).to_be_enabled()
    expect(page.locator("#clip")).to_be_hidden()


@pytest.fixture(scope="module")
def fading(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    project = tmp_path_factory.mktemp("fading")
    (project / "fading.py").write_text(MODEL)
    (project / "reactor.yaml").write_text("model: fading:Fading\n")
    with real_server(project) as url:
        yield url


@pytest.mark.parametrize("codec", ["h264", "vp8", "raw"])
def test_of_a_real_stream(fading: str, page: Page, tmp_path: Path, codec: str) -> None:
    """The server sends a stream's keyframe once, so the pictures are decoded from the session's beginning."""
    page.goto(f"{fading}?video={codec}")
    expect(page.locator("#clip")).to_be_enabled()  # the first picture is there, however long that took
    page.get_by_label("Fade", exact=True).check()
    page.wait_for_function(RED_IS_OVER, arg=200)
    clip = save_clip(page, tmp_path)
    red = clip.colours[:, 0]
    print(red.round(), np.round(clip.times, 2), clip.size)  # shown if one of these fails
    # A server that takes the link for a slow one gives VP8 few bits: its keyframes are then wrong by up to 18.
    assert red[0] < 30
    assert red[-1] > 170
    assert np.all(np.diff(red) > -30)
    assert np.all(np.diff(clip.times) > 0)
