// What a client does while its page is hidden, or kept by the browser to go back to.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Figures } from "../src/client/figures.ts";
import { Outputs, type Taker } from "../src/client/outputs.ts";
import { type ConnectOptions, connect } from "../src/index.ts";
import { CaptureClock } from "../src/input/capture-clock.ts";
import { scriptedServer } from "../src/testing.ts";
import type { TrackDescription } from "../src/wire/messages.ts";
import type { Packet, Session } from "../src/wire/protocol.ts";

const payload = new Uint8Array(1);
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** A browser's window with a page; the returned functions do what a browser does with it. */
function page(t: TestContext) {
  const window = new EventTarget();
  const document = Object.assign(new EventTarget(), { hidden: false, baseURI: "http://model.test/" });
  const fakes = { document, addEventListener: window.addEventListener.bind(window) };
  Object.assign(globalThis, fakes);
  t.after(() => Object.keys(fakes).forEach((name) => Reflect.deleteProperty(globalThis, name)));
  return {
    hide(hidden: boolean): void {
      document.hidden = hidden;
      document.dispatchEvent(new Event("visibilitychange"));
    },
    transition: (type: "pagehide" | "pageshow", persisted: boolean) => window.dispatchEvent(Object.assign(new Event(type), { persisted })),
  };
}

function begin(options: ConnectOptions = {}) {
  const server = scriptedServer();
  const client = connect("http://model.test/", { WebSocket: server.WebSocket, video: ["jpeg"], memory: null, ...options });
  return { server, client };
}

// ---- hidden ------------------------------------------------------------------------------------------------------------

test("with pauseHidden a hidden page asks for no pictures, and what was not sent meanwhile is not missing", async (t) => {
  const { hide } = page(t);
  const { server, client } = begin({ pauseHidden: true });
  const loop = client.packets();
  const connection = await server.connection();
  connection.welcome();
  await settled();
  assert.equal(connection.received.length, 0); // the connection has asked for pictures
  connection.frame({ seq: 0, payload });
  hide(true);
  assert.deepEqual((await connection.next()).data, { video: ["none"] });
  connection.frame({ seq: 1, payload }); // was on the way
  hide(false);
  assert.deepEqual((await connection.next()).data, { video: ["jpeg"] });
  for (const seq of [900, 901, 903]) connection.frame({ seq, payload });
  assert.equal(client.statistics().tracks.main_video?.missing, 1);
  await client.close();
  await loop.return?.();
});

test("a client that ended on a hidden page and connects again on a visible one asks for pictures", async (t) => {
  const { hide } = page(t);
  const { server, client } = begin({ pauseHidden: true });
  void client.packets();
  const first = await server.connection();
  first.welcome();
  await settled();
  hide(true);
  await first.next();
  first.bye("done");
  await client.ended;
  hide(false);
  client.reconnect();
  const second = await server.connection();
  second.welcome();
  void client.packets();
  assert.deepEqual((await second.next()).data, { video: ["jpeg"] });
  await client.close();
});

const track = (index: number, name: string): TrackDescription =>
  ({ index, name, kind: "video", direction: "out", codec: "jpeg" }) as TrackDescription;

test("a view that records keeps its track, and no other one, while the page is hidden", (t) => {
  const { hide } = page(t);
  const asked: unknown[] = [];
  const session = {
    tracks: [track(0, "main_video"), track(1, "depth")],
    linked: true,
    requestVideo: (...what: unknown[]) => asked.push(what),
  } as unknown as Session;
  const outputs = new Outputs(["jpeg"], ["jpeg"], { received() {}, asked() {}, steppedDown() {} }, true);
  const taker = (wanted: string): Taker & { recording: boolean } => ({
    wanted,
    recording: false,
    begin() {},
    describe() {},
    take() {},
    end() {},
  });
  const [main, depth] = [taker("main_video"), taker("depth")];
  outputs.connecting();
  outputs.beginSession(session);
  outputs.add(main);
  outputs.add(depth);
  asked.length = 0;
  depth.recording = true;
  outputs.ask();
  hide(true);
  outputs.ask();
  depth.recording = false;
  outputs.ask();
  main.recording = true; // its recorder was loaded meanwhile
  outputs.ask();
  hide(false);
  outputs.ask();
  assert.deepEqual(asked, [
    [["jpeg"], { main_video: ["none"] }],
    [["none"], {}],
    [["jpeg"], { depth: ["none"] }],
    [["jpeg"], {}],
  ]);
});

test("the time without pictures that were not asked for is no freeze, and no command waits for its picture in it", () => {
  const main = track(0, "main_video");
  const figures = new Figures([main], new CaptureClock());
  const show = (seq: number, now: number, command: number | null = null): void => {
    const packet = { track: 0, seq, ptsUs: now * 1000, flags: 1, command, step: seq, meta: {}, payload: new Uint8Array(1) } as Packet;
    figures.received(packet, main);
    figures.shown(packet, now, null, main, null);
  };
  for (let i = 0; i < 40; i++) show(i, i * 40);
  figures.sent(1);
  figures.rest();
  for (let i = 0; i < 40; i++) show(3000 + i, 120_000 + i * 40, 1);
  const { tracks, commandToPicture } = figures.snapshot();
  const { missing, freezes, frozen } = tracks.main_video ?? {};
  assert.deepEqual([missing, freezes, frozen, commandToPicture], [0, 0, 0, null]);
});

// ---- kept to go back to ------------------------------------------------------------------------------------------------

test("a page that the browser goes back to resumes its session", async (t) => {
  t.mock.method(Math, "random", () => 0);
  const { transition } = page(t);
  const { server, client } = begin({ memory: { load: () => null, save() {} } });
  const first = await server.connection();
  first.welcome({ resume_token: "r", resume_window: 10 });
  await client.ready;
  transition("pagehide", true);
  assert.equal(first.closed, null);
  transition("pageshow", true);
  first.lose(); // a browser keeps no link
  await settled();
  assert.equal(client.state.status, "resuming");
  const second = await server.connection();
  assert.equal(second.url.searchParams.get("resume"), "r");
  second.welcome({ resume_token: "r", resume_window: 10, resumed: true, received: 0, missed: 0 });
  await settled();
  assert.equal(client.state.status, "live");
  await client.close();
});

for (const resume_token of [null, "r"])
  test(`a page that the browser goes back to begins a session if it has left its own (${resume_token}), but not after a loss`, async (t) => {
    const { transition } = page(t);
    const { server, client } = begin(); // nothing is saved, so the session is left: the next client need not wait for it
    const first = await server.connection();
    first.welcome({ resume_token, resume_window: 10 });
    await client.ready;
    t.mock.timers.enable({ apis: ["setTimeout"] });
    transition("pagehide", true);
    assert.equal(first.closed, 1000);
    transition("pageshow", true); // a browser may tell that the socket is closed before, or after it
    await settled();
    assert.equal(client.state.status, "waiting");
    t.mock.timers.tick(1000);
    const second = await server.connection();
    second.welcome({ resume_token: null });
    await settled();
    assert.equal(client.state.status, "live");
    second.lose();
    assert.equal((await client.ended)?.code, "ended");
  });
