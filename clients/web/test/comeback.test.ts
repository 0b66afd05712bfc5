// Resuming a session over another socket, under Node, with sockets that the test controls.
import assert from "node:assert/strict";
import { afterEach, type TestContext, test } from "node:test";
import { defaultMemory } from "../src/client/memory.ts";
import { loadSession } from "../src/client/saved-sessions.ts";
import type { Client, Memory } from "../src/index.ts";
import { connect as connectClient, tabMemory } from "../src/index.ts";
import type { Resumable } from "../src/session/comeback.ts";
import { comeBack } from "../src/session/comeback.ts";
import type { ModelMessage, Resumption, Session, SessionEvents, SessionOptions, Welcome } from "../src/wire.ts";
import { connect, openSocket } from "../src/wire.ts";

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const TRACKS = [
  { index: 0, name: "main_video", direction: "out" },
  { index: 1, name: "camera", direction: "in" },
];
// As much of a welcome as these tests need.
const WELCOME = {
  session_id: "s1",
  name: "m",
  heartbeat: 10,
  tracks: TRACKS,
  resume_token: "r",
  resume_window: 5,
  share_token: "share",
} as unknown as Welcome;

interface SentCommand {
  readonly type: string;
  readonly id: number;
  readonly data: { readonly [argument: string]: unknown };
}

class FakeSocket extends EventTarget {
  static all: FakeSocket[] = [];
  readyState = 1;
  sent: SentCommand[] = [];
  closed: number | undefined;
  url: string;
  constructor(url: string) {
    super();
    this.url = url;
    FakeSocket.all.push(this);
  }
  static get last(): FakeSocket {
    const last = FakeSocket.all.at(-1);
    assert.ok(last);
    return last;
  }
  send(text: string): void {
    this.sent.push(JSON.parse(text));
  }
  close(code: number): void {
    this.closed = code;
  }
  say(type: string, data: unknown, more: { id?: number; n?: number } = {}): void {
    this.dispatchEvent(Object.assign(new Event("message"), { data: JSON.stringify({ type, data, ...more }) }));
  }
  end(code: number): void {
    this.readyState = 3;
    this.dispatchEvent(Object.assign(new Event("close"), { code }));
  }
}

// No client of a test that has failed goes on.
afterEach(() => {
  for (const socket of FakeSocket.all.splice(0)) if (socket.readyState === 1) socket.end(1000);
});

const Socket = FakeSocket as unknown as typeof WebSocket;
const EVENTS: readonly (keyof SessionEvents)[] = ["welcome", "track", "keyframe", "message", "lost", "resumed", "closed"];

interface Begun {
  session: Session;
  socket: FakeSocket;
  told: [name: string, detail: unknown][];
  names(): string[];
}

function begin(welcome: Welcome = WELCOME, options: Partial<SessionOptions> = {}): Begun {
  const session = connect({ url: "ws://host/ws", WebSocket: Socket, comesBack: true, ...options });
  const told: Begun["told"] = [];
  for (const type of EVENTS) session.addEventListener(type, ({ detail }) => told.push([type, detail]));
  const socket = FakeSocket.last;
  socket.dispatchEvent(new Event("open"));
  socket.say("reactor.welcome", welcome, { n: 1 });
  return { session, socket, told, names: () => told.map(([name]) => name) };
}

const again = (): FakeSocket & WebSocket => openSocket({ url: "ws://host/ws", WebSocket: Socket }) as FakeSocket & WebSocket;

test("no command is lost or sent twice, and no message arrives twice", async () => {
  const { session, socket, told, names } = begin();
  const first = session.command("move", { x: 1 });
  const second = session.command("move", { x: 2 });
  const third = session.command("move", { x: 3 });
  socket.say("reactor.ack", { step: 1 }, { id: 1, n: 2 });
  assert.equal((await first).id, 1);
  socket.end(1006);
  assert.equal(session.linked, false);
  const fourth = session.command("move", { x: 4 });
  assert.equal(session.push({ track: 1, seq: 0, ptsUs: 0, payload: new Uint8Array() }), false);
  session.feedback(0, 3, 0);
  const next = again();
  const answer = session.resume(next, 1000);
  next.say("reactor.welcome", { ...WELCOME, resumed: true, received: 2, missed: 0 }, { n: 1 });
  assert.equal(await answer, "resumed");
  assert.deepEqual(
    next.sent.map(({ id, data }) => [id, data.x]),
    [
      [3, 3],
      [4, 4],
    ],
  );
  for (const n of [2, 3, 3]) next.say("progress", { n }, { n });
  for (const id of [2, 3, 4]) next.say("reactor.ack", { step: 2 }, { id, n: 3 + id });
  assert.deepEqual(
    (await Promise.all([second, third, fourth])).map(({ id }) => id),
    [2, 3, 4],
  );
  assert.deepEqual(
    told.filter(([name]) => name === "message").map(([, detail]) => (detail as ModelMessage).data.n),
    [3],
  );
  assert.deepEqual(names(), ["welcome", "lost", "resumed", "track", "keyframe", "message"]);
  assert.equal(session.newest, 7);
  socket.end(1006); // of the one before
  session.command("move", { x: 5 }).catch(() => {});
  assert.equal(next.sent.at(-1)?.id, 5);
  next.end(1000);
  assert.deepEqual(told.at(-1)?.[1], { code: 1000, reason: null, message: "", opened: true, welcomed: true });
});

test("after resuming the values are those of the welcome, and repeated messages do not replace them", async () => {
  const { session, socket } = begin({ ...WELCOME, state: { x: 0, y: 0 } });
  const told: [name: string, state: unknown][] = [];
  for (const type of ["resumed", "state", "track"] as const)
    session.addEventListener(type, ({ detail }) => told.push([type, type === "state" ? detail : null]));
  const set = session.command("set_x", { x: 5 });
  socket.end(1006);
  const next = again();
  const answer = session.resume(next, 1000);
  next.say("reactor.welcome", { ...WELCOME, resumed: true, received: 1, missed: 0, state: { x: 6, y: 1 } }, { n: 1 });
  assert.equal(await answer, "resumed");
  assert.deepEqual(session.state, { x: 6, y: 1 });
  next.say("reactor.ack", { step: 1 }, { id: 1, n: 2 }); // of before; the values follow it
  await set;
  next.say("reactor.state", { x: 6, y: 1 }, { n: 4 });
  assert.deepEqual(session.state, { x: 6, y: 1 });
  assert.deepEqual(told, [
    ["resumed", null],
    ["state", { x: 6, y: 1 }],
    ["track", null],
    ["state", { x: 6, y: 1 }],
  ]);
});

test("waiting commands are sent at a limited rate", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
  const { session, socket } = begin();
  socket.end(1006);
  for (let i = 0; i < 250; i++) session.command("move").catch(() => {});
  const next = again();
  void session.resume(next, 1000);
  next.say("reactor.welcome", { ...WELCOME, resumed: true, received: 0, missed: 0 }, { n: 1 });
  session.command("move").catch(() => {});
  assert.equal(next.sent.length, 100);
  t.mock.timers.tick(1000);
  assert.equal(next.sent.length, 200);
  t.mock.timers.tick(1000);
  assert.equal(next.sent.length, 251);
  session.command("move").catch(() => {});
  assert.equal(next.sent.length, 252);
  next.end(1006);
  for (let i = 252; i < 1024; i++) session.command("move").catch(() => {});
  await assert.rejects(session.command("move"), { code: "busy" });
  session.end("over");
});

test("a session that has ended is not resumed", () => {
  const outcome = (welcome: Welcome, act: (socket: FakeSocket) => void, options?: Partial<SessionOptions>): string | undefined => {
    const { socket, told } = begin(welcome, options);
    act(socket);
    return told.at(-1)?.[0];
  };
  assert.equal(
    outcome(WELCOME, (socket) => socket.end(1006)),
    "lost",
  );
  assert.equal(
    outcome(WELCOME, (socket) => socket.end(1001)),
    "lost",
  );
  const tooSlow = (socket: FakeSocket): void => {
    socket.say("reactor.bye", { reason: "too_slow" });
    socket.end(1008);
  };
  assert.equal(outcome(WELCOME, tooSlow), "lost");
  assert.equal(outcome({ ...WELCOME, resume_token: null }, tooSlow), "closed");
  assert.equal(
    outcome({ ...WELCOME, resume_token: null }, (socket) => socket.end(1006)),
    "closed",
  );
  assert.equal(
    outcome(WELCOME, (socket) => socket.end(1006), { comesBack: false }),
    "closed",
  );
  assert.equal(
    outcome(WELCOME, (socket) => socket.end(1000)),
    "closed",
  );
  assert.equal(
    outcome(WELCOME, (socket) => {
      socket.say("reactor.bye", { reason: "taken_over" });
      socket.end(1001);
    }),
    "closed",
  );
});

test("a session that was left has ended at once, and nothing that its link says later brings it back", () => {
  const { session, socket, told, names } = begin();
  session.close();
  socket.end(1006);
  session.end("lost");
  session.close();
  assert.equal(socket.closed, 1000);
  assert.deepEqual(names(), ["welcome", "closed"]);
  assert.deepEqual(told.at(-1)?.[1], { code: 1000, reason: "client_left", message: "", opened: true, welcomed: true });
});

test("a command that is given while the socket is about to close waits, and is sent when the session resumes", async () => {
  const { session, socket } = begin();
  socket.readyState = 2;
  const waiting = session.command("move", { x: 1 });
  assert.deepEqual(socket.sent, []);
  socket.end(1012);
  const next = again();
  void session.resume(next, 1000);
  next.say("reactor.welcome", { ...WELCOME, resumed: true, received: 0, missed: 0 }, { n: 1 });
  assert.deepEqual(
    next.sent.map(({ id }) => id),
    [1],
  );
  next.readyState = 2; // for good
  const unsent = session.command("move", { x: 2 });
  next.end(1000);
  await assert.rejects(waiting, { code: "closed", applied: "unknown" });
  await assert.rejects(unsent, { code: "closed", applied: false });
});

test("a try reports its result and closes its socket", async () => {
  const { session, socket } = begin();
  socket.end(1006);
  const tried = async (act: (next: FakeSocket) => void): Promise<[Resumption, number | undefined]> => {
    const next = again();
    const answer = session.resume(next, 1);
    act(next);
    return [await answer, next.closed];
  };
  const welcome =
    (data: Partial<Welcome>) =>
    (next: FakeSocket): void =>
      next.say("reactor.welcome", { ...WELCOME, received: 0, missed: 0, ...data }, { n: 1 });
  assert.deepEqual(await tried((next) => next.end(1006)), ["failed", 4000]);
  assert.deepEqual(await tried(() => {}), ["failed", 4000]);
  assert.deepEqual(await tried((next) => next.end(1000)), ["gone", 4000]);
  assert.deepEqual(await tried(welcome({ resumed: false })), ["gone", 1000]);
  assert.deepEqual(await tried(welcome({ resumed: true, session_id: "s2" })), ["gone", 1000]);
  assert.deepEqual(await tried((next) => next.say("reactor.queued", { position: 1, total: 1 })), ["gone", 1000]);
  assert.deepEqual(await tried((next) => next.say("reactor.bye", { reason: "client_left" })), [{ reason: "client_left" }, 1000]);
  const waiting = session.command("move");
  session.end("no more");
  await assert.rejects(waiting, { code: "closed" });
});

test("a command whose answer was discarded rejects with answer_lost", async () => {
  const { session, socket } = begin();
  const first = session.command("move");
  const second = session.command("move");
  socket.end(1006);
  const next = again();
  void session.resume(next, 1000);
  next.say("reactor.welcome", { ...WELCOME, resumed: true, received: 1, missed: 3 }, { n: 1 });
  await assert.rejects(first, { code: "answer_lost", id: 1 });
  next.say("reactor.ack", { step: 1 }, { id: 2, n: 9 });
  assert.equal((await second).id, 2);
});

const noSocket = (): WebSocket => null as unknown as WebSocket;

test("tries go on until the time is over", async () => {
  for (const [window, end] of [
    [5, 5000],
    [null, 60_000],
  ] as const) {
    let time = 0;
    const waits: number[] = [];
    const session: Resumable = {
      welcome: { resume_window: window },
      async resume(_socket, patience) {
        time += Math.min(patience, 50);
        return "failed";
      },
    };
    const clock = {
      random: () => 1,
      now: () => time,
      sleep: async (ms: number): Promise<void> => {
        waits.push(ms);
        time += ms;
      },
    };
    assert.equal(await comeBack(session, noSocket, clock), "late");
    assert.equal(time, end);
    assert.deepEqual(waits.slice(0, 6), [100, 200, 400, 800, 1600, window === 5 ? 1650 : 2000]);
  }
  const session: Resumable = { welcome: { resume_window: 5 }, resume: async () => "gone" };
  assert.equal(await comeBack(session, noSocket, { sleep: async () => {} }), "gone");
});

/** A memory, and the text in it. */
function tab(): Memory & { text: string | null } {
  const memory = {
    text: null as string | null,
    load: () => memory.text,
    save(text: string | null) {
      memory.text = text;
    },
  };
  return memory;
}

/** The events of a browser's window while `t` runs. */
function browserWindow(t: TestContext): EventTarget {
  const events = new EventTarget();
  const faked = { document: {}, addEventListener: events.addEventListener.bind(events) };
  for (const [name, value] of Object.entries(faked)) Object.defineProperty(globalThis, name, { value, configurable: true });
  t.after(() => {
    for (const name of Object.keys(faked)) Reflect.deleteProperty(globalThis, name);
  });
  return events;
}

/** The address that a socket asks at, with what it says of the session: not the codecs and the like. */
function asked({ url }: FakeSocket): string {
  const address = new URL(url);
  for (const name of ["video", "audio", "feedback", "beat", "refusals", "paused", "worlds"]) address.searchParams.delete(name);
  return address.href;
}

test("a reloaded page resumes its session", async (t) => {
  const window = browserWindow(t);
  const memory = tab();
  const open = (): Client => connectClient("http://host/", { WebSocket: Socket, memory });
  const before = open();
  await settled();
  const old = FakeSocket.last;
  old.say("reactor.welcome", WELCOME, { n: 1 });
  old.say("progress", {}, { n: 8 });
  window.dispatchEvent(new Event("pagehide"));
  assert.deepEqual(loadSession(memory), { resume: "r", after: 8, url: "ws://host/ws" });

  const after = open();
  await settled();
  const socket = FakeSocket.last;
  socket.dispatchEvent(new Event("open"));
  assert.equal(asked(socket), "ws://host/ws?resume=r&after=8&follow=1");
  socket.say("reactor.welcome", { ...WELCOME, resumed: true, received: 3, missed: 0 }, { n: 1 });
  after.command("move").catch(() => {});
  assert.equal(socket.sent[0]?.id, 4);
  socket.say("reactor.bye", { reason: "done" });
  socket.end(1001);
  assert.equal(memory.load(), null);
  await after.ended;
  old.end(1000); // the first page is gone
  await before.ended;
  window.dispatchEvent(new Event("pagehide"));
  assert.equal(memory.load(), null);
});

test("without a valid saved session a new session begins", (t) => {
  const kept: { [name: string]: string } = {};
  let storage = (): unknown => {
    throw new Error("not allowed");
  };
  Object.defineProperty(globalThis, "sessionStorage", { get: () => storage(), configurable: true });
  t.after(() => Reflect.deleteProperty(globalThis, "sessionStorage"));
  const refusing = tabMemory();
  assert.equal(loadSession(refusing), null);
  refusing.save("{}");
  const functions = { getItem: (name: string) => kept[name] ?? null, setItem: (name: string, text: string) => (kept[name] = text) };
  storage = () => functions;
  const memory = tabMemory("here");
  assert.equal(loadSession(memory), null);
  for (const text of ["{", '{"resume": 1, "after": 2}', "null"]) {
    memory.save(text);
    assert.equal(kept.here, text);
    assert.equal(loadSession(memory), null);
  }
});

test("clients of one server on one page have a session each, also after a reload", async (t) => {
  browserWindow(t);
  const kept = new Map<string, string>();
  const sessionStorage = {
    getItem: (name: string) => kept.get(name) ?? null,
    setItem: (name: string, text: string) => kept.set(name, text),
    removeItem: (name: string) => kept.delete(name),
  };
  Object.defineProperty(globalThis, "sessionStorage", { value: sessionStorage, configurable: true });
  t.after(() => Reflect.deleteProperty(globalThis, "sessionStorage"));
  const open = (from = defaultMemory): Memory => from("ws://host/ws", undefined) as Memory;
  const [one, two] = [open(), open()];
  assert.deepEqual([one.load(), two.load()], [null, null]);
  two.save("2");
  one.save("1");
  const loaded: { defaultMemory: typeof defaultMemory } = await import(`${new URL("../src/client/memory.ts", import.meta.url)}?anew`);
  const [first, second] = [open(loaded.defaultMemory), open(loaded.defaultMemory)];
  assert.deepEqual([first.load(), second.load()], ["1", "2"]);
  one.save(null); // its session is over
  one.save(null);
  assert.equal(open().load(), null);
  assert.equal(kept.size, 1);
});

const REPLICA = "ws://replica:20001/ws";
const ADMITTED = { url: REPLICA, ticket: "t", session_id: "s1", claim_within: 5 };

/** A client of a gate, with the gate's token, whose session began at a replica. */
async function atReplica(): Promise<{ memory: Memory; client: Client; socket: FakeSocket; again: () => Client }> {
  const memory = tab();
  const again = (): Client => connectClient("http://gate/", { WebSocket: Socket, token: "mine", memory });
  const client = again();
  await settled();
  FakeSocket.last.dispatchEvent(new Event("open"));
  FakeSocket.last.say("reactor.admitted", ADMITTED);
  const socket = FakeSocket.last;
  socket.dispatchEvent(new Event("open"));
  socket.say("reactor.welcome", WELCOME, { n: 1 });
  return { memory, client, socket, again };
}

test("a session at a replica is resumed there, with its own token alone", async () => {
  const { client, socket: first } = await atReplica();
  assert.equal(asked(first), `${REPLICA}?token=t`);
  first.end(1006);
  while (FakeSocket.last === first) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(asked(FakeSocket.last), `${REPLICA}?resume=r&after=1`);
  FakeSocket.last.say("reactor.welcome", { ...WELCOME, resumed: true, received: 0, missed: 0 }, { n: 1 });
  await settled();
  assert.equal(client.state.status, "live");
  FakeSocket.last.say("reactor.bye", { reason: "done" });
  FakeSocket.last.end(1001);
  await client.ended;
});

test("who watches a session behind a gate connects to its replica, whose address the session has; the gate itself refuses", async () => {
  const { client } = await atReplica();
  const { url, shareToken } = client.session ?? assert.fail();
  assert.deepEqual([url, shareToken], [REPLICA, "share"]);
  const viewer = connectClient(url, { WebSocket: Socket, role: "viewer", token: shareToken ?? "" });
  await settled();
  assert.equal(asked(FakeSocket.last), `${REPLICA}?role=viewer&token=share&cadence=1&follow=1`);
  void viewer.close();
  FakeSocket.last.end(1000);
  const lost = connectClient("http://gate/", { WebSocket: Socket, role: "viewer", token: "share" });
  await settled();
  FakeSocket.last.dispatchEvent(new Event("open"));
  const why = "role: 'viewer': a link for viewers leads to its replica";
  FakeSocket.last.say("reactor.bye", { reason: "refused", status: 404, message: why, retry_after: null, code: "not_found" });
  FakeSocket.last.end(1008);
  const end = await lost.ended;
  assert.deepEqual([end?.code, end?.message], ["refused", why], "another model is not what is wrong");
});

test("a reloaded page of a gate resumes its session at the replica", async () => {
  const { memory, socket, client, again } = await atReplica();
  assert.deepEqual(loadSession(memory), { resume: "r", after: 1, url: REPLICA });
  const reloaded = again();
  const states: string[] = [];
  reloaded.on("state", ({ status }) => states.push(status));
  await settled();
  assert.equal(asked(FakeSocket.last), `${REPLICA}?resume=r&after=1&follow=1`);
  FakeSocket.last.dispatchEvent(new Event("open"));
  FakeSocket.last.say("reactor.welcome", { ...WELCOME, resumed: true, received: 0, missed: 0 }, { n: 1 });
  FakeSocket.last.say("reactor.bye", { reason: "done" });
  FakeSocket.last.end(1001);
  await reloaded.ended;
  assert.deepEqual(states, ["connecting", "live", "ended"]);
  assert.equal(memory.load(), null);
  socket.end(1000);
  await client.ended;
});

const GONE: { [name: string]: (socket: FakeSocket) => void } = {
  refused: (socket) => socket.end(1006),
  fresh(socket) {
    socket.say("reactor.welcome", { ...WELCOME, session_id: "s2" }, { n: 1 });
    assert.equal(socket.closed, 1000);
    socket.end(1000);
  },
  full(socket) {
    socket.say("reactor.queued", { position: 1, total: 1 });
    assert.equal(socket.closed, 1000);
    socket.end(1000);
  },
  over(socket) {
    socket.say("reactor.bye", { reason: "expired" });
    socket.end(1001);
  },
};

for (const [name, act] of Object.entries(GONE)) {
  test(`if the replica no longer has the session, a new one begins at the gate and nowhere else: ${name}`, async () => {
    const { memory, client, socket, again } = await atReplica();
    const states: string[] = [];
    const reloaded = again();
    reloaded.on("state", ({ status }) => states.push(status));
    await settled();
    act(FakeSocket.last);
    await settled();
    assert.equal(asked(FakeSocket.last), "ws://gate/ws?token=mine&follow=1");
    assert.deepEqual(states, ["connecting", "connecting"]);
    assert.equal(memory.load(), null);
    for (const [each, its] of [
      [reloaded, FakeSocket.last],
      [client, socket],
    ] as const) {
      void each.close();
      its.end(1000);
      await each.ended;
    }
  });
}

test("a browser that reports to be offline loses the link at once", async (t) => {
  const window = browserWindow(t);
  const client = connectClient("http://host/", { WebSocket: Socket, memory: tab() });
  await settled();
  const first = FakeSocket.last;
  first.dispatchEvent(new Event("open"));
  first.say("reactor.welcome", WELCOME, { n: 1 });
  window.dispatchEvent(new Event("offline"));
  assert.deepEqual([first.closed, client.state.status], [4000, "resuming"]);
  window.dispatchEvent(new Event("offline"));
  while (FakeSocket.last === first) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(asked(FakeSocket.last), "ws://host/ws?resume=r&after=1");
  FakeSocket.last.say("reactor.welcome", { ...WELCOME, resumed: true, received: 0, missed: 0 }, { n: 1 });
  await settled();
  assert.equal(client.state.status, "live");
  FakeSocket.last.dispatchEvent(new Event("open"));
  FakeSocket.last.say("reactor.bye", { reason: "done" });
  FakeSocket.last.end(1001);
  await client.ended;
});

/** A client with an open socket, in virtual time: `run(ms)` lets it pass, and `watch()` returns a list of the states from then on. */
async function inVirtualTime(t: TestContext) {
  let now = 0;
  t.mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
  t.mock.method(performance, "now", () => now);
  const client = connectClient("http://host/", { WebSocket: Socket, memory: tab() });
  await settled();
  const socket = FakeSocket.last;
  socket.dispatchEvent(new Event("open"));
  const watch = (): [number, string][] => {
    const states: [number, string][] = [];
    client.on("state", ({ status }) => states.push([now, status]));
    return states;
  };
  const run = (ms: number): void => {
    for (const end = now + ms; now < end; ) {
      now += 100;
      t.mock.timers.tick(100);
    }
  };
  return { client, socket, watch, run };
}

test("a client that has left a dead link has ended, and opens no other socket", async (t) => {
  const { client, socket, watch, run } = await inVirtualTime(t);
  socket.say("reactor.welcome", WELCOME, { n: 1 });
  const states = watch();
  let ended = false;
  void client.close().then(() => (ended = true));
  await settled();
  assert.deepEqual([ended, states], [true, [[0, "ended"]]]);
  socket.end(1006);
  for (let i = 0; i < 3; i++) {
    run(2000);
    await settled();
  }
  assert.deepEqual([states.length, FakeSocket.all.length], [1, 1]);
});

/** A client in virtual time whose server sends pictures: `hear()` has it send one. */
async function streaming(t: TestContext, welcome: Partial<Welcome>, beats = true) {
  const { client, socket, watch, run } = await inVirtualTime(t);
  socket.say("reactor.welcome", { ...WELCOME, ...welcome }, { n: 1 });
  if (beats) socket.say("reactor.beat", {});
  const hear = (): void => void socket.dispatchEvent(Object.assign(new Event("message"), { data: new ArrayBuffer(8) }));
  return { client, socket, states: watch(), hear, run };
}

test("a stream that stops without an end counts as lost after two heartbeats, also without a window to resume in", async (t) => {
  const { client, socket, states, hear, run } = await streaming(t, { resume_token: null });
  for (let i = 0; i < 300; i++) {
    hear();
    run(100);
  }
  assert.equal(states.length, 0); // 30 s, in which the server had no reason to send a beat
  run(20_000);
  assert.deepEqual([client.state.status, socket.closed, client.statistics().silence], ["live", undefined, 20_100]);
  run(5000);
  await settled();
  assert.equal(socket.closed, 4000);
  assert.equal(client.state.status, "ended");
  assert.deepEqual(
    states.map(([, status]) => status),
    ["ended"],
  );
  const end = await client.ended;
  assert.deepEqual([end?.code, end?.message], ["ended", "The connection was lost."]);
  hear(); // what the socket still says is not heard
  socket.end(1006);
});

test("a link that is silent from the welcome on is lost; a server without beats may be silent", async (t) => {
  const { client, run } = await streaming(t, {});
  run(26_000);
  assert.equal(client.state.status, "resuming");
  t.mock.restoreAll();
  t.mock.timers.reset();
  const old = await streaming(t, {}, false);
  old.run(100_000);
  assert.equal(old.client.state.status, "live");
  for (const each of [client, old.client]) void each.close();
});

for (const [gate, says] of [
  [false, "The connection was lost before the session began."],
  [true, "The replica that has a place for this page could not be reached, or refused it."],
] as const) {
  const where = gate ? "at the replica after the queue of a gate" : "in the queue of a server";
  test(`a link of a client that waits ${where} is lost after two heartbeats of silence, and tried again`, async (t) => {
    const { client, socket, watch, run } = await inVirtualTime(t);
    const states = watch();
    socket.say("reactor.queued", { position: 2, total: 2, wait: null }); // an older server says no heartbeat
    run(100_000);
    socket.say("reactor.queued", { position: 1, total: 1, wait: null, heartbeat: 10 });
    for (let i = 0; i < 4; i++) {
      run(10_000);
      socket.say("reactor.beat", {});
    }
    let last = socket;
    if (gate) {
      socket.say("reactor.admitted", { url: "ws://replica/ws", ticket: "t", session_id: "s", claim_within: 10 });
      last = FakeSocket.last;
      assert.notEqual(last, socket);
      last.dispatchEvent(new Event("open"));
    }
    assert.deepEqual(states, [
      [0, "queued"],
      [100_000, "queued"],
    ]);
    run(20_000);
    assert.deepEqual([client.state.status], ["queued"]); // in a list, which does not narrow the type
    run(5000);
    await settled();
    assert.deepEqual([client.state.status, last.closed], ["waiting", 4000]);
    assert.equal(client.state.status === "waiting" && client.state.error.message, says);
    run(1000);
    await settled();
    assert.equal(client.state.status, "connecting");
    FakeSocket.last.say("reactor.welcome", WELCOME, { n: 1 });
    assert.equal(client.state.status, "live");
    void client.close();
  });
}

test("after a pause of the page what has arrived is heard before the link counts as lost", async (t) => {
  const { client, socket, states, run } = await streaming(t, {});
  t.mock.method(performance, "now", () => 60_000);
  t.mock.timers.tick(2500); // one look after a minute in which no timer ran
  socket.say("reactor.beat", {});
  t.mock.timers.tick(2500);
  assert.deepEqual([client.state.status, states.length], ["live", 0]);
  run(0);
  void client.close();
});

test("a browser that is offline ends a session that cannot resume after one heartbeat of silence, and none that is heard", async (t) => {
  const window = browserWindow(t);
  const navigator = Object.getOwnPropertyDescriptor(globalThis, "navigator");
  Object.defineProperty(globalThis, "navigator", { value: { onLine: false }, configurable: true });
  t.after(() => Object.defineProperty(globalThis, "navigator", navigator as PropertyDescriptor));
  const { client, socket, hear, run } = await streaming(t, { resume_token: null });
  window.dispatchEvent(new Event("offline"));
  for (let i = 0; i < 30; i++) {
    hear(); // from this machine
    run(1000);
  }
  assert.equal(client.state.status, "live");
  run(10_000);
  assert.equal(client.state.status, "live");
  run(5000);
  await settled();
  assert.deepEqual([client.state.status, socket.closed], ["ended", 4000]);
});

test("a client learns which code of the model takes long, and since when", async (t) => {
  const { client, socket, run } = await streaming(t, {});
  const told: unknown[] = [];
  client.on("late", (late) => told.push(late));
  run(7000);
  socket.say("reactor.late", { what: "step 7 has run", seconds: 5 }, { n: 2 });
  socket.say("reactor.late", { what: null, seconds: 0 }, { n: 3 });
  assert.deepEqual(told, [{ what: "step 7 has run", since: 2000 }, null]);
  void client.close();
});
