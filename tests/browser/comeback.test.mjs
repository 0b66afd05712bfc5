// Resuming a session over another socket, under Node, with sockets that the test controls.
import assert from "node:assert/strict";
import { test } from "node:test";
import { SavedSession, comeBack } from "../../src/reactor_trio/page/comeback.js";
import { Connection } from "../../src/reactor_trio/page/connection.js";
import { connect, openSocket } from "../../src/reactor_trio/page/protocol.js";

const settled = () => new Promise((resolve) => setImmediate(resolve));
const TRACKS = [{ index: 0, name: "main_video", direction: "out" }, { index: 1, name: "camera", direction: "in" }];
const WELCOME = { session_id: "s1", name: "m", tracks: TRACKS, resume_token: "r", resume_window: 5 };

class FakeSocket extends EventTarget {
  static all = [];
  readyState = 1;
  sent = [];
  constructor(url) {
    super();
    this.url = url;
    FakeSocket.all.push(this);
  }
  static get last() { return FakeSocket.all.at(-1); }
  send(text) { this.sent.push(JSON.parse(text)); }
  close(code) { this.closed = code; }
  say(type, data, more = {}) { this.dispatchEvent(Object.assign(new Event("message"), { data: JSON.stringify({ type, data, ...more }) })); }
  end(code) {
    this.readyState = 3;
    this.dispatchEvent(Object.assign(new Event("close"), { code }));
  }
}

const EVENTS = ["welcome", "track", "keyframe", "message", "lost", "resumed", "closed"];

function begin(welcome = WELCOME, options = {}) {
  const session = connect({ url: "ws://host/ws", WebSocket: FakeSocket, comesBack: true, ...options });
  const told = [];
  for (const type of EVENTS) session.addEventListener(type, ({ detail }) => told.push([type, detail]));
  const socket = FakeSocket.last;
  socket.dispatchEvent(new Event("open"));
  socket.say("reactor.welcome", welcome, { n: 1 });
  return { session, socket, told, names: () => told.map(([name]) => name) };
}

const again = () => openSocket({ url: "ws://host/ws", WebSocket: FakeSocket });

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
  assert.equal(session.push({}), false);
  session.feedback(0, 3);
  const next = again();
  const answer = session.resume(next, 1000);
  next.say("reactor.welcome", { ...WELCOME, resumed: true, received: 2, missed: 0 }, { n: 1 });
  assert.equal(await answer, "resumed");
  assert.deepEqual(next.sent.map(({ id, data }) => [id, data.x]), [[3, 3], [4, 4]]);
  for (const n of [2, 3, 3]) next.say("progress", { n }, { n });
  for (const id of [2, 3, 4]) next.say("reactor.ack", { step: 2 }, { id, n: 3 + id });
  assert.deepEqual((await Promise.all([second, third, fourth])).map(({ id }) => id), [2, 3, 4]);
  assert.deepEqual(told.filter(([name]) => name === "message").map(([, { data }]) => data.n), [3]);
  assert.deepEqual(names(), ["welcome", "lost", "resumed", "track", "keyframe", "message"]);
  assert.equal(session.newest, 7);
  socket.end(1006); // of the one before
  session.command("move", { x: 5 }).catch(() => {});
  assert.equal(next.sent.at(-1).id, 5);
  next.end(1000);
  assert.deepEqual(told.at(-1)[1], { code: 1000, reason: null, message: "", opened: true, welcomed: true });
});

test("after resuming the values are those of the welcome, and repeated messages do not replace them", async () => {
  const { session, socket } = begin({ ...WELCOME, state: { x: 0, y: 0 } });
  const told = [];
  for (const type of ["resumed", "state", "track"]) session.addEventListener(type, ({ detail }) => told.push([type, type === "state" ? detail : null]));
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
  assert.deepEqual(told, [["resumed", null], ["state", { x: 6, y: 1 }], ["track", null], ["state", { x: 6, y: 1 }]]);
});

test("waiting commands are sent at a limited rate", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval", "setTimeout"] });
  const { session, socket } = begin();
  socket.end(1006);
  for (let i = 0; i < 250; i++) session.command("move").catch(() => {});
  const next = again();
  session.resume(next, 1000);
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
  const outcome = (welcome, act, options) => {
    const { socket, told } = begin(welcome, options);
    act(socket);
    return told.at(-1)[0];
  };
  assert.equal(outcome(WELCOME, (socket) => socket.end(1006)), "lost");
  assert.equal(outcome(WELCOME, (socket) => socket.end(1001)), "lost");
  const tooSlow = (socket) => { socket.say("reactor.bye", { reason: "too_slow" }); socket.end(1008); };
  assert.equal(outcome(WELCOME, tooSlow), "lost");
  assert.equal(outcome({ ...WELCOME, resume_token: null }, tooSlow), "closed");
  assert.equal(outcome({ ...WELCOME, resume_token: null }, (socket) => socket.end(1006)), "closed");
  assert.equal(outcome(WELCOME, (socket) => socket.end(1006), { comesBack: false }), "closed");
  assert.equal(outcome(WELCOME, (socket) => socket.end(1000)), "closed");
  assert.equal(outcome(WELCOME, (socket) => { socket.say("reactor.bye", { reason: "taken_over" }); socket.end(1001); }), "closed");
});

test("a try reports its result and closes its socket", async () => {
  const { session, socket } = begin();
  socket.end(1006);
  const tried = async (act) => {
    const next = again();
    const answer = session.resume(next, 1);
    act(next);
    return [await answer, next.closed];
  };
  const welcome = (data) => (next) => next.say("reactor.welcome", { ...WELCOME, received: 0, missed: 0, ...data }, { n: 1 });
  assert.deepEqual(await tried((next) => next.end(1006)), ["failed", 4000]);
  assert.deepEqual(await tried(() => {}), ["failed", 4000]);
  assert.deepEqual(await tried((next) => next.end(1000)), ["gone", 4000]);
  assert.deepEqual(await tried(welcome({ resumed: false })), ["gone", 1000]);
  assert.deepEqual(await tried(welcome({ resumed: true, session_id: "s2" })), ["gone", 1000]);
  assert.deepEqual(await tried((next) => next.say("reactor.queued", { position: 1, total: 1 })), ["gone", 1000]);
  assert.deepEqual(await tried((next) => next.say("reactor.bye", { reason: "client_left" })), ["gone", 1000]);
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
  session.resume(next, 1000);
  next.say("reactor.welcome", { ...WELCOME, resumed: true, received: 1, missed: 3 }, { n: 1 });
  await assert.rejects(first, { code: "answer_lost", id: 1 });
  next.say("reactor.ack", { step: 1 }, { id: 2, n: 9 });
  assert.equal((await second).id, 2);
});

test("tries go on until the time is over", async () => {
  for (const [window, end] of [[5, 5000], [null, 60_000]]) {
    let time = 0;
    const waits = [];
    const session = {
      welcome: { resume_window: window },
      async resume(_socket, patience) { time += Math.min(patience, 50); return "failed"; },
    };
    const clock = { random: () => 1, now: () => time, sleep: async (ms) => { waits.push(ms); time += ms; } };
    assert.equal(await comeBack(session, () => null, clock), "late");
    assert.equal(time, end);
    assert.deepEqual(waits.slice(0, 6), [100, 200, 400, 800, 1600, window === 5 ? 1650 : 2000]);
  }
  const session = { welcome: { resume_window: 5 }, resume: async () => "gone" };
  assert.equal(await comeBack(session, () => null, { sleep: async () => {} }), "gone");
});

function tab(kept = new Map()) {
  const storage = { getItem: (key) => kept.get(key) ?? null, setItem: (key, value) => kept.set(key, value), removeItem: (key) => kept.delete(key) };
  return new SavedSession({ location: { pathname: "/", search: "?a=1" }, storage: () => storage });
}

test("a reloaded page resumes its session", async () => {
  const memory = tab();
  assert.equal(memory.load(), null);
  const connection = () => new Connection("http://host/", { WebSocket: FakeSocket }, memory);
  const before = connection();
  before.connectNow();
  FakeSocket.last.say("reactor.welcome", WELCOME, { n: 1 });
  FakeSocket.last.say("progress", {}, { n: 8 });
  before.saveSession();
  assert.deepEqual(memory.load(), { resume: "r", after: 8, url: "ws://host/ws" });

  const sessions = [];
  const after = connection();
  after.addEventListener("connecting", ({ detail }) => sessions.push(detail));
  after.connectNow();
  const socket = FakeSocket.last;
  socket.dispatchEvent(new Event("open"));
  assert.equal(socket.url, "ws://host/ws?video=jpeg&resume=r&after=8&follow=1");
  socket.say("reactor.welcome", { ...WELCOME, resumed: true, received: 3, missed: 0 }, { n: 1 });
  assert.equal(sessions[0].newest, 8);
  sessions[0].command("move").catch(() => {});
  assert.equal(socket.sent[0].id, 4);
  socket.say("reactor.bye", { reason: "done" });
  socket.end(1001);
  assert.equal(memory.load(), null);
  await settled();
  after.saveSession();
  assert.equal(memory.load(), null);
});

test("without a valid saved session a new session begins", () => {
  const refusing = new SavedSession({ location: {}, storage: () => { throw new Error("not allowed"); } });
  assert.equal(refusing.load(), null);
  refusing.save({ welcome: WELCOME, newest: 1 });
  assert.equal(tab(new Map([["reactor-session /?a=1", "{"]])).load(), null);
  assert.equal(tab(new Map([["reactor-session /?a=1", '{"resume": 1, "after": 2}']])).load(), null);
});

const REPLICA = "ws://replica:20001/ws";
const ADMITTED = { url: REPLICA, ticket: "t", session_id: "s1", claim_within: 5 };

/** A page of a gate, with the gate's token, whose session began at a replica. */
function atReplica() {
  const memory = tab();
  const options = { WebSocket: FakeSocket, token: "mine" };
  const connection = new Connection("http://gate/", options, memory);
  const sessions = [];
  connection.addEventListener("connecting", ({ detail }) => sessions.push(detail));
  connection.connectNow();
  FakeSocket.last.dispatchEvent(new Event("open"));
  FakeSocket.last.say("reactor.admitted", ADMITTED);
  FakeSocket.last.dispatchEvent(new Event("open"));
  FakeSocket.last.say("reactor.welcome", WELCOME, { n: 1 });
  return { memory, connection, sessions, again: () => new Connection("http://gate/", options, memory) };
}

test("a session at a replica is resumed there, with its own token alone", async () => {
  const { sessions: [session] } = atReplica();
  const first = FakeSocket.last;
  assert.equal(first.url, `${REPLICA}?video=jpeg&token=t`);
  first.end(1006);
  while (FakeSocket.last === first) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(FakeSocket.last.url, `${REPLICA}?video=jpeg&resume=r&after=1`);
  FakeSocket.last.say("reactor.welcome", { ...WELCOME, resumed: true, received: 0, missed: 0 }, { n: 1 });
  assert.equal(session.linked, true);
  FakeSocket.last.say("reactor.bye", { reason: "done" });
  FakeSocket.last.end(1001);
});

test("a reloaded page of a gate resumes its session at the replica", () => {
  const { memory, again } = atReplica();
  assert.deepEqual(memory.load(), { resume: "r", after: 1, url: REPLICA });
  const names = [];
  const connection = again();
  connection.addEventListener("connecting", ({ detail }) => {
    for (const name of EVENTS) detail.addEventListener(name, () => names.push(name));
  });
  connection.connectNow();
  assert.equal(FakeSocket.last.url, `${REPLICA}?video=jpeg&resume=r&after=1&follow=1`);
  FakeSocket.last.dispatchEvent(new Event("open"));
  FakeSocket.last.say("reactor.welcome", { ...WELCOME, resumed: true, received: 0, missed: 0 }, { n: 1 });
  FakeSocket.last.say("reactor.bye", { reason: "done" });
  FakeSocket.last.end(1001);
  assert.deepEqual(names, ["welcome", "closed"]);
  assert.equal(memory.load(), null);
});

test("if the replica no longer has the session, a new one begins at the gate and nowhere else", () => {
  const gone = {
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
  for (const [name, act] of Object.entries(gone)) {
    const { memory, again } = atReplica();
    const names = [];
    const connection = again();
    connection.addEventListener("connecting", ({ detail }) => {
      names.push("connecting");
      for (const event of ["queued", "welcome"]) detail.addEventListener(event, () => names.push(event));
    });
    connection.connectNow();
    act(FakeSocket.last);
    assert.equal(FakeSocket.last.url, "ws://gate/ws?video=jpeg&token=mine&follow=1", name);
    assert.deepEqual(names, ["connecting", "connecting"], name);
    assert.equal(memory.load(), null);
  }
});

test("a browser that reports to be offline loses the link at once", async () => {
  const memory = tab();
  const connection = new Connection("http://host/", { WebSocket: FakeSocket }, memory);
  let session;
  connection.addEventListener("connecting", ({ detail }) => { session = detail; });
  connection.connectNow();
  const first = FakeSocket.last;
  first.dispatchEvent(new Event("open"));
  first.say("reactor.welcome", WELCOME, { n: 1 });
  connection.offline();
  assert.deepEqual([first.closed, session.linked], [4000, false]);
  connection.offline();
  while (FakeSocket.last === first) await new Promise((resolve) => setTimeout(resolve, 5));
  assert.equal(FakeSocket.last.url, "ws://host/ws?video=jpeg&resume=r&after=1");
  FakeSocket.last.say("reactor.welcome", { ...WELCOME, resumed: true, received: 0, missed: 0 }, { n: 1 });
  assert.equal(session.linked, true);
  FakeSocket.last.dispatchEvent(new Event("open"));
  FakeSocket.last.say("reactor.bye", { reason: "done" });
  FakeSocket.last.end(1001);
});
