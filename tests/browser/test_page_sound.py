"""Sound on the page against a real server: it is off until the user turns it on, and then synchronised with the picture.

What is measured is not what the page says of itself. A probe beside the loudspeaker finds the first sample of each beep in
what the page puts out; a hook behind the canvas's own drawing finds the moment at which the flash, read back from the
canvas, is drawn, and asks the context which sample is heard at that moment.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.support.fake_page_server import FakeServer, picture, video
from tests.support.page_scripts import NO_WORKER
from tests.support.real_server import real_server

# Each half second, at one presentation time, the picture is white for three frames and a beep of a tenth of a second begins.
MODEL = '''
import numpy as np
from reactor_trio.interface import Audio, Output, ReactorPipeline, Video


class Out(Output):
    main_video: Video
    main_audio: Audio


class Blinker(ReactorPipeline):
    fps = 30

    def load(self, config):
        time = np.arange(4800) / 48000
        self.beep = np.zeros(24000, np.int16)
        self.beep[:4800] = 12000 * np.sign(np.sin(2 * np.pi * 500 * time) + 1e-9)

    def inference(self):
        index = 0
        while True:
            place = index % 15
            picture = np.full((48, 64, 3), 255 if place < 3 else 0, np.uint8)
            yield Out(main_video=picture, main_audio=self.beep[None, 1600 * place : 1600 * (place + 1)])
            index += 1
'''
MANIFEST = "model: blinker:Blinker\nname: blinker\n"

PROBE = """
class Probe extends AudioWorkletProcessor {
  #quiet = Infinity;
  process([[input]]) {
    for (let i = 0; i < (input?.length ?? 0); i++) {
      if (Math.abs(input[i]) < 0.1) this.#quiet++;
      else {
        if (this.#quiet > 0.2 * sampleRate) this.port.postMessage((currentFrame + i) / sampleRate);
        this.#quiet = 0;
      }
    }
    return true;
  }
}
registerProcessor("probe", Probe);
"""
HOOKS = f"const PROBE = {json.dumps(PROBE)};" + """
window.seen = { beeps: [], flashes: [], heard: null }; // times of the audio context, in ms
const connect = AudioNode.prototype.connect;
AudioNode.prototype.connect = function (target, ...rest) {
  if (target instanceof AudioDestinationNode) {
    const { context } = this;
    context.audioWorklet.addModule(URL.createObjectURL(new Blob([PROBE], { type: "text/javascript" }))).then(() => {
      const probe = new AudioWorkletNode(context, "probe", { numberOfOutputs: 0 });
      probe.port.onmessage = ({ data }) => seen.beeps.push(data * 1000);
      seen.heard = (now) => {
        const { contextTime, performanceTime } = context.getOutputTimestamp();
        return contextTime * 1000 + now - performanceTime;
      };
      connect.call(this, probe);
    });
  }
  return connect.call(this, target, ...rest);
};
let white = null;
for (const name of ["drawImage", "putImageData"]) {
  const draw = CanvasRenderingContext2D.prototype[name];
  CanvasRenderingContext2D.prototype[name] = function (...what) {
    draw.apply(this, what);
    const now = performance.now();
    const [red] = this.getImageData(this.canvas.width / 2, this.canvas.height / 2, 1, 1).data;
    if (red > 128 && white === false && seen.heard) seen.flashes.push(seen.heard(now));
    white = red > 128;
  };
}
"""

CONTEXTS = """
const Real = AudioContext;
window.opened = [];
window.AudioContext = class extends Real {
  constructor(...options) {
    super(...options);
    opened.push(this);
  }
};
"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of `reactor run` with the model above."""
    folder: Path = tmp_path_factory.mktemp("blinker")
    (folder / "blinker.py").write_text(MODEL)
    (folder / "reactor.yaml").write_text(MANIFEST)
    with real_server(folder) as address:
        yield address


@pytest.fixture
def probed(browser: Browser) -> Iterator[Page]:
    """A page with the probes, which the content policy would refuse; the page's own sound works under it, see below."""
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.add_init_script(NO_WORKER + HOOKS)
    yield page
    context.close()


def open_page(page: Page, address: str) -> None:
    page.goto(address)
    expect(page.locator('body[data-state="live"]')).to_be_attached()


def turn_on(page: Page) -> None:
    page.click("#sound-toggle")
    expect(page.locator("#sound")).to_have_attribute("data-sound", "on")


def offsets(seen: dict[str, list[float]]) -> list[float]:
    """How many ms later than its beep each flash was drawn; of the beeps the nearest, since they are half a second apart."""
    return [flash - min(seen["beeps"], key=lambda beep: abs(flash - beep)) for flash in seen["flashes"]]


@pytest.mark.parametrize("codec", ["jpeg", pytest.param("raw", marks=pytest.mark.soak)])  # 5 s each
def test_a_flash_and_a_beep_of_the_same_time_are_simultaneous(url: str, probed: Page, codec: str) -> None:
    open_page(probed, f"{url}?video={codec}")
    turn_on(probed)
    probed.wait_for_function("() => seen.beeps.length >= 2 && seen.flashes.length >= 2")
    probed.evaluate("() => { seen.beeps.length = seen.flashes.length = 0; }")
    probed.wait_for_function("() => seen.beeps.length >= 7 && seen.flashes.length >= 6", timeout=120_000)
    measured = offsets(probed.evaluate("seen"))[:6]
    # A machine that stands still for a moment may spoil one; out of step, it would be all of them, by 100 ms.
    assert sum(abs(offset) < 40 for offset in measured) >= 5, measured
    assert statistics.median(map(abs, measured)) < 20, measured
    said = float(probed.locator("#figure-av-offset").text_content() or "")
    assert abs(said) < 40, (said, measured)


def test_sound_is_off_until_the_user_turns_it_on_and_can_be_turned_off(url: str, page: Page) -> None:
    page.add_init_script(CONTEXTS)
    open_page(page, url)
    toggle, volume = page.get_by_role("button", name="Play sound"), page.locator("#sound-volume")
    expect(toggle).to_have_attribute("aria-pressed", "false")
    expect(volume).to_be_hidden()
    expect(page.locator("#figure-fps")).to_have_text(re.compile(r"^\d+\.\d$"))
    expect(page.locator("#figure-audio-buffer")).to_have_text("")
    expect(page.locator("#figure-av-offset")).to_have_text("")
    assert page.evaluate("opened.length") == 0
    turn_on(page)
    expect(toggle).to_have_attribute("aria-pressed", "true")
    expect(volume).to_be_visible()
    expect(page.locator("#figure-audio-buffer")).to_have_text(re.compile(r"^\d+$"))
    expect(page.locator("#figure-av-offset")).to_have_text(re.compile(r"^-?\d+$"))
    assert page.evaluate("[opened.length, opened[0].sampleRate, opened[0].state]") == [1, 48_000, "running"]
    toggle.click()
    expect(toggle).to_have_attribute("aria-pressed", "false")
    expect(page.locator("#figure-av-offset")).to_have_text("")
    page.wait_for_function("() => opened[0].state === 'suspended'")
    turn_on(page)
    expect(page.locator("#figure-av-offset")).to_have_text(re.compile(r"^-?\d+$"))
    assert page.evaluate("opened.length") == 1


def test_an_invalid_block_is_reported_once_and_the_pictures_go_on(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(tracks=[video(), video(1, "main_audio", "pcm_s16le", kind="audio", sample_rate=48_000)])
    turn_on(page)
    for seq in range(3):
        peer.socket.send(msgspec.msgpack.encode((1, seq, seq * 1000, 1, None, seq, {}, b"odd")))
    for seq in range(3):
        peer.frame(seq, picture(9, 9, 9))
    expect(page.locator("#figure-format")).to_have_text("jpeg")
    page.wait_for_function("() => document.querySelector('canvas')?.width === 64")
    expect(page.locator("#log-count")).to_have_text("1")
    page.click("#log summary")
    expect(page.locator("#log-list li")).to_contain_text("main_audio, block 0: 3 bytes of pcm_s16le are not 16-bit samples")


def test_sound_that_is_on_stays_on_in_the_next_session(server: FakeServer, page: Page) -> None:
    tracks = [video(), video(1, "main_audio", "pcm_s16le", kind="audio", sample_rate=16_000)]
    block = msgspec.msgpack.encode((1, 0, 90_000_000, 1, None, 0, {}, bytes(2 * 16_000)))
    page.goto(server.url)
    peer = server.accept()
    peer.welcome(tracks=tracks)
    turn_on(page)
    # The figures come after the first look; the block's two seconds of sound would be over on a busy machine.
    expect(page.locator("#figure-format")).to_have_text(re.compile("."))
    peer.socket.send(block)
    expect(page.locator("#figure-audio-buffer")).to_have_text(re.compile(r"^[1-9]\d+$"))
    peer.bye("model_restarting")
    again = server.accept()
    again.welcome(tracks=tracks)
    expect(page.locator('body[data-state="live"]')).to_be_attached()
    expect(page.locator("#sound-toggle")).to_have_attribute("aria-pressed", "true")
    expect(page.locator("#figure-audio-buffer")).to_have_text("")
    again.socket.send(block)
    expect(page.locator("#figure-audio-buffer")).to_have_text(re.compile(r"^[1-9]\d+$"))


def test_a_model_without_sound_has_no_button_for_it(server: FakeServer, page: Page) -> None:
    page.goto(server.url)
    peer = server.accept()
    peer.welcome()
    expect(page.locator('body[data-state="live"]')).to_be_attached()
    expect(page.locator("#sound")).to_be_hidden()
    expect(page.locator(".sounding").first).to_be_hidden()


def test_volume_zero_is_silent(url: str, probed: Page) -> None:
    open_page(probed, url)
    turn_on(probed)
    probed.wait_for_function("() => seen.beeps.length >= 1")
    probed.locator("#sound-volume").fill("0")
    probed.evaluate("() => { seen.beeps.length = seen.flashes.length = 0; }")
    probed.wait_for_function("() => seen.flashes.length >= 3")
    assert len(probed.evaluate("seen.beeps")) <= 1
