"""Video on the page: correct pixels from each codec, requests for codecs and keyframes, and bad decoders or connections."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
import simplejpeg
from playwright.sync_api import Page, expect

from tests.browser.test_page import open_page, wait_for_colour
from tests.support.fake_page_server import FakeServer, Peer, command, picture, video
from tests.support.page_promises import promised
from tests.support.page_scripts import NO_WORKER
from tests.support.page_streams import COLOURS, Stream, describe, test_picture
from tests.support.page_windows import named
from tests.support.web_client import bundle

# The size, the number and the colours of the test picture that the page shows, each from the middle of its patch.
READ = """() => {
    const canvas = document.querySelector("canvas[data-track=main_video]");
    if (canvas === null) return {}; // the page has not made it yet
    const { width, height } = canvas;
    const context = canvas.getContext("2d");
    const { data } = context.getImageData(0, 0, width, height);
    const at = (part, row) => {
        const x = Math.floor((part + 0.5) * width / 8), y = Math.floor(height * row);
        return [...data.slice((y * width + x) * 4, (y * width + x) * 4 + 3)];
    };
    const bits = Array.from({ length: 8 }, (_, part) => at(part, 0.75)[1] > 128);
    const number = bits.reduce((sum, bit) => 2 * sum + Number(bit), 0);
    return { width, height, number, colours: Array.from({ length: 8 }, (_, part) => at(part, 0.25)) };
}"""
SHOWS = f"([number, width]) => {{ const read = ({READ})(); return read.number === number && read.width === width; }}"
SIZES = [(640, 480), (1280, 720), (321, 243)]
NUMBERS = [7, 85, 170, 255, 3, 129]


def begin(page: Page, server: FakeServer, query: str = "", **track: Any) -> Peer:
    peer = open_page(page, server, query)
    peer.welcome(tracks=[video(**track)])
    return peer


def shows(page: Page, number: int, width: int) -> None:
    page.wait_for_function(SHOWS, arg=[number, width])


def wrong(page: Page) -> int:
    """The largest error of the colours that the page shows."""
    return int(np.abs(np.array(page.evaluate(READ)["colours"]) - np.array(COLOURS)).max())


def dealt(peer: Peer) -> int:
    """The frame in the page's next feedback."""
    return int(peer.feedback.get(timeout=120)["data"]["seq"])


def payload(codec: str, stream: Stream | None, number: int, size: tuple[int, int]) -> tuple[bytes, bool]:
    if stream is not None:
        return stream.encode(number)
    image = test_picture(number, *size)
    return (image.tobytes() if codec == "raw" else simplejpeg.encode_jpeg(image, quality=95, colorsubsampling="444")), True


# Right pixels


@pytest.mark.parametrize("codec", ["h264", "vp8", "vp9", "av1", "lossless", "jpeg", "raw"])
def test_numbered_pictures_have_their_colours(server: FakeServer, page: Page, codec: str) -> None:
    still = codec in ("jpeg", "raw")
    peer = open_page(page, server, f"?video={codec}")
    for width, height in SIZES:
        with named(f"{width}×{height}"):
            track = {"codec": codec, "width": width, "height": height} if still else describe(codec, width, height)
            peer.welcome(tracks=[video(**track)])
            stream = None if still else Stream(codec, width, height)
            for seq, number in enumerate(NUMBERS):
                data, key = payload(codec, stream, number, (width, height))
                peer.packet(seq, data, key=key)
                shows(page, number, width)
                assert dealt(peer) == seq
                assert wrong(page) <= {"raw": 0, "lossless": 1, "jpeg": 4}.get(codec, 6)
            assert page.evaluate(READ)["height"] == height
            assert peer.silent()
            expect(page.locator("#figure-drops")).to_have_text("0")
            expect(page.locator("#figure-format")).to_have_text(f"{width}×{height} {codec}")
        peer.bye("done")
        page.get_by_role("button", name="Reconnect now").click()
        peer = server.accept()


def test_without_a_worker_the_page_does_the_same(server: FakeServer, page: Page) -> None:
    page.add_init_script(NO_WORKER)
    peer = begin(page, server, **describe("h264", 320, 240))
    for number, data, key in Stream("h264", 320, 240).packets(5):
        peer.packet(number, data, key=key)
        shows(page, number, 320)
        assert dealt(peer) == number
    assert wrong(page) <= 6
    assert page.evaluate("() => document.querySelector('canvas').transferControlToOffscreen") is None


def test_with_a_worker_the_page_does_not_decode(server: FakeServer, page: Page) -> None:
    page.add_init_script("delete window.VideoDecoder.prototype.decode; delete window.createImageBitmap;")
    peer = begin(page, server, **describe("vp8", 320, 240))
    for number, data, key in Stream("vp8", 320, 240).packets(3):
        peer.packet(number, data, key=key)
        shows(page, number, 320)


def test_size_and_codec_change_in_mid_stream(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, **describe("h264", 320, 240))
    seq = 0
    large, small = (320, 240), (160, 120)
    for codec, size in [("h264", large), ("h264", small), ("vp8", large), ("jpeg", small), ("av1", large)]:
        still = codec == "jpeg"
        track = {"codec": codec, "width": size[0], "height": size[1]} if still else describe(codec, *size)
        peer.say("reactor.track", video(**track))
        stream = None if still else Stream(codec, *size)
        for _ in range(3):  # without waiting: one is in the decoder when the next description comes
            data, key = payload(codec, stream, seq, size)
            peer.packet(seq, data, key=key)
            seq += 1
        shows(page, seq - 1, size[0])
        assert wrong(page) <= 8
    assert peer.silent()
    expect(page.locator("#log-count")).to_have_text("0")


def test_a_keyframe_may_come_at_any_time(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, **describe("vp9", 320, 240))
    stream = Stream("vp9", 320, 240)
    for seq, force in enumerate([False, False, True, False, True]):
        data, key = stream.encode(seq, force)
        assert key == (seq == 0 or force)
        peer.packet(seq, data, key=key)
        shows(page, seq, 320)


def test_the_next_session_draws_on_the_same_canvas(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, **describe("h264", 320, 240))
    peer.packet(0, Stream("h264", 320, 240).encode(7)[0])
    shows(page, 7, 320)
    peer.bye("done")
    page.get_by_role("button", name="Reconnect now").click()
    peer = server.accept()
    peer.welcome(tracks=[video(**describe("h264", 160, 120))])
    peer.packet(0, Stream("h264", 160, 120).encode(9)[0])
    shows(page, 9, 160)
    expect(page.locator("canvas")).to_have_count(1)


# What the page requests


def test_without_webcodecs_the_page_requests_jpeg(server: FakeServer, page: Page) -> None:
    page.goto(server.url.replace("127.0.0.1", "lan.test"))
    assert not page.evaluate("isSecureContext")
    peer = server.accept()
    assert peer.path == "/ws?video=jpeg&audio=pcm_s16le&feedback=1&follow=1"
    peer.welcome(tracks=[video()])
    peer.frame(0, picture(200, 30, 60))
    wait_for_colour(page, (200, 30, 60))
    assert dealt(peer) == 0


def test_for_an_unknown_codec_the_page_requests_jpeg(server: FakeServer, page: Page, troubles: list[str]) -> None:
    page.goto(server.url.replace("127.0.0.1", "lan.test"))
    peer = server.accept()
    peer.welcome(tracks=[video(**describe("h264", 320, 240))])
    peer.packet(0, Stream("h264", 320, 240).encode(0)[0])
    assert peer.asked_for("reactor.video") == {"video": ["jpeg"]}
    assert dealt(peer) == 0
    peer.say("reactor.track", video())
    peer.frame(1, picture(200, 30, 60))
    wait_for_colour(page, (200, 30, 60))
    expect(page.locator("#figure-steps")).to_have_text("1")


# Missing keyframes and bad decoders


def test_without_a_keyframe_the_page_requests_one(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, **describe("h264", 320, 240))
    stream = Stream("h264", 320, 240)
    packets = [stream.encode(number) for number in range(4)]
    for seq in (1, 2, 3):
        peer.packet(seq, packets[seq][0], key=False)
        assert dealt(peer) == seq  # left out: there is nothing to wait for
    assert peer.asked_for("reactor.keyframe") == {"track": 0}
    assert peer.asked_for("reactor.keyframe") == {"track": 0}  # the floor later: still none
    data, key = stream.encode(4, key=True)
    peer.packet(4, data, key=key)
    shows(page, 4, 320)
    expect(page.locator("#figure-skipped")).to_have_text("3")
    assert peer.silent()


# A VideoDecoder that records its calls, and outputs or fails as the test says: `decoders`, newest last.
STUB = NO_WORKER + """
window.decoders = [];
const Real = window.VideoDecoder;
window.VideoDecoder = class {
    static isConfigSupported(config) { return Real.isConfigSupported(config); }
    constructor({ output, error }) {
        Object.assign(this, { output, error, state: "unconfigured", chunks: [], most: 0 });
        decoders.push(this);
    }
    configure(config) {
        this.config = config;
        this.state = "configured";
        if (window.broken) setTimeout(() => this.fail(), 5);
    }
    decode(chunk) {
        this.chunks.push(chunk);
        this.most = Math.max(this.most, this.chunks.length);
        if (window.gives) setTimeout(() => this.give(), 1);
    }
    give(red = 200) {
        const { timestamp } = this.chunks.shift();
        const data = new Uint8Array(64 * 48 * 4).map((_, i) => (i % 4 === 0 ? red : 255 * (i % 4 === 3)));
        this.output(new VideoFrame(data, { format: "RGBA", codedWidth: 64, codedHeight: 48, timestamp }));
    }
    fail() {
        if (this.state === "closed") return;
        this.state = "closed";
        this.error(new DOMException("it is broken", "EncodingError"));
    }
    close() { this.state = "closed"; }
};
"""
SETTINGS = "() => decoders.map(({ config }) => [config.codec, config.hardwareAcceleration])"


def send(peer: Peer, codec: str, first: int, count: int) -> None:
    """Describe the stream and send frames of it; the stub ignores their content."""
    peer.say("reactor.track", video(**describe(codec, 64, 48)))
    for seq in range(first, first + count):
        peer.packet(seq, b"frame", key=seq == first)


def test_after_a_stalled_decoder_the_page_falls_back_step_by_step(server: FakeServer, page: Page) -> None:
    page.add_init_script(STUB)
    peer = begin(page, server, codec="h264")
    send(peer, "h264", 0, 8)
    assert peer.asked_for("reactor.keyframe") == {"track": 0}
    for seq in range(10, 20):
        peer.packet(seq, b"frame", key=seq == 10)
    assert peer.asked_for("reactor.video") == {"video": ["vp8", "jpeg"]}
    send(peer, "vp8", 20, 10)
    assert peer.asked_for("reactor.video") == {"video": ["jpeg"]}
    assert page.evaluate(SETTINGS) == [
        ["avc1.42E01F", "no-preference"], ["avc1.42E01F", "prefer-software"], ["vp8", "prefer-software"],
    ]  # fmt: skip
    assert page.evaluate("decoders.map(({ most }) => most)") == [8, 8, 8]
    peer.say("reactor.track", video())
    peer.frame(30, picture(200, 30, 60))
    wait_for_colour(page, (200, 30, 60))
    expect(page.locator("#figure-steps")).to_have_text("3")
    expect(page.locator("#notes")).to_be_hidden()
    expect(page.locator("#log-list")).to_contain_text("vp8: 8 frames went in and none came out. The page asks for jpeg now.")
    expect(page.locator("#log-count")).to_have_text("3")
    # The next session begins with the decoder that works.
    peer.bye("done")
    page.get_by_role("button", name="Reconnect now").click()
    assert server.accept().path == "/ws?video=jpeg&audio=opus%2Cpcm_s16le&feedback=1&follow=1"


def test_a_decoder_that_never_outputs_a_single_frame_is_abandoned_too(server: FakeServer, page: Page) -> None:
    page.add_init_script(STUB)
    peer = begin(page, server, codec="h264")
    send(peer, "h264", 0, 1)
    assert peer.asked_for("reactor.keyframe") == {"track": 0}
    expect(page.locator("#log-list")).to_contain_text("The video is decoded in software now.")


def test_a_decoder_that_fails_has_one_more_chance(server: FakeServer, page: Page) -> None:
    page.add_init_script(STUB + "window.gives = true;")
    peer = begin(page, server, codec="h264")
    send(peer, "h264", 0, 2)
    wait_for_colour(page, (200, 0, 0))
    page.evaluate("decoders.at(-1).fail()")
    assert peer.asked_for("reactor.keyframe") == {"track": 0}
    peer.packet(2, b"frame", key=False)
    peer.packet(3, b"frame")
    while dealt(peer) != 3:
        pass
    assert page.evaluate(SETTINGS) == [["avc1.42E01F", "no-preference"]] * 2
    expect(page.locator("#figure-steps")).to_have_text("0")
    page.evaluate("decoders.at(-1).fail()")
    assert peer.asked_for("reactor.keyframe") == {"track": 0}
    peer.packet(4, b"frame")
    while dealt(peer) != 4:
        pass
    assert page.evaluate(SETTINGS)[-1] == ["avc1.42E01F", "prefer-software"]
    expect(page.locator("#log-list")).to_contain_text("The video is decoded in software now.")


def test_after_a_failing_decoder_the_page_falls_back_step_by_step(server: FakeServer, page: Page) -> None:
    page.add_init_script(STUB + "window.broken = true;")
    peer = begin(page, server, codec="av1")
    seen = []
    codec, seq = "av1", 0
    while codec != "jpeg":
        send(peer, codec, seq, 1)
        seq += 1
        message = peer.next()
        while message["type"] == "reactor.keyframe" and peer.silent():
            break
        seen.append((message["type"], message["data"]))
        if message["type"] == "reactor.video":
            codec = message["data"]["video"][0]
    kinds = [data["video"] for kind, data in seen if kind == "reactor.video"]
    assert kinds == [["vp8", "jpeg"], ["jpeg"]]
    tried = [tuple(each) for each in page.evaluate(SETTINGS)]
    assert list(dict.fromkeys(tried)) == [
        ("av01.0.05M.08", "no-preference"), ("av01.0.05M.08", "prefer-software"), ("vp8", "prefer-software"),
    ]  # fmt: skip
    assert [tried.count(each) for each in dict.fromkeys(tried)] == [2, 2, 2]
    expect(page.locator("#figure-steps")).to_have_text("3")


def test_three_frames_are_in_the_decoder_and_a_late_one_asks_for_a_keyframe(server: FakeServer, page: Page) -> None:
    page.add_init_script(STUB)
    peer = begin(page, server, "?lead=off", codec="h264")
    send(peer, "h264", 0, 1)
    page.wait_for_function("() => decoders.at(-1)?.chunks.length === 1")
    page.evaluate("decoders.at(-1).give()")
    assert dealt(peer) == 0
    page.evaluate("decoders.at(-1).most = 0")
    for seq in range(1, 7):
        peer.packet(seq, b"frame", key=False)
    page.wait_for_function("() => decoders.at(-1).most === 3")
    page.wait_for_timeout(200)  # longer than they may wait: no event tells it
    page.evaluate("decoders.at(-1).give()")
    assert dealt(peer) == 1
    assert peer.asked_for("reactor.keyframe") == {"track": 0}
    page.evaluate("decoders.at(-1).give(), decoders.at(-1).give()")
    assert [dealt(peer), dealt(peer)] == [2, 6]  # 4 to 6 were left out
    assert page.evaluate("decoders.at(-1).most") == 3
    peer.packet(7, b"frame", key=False)
    peer.packet(8, b"frame")
    assert dealt(peer) == 7
    page.wait_for_function("() => decoders.at(-1).chunks.length === 1")
    page.evaluate("decoders.at(-1).give(90)")
    wait_for_colour(page, (90, 0, 0))
    expect(page.locator("#figure-skipped")).to_have_text("4")


# When the page draws


def paint_times(page: Page) -> None:
    """Record each drawing as [time, red in the middle]. The page has no worker, so that a script on the page can do this."""
    page.add_init_script(NO_WORKER + """
        window.painted = [];
        const draw = CanvasRenderingContext2D.prototype.drawImage;
        CanvasRenderingContext2D.prototype.drawImage = function (...what) {
            draw.apply(this, what);
            // The glow around the picture is read from a canvas that is not in the page.
            if (this.canvas.isConnected) painted.push([performance.now(), this.getImageData(1, 1, 1, 1).data[0]]);
        };
    """)  # fmt: skip


def test_a_picture_of_a_newer_command_overtakes_waiting_pictures(server: FakeServer, page: Page) -> None:
    paint_times(page)
    peer = open_page(page, server)
    peer.welcome(command("go"), tracks=[video()])
    uneven(peer, page)
    page.evaluate("painted.length = 0")
    # 20 and 21 are early by their presentation times and wait for the playout delay; 22 has a newer command. The clock
    # stands still; otherwise the wait could end before 22 arrives.
    page.evaluate("stopped = performance.now(), performance.now = () => stopped")
    at = 1_000_000 + 20 * 33_333
    for seq, red, made_with in ((20, 40, 1), (21, 80, 1), (22, 120, 2)):
        image = simplejpeg.encode_jpeg(picture(red, 0, 0), quality=95, colorsubsampling="444")
        peer.packet(seq, image, pts_us=at + seq * 33_333, command=made_with)
    wait_for_colour(page, (120, 0, 0))
    reds = [red for _, red in page.evaluate("painted")]
    assert len(reds) == 1
    assert abs(reds[0] - 120) < 4


def uneven(peer: Peer, page: Page) -> None:
    """Send pictures of which some are 50 ms late by their presentation times, so that the playout delay grows."""
    for seq in range(20):
        image = simplejpeg.encode_jpeg(picture(10 * seq, 0, 0), quality=95, colorsubsampling="444")
        late = 0 if seq % 2 else 50_000
        peer.packet(seq, image, pts_us=seq * 33_333 + 1_000_000 - late, command=1)
        while dealt(peer) != seq:
            pass
    wait_for_colour(page, (190, 0, 0))


def test_the_lead_can_be_turned_off_and_stays_off(server: FakeServer, page: Page) -> None:
    peer = begin(page, server, "?lead=off")
    peer.frame(0, picture(200, 30, 60))
    expect(page.locator("#figure-lead")).to_have_text("off")
    expect(page.locator("#lead-toggle")).not_to_be_checked()
    peer = begin(page, server)  # the address is for once
    peer.frame(0, picture(200, 30, 60))
    expect(page.locator("#figure-lead")).to_have_text(re.compile(r"^\d+ ms$"))
    page.locator("#stats summary").first.click()
    page.locator("#more-figures > summary").click()
    page.locator("#lead-toggle").uncheck()
    peer.frame(1, picture(100, 30, 60))
    expect(page.locator("#figure-lead")).to_have_text("off")
    peer = begin(page, server)
    peer.frame(0, picture(200, 30, 60))
    expect(page.locator("#figure-lead")).to_have_text("off")


# Parts of the page by themselves


@pytest.fixture(scope="session")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with modules that are inside the page's built files, each as a file of its own."""
    folder = tmp_path_factory.mktemp("modules")
    bundle(folder, "src/media/picture.ts", "src/sound/opus-decoder.ts")
    return folder


USE = """async (frames) => {
    const { Picture, startWorker } = await import("/page/picture.js");
    await startWorker((message) => console.error(message));
    const canvas = document.createElement("canvas");
    document.body.append(canvas);
    let shown = null;
    const next = () => new Promise((resolve) => { shown = resolve; });
    const track = { codec: "jpeg", width: 64, height: 48 };
    const picture = new Picture(canvas, track, { shown: (frame) => shown(frame.seq), dealt() {} });
    const film = document.createElement("video");
    film.muted = true;
    film.srcObject = canvas.captureStream();
    const show = async (seq) => {
        const drawn = next();
        const payload = Uint8Array.from(atob(frames[seq]), (c) => c.charCodeAt(0));
        picture.show({ seq, ptsUs: seq * 33333, flags: 1, command: null, payload });
        await drawn;
    };
    await show(0);
    const playing = film.play();
    await show(1);
    await playing;
    const blob = await picture.snapshot();
    const bitmap = await createImageBitmap(blob);
    const context = new OffscreenCanvas(64, 48).getContext("2d");
    context.drawImage(bitmap, 0, 0);
    return { type: blob.type, size: [bitmap.width, bitmap.height], pixel: [...context.getImageData(32, 24, 1, 1).data],
             film: [film.videoWidth, film.videoHeight], worker: canvas.getContext.name !== "" };
}"""


@pytest.mark.parametrize("worker", [True, False])
def test_a_picture_can_be_saved_and_recorded(server: FakeServer, page: Page, modules: Path, worker: bool) -> None:
    if not worker:
        page.add_init_script(NO_WORKER)
    server.modules = modules
    begin(page, server)
    frames = [simplejpeg.encode_jpeg(picture(red, 30, 60), quality=95, colorsubsampling="444") for red in (90, 200)]
    used = promised(page, USE, [base64.b64encode(frame).decode() for frame in frames])
    assert len(page.workers) == (2 if worker else 0)  # this picture's, and the page's own
    assert used["type"] == "image/png"
    assert used["size"] == [64, 48]
    assert used["film"] == [64, 48]
    assert np.abs(np.array(used["pixel"][:3]) - (200, 30, 60)).max() <= 4


# Sound


DECODE_OPUS = """async ([packets, sizes]) => {
    const { OpusDecoder } = await import("/page/opus-decoder.js");
    const blocks = [];
    const opus = new OpusDecoder({ codec_string: "opus", sample_rate: 48000 }, (pts, rate, samples) => {
        let crossings = 0;
        for (let i = 1; i < samples.length; i++) crossings += samples[i - 1] < 0 && samples[i] >= 0;
        blocks.push({ pts, rate, length: samples.length, crossings, loudest: samples.reduce((a, b) => Math.max(a, b), 0) });
    }, ({ message }) => blocks.push(message));
    // Blocks of 33 ms, as a model at 30 frames a second makes them; then a pause of the model, which is a gap in time.
    let at = 0, index = 0;
    for (const [count, ptsUs] of [[1, 0], [2, 20000], [0, 60000], [2, 1060000], [1, 1100000]]) {
        const part = packets.slice(index, index + count).map((text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)));
        const payload = new Uint8Array(part.reduce((sum, { length }) => sum + length, 0));
        part.reduce((place, bytes) => (payload.set(bytes, place), place + bytes.length), 0);
        opus.decode({ ptsUs, meta: { sizes: sizes.slice(index, index + count) }, payload });
        index += count;
    }
    while (blocks.length < packets.length) await new Promise((resolve) => setTimeout(resolve, 5));
    opus.close();
    let refused = null;
    try {
        new OpusDecoder({}, () => {}, () => {}).decode({ ptsUs: 0, meta: { sizes: [5] }, payload: new Uint8Array(4) });
    } catch (error) {
        refused = error.message;
    }
    return { blocks, refused };
}"""


def opus_packets(count: int) -> list[bytes]:
    """A tone of 500 Hz, half as loud as can be, in packets of 20 ms."""
    context = av.CodecContext.create("libopus", "w")
    assert isinstance(context, av.AudioCodecContext)
    context.sample_rate, context.layout, context.format = 48_000, "mono", "s16"
    context.options = {"application": "lowdelay", "frame_duration": "20"}
    packets: list[bytes] = []
    for place in range(count + 2):
        times = (np.arange(960) + 960 * place) / 48_000
        samples = (np.sin(times * 2 * np.pi * 500) * 16384).astype(np.int16)
        frame = av.AudioFrame.from_ndarray(samples[None], "s16", "mono")
        frame.sample_rate, frame.pts = 48_000, 960 * place
        packets += [bytes(packet) for packet in context.encode(frame)]
    return packets[:count]


def test_opus_packets_become_samples_at_their_times(server: FakeServer, page: Page, modules: Path) -> None:
    server.modules = modules
    begin(page, server)
    packets = opus_packets(6)
    sent = [base64.b64encode(packet).decode() for packet in packets]
    told = promised(page, DECODE_OPUS, [sent, [len(packet) for packet in packets]])
    blocks = told["blocks"]
    assert [block["pts"] for block in blocks] == pytest.approx([0, 0.02, 0.04, 1.06, 1.08, 1.1])
    assert {(block["rate"], block["length"]) for block in blocks} == {(48_000, 960)}
    for block in blocks[1:]:
        assert abs(block["crossings"] - 10) <= 1
        assert 0.4 < block["loudest"] < 0.6
    assert told["refused"] == "the lengths of its packets do not add up to it"
