"""The web client's own package in a browser, against a real server: pictures, frames, sound, inputs, and what is lazy."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Route

from tests.support.real_server import real_server
from tests.support.web_client import bundle

MODEL = '''
import numpy as np
from reactor_trio import *


class Pictures(Output):
    main_video: Video
    depth: Video
    speech: Audio


class State(InputState):
    brightness: float = InputField(default=1.0, ge=0.0, le=1.0)


class Camera(Input):
    camera: Video
    microphone: Audio


class Progress(ModelMessage):
    step: int


class Painter(ReactorPipeline):
    """Paints its step's number: grey levels of 16 for each of four digits, in rows."""

    state: State
    input: Camera
    output: Pictures
    fps = 30
    level = loudness = -1.0

    async def inference(self):
        number = 0
        while True:
            for frame in self.input.camera.try_read() or ():
                self.level = float(frame.data.mean())
            for block in self.input.microphone.try_read() or ():
                self.loudness = float(abs(block.data).max())
            picture = np.zeros((48, 64, 3), np.uint8)
            for row in range(4):
                picture[row * 12 : row * 12 + 12, :32] = (number >> 4 * row & 15) * 16 + 8
            picture[:, 32:] = round(self.state.brightness * 255)
            yield Pictures(main_video=picture, depth=picture, speech=np.full((1, 1600), 8000, np.int16))
            number += 1

    @event
    def look(self) -> float:
        return self.level

    @event
    def listen(self) -> float:
        return self.loudness

    @event
    async def size(self, file: UploadedFile) -> int:
        await self.send(Progress(step=7))
        return len(file.data)
'''

#: in the page: `number(image)` reads the step's number that the model has painted
READ = """
window.errors = [];
addEventListener("error", ({ message }) => errors.push(message));
addEventListener("unhandledrejection", ({ reason }) => errors.push(String(reason)));
window.number = async (image) => {
  const canvas = new OffscreenCanvas(64, 48);
  const context = canvas.getContext("2d");
  context.drawImage(image, 0, 0);
  const { data } = context.getImageData(0, 0, 64, 48);
  let value = 0;
  for (let row = 3; row >= 0; row--) value = value * 16 + Math.round((data[((row * 12 + 6) * 64 + 10) * 4] - 8) / 16);
  return value;
};
window.until = (call) => new Promise((resolve, reject) => {
  const facts = () => JSON.stringify([client.state, client.statistics()]);
  setTimeout(() => reject(new Error(`it never came: ${call} ${facts()}`)), 40_000);
  const look = async () => { const value = await call(); if (value) resolve(value); else setTimeout(look, 5); };
  look();
});
window.begin = async (options = {}) => {
  const { connect } = await import("/package/index.js");
  // Playwright answers no requests of the audio thread, so its modules come from the server.
  const workers = { sound: "/page/audio-player-worklet.js", microphone: "/page/microphone-worklet.js", ...options.workers };
  window.client = connect("/", { memory: null, ...options, workers });
  window.diagnostics = [];
  client.on("diagnostic", ({ code }) => diagnostics.push(code));
  client.on("error", ({ message }) => errors.push(message));
  return client;
};
window.element = (name, properties) => document.body.appendChild(Object.assign(document.createElement(name), properties));
window.canvas = (id) => element("canvas", { id, width: 64, height: 48 });
"""


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package as bundlers make it: one file, with the worker beside it."""
    folder = tmp_path_factory.mktemp("package")
    bundle(folder, "src/index.ts", "src/worker/decoder-worker.ts")
    return folder


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    project = tmp_path_factory.mktemp("painter")
    (project / "painter.py").write_text(MODEL)
    (project / "reactor.yaml").write_text("model: painter:Painter\n")
    with real_server(project) as address:
        yield address


def answer_with(page: Page, package: Path) -> None:
    """Answer requests below `package/` with an empty page, or with the package, whatever the host."""

    def answer(route: Route) -> None:
        name = route.request.url.rpartition("/")[2]
        if name == "empty.html":
            route.fulfill(content_type="text/html", body="<!doctype html><link rel=icon href=data:,><body></body>")
        elif (package / name).is_file():
            route.fulfill(content_type="text/javascript", body=(package / name).read_bytes())
        else:
            route.fulfill(status=404)

    page.route("**/package/*", answer)


@pytest.fixture
def place(page: Page, package: Path, address: str) -> Iterator[Page]:
    """An empty page of the server's own origin, with the package beside it."""
    answer_with(page, package)
    page.goto(address + "package/empty.html")
    page.evaluate(READ)
    yield page
    page.evaluate("async () => window.client && (await client.close())")
    assert page.evaluate("errors") == []


def ask(page: Page, script: str) -> Any:
    return page.evaluate(f"async () => {{ {script} }}")


def test_a_view_shows_what_the_model_made_and_says_so(place: Page) -> None:
    shown = ask(place, """
      await begin();
      const seen = [];
      const view = client.attach(canvas("one"), { lead: false, onPresented: (picture) => seen.push(picture) });
      const { step } = await client.command("set_brightness", { brightness: 0.5 });
      await until(() => seen.some((picture) => picture.step >= step + 5));
      const image = await createImageBitmap(await view.snapshot());
      const { tracks, latency } = client.statistics();
      return {
        seen, step, track: view.track, size: [view.width, view.height], number: await number(image), last: seen.at(-1).step,
        statistics: tracks.main_video, latency, state: client.state.status, value: client.setting("brightness").value,
      };
    """)  # fmt: skip
    assert (shown["track"], shown["size"], shown["state"], shown["value"]) == ("main_video", [64, 48], "live", 0.5)
    seqs = [picture["seq"] for picture in shown["seen"]]
    assert seqs == sorted(set(seqs))
    made = [picture for picture in shown["seen"] if picture["step"] >= shown["step"]]
    assert made[0]["command"] == 1
    assert all(picture["pts"] > 0 and picture["meta"]["timing"] for picture in made)
    assert shown["number"] >= shown["last"]  # one may have been drawn since
    assert shown["statistics"]["received"] >= len(seqs)
    assert shown["latency"]["count"] == 1


def test_frames_are_decoded_and_say_what_made_them(place: Page) -> None:
    frames = ask(place, """
      await begin({ video: ["jpeg"] });
      const frames = [];
      for await (const { image, seq, step, [Symbol.dispose ?? "close"]: _ } of client.frames()) {
        frames.push({ seq, step, number: await number(image) });
        image.close();
        if (frames.length === 20) break;
      }
      return frames;
    """)  # fmt: skip
    assert [frame["number"] for frame in frames] == [frame["step"] for frame in frames]
    seqs = [frame["seq"] for frame in frames]
    assert seqs == sorted(set(seqs))


def test_a_client_that_takes_no_picture_costs_no_video(place: Page) -> None:
    told = ask(place, """
      await begin();
      await client.ready;
      await client.command("look");
      const taken = () => Object.entries(client.statistics().tracks)
        .filter(([, { bytes }]) => bytes > 0)
        .map(([name]) => name);
      const before = taken();
      const seen = [];
      const view = client.attach(canvas("late"), { onPresented: (picture) => seen.push(picture) });
      await until(() => seen.length > 2);
      return { before, during: taken() };
    """)  # fmt: skip
    assert {"main_video", "depth"}.isdisjoint(told["before"])
    assert "main_video" in told["during"]
    assert "depth" not in told["during"]


def test_two_views_of_a_track_and_a_second_track(place: Page) -> None:
    told = ask(place, """
      await begin();
      const seen = { a: [], b: [], depth: [] };
      const a = client.attach(canvas("a"), { onPresented: ({ seq }) => seen.a.push(seq) });
      client.attach(canvas("b"), { onPresented: ({ seq }) => seen.b.push(seq) });
      const depth = client.attach(canvas("d"), { track: "depth", onPresented: ({ seq }) => seen.depth.push(seq) });
      await until(() => seen.a.length > 5 && seen.b.length > 5 && seen.depth.length > 5);
      a.detach();
      const [was, then] = [seen.a.length, seen.b.length];
      await until(() => seen.b.length > then + 5);
      const again = client.attach(document.querySelector("#a"), { onPresented: ({ seq }) => seen.a.push(seq) });
      const stopped = seen.a.length - was;
      await until(() => seen.a.length > was + 5);
      return { stopped, track: depth.track };
    """)  # fmt: skip
    assert told == {"stopped": 0, "track": "depth"}


#: What a page is given in place of the worker: an address where nothing is; a page, as development servers answer unknown
#: addresses; the worker itself, with a policy that forbids it.
NO_WORKER = {"missing": ("none.js", ""), "a page": ("empty.html", ""), "blocked": ("decoder-worker.js", "worker-src 'none'")}


@pytest.mark.parametrize(("name", "policy"), NO_WORKER.values(), ids=NO_WORKER)
def test_without_its_worker_it_still_plays_and_says_so(name: str, policy: str, place: Page, troubles: list[str]) -> None:
    codes = ask(place, f"""
      document.head.append(Object.assign(document.createElement("meta"),
        {{ httpEquiv: "Content-Security-Policy", content: "{policy}" }}));
      await begin({{ workers: {{ pictures: "/package/{name}" }} }});
      const seen = [];
      client.attach(canvas("one"), {{ onPresented: (picture) => seen.push(picture) }});
      await until(() => seen.length >= 30);
      return diagnostics;
    """)  # fmt: skip
    assert codes == ["no_worker"]
    assert place.workers == []
    troubles.clear()  # what the browser says of the worker


def test_files_messages_and_errors(place: Page) -> None:
    told = ask(place, """
      await begin();
      const loop = client.messages();
      const parts = [];
      const five = new File(["12345"], "five.txt", { type: "text/plain" });
      const file = await client.upload(five, { onProgress: (part) => parts.push(part) });
      const { reply } = await client.command("size", { file: { upload_id: file.upload_id } });
      const { value: { type, data } } = await loop.next();
      const facts = ({ name, code, path, applied }) => ({ name, code, path, applied });
      const refused = await client.command("set_brightness", { brightness: 7 }).catch(facts);
      return { file, reply, type, data, refused, last: parts.at(-1) };
    """)  # fmt: skip
    file = told["file"]
    assert (file["name"], file["mime_type"], file["size"], told["last"]) == ("five.txt", "text/plain", 5, 1)
    assert (told["reply"], told["type"], told["data"]) == (5, "progress", {"step": 7})
    assert told["refused"] == {"name": "CommandError", "code": "invalid_command", "path": "$.brightness", "applied": False}


def test_a_canvas_a_camera_a_microphone_and_pictures_of_ones_own_reach_the_model(place: Page) -> None:
    told = ask(place, """
      await begin();
      await client.ready;
      const look = async () => (await client.command("look")).reply;
      const grey = canvas("grey");
      const context = grey.getContext("2d");
      const paint = setInterval(() => { context.fillStyle = "rgb(200 200 200)"; context.fillRect(0, 0, 64, 48); }, 20);
      const publication = await client.publish("camera", grey, { width: 64, height: 48 });
      await until(async () => Math.abs((await look()) - 200) < 4);
      const sent = publication.sent;
      publication.stop();
      clearInterval(paint);
      const bitmap = new OffscreenCanvas(32, 32);
      const other = bitmap.getContext("2d");
      other.fillStyle = "rgb(60 60 60)";
      other.fillRect(0, 0, 32, 32);
      await until(async () => { await client.push("camera", bitmap); return Math.abs((await look()) - 60) < 4; });
      const camera = await client.publish("camera", "camera");
      await until(() => camera.sent > 5);
      camera.stop();
      let loudest = 0;
      const onLevel = (level) => { loudest = Math.max(loudest, level); };
      const microphone = await client.publish("microphone", "microphone", { onLevel });
      await until(async () => (await client.command("listen")).reply > 0);
      microphone.stop();
      const wrong = await client.publish("nothing", grey).catch(({ message }) => message);
      return { sent: sent > 0, ended: camera.media.getTracks()[0].readyState, loud: loudest > 0, wrong };
    """)  # fmt: skip
    assert told == {
        "sent": True, "ended": "ended", "loud": True,
        "wrong": 'the model has no input "nothing"; it has "camera", "microphone"',
    }  # fmt: skip


def test_sound_plays_after_a_gesture_and_a_recording_has_it(place: Page) -> None:
    ask(place, """
      await begin();
      await client.ready;
      const button = element("button", { id: "go", textContent: "go" });
      window.states = [client.sound.state];
      client.sound.subscribe(() => states.push(client.sound.state));
      button.addEventListener("click", () => client.sound.start());
    """)  # fmt: skip
    place.click("#go")
    told = ask(place, """
      await until(() => client.sound.state === "on");
      const seen = [];
      const view = client.attach(canvas("one"), { onPresented: (picture) => seen.push(picture) });
      await until(() => seen.length > 3);
      const recording = view.record();
      await until(() => seen.length > 20);
      const blob = await recording.stop();
      await client.sound.stop();
      return { type: blob.type.split(";")[0], size: blob.size > 500, first: states[0], last: states.at(-1) };
    """)  # fmt: skip
    assert told["first"] == "off"
    assert told["last"] == "off"
    assert told["type"] in ("video/mp4", "video/webm")
    assert told["size"]


def test_a_stream_for_a_video_element_plays(place: Page) -> None:
    size = ask(place, """
      await begin();
      const stream = client.stream({ audio: false });
      const video = Object.assign(document.createElement("video"), { muted: true, srcObject: stream });
      document.body.append(video);
      await video.play();
      await until(() => video.videoWidth === 64 && video.currentTime > 0.2);
      return [video.videoWidth, video.videoHeight];
    """)  # fmt: skip
    assert size == [64, 48]


# ---- who is not let in ------------------------------------------------------------------------------------------------


REFUSED = """
  const { connect } = await import("/package/index.js");
  const client = connect(ADDRESS, { memory: null, ...OPTIONS });
  const told = new Promise((resolve) => client.on("state", (state) => {
    const error = state.status === "waiting" ? state.error : state.status === "ended" ? state.end : null;
    if (!error) return;
    const { name, code, status, message } = error;
    resolve({ state: state.status, name, code, status, message });
  }));
  const found = await told;
  await client.close();
  return found;
"""
TOKEN = "a-token-of-sixteen-characters"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that wants a token, and lets pages of one other origin in."""
    project = tmp_path_factory.mktemp("guarded")
    (project / "painter.py").write_text(MODEL)
    (project / "reactor.yaml").write_text(f"model: painter:Painter\nruntime: {{auth: {{token: {TOKEN}}}}}\n")
    with real_server(project, "--origin", "http://listed.test") as address:
        yield address


@pytest.mark.parametrize(
    ("host", "options", "expected"),
    [
        ("listed.test", "{}", ("ended", "token_wanted", 401)),
        ("listed.test", f"{{token: '{TOKEN}', model: 'another'}}", ("ended", "wrong_model", 404)),
        ("listed.test", f"{{token: '{TOKEN}', role: 'viewer'}}", ("waiting", "busy", 503)),
        ("stranger.test", f"{{token: '{TOKEN}'}}", ("ended", "origin", 403)),
    ],
)  # fmt: skip
def test_a_page_of_another_origin_learns_why_it_is_refused(
    page: Page, troubles: list[str], package: Path, guarded: str, host: str, options: str, expected: tuple[str, str, int]
) -> None:
    answer_with(page, package)
    page.goto(f"http://{host}/package/empty.html")
    told = ask(page, REFUSED.replace("ADDRESS", repr(guarded)).replace("OPTIONS", options))
    assert (told["name"], told["state"], told["code"], told["status"]) == ("ConnectionRefused", *expected)
    assert told["message"]
    troubles.clear()  # the browser itself tells a WebSocket that was refused


def test_a_server_that_is_not_there_is_unreachable(page: Page, troubles: list[str], package: Path) -> None:
    answer_with(page, package)
    page.goto("http://listed.test/package/empty.html")
    told = ask(page, REFUSED.replace("ADDRESS", "'http://127.0.0.1:9'").replace("OPTIONS", "{}"))
    assert (told["state"], told["code"]) == ("waiting", "unreachable")
    assert "127.0.0.1:9 cannot be reached" in told["message"]
    troubles.clear()
