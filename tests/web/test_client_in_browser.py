"""The web client in browsers, against real servers: pictures, frames, sound, inputs, lost links, and what is lazy."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.support.browser_page import BrowserPage
from tests.support.cut_link import cut_link, port_of
from tests.support.fake_page_server import command, fake_server, picture
from tests.support.painter_page import PAGE
from tests.web.conftest import TOKEN, facts

VECTORS = json.loads((Path(__file__).parents[2] / "docs" / "reference" / "protocol-vectors.json").read_text())["packets"]


def test_a_view_shows_the_models_pictures_and_reports_each_of_them(place: BrowserPage) -> None:
    shown = place.ask("""
      await begin();
      const seen = [];
      const view = client.attach(canvas("one"), { lead: false, onPresented: (picture) => seen.push(picture) });
      const { step } = await client.command("set_brightness", { brightness: 0.5 });
      await until(() => seen.some((picture) => picture.step >= step + 5));
      const last = seen.at(-1).step;
      const image = await createImageBitmap(await view.snapshot());
      const { tracks, latency } = client.statistics();
      return {
        seen, step, track: view.track, size: [view.width, view.height], number: await number(image), last,
        statistics: tracks.main_video, latency, state: client.state.status, value: client.setting("brightness").value,
      };
    """)  # fmt: skip
    assert (shown["track"], shown["size"], shown["state"], shown["value"]) == ("main_video", [64, 48], "live", 0.5)
    seqs = [picture["seq"] for picture in shown["seen"]]
    assert seqs == sorted(set(seqs))
    made = [picture for picture in shown["seen"] if picture["step"] >= shown["step"]]
    assert made[0]["command"] == 1
    assert all(picture["ptsUs"] > 0 and picture["meta"]["timing"] for picture in made)
    assert shown["number"] >= shown["last"]  # one may have been drawn since
    assert shown["statistics"]["received"] >= len(seqs)
    assert shown["latency"]["count"] == 1


def test_frames_are_decoded_and_carry_their_step(place: BrowserPage) -> None:
    frames = place.ask("""
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


def test_views_frames_and_packets_tell_the_same_of_a_step(place: BrowserPage, engine: str) -> None:
    # WebKit makes pictures of the page and of a worker with one converter, and some of the page's are then black.
    workers = "{ pictures: false }" if engine == "WebKitGTK" else "{}"
    told = place.ask(
        f"await begin({{ workers: {workers} }});"
        + """
      const [views, frames, packets] = [new Map(), new Map(), new Map()];
      const stop = new AbortController();
      const facts = ({ ptsUs, step, command }) => [ptsUs, step, command];
      client.attach(canvas("one"), { lead: false, onPresented: (picture) => views.set(picture.seq, facts(picture)) });
      const loops = [
        (async () => {
          for await (const frame of client.frames("main_video", stop)) {
            frames.set(frame.seq, [...facts(frame), await number(frame.image)]);
            frame.image.close();
          }
        })(),
        (async () => {
          for await (const packet of client.packets("main_video", stop)) packets.set(packet.seq, facts(packet));
        })(),
      ];
      const same = () => [...views.keys()].filter((seq) => frames.has(seq) && packets.has(seq));
      await until(() => same().length > 10);
      stop.abort();
      await Promise.all(loops);
      return same().map((seq) => [views.get(seq), packets.get(seq), frames.get(seq)]);
    """
    )
    for view, packet, [*frame, painted] in told:
        assert view == packet == frame
        assert painted == view[1]


def test_views_that_are_released_leave_room_for_others(place: BrowserPage) -> None:
    told = place.ask("""
      await begin();
      const widths = [];
      for (let i = 0; i < 5; i++) {
        const where = canvas(`number${i}`);
        const view = await new Promise((resolve) => {
          const view = client.attach(where, { onPresented: () => resolve(view) });
        });
        view.release();
        widths.push(where.width);
        where.remove();
      }
      return { widths, diagnostics };
    """)
    assert told == {"widths": [64] * 5, "diagnostics": []}


def test_a_canvas_with_a_context_is_drawn_on_by_the_page(place: BrowserPage) -> None:
    shown = place.ask("""
      const used = canvas("used");
      const context = used.getContext("2d");
      await begin();
      const seen = [];
      client.attach(used, { lead: false, onPresented: (picture) => seen.push(picture) });
      await until(() => seen.length > 5);
      return context.getImageData(60, 20, 1, 1).data[0] > 200;
    """)
    assert shown


def test_a_client_that_takes_no_picture_costs_no_video(place: BrowserPage) -> None:
    told = place.ask("""
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


def test_two_views_of_a_track_and_a_second_track(place: BrowserPage) -> None:
    told = place.ask("""
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
NO_WORKER = {"missing": ("none.js", ""), "a page": ("index.html", ""), "blocked": ("decoder-worker.js", "worker-src 'none'")}


@pytest.mark.parametrize(("name", "policy"), NO_WORKER.values(), ids=NO_WORKER)
def test_without_its_worker_it_still_plays_and_says_so(name: str, policy: str, place: BrowserPage) -> None:
    codes = place.ask(f"""
      document.head.append(Object.assign(document.createElement("meta"),
        {{ httpEquiv: "Content-Security-Policy", content: "{policy}" }}));
      await begin({{ workers: {{ pictures: "/{name}" }} }});
      const seen = [];
      client.attach(canvas("one"), {{ onPresented: (picture) => seen.push(picture) }});
      await until(() => seen.length >= 30);
      return diagnostics;
    """)  # fmt: skip
    assert codes == ["no_worker"]
    place.said.clear()  # what the browser says of the worker


def test_files_messages_and_errors(place: BrowserPage) -> None:
    told = place.ask("""
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


def test_a_canvas_a_camera_and_pictures_of_ones_own_reach_the_model(place: BrowserPage) -> None:
    told = place.ask("""
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
      const wrong = await client.publish("nothing", grey).catch(({ message }) => message);
      return { sent: sent > 0, ended: camera.media.getTracks()[0].readyState, wrong };
    """)  # fmt: skip
    wrong = 'the model has no input "nothing"; it has "camera", "microphone"'
    assert told == {"sent": True, "ended": "ended", "wrong": wrong}


SILENT = "plays no sound where the machine has no device for it"


def gesture(place: BrowserPage, engine: str, config: pytest.Config, script: str) -> None:
    """Begin a session, and click a button that runs `script`. Skips if the browser plays no sound on this machine at all."""
    if SILENT in facts(config, engine):
        pytest.skip(f"{engine} {SILENT}")
    place.ask(f"""
      await begin();
      await client.ready;
      element("button", {{ id: "go", textContent: "go" }}).addEventListener("click", () => {{
        const context = new AudioContext();
        window.heard = context.resume().then(() => context.close()).then(() => true);
        {script}
      }});
    """)
    place.click("#go")
    if not place.ask("return await Promise.race([heard, new Promise((resolve) => setTimeout(resolve, 3000))])"):
        facts(config, engine).append(SILENT)
        pytest.skip(f"{engine} {SILENT}")


def test_a_microphone_reaches_the_model(place: BrowserPage, engine: str, pytestconfig: pytest.Config) -> None:
    gesture(place, engine, pytestconfig, "")
    assert place.ask("""
      let loudest = 0;
      const onLevel = (level) => { loudest = Math.max(loudest, level); };
      const microphone = await client.publish("microphone", "microphone", { onLevel });
      await until(async () => (await client.command("listen")).reply > 0 && loudest > 0);
      microphone.stop();
      return true;
    """)


RECORD = """
  const records = ["video/mp4", "video/webm"].some((type) => MediaRecorder.isTypeSupported(type));
  const seen = [];
  const view = client.attach(canvas("one"), { onPresented: (picture) => seen.push(picture) });
  await until(() => seen.length > 3);
  const recording = view.record();
  const then = seen.length;
  await until(() => seen.length > then + 15);
  const { type, size, message } = await recording.stop().catch((error) => error);
"""
RECORDED = "return records ? /^video.(mp4|webm)/.test(type) && size > 500 : message === 'this browser cannot record video';"


def test_a_recording_has_the_pictures(place: BrowserPage) -> None:
    assert place.ask(f"await begin(); {RECORD} {RECORDED}")


def test_sound_plays_after_a_gesture_and_a_recording_has_it(
    place: BrowserPage, engine: str, pytestconfig: pytest.Config
) -> None:
    gesture(place, engine, pytestconfig, """
      window.states = [client.sound.state];
      client.sound.subscribe(() => states.push(client.sound.state));
      client.sound.start();
    """)  # fmt: skip
    assert place.ask(f"await until(() => client.sound.state === 'on'); {RECORD} {RECORDED}")
    states = place.ask("await client.sound.stop(); return states;")
    assert (states[0], states[-1]) == ("off", "off")


def test_a_stream_for_a_video_element_plays(place: BrowserPage) -> None:
    size = place.ask("""
      await begin();
      const stream = client.stream({ audio: false });
      const video = Object.assign(document.createElement("video"), { muted: true, srcObject: stream });
      document.body.append(video);
      await video.play();
      await until(() => video.videoWidth === 64 && video.currentTime > 0.2);
      return [video.videoWidth, video.videoHeight];
    """)  # fmt: skip
    assert size == [64, 48]


# ---- what the browser has -----------------------------------------------------------------------------------------------


CODECS = """
  const strings = { h264: "avc1.42E01F", vp8: "vp8", vp9: "vp09.00.10.08", av1: "av01.0.04M.08" };
  const codecs = [];
  for (const [name, codec] of Object.entries(strings)) {
    if ((await VideoDecoder.isConfigSupported({ codec })).supported) codecs.push(name);
  }
  await begin({ video: [...codecs, "jpeg", "raw"] });
  const seen = [];
  const view = client.attach(canvas("one"), { onPresented: (picture) => seen.push(picture) });
  await client.ready;
  const shown = [];
  for (const codec of [...codecs, "jpeg", "raw"]) {
    client.requestVideo([codec]);
    const { step } = await client.command("set_brightness", { brightness: 1 });
    const ofCodec = () => client.statistics().tracks.main_video?.codec === codec;
    await until(() => ofCodec() && seen.some((picture) => picture.step > step + 5));
    const since = seen.at(-1).step;
    const painted = await number(await createImageBitmap(await view.snapshot()));
    shown.push([codec, painted >= since && painted <= since + 30]);
  }
  return { shown, diagnostics };
"""


def test_each_codec_of_the_browser_shows_pictures(place: BrowserPage, engine: str, pytestconfig: pytest.Config) -> None:
    told = place.ask(CODECS)
    assert told == {"shown": [[codec, True] for codec, _ in told["shown"]], "diagnostics": []}
    codecs = [codec for codec, _ in told["shown"]]
    assert {"vp8", "jpeg", "raw"} <= set(codecs)
    facts(pytestconfig, engine).append("shows " + ", ".join(codecs))


def test_without_webcodecs_it_shows_jpeg_and_says_so(place: BrowserPage) -> None:
    told = place.ask("""
      delete globalThis.VideoDecoder;
      await begin();
      const seen = [];
      client.attach(canvas("one"), { onPresented: (picture) => seen.push(picture) });
      await until(() => seen.length > 3);
      return { diagnostics, codec: client.statistics().tracks.main_video.codec };
    """)
    assert told == {"diagnostics": ["no_webcodecs"], "codec": "jpeg"}


READ_VECTORS = """
  const { decodePacket, encodePacket } = await import(`${location.origin}/wire.js`);
  const bytes = (hex) => Uint8Array.from(hex.match(/../g) ?? [], (digits) => parseInt(digits, 16));
  const hex = (bytes) => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  const decoded = (text) => {
    const { ptsUs, payload, ...head } = decodePacket(bytes(text));
    return { ...head, pts_us: ptsUs, payload: hex(payload) };
  };
  const refuses = (text) => { try { decoded(text); return false; } catch { return true; } };
  return {
    decoded: [...exact, ...accepted].map((vector) => decoded(vector.hex)),
    encoded: exact.map(({ packet: { pts_us, payload, ...head } }) =>
      hex(encodePacket({ ...head, ptsUs: pts_us, payload: bytes(payload) }))),
    refused: refused.map((vector) => refuses(vector.hex)),
  };
"""


def test_packets_are_read_and_written_as_the_protocol_says(tab: BrowserPage, site: str) -> None:
    tab.go(site)
    told = tab.ask(f"const {{ exact, accepted, refused }} = {json.dumps(VECTORS)}; {READ_VECTORS}")
    assert told["decoded"] == [vector["packet"] for vector in VECTORS["exact"] + VECTORS["accepted"]]
    assert told["encoded"] == [vector["hex"] for vector in VECTORS["exact"]]
    assert all(told["refused"])
    assert len(told["refused"]) == len(VECTORS["refused"])


def test_the_built_page_shows_the_model(tab: BrowserPage, painter: str) -> None:
    tab.go(painter)
    told = tab.ask(f"""
      {PAGE}
      const picture = () => document.querySelector("canvas[data-track=main_video]");
      const numbers = [0];
      while (numbers.length < 6) {{
        await new Promise(requestAnimationFrame);
        const now = picture()?.width === 64 ? await number(picture()) : 0;
        if (now > numbers.at(-1)) numbers.push(now);
      }}
      return {{ numbers, errors }};
    """)
    assert told["numbers"][-1] < 10_000, "what the model has painted"
    assert told["errors"] == []


BRIGHTNESS = command("set_brightness", brightness={"type": "number", "minimum": 0, "maximum": 2, "default": 1.0})
PUT = """
  const slider = document.querySelector("[data-command=set_brightness] input");
  slider.value = "1.5";
  for (const event of ["input", "change"]) slider.dispatchEvent(new Event(event, { bubbles: true }));
  window.statuses = [];
  const status = document.querySelector("#status");
  const look = () => statuses.push(status.textContent);
  new MutationObserver(look).observe(status, { subtree: true, childList: true, characterData: true });
"""


def test_the_page_says_that_pictures_stay_out_and_why_the_session_before_ended(tab: BrowserPage) -> None:
    """A link that carries nothing any more, on a server that keeps no sessions; then a failure with a queue after it."""

    def wait(condition: str) -> None:
        tab.ask(f"""
          const text = (selector) => document.querySelector(selector)?.textContent ?? "";
          const shown = (selector) => document.querySelector(selector)?.checkVisibility() ?? false;
          const end = performance.now() + 60_000;
          while (!({condition})) {{
            if (performance.now() > end) throw new Error({json.dumps(condition)} + ": " + document.body.innerText);
            await new Promise((resolve) => setTimeout(resolve, 50));
          }}
        """)

    with fake_server() as server:
        tab.go(server.url)
        peer = server.accept()
        peer.welcome(BRIGHTNESS, heartbeat=2.0)
        peer.say("reactor.beat", {})
        wait("document.body.dataset.state === 'live'")
        tab.ask(PUT)
        peer.ack(peer.next())
        for seq in range(12):
            peer.frame(seq, picture(20 * seq, 0, 0))
            time.sleep(0.05)
        peer = server.accept()  # after two heartbeats the link is lost, and the page asks for another session
        statuses = tab.ask("return statuses")
        quiet = statuses.index("no pictures for 3 s")
        assert "disconnected" not in statuses[:quiet]
        assert "disconnected" in statuses[quiet:]

        peer.welcome(BRIGHTNESS)
        wait("shown('#old-settings')")  # the words of the loss were on the stage
        tab.click("#old-settings")
        asked = peer.next()
        assert (asked["type"], asked["data"]) == ("set_brightness", {"brightness": 1.5})
        peer.ack(asked)
        wait("!shown('.toast')")
        peer.say("reactor.late", {"what": "step 7 has run", "seconds": 5.0})
        wait("text('#stats').includes('step 7 has run for 6 s') && text('#status') === 'starting'")
        peer.say("reactor.late", {"what": None, "seconds": 0.0})
        wait("!text('#stats').includes('step 7 has run')")

        peer.bye("model_error")
        peer = server.accept()
        peer.say("reactor.queued", {"position": 2, "total": 2})
        wait("text('#overlay-text') === 'One person is before you.' && !shown('#old-settings')")
        peer.welcome(BRIGHTNESS)
        wait("text('.toast').startsWith('The model failed and began again.') && shown('#old-settings')")
        tab.click("#dismiss")
        wait("!shown('.toast')")


# ---- a link that is lost, and a page that is loaded again ---------------------------------------------------------------


def test_a_lost_link_is_resumed_and_commands_are_applied_once(place: BrowserPage, guarded: str) -> None:
    with cut_link(port_of(guarded)) as link:
        count = place.ask(f"""
          await begin({{ server: "http://127.0.0.1:{link.port}/", token: "{TOKEN}" }});
          window.seen = [];
          window.heard = [];
          client.on("resumed", ({{ missed }}) => heard.push(missed));
          client.attach(canvas("one"), {{ onPresented: (picture) => seen.push(picture) }});
          await until(() => seen.length > 3);
          window.session = client.session.id;
          return (await client.command("count")).reply + 1;
        """)
        link.drop()
        place.ask("""
          await until(() => client.state.status === "resuming");
          window.counted = [1, 2, 3].map(() => client.command("count"));
        """)
        link.restore()
        told = place.ask("""
          const replies = (await Promise.all(counted)).map(({ reply }) => reply);
          const then = seen.length;
          await until(() => seen.length > then + 3);
          const same = client.session.id === session;
          await client.close();
          return { replies, same, heard, comebacks: client.statistics().comebacks };
        """)
        assert link.idle.wait(60)
    assert told == {"replies": [count, count + 1, count + 2], "same": True, "heard": [0], "comebacks": 1}
    place.said.clear()  # a browser may tell the link


def test_a_page_that_is_loaded_again_finds_its_session(place: BrowserPage, site: str, guarded: str) -> None:
    begin = f"""
      const Socket = class extends WebSocket {{
        constructor(...values) {{
          super(...values);
          window.socketEnd = new Promise((tell) => this.addEventListener("close", tell));
        }}
      }};
      await begin({{ server: '{guarded}', token: '{TOKEN}', memory: undefined, WebSocket: Socket }});
    """
    count = "await client.ready; return [client.session.id, (await client.command('count')).reply]"
    session, first = place.ask(begin + count)
    place.go(site)
    place.ask(PAGE)
    assert place.ask(begin + count) == [session, first + 1]
    assert place.ask("await client.close(); return (await socketEnd).code") == 1000  # so the server keeps it for nobody


# ---- who is not let in ------------------------------------------------------------------------------------------------


REFUSED = """
  await begin(OPTIONS);
  const told = new Promise((resolve) => client.on("state", (state) => {
    const error = state.status === "waiting" ? state.error : state.status === "ended" ? state.end : null;
    if (!error) return;
    const { name, code, status, message } = error;
    resolve({ state: state.status, name, code, status, message });
  }));
  return await told;
"""


@pytest.mark.parametrize(
    ("host", "options", "expected"),
    [
        ("127.0.0.1", "", ("ended", "token_wanted", 401)),
        ("127.0.0.1", f"token: '{TOKEN}', model: 'another'", ("ended", "wrong_model", 404)),
        ("127.0.0.1", f"token: '{TOKEN}', role: 'viewer'", ("waiting", "busy", 503)),
        ("localhost", f"token: '{TOKEN}'", ("waiting", "origin", 403)),  # only the other one is listed
    ],
)  # fmt: skip
def test_a_page_of_another_origin_learns_why_it_is_refused(
    place: BrowserPage, site: str, guarded: str, host: str, options: str, expected: tuple[str, str, int]
) -> None:
    place.go(site.replace("127.0.0.1", host))
    place.ask(PAGE)
    told = place.ask(REFUSED.replace("OPTIONS", f"{{ server: '{guarded}', {options} }}"))
    assert (told["name"], told["state"], told["code"], told["status"]) == ("ConnectionRefused", *expected)
    assert told["message"]
    if told["code"] == "origin":  # or a proxy's fault, so it tries once more
        assert place.ask("return (await client.ended).code") == "origin"
    place.said.clear()  # the browser itself tells a WebSocket that was refused


def test_a_server_that_is_not_there_is_unreachable(place: BrowserPage) -> None:
    told = place.ask(REFUSED.replace("OPTIONS", "{ server: 'http://127.0.0.1:9' }"))
    assert (told["state"], told["code"]) == ("waiting", "unreachable")
    assert "127.0.0.1:9 cannot be reached" in told["message"]
    place.said.clear()
