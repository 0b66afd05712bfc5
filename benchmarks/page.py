"""What the server adds between an encoded frame and its picture: 1280x720 at 60 fps, H.264, in Chromium.

Three take turns in one browser: our server with its page, whose smoothing is off; a bare loop (trio-websocket, the same
encoder with the same settings, no pacing but the clock's) that feeds that same page; and, to tell what the page costs, the
bare loop with a page of thirty lines that decodes by WebCodecs and draws. From the call that sends a frame, in the server,
to the return of the `drawImage` that shows it; both clocks are the machine's wall clock. A frame that was sent and not
drawn counts as lost, wherever it was.

And what the page costs its main thread: the time of its tasks by the DevTools protocol, at 30 fps with every default, in
turns with the bare loop and its page, which decodes and draws on the main thread.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import numpy as np
import trio
import trio_websocket

from benchmarks.peers import environment, reactor_run
from benchmarks.pictures import clip, clip_model
from benchmarks.report import SPREAD, Report, spread
from reactor_trio.interface.tracks import TrackSpec
from reactor_trio.media import CodecSettings, choose_codecs, full_bitrate, open_encoder
from reactor_trio.pacing import Quality
from reactor_trio.protocol import Color, Packet, ServerText, Welcome, decode_packet, encode_packet, encode_server_text

SIZE = (1280, 720)
FPS = 60
CODEC = "h264"
#: of the second part
CALM_FPS = 30
#: durations of the DevTools protocol's `Performance.getMetrics`, in seconds since the page began
METRICS = {"tasks": "TaskDuration", "script": "ScriptDuration", "layout": "LayoutDuration", "style": "RecalcStyleDuration"}
WARM_UP = 3.0
FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"]

#: the clip, by a server that notes what its WebSockets send during a session
MODEL = clip_model(*SIZE, FPS) + """
import json, os, time
from reactor_trio.transport.websocket import WebSocketStream

sent = []
send_packet = WebSocketStream.send_packet

async def noting(self, head, payload):
    sent.append((bytes(head).hex(), len(payload), time.time()))
    await send_packet(self, head, payload)

WebSocketStream.send_packet = noting

class Model(Model):
    @connected
    def begin(self):
        sent.clear()

    @disconnected
    def end(self):
        with open("sent.json.new", "w") as file:
            json.dump(sent, file)
        os.rename("sent.json.new", "sent.json")
"""

#: notes which frame was drawn when, in a window or a worker
NOTING = """(() => {
  self.drawn = [];
  for (const kind of ["CanvasRenderingContext2D", "OffscreenCanvasRenderingContext2D"]) {
    const prototype = self[kind]?.prototype;
    if (!prototype) continue;
    const draw = prototype.drawImage;
    prototype.drawImage = function (image, ...where) {
      const stamp = image.timestamp;
      draw.call(this, image, ...where);
      if (stamp !== undefined) self.drawn.push([stamp, performance.timeOrigin + performance.now()]);
    };
  }
})()"""

BARE_PAGE = """<!doctype html><canvas id="picture"></canvas><script type="module">
const canvas = document.getElementById("picture");
const context = canvas.getContext("2d", {alpha: false});
let decoder = null;
const socket = new WebSocket(`ws://127.0.0.1:${location.search.slice(1)}/ws`);
socket.binaryType = "arraybuffer";
socket.onmessage = ({data}) => {
  if (typeof data === "string") {
    decoder = new VideoDecoder({
      output(frame) {
        if (canvas.width !== frame.displayWidth) {
          canvas.width = frame.displayWidth;
          canvas.height = frame.displayHeight;
        }
        context.drawImage(frame, 0, 0);
        frame.close();
      },
      error(error) { console.error(error.message); },
    });
    decoder.configure({...JSON.parse(data), optimizeForLatency: true});
    return;
  }
  const head = new DataView(data);
  decoder.decode(new EncodedVideoChunk({
    timestamp: Number(head.getBigUint64(0)), type: head.getUint8(8) ? "key" : "delta", data: new Uint8Array(data, 9),
  }));
};
</script>"""

#: makes a page speak to the WebSocket server at `PORT`
ELSEWHERE = """(() => {
  const Ours = self.WebSocket;
  self.WebSocket = class extends Ours {
    constructor(url, protocols) { super(Object.assign(new URL(url), { port: "PORT" }).href, protocols); }
  };
})()"""

TYPES = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}

#: of each frame: its timestamp, and when it was sent or drawn, in seconds of the wall clock
Times = dict[int, float]


def run(report: Report, *, quick: bool) -> None:
    """Turns of the two."""
    for what, there in (("Playwright", importlib.util.find_spec("playwright")), ("Chromium", shutil.which("chromium"))):
        if not there:
            report.note(f"not measured: {what} is not installed")
            return
    if not choose_codecs([CODEC]):
        report.note(f'not measured: {CODEC} is not installed; pip install "reactor-trio[video]"')
        return
    turns, seconds = (2, 5.0) if quick else (5, 10.0)
    from playwright.sync_api import sync_playwright

    contenders = {"reactor-trio": _play_ours, "bare server, our page": _play_page, "bare server, bare page": _play_bare}
    played: dict[str, list[tuple[Times, Times]]] = {name: [] for name in contenders}
    with sync_playwright() as playwright, playwright.chromium.launch(
        executable_path=shutil.which("chromium"), args=FLAGS
    ) as browser:
        for _ in range(turns):
            for name, play in contenders.items():
                played[name].append(play(browser, seconds))
        busy: dict[str, list[dict[str, float]]] = {"reactor-trio": [], "bare server, bare page": []}
        for turn in range(turns):
            for name in list(busy) if turn % 2 == 0 else reversed(busy):
                busy[name].append((_busy_ours if name == "reactor-trio" else _busy_bare)(browser, seconds))
    rows, p95 = [], []
    for name, runs in played.items():
        took = [[drawn[at] - sent[at] for at in sent if at in drawn] for sent, drawn in runs]
        p95.append(median(float(np.percentile(turn, 95)) for turn in took))
        frames = sum(len(sent) for sent, _ in runs)
        lost = 100 * (1 - sum(map(len, took)) / frames)
        rows.append([name, frames / turns / seconds, lost, 1000 * p95[-1], *spread([one for turn in took for one in turn])])
    report.table(
        f"send to drawn, ms ({CODEC}, {SIZE[0]}x{SIZE[1]} at {FPS} fps, {turns} turns of {seconds:g} s)",
        ["server", "fps", "lost %", "p95 of a turn", *SPREAD], rows,
    )  # fmt: skip
    report.bar("p95 of a turn (median) to that of the bare server with the same page", p95[0] / p95[1], 1.25, "times")
    report.bar("frames not drawn", rows[0][2], 1, "%")
    report.table(
        f"the page's main thread, ms a second ({CODEC}, {SIZE[0]}x{SIZE[1]} at {CALM_FPS} fps; medians)",
        ["server", *METRICS],
        [[name, *(median(turn[metric] for turn in runs) for metric in METRICS)] for name, runs in busy.items()],
    )  # fmt: skip
    ratios = [ours["tasks"] / bare["tasks"] for ours, bare in zip(*busy.values(), strict=True)]
    report.bar("main thread's task time to that of the bare page (median)", median(ratios), 1.5, "times")


def _play_ours(browser: Any, seconds: float) -> tuple[Times, Times]:
    with tempfile.TemporaryDirectory() as folder, reactor_run(Path(folder), MODEL) as server:
        began, drawn = _watch(browser, f"http://127.0.0.1:{server.port}/?video={CODEC}&lead=off", seconds)
        log = Path(folder) / "sent.json"
        until = time.monotonic() + 10
        while not log.exists() and time.monotonic() < until:
            time.sleep(0.05)
        entries = json.loads(log.read_text())
    sent = {decode_packet(bytes.fromhex(head) + bytes(size)).pts_us: at for head, size, at in entries}
    return _within(sent, began, seconds), drawn


def _play_page(browser: Any, seconds: float) -> tuple[Times, Times]:
    with _bare("--protocol") as (port, end), _files(_our_page) as address:
        elsewhere = ELSEWHERE.replace("PORT", str(port))
        began, drawn = _watch(browser, f"{address}?video={CODEC}&lead=off", seconds, elsewhere)
        sent = {int(stamp): at for stamp, at in end()}
    return _within(sent, began, seconds), drawn


def _play_bare(browser: Any, seconds: float) -> tuple[Times, Times]:
    with _bare() as (port, end), _files(lambda _: ("text/html", BARE_PAGE.encode())) as address:
        began, drawn = _watch(browser, f"{address}?{port}", seconds)
        sent = {int(stamp): at for stamp, at in end()}
    return _within(sent, began, seconds), drawn


def _watch(browser: Any, address: str, seconds: float, script: str = "") -> tuple[float, Times]:
    """Open a page, with a script in it. From when on it counts, and what was drawn then, by the page or its worker."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.add_init_script(NOTING + ";" + script)
    page.on("worker", lambda worker: worker.evaluate(NOTING))
    page.goto(address)
    page.wait_for_timeout(1000 * WARM_UP)
    began = time.time()
    page.wait_for_timeout(1000 * (seconds + 1))  # what is sent last has a second to be drawn
    drawn = page.evaluate("self.drawn")
    for worker in page.workers:
        drawn += worker.evaluate("self.drawn ?? []")
    context.close()
    assert drawn, "nothing was drawn"
    return began, {round(stamp): at / 1000 for stamp, at in drawn}


def _busy_ours(browser: Any, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, reactor_run(Path(folder), clip_model(*SIZE, CALM_FPS)) as server:
        return _busy(browser, f"http://127.0.0.1:{server.port}/?video={CODEC}", seconds)


def _busy_bare(browser: Any, seconds: float) -> dict[str, float]:
    with _bare("--fps", str(CALM_FPS)) as (port, _), _files(lambda _: ("text/html", BARE_PAGE.encode())) as address:
        return _busy(browser, f"{address}?{port}", seconds)


def _busy(browser: Any, address: str, seconds: float) -> dict[str, float]:
    """What a page's main thread did while pictures came, in ms a second."""
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    page = context.new_page()
    page.goto(address)
    page.wait_for_timeout(1000 * WARM_UP)
    before = page.screenshot()
    devtools = context.new_cdp_session(page)
    devtools.send("Performance.enable")

    def look() -> dict[str, float]:
        return {metric["name"]: metric["value"] for metric in devtools.send("Performance.getMetrics")["metrics"]}

    first = look()
    page.wait_for_timeout(1000 * seconds)
    last = look()
    assert page.screenshot() != before, "nothing was drawn"
    context.close()
    took = last["Timestamp"] - first["Timestamp"]
    return {metric: 1000 * (last[name] - first[name]) / took for metric, name in METRICS.items()}


def _within(sent: Times, began: float, seconds: float) -> Times:
    return {stamp: at for stamp, at in sent.items() if began <= at < began + seconds}


# ---- the bare loop ---------------------------------------------------------------------------------------------------


@contextmanager
def _bare(*options: str) -> Iterator[tuple[int, Any]]:
    """Its port, and a function that ends it and gives what it sent."""
    command = [sys.executable, "-m", "benchmarks.page", *options]
    with subprocess.Popen(command, env=environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:

        def end() -> list[tuple[int, float]]:
            return json.loads(process.communicate(timeout=30)[0])

        try:
            assert process.stdout is not None
            yield int(process.stdout.readline()), end
        finally:
            process.kill()


@contextmanager
def _files(answer: Callable[[str], tuple[str, bytes]]) -> Iterator[str]:
    """The address of a server of files. A page that did not come over the network may not reach this machine's servers."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            kind, body = answer(self.path.partition("?")[0])
            self.send_response(200)
            self.send_header("content-type", kind)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            return

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()
        thread.join()


def _our_page(path: str) -> tuple[str, bytes]:
    if path == "/health":
        return "application/json", b"{}"
    name = "index.html" if path == "/" else path.removeprefix("/page/")
    return TYPES[name.rpartition(".")[2]], (files("reactor_trio") / "page" / name).read_bytes()


async def _serve_bare(protocol: bool, fps: int) -> None:
    """One client gets the clip, by our protocol or as little as the bare page needs.

    When standard input ends, what was sent is printed.
    """
    pictures, settings, sent = clip(*SIZE), CodecSettings(), []
    spec = TrackSpec("main_video", "video", "out")

    async def play(request: trio_websocket.WebSocketRequest) -> None:
        socket = await request.accept(subprotocol="reactor.v1" if protocol else None)
        encoder = open_encoder(spec, CODEC, settings)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_listen, socket, encoder)
                await send(socket, encoder)
        except* trio_websocket.ConnectionClosed:
            encoder.close()

    async def send(socket: trio_websocket.WebSocketConnection, encoder: Any) -> None:
        encoder.configure(Quality(full_bitrate(CODEC, *SIZE, fps, settings), fps))
        began, number = trio.current_time(), 0
        while True:
            encoded = await trio.to_thread.run_sync(encoder.encode, pictures[number % len(pictures)])
            stamp = round(number * 1e6 / fps)
            payload, key = memoryview(encoded.payload), encoded.keyframe
            if number == 0:
                info = encoder.describe(0, spec, encoded.size)
                for text in _welcome(info) if protocol else [json.dumps(_decoder_config(info))]:
                    await socket.send_message(text)
            if protocol:
                message = encode_packet(Packet(0, number, stamp, int(key), None, number, {}, payload))
            else:
                message = stamp.to_bytes(8, "big") + bytes([key]) + bytes(payload)
            sent.append((stamp, time.time()))
            await socket.send_message(message)
            number += 1
            await trio.sleep_until(began + number / fps)

    async with trio.open_nursery() as nursery:
        server = await nursery.start(partial(trio_websocket.serve_websocket, play, "127.0.0.1", 0, None))
        print(server.port, flush=True)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()
    print(json.dumps(sent), flush=True)


async def _listen(socket: trio_websocket.WebSocketConnection, encoder: Any) -> None:
    """Of what the page says only this matters: that it cannot go on without a keyframe."""
    while True:
        if "reactor.keyframe" in await socket.get_message():
            encoder.request_keyframe()


def _welcome(info: Any) -> list[str]:
    schema = {"name": "bare", "protocol": 1, "tracks": [], "commands": [], "messages": []}
    welcome = Welcome("bare", 1, "bare", "control", 10.0, None, None, schema, [info])
    return [
        encode_server_text(ServerText(kind, msgspec.to_builtins(data)))
        for kind, data in (("reactor.welcome", welcome), ("reactor.track", info))
    ]


def _decoder_config(info: Any) -> dict[str, Any]:
    color: Color = info.color
    return {
        "codec": info.codec_string,
        "colorSpace": {
            "matrix": color.matrix, "primaries": color.primaries, "transfer": color.transfer, "fullRange": color.full_range,
        },
    }  # fmt: skip


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--protocol", action="store_true")
    parser.add_argument("--fps", type=int, default=FPS)
    options = parser.parse_args()
    trio.run(_serve_bare, options.protocol, options.fps)
