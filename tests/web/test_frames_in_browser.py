"""What `frames()` and `attach()` say of each picture is what made it: the model paints its step and its newest command."""

from __future__ import annotations

import faulthandler
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from tests.support.package_page import ask
from tests.support.painter_page import PAGE
from tests.support.real_server import real_server

MODEL = '''
import numpy as np
from reactor_trio import *


class Picture(Output):
    main_video: Video


class Painter(ReactorPipeline):
    """Paints its step's number on the left and that of the newest command on the right: grey levels of 16 for each digit."""

    output: Picture
    fps = 240
    mark = 0

    def inference(self):
        self.mark = number = 0
        while True:
            picture = np.zeros((48, 64, 3), np.uint8)
            for row in range(4):
                for column, shown in enumerate((number, self.mark)):
                    digit = shown >> 4 * row & 15
                    picture[row * 12 : row * 12 + 12, column * 32 : column * 32 + 32] = digit * 16 + 8
            yield Picture(main_video=picture)
            number += 1

    @event
    def note(self, number: int) -> None:
        self.mark = number
'''

#: Before all scripts of a page or worker: how many decoded pictures are open, and `read(context)` for a picture's numbers.
COUNT = """
globalThis.open = new Set();
globalThis.most = 0;
globalThis.VideoDecoder = class extends VideoDecoder {
  constructor({ output, error }) {
    super({ error, output(frame) { open.add(frame); most = Math.max(most, open.size); output(frame); } });
  }
};
const closeFrame = VideoFrame.prototype.close;
VideoFrame.prototype.close = function () { open.delete(this); closeFrame.call(this); };
globalThis.read = (context) => {
  const { data } = context.getImageData(0, 0, 64, 48);
  const digit = (row, x) => Math.round((data[((row * 12 + 6) * 64 + x) * 4] - 8) / 16);
  return [10, 50].map((x) => [3, 2, 1, 0].reduce((value, row) => value * 16 + digit(row, x), 0));
};
"""
#: In the worker: it tells the numbers of each picture that it has drawn, and at the end how many are open.
WORKER = """
const drawn = [];
const draw = OffscreenCanvasRenderingContext2D.prototype.drawImage;
OffscreenCanvasRenderingContext2D.prototype.drawImage = function (...given) {
  draw.apply(this, given);
  drawn.push(read(this));
};
const channel = new BroadcastChannel("counted");
channel.onmessage = () => channel.postMessage({ drawn, open: open.size, most });
"""
TAKE = """
  const source = COUNT + WORKER + `\\nimport("${location.origin}/decoder-worker.js");`;
  const worker = () => new Worker(URL.createObjectURL(new Blob([source], { type: "text/javascript" })), { type: "module" });
  await begin({ workers: { pictures: worker } });
  const made = ({ seq, ptsUs, command, step, meta }) => [seq, ptsUs, command, step, JSON.stringify(meta)].join();
  const packets = new Map();
  (async () => { for await (const packet of client.packets()) packets.set(packet.seq, made(packet)); })();
  const presented = [];
  const view = client.attach(canvas("one"), { lead: false, onPresented: (picture) => presented.push(picture) });

  const context = new OffscreenCanvas(64, 48).getContext("2d", { willReadFrequently: true });
  const faults = [];
  const check = (what, right) => right || faults.length > 20 || faults.push(what);
  const commands = [];
  let [frames, last] = [0, -1];
  for await (const frame of client.frames()) {
    const { image, seq, command, step, meta } = frame;
    context.drawImage(image, 0, 0);
    image.close();
    const [number, mark] = read(context);
    check(`frame ${seq}: step ${step}, painted ${number}`, number === step % 65536);
    check(`frame ${seq}: command ${command}, painted ${mark}`, mark === (command ?? 0));
    check(`frame ${seq}: ${made(frame)}, packet ${packets.get(seq)}`, packets.get(seq) === made(frame));
    check(`frame ${seq} after ${last}`, seq > last);
    check(`frame ${seq}: timing ${meta.timing}`, meta.timing.length >= 4 && meta.timing.every((part) => part >= 0));
    last = seq;
    if (frames % 20 === 0) commands.push(client.command("note", { number: commands.length + 1 }));
    if (++frames === FRAMES) break;
  }
  await Promise.all(commands);
  view.detach();
  const counted = new BroadcastChannel("counted");
  const { drawn, ...inWorker } = await new Promise((resolve) => {
    counted.onmessage = ({ data }) => resolve(data);
    counted.postMessage("how many?");
  });
  counted.close();
  check(`${presented.length} presented, ${drawn.length} drawn`, presented.length > 0 && drawn.length >= presented.length);
  for (const [i, picture] of presented.entries()) {
    const { seq, step, command } = picture;
    check(`picture ${seq}: step ${step}, painted ${drawn[i]}`, drawn[i][0] === step % 65536);
    check(`picture ${seq}: command ${command}, painted ${drawn[i]}`, drawn[i][1] === (command ?? 0));
    check(`picture ${seq}: ${made(picture)}, packet ${packets.get(seq)}`, packets.get(seq) === made(picture));
    check(`picture ${seq} at ${i}`, i === 0 || seq > presented[i - 1].seq);
  }
  const { codec } = client.statistics().tracks.main_video;
  return { faults, presented: presented.length, codec, onPage: { open: open.size, most }, inWorker };
"""


@pytest.fixture(scope="module")
def address(site: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    project = tmp_path_factory.mktemp("painter")
    (project / "painter.py").write_text(MODEL)
    (project / "reactor.yaml").write_text("model: painter:Painter\n")
    with real_server(project, "--origin", site) as address:
        yield address


def test_each_picture_has_its_step_and_command_and_all_pictures_are_closed(page: Page, site: str, address: str) -> None:
    check_pictures(page, site, address, 300)


@pytest.mark.soak
def test_10_000_pictures(page: Page, site: str, address: str) -> None:
    faulthandler.cancel_dump_traceback_later()  # on a busy machine it takes longer than a test may that hangs
    check_pictures(page, site, address, 10_000)


def check_pictures(page: Page, site: str, address: str, frames: int) -> None:
    page.add_init_script(f"{COUNT} {PAGE} window.painter = {address!r};")
    page.goto(site)
    told = ask(page, f"const [COUNT, FRAMES] = [{COUNT!r}, {frames}]; const WORKER = {WORKER!r};" + TAKE)
    ask(page, "await client.close();")
    assert told["faults"] == []
    assert told["codec"] != "jpeg"  # a picture of which is no VideoFrame
    for place in ("onPage", "inWorker"):
        assert told[place]["open"] == 0
        assert 0 < told[place]["most"] <= 8
    assert page.evaluate("errors") == []
