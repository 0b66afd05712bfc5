"""Video from a real server in a real browser: correct pixels from every codec, and changes in mid-stream.

The model shows the numbered test picture. What the page has on its canvas is read as a whole at a time: the number, and by
how much a colour or a bit is wrong. Nothing here waits for longer than a condition takes, or expects a rate.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.page_scripts import NO_WORKER, READ_BACK
from tests.support.page_streams import COLOURS
from tests.support.real_server import real_server

HERE = Path(__file__).parent
EXAMPLES = HERE.parents[1] / "examples"

# A second: they come round after 17 s.
NUMBERS = 15
PATIENCE = 120.0

MODEL = f"""
from itertools import count

from tests.support.page_streams import test_picture

from reactor_trio.interface import InputField, InputState, Output, ReactorPipeline, Video


class Picture(Output):
    main_video: Video


class Settings(InputState):
    half: bool = InputField(default=False)
    first: int = InputField(default=0, ge=0, le=255)


class Numbered(ReactorPipeline):
    state: Settings
    fps = FPS

    def load(self, config):
        self.size = config["width"], config["height"]

    def inference(self):
        for index in count():
            width, height = (side // 2 if self.state.half else side for side in self.size)
            yield Picture(main_video=test_picture(index * {NUMBERS} // FPS % 256, width, height))
"""

# By how much a value of a colour may be wrong. Rate control makes some pictures coarse; a wrong matrix is 40 beside.
TOLERANCE = {"raw": 0, "lossless": 1, "jpeg": 8}
USUAL = 28

# Watches the canvas until it has shown `count` numbers, and one of them in the size asked for, and gives what it read, each
# as {number, wrong, unclear}. One pixel for each patch is enough: the middle of it. Where the machine is slow the server
# steps down, so smaller pictures of the same shape count, too; what is larger belongs to what was before.
WATCH = """async ([count, size, colours, patience]) => {
    const strip = Object.assign(document.createElement("canvas"), { width: 16, height: 1 });
    const context = strip.getContext("2d", { alpha: false, willReadFrequently: true });
    context.imageSmoothingEnabled = false;
    const read = (canvas) => {
        const { width, height } = canvas;
        for (let i = 0; i < 16; i++) {
            const x = Math.floor((i % 8 + 0.5) * width / 8), y = Math.floor(height * (i < 8 ? 0.25 : 0.75));
            context.drawImage(canvas, x, y, 1, 1, i, 0, 1, 1);
        }
        const { data } = context.getImageData(0, 0, 16, 1);
        if (data.every((value, i) => value === 0 || i % 4 === 3)) return null; // nothing yet
        let number = 0, wrong = 0, unclear = 0;
        for (let i = 0; i < 16; i++) for (let c = 0; c < 3; c++) {
            const value = data[4 * i + c];
            if (i < 8) wrong = Math.max(wrong, Math.abs(value - colours[i][c]));
            else unclear = Math.max(unclear, Math.min(value, 255 - value));
            if (i >= 8 && c === 0) number = 2 * number + Number(value > 128);
        }
        return { number, wrong, unclear };
    };
    const seen = [];
    let whole = false;
    const until = performance.now() + 1000 * patience;
    while (seen.length < count || !whole) {
        await new Promise(requestAnimationFrame);
        if (performance.now() > until) throw new Error(`shown in ${patience} s: ${JSON.stringify(seen)}`);
        const canvas = document.querySelector("canvas[data-track=main_video]");
        if (!canvas || canvas.width > size[0] || Math.abs(canvas.width / canvas.height - size[0] / size[1]) > 0.02) continue;
        const shown = read(canvas);
        if (shown === null) continue;
        whole ||= canvas.width === size[0] && canvas.height === size[1];
        if (shown.number !== seen.at(-1)?.number) seen.push(shown);
    }
    return seen;
}"""

Serve = Callable[[int, int, int], str]


@pytest.fixture(scope="module")
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """The address of a server of pictures of this width, height and rate; one runs at a time, as long as it is asked for."""
    running: dict[tuple[int, int, int], Any] = {}

    def serve(*which: int) -> str:
        if which not in running:
            end()
            width, height, fps = which
            folder = tmp_path_factory.mktemp("numbered")
            (folder / "numbered.py").write_text(MODEL.replace("FPS", str(fps)))
            (folder / "reactor.yaml").write_text("model: numbered:Numbered\nname: numbered\n")
            context = real_server(folder, "--set", f"width={width}", "--set", f"height={height}")
            running[which] = context, context.__enter__()
        return running[which][1]

    def end() -> None:
        for context, _ in running.values():
            context.__exit__(None, None, None)
        running.clear()

    yield serve
    end()


def live(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator('body[data-state="live"]')).to_be_attached()


def plays(page: Page, codec: str, width: int, height: int, count: int = 6) -> None:
    """It shows moving pictures of this size, in order and with the right colours."""
    seen = page.evaluate(WATCH, [count, [width, height], COLOURS, PATIENCE])
    assert max(each["wrong"] for each in seen) <= TOLERANCE.get(codec, USUAL), seen
    assert max(each["unclear"] for each in seen) < 64, seen
    steps = [(later["number"] - sooner["number"]) % 256 for sooner, later in pairwise(seen)]
    assert sum(steps) <= NUMBERS * (PATIENCE + 1), f"not in order: {seen}"


def toggle(page: Page, name: str) -> None:
    page.get_by_label(name, exact=True).click()


# Right pixels

CODECS = ["h264", "vp8", "vp9", "av1", "jpeg"]
SHORT = [(640, 480, 30, codec) for codec in (*CODECS, "lossless", "raw")] + [(1280, 720, 30, "h264")]
CASES = [
    pytest.param(*size, fps, codec, marks=() if (*size, fps, codec) in SHORT else pytest.mark.soak)
    for size in ((640, 480), (1280, 720))
    for fps in (30, 60)
    for codec in (*CODECS, *(("lossless", "raw") if fps == 30 else ()))
]


@pytest.mark.parametrize(("width", "height", "fps", "codec"), CASES)
def test_every_codec_has_the_right_pixels(serve: Serve, page: Page, width: int, height: int, fps: int, codec: str) -> None:
    live(page, f"{serve(width, height, fps)}?video={codec}")
    plays(page, codec, width, height)
    expect(page.locator("#figure-format")).to_have_text(re.compile(rf"^\d+×\d+ {codec}$"))
    expect(page.locator("#figure-steps")).to_have_text("0")
    expect(page.locator("#log-count")).to_have_text("0")


# What changes in mid-stream


@pytest.mark.parametrize("codec", ["h264", "vp8", "jpeg"])
def test_a_model_changes_the_size_of_its_pictures(serve: Serve, page: Page, codec: str) -> None:
    live(page, f"{serve(640, 480, 30)}?video={codec}")
    for size in ((640, 480), (320, 240), (640, 480)):
        plays(page, codec, *size)
        toggle(page, "Half")
    expect(page.locator("#log-count")).to_have_text("0")


# Decoders of the first kinds take frames and give none, however many of them a page opens: it does for each size, too.
LADDER = [["avc1", "no-preference"], ["avc1", "prefer-software"], ["vp8", "prefer-software"]]
HOLDING = """
window.opened = [];
const Real = window.VideoDecoder;
window.VideoDecoder = class {
    static isConfigSupported(config) { return Real.isConfigSupported(config); }
    #real = null;
    constructor(init) {
        this.init = init;
        this.state = "unconfigured";
    }
    configure(config) {
        const kind = [config.codec.slice(0, 4), config.hardwareAcceleration];
        if (!opened.some((other) => `${other}` === `${kind}`)) opened.push(kind);
        if (!HELD.some((other) => `${other}` === `${kind}`)) this.#real = new Real(this.init);
        this.state = "configured";
        this.#real?.configure(config);
    }
    decode(chunk) { this.#real?.decode(chunk); }
    close() {
        this.state = "closed";
        this.#real?.close();
    }
};
"""


@pytest.mark.parametrize(
    ("held", "codec"), [(1, "h264"), *(pytest.param(*case, marks=pytest.mark.soak) for case in ((2, "vp8"), (3, "jpeg")))]
)
def test_stalled_decoders_are_abandoned_until_one_plays(serve: Serve, page: Page, held: int, codec: str) -> None:
    page.add_init_script(NO_WORKER + HOLDING.replace("HELD", json.dumps(LADDER[:held])))
    live(page, serve(640, 480, 30))
    expect(page.locator("#figure-steps")).to_have_text(str(held), timeout=60_000)
    plays(page, codec, 640, 480)
    expect(page.locator("#figure-format")).to_have_text(re.compile(rf"^\d+×\d+ {codec}$"))
    expect(page.locator("#log-count")).to_have_text(str(held))
    assert page.evaluate("opened") == LADDER[: held + 1]


# Beside the picture


def test_a_viewer_with_the_share_link_sees_the_picture_and_has_no_controls(serve: Serve, browser: Browser) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    context.add_init_script(READ_BACK)
    page, viewer = context.new_page(), context.new_page()
    page.bring_to_front()
    live(page, serve(640, 480, 30))
    plays(page, "h264", 640, 480)
    page.get_by_role("button", name="Watch link").click()
    expect(page.locator("#toasts")).to_contain_text("Link copied")
    link = page.evaluate("navigator.clipboard.readText()")
    viewer.bring_to_front()
    live(viewer, link)
    plays(viewer, "h264", 640, 480)
    expect(viewer.locator("#status")).to_have_text("watching")
    expect(viewer.locator("#role-note")).to_be_visible()
    assert viewer.locator("#controls").locator(":enabled").filter(visible=True).count() == 0
    expect(viewer.locator("#share")).to_be_hidden()
    page.bring_to_front()
    toggle(page, "Half")
    plays(page, "h264", 320, 240)
    viewer.bring_to_front()
    plays(viewer, "h264", 320, 240)
    context.close()


def test_moving_a_slider_shows_the_six_parts_of_its_latency(serve: Serve, page: Page) -> None:
    live(page, serve(640, 480, 30))
    plays(page, "h264", 640, 480, 2)
    panel = page.locator("#latency")
    page.get_by_label("First", exact=True).fill("100")
    page.locator("#stats summary").first.click()
    page.locator("#more-figures > summary").click()
    expect(panel).to_be_visible()
    panel.locator("summary").click()
    expect(panel.locator("tbody th")).to_have_text(["wait", "step", "queue", "encode", "network", "decode", "total"])
    for column in ("p50", "p95"):
        cells = panel.locator(f"tbody td[id$={column}]")
        expect(cells).to_have_text([re.compile(r"^\d+(\.\d)?$")] * 7)
        *parts, total = (float(text) for text in cells.all_inner_texts())
        assert total > 0
        if page.locator("#latency-total-p50").inner_text() == page.locator("#latency-total-p95").inner_text():
            assert total == pytest.approx(sum(parts), abs=2)  # of one command, and each is rounded
    expect(panel.locator(".bar span")).to_have_count(6)


# Beside the loudspeaker: what is heard. And how many Opus packets were decoded.
LISTEN = """
window.packets = 0;
const decode = AudioDecoder.prototype.decode;
AudioDecoder.prototype.decode = function (chunk) {
  packets += 1;
  return decode.call(this, chunk);
};
const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (target, ...rest) {
  if (target instanceof AudioDestinationNode) {
    window.analyser = new AnalyserNode(this.context, { fftSize: 8192, smoothingTimeConstant: 0 });
    connect.call(this, analyser);
  }
  return connect.call(this, target, ...rest);
};
"""
# Whether the loudest pitch is within 2 % of one, in Hz, and clearly there.
HEARS = """(pitch) => {
    if (!window.analyser) return false;
    const levels = new Float32Array(analyser.frequencyBinCount);
    analyser.getFloatFrequencyData(levels);
    const loudest = levels.indexOf(Math.max(...levels));
    return levels[loudest] > -40 && Math.abs(loudest * analyser.context.sampleRate / analyser.fftSize / pitch - 1) < 0.02;
}"""


def test_sound_arrives_as_opus_and_is_audible(page: Page) -> None:
    page.add_init_script(LISTEN)
    with real_server(EXAMPLES / "gradient", "--set", "width=160", "--set", "height=120") as url:
        live(page, url)
        page.click("#sound-toggle")
        expect(page.locator("#sound")).to_have_attribute("data-sound", "on")
        page.get_by_label("Tone", exact=True).fill("1")
        for brightness in (1.0, 0.5):
            page.get_by_label("Brightness", exact=True).fill(str(brightness))
            page.wait_for_function(HEARS, arg=220 * 2**brightness)
        assert page.evaluate("packets") > 10
        expect(page.locator("#figure-audio-lost")).to_have_text("0")
        expect(page.locator("#figure-audio-buffer")).to_have_text(re.compile(r"^\d+$"))
        expect(page.locator("#log-count")).to_have_text("0")
