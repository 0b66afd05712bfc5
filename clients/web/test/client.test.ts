/** `connect` against a scripted server: states, commands, settings, coming back, and ends. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { ClientState, ConnectOptions, Packet } from "../src/index.ts";
import { CommandError, ConnectionRefused, connect, SessionEnded } from "../src/index.ts";
import { type ScriptedConnection, scriptedServer } from "../src/testing.ts";

const URL_HERE = "http://model.test/";

function begin(options: ConnectOptions = {}, model: Parameters<typeof scriptedServer>[0] = {}) {
  const server = scriptedServer(model);
  const client = connect(URL_HERE, { WebSocket: server.WebSocket, ...options });
  const states: string[] = [];
  client.on("state", ({ status }) => states.push(status));
  return { server, client, states };
}

test("a client connects, is live, and leaves", async () => {
  const { server, client, states } = begin({ token: "t", role: "viewer", model: "painter" });
  assert.equal(client.state.status, "connecting");
  const connection = await server.connection();
  assert.equal(connection.url.href.split("?")[0], "ws://model.test/ws");
  const asked = Object.fromEntries(connection.url.searchParams);
  assert.deepEqual(asked, {
    video: "jpeg",
    paused: "1",
    audio: "none",
    role: "viewer",
    model: "painter",
    token: "t",
    feedback: "1",
    cadence: "1",
    follow: "1",
    beat: "1",
    refusals: "bye",
    worlds: "1",
  });
  connection.welcome({ session_id: "one", share_token: "share" });
  const session = await client.ready;
  assert.equal(client.session, session);
  assert.deepEqual([session.id, session.shareToken, session.tracks[0]?.name], ["one", "share", "main_video"]);
  await client.close();
  assert.equal(connection.closed, 1000);
  assert.equal(await client.ended, null);
  assert.deepEqual(states, ["connecting", "live", "ended"]);
  await client.close(); // again: nothing
});

test("a client that waits in line says its place", async () => {
  const { server, client } = begin();
  const connection = await server.connection();
  const states: unknown[] = [];
  client.on("state", (state) => states.push(state));
  connection.say("reactor.queued", { position: 2, total: 3 }); // of an older server
  connection.say("reactor.queued", { position: 1, total: 3, wait: 12.5, reason: "loading" });
  assert.deepEqual(states, [
    { status: "queued", position: 2, total: 3, wait: null },
    { status: "queued", position: 1, total: 3, wait: 12.5, reason: "loading" },
  ]);
  assert.throws(() => Object.assign(client.state, { position: 1 }), TypeError); // nobody changes it
  connection.welcome();
  assert.equal(client.state.status, "live");
  await client.close();
});

test("commands wait for the session, in order, and each is answered", async () => {
  const { server, client } = begin();
  const first = client.command("a", { x: 1 });
  const second = client.command("b");
  const connection = await server.connection();
  connection.welcome();
  assert.deepEqual(await connection.next(), { type: "a", data: { x: 1 }, id: 1 });
  assert.deepEqual(await connection.next(), { type: "b", data: {}, id: 2 });
  connection.ack(2, 7, 3);
  connection.error(1, "invalid_command", "Expected float <= 2.0 - at $.x");
  assert.deepEqual(await second, { id: 2, step: 3, reply: 7 });
  await assert.rejects(first, (error) => {
    assert.ok(error instanceof CommandError);
    assert.deepEqual([error.code, error.command, error.path, error.applied, error.id], ["invalid_command", "a", "$.x", false, 1]);
    return true;
  });
  await client.close();
});

test("a command that cannot be sent is refused here", async () => {
  const { server, client } = begin();
  await assert.rejects(client.command("a", { x: [1, Number.NaN] }), { code: "invalid_command", path: "$.x[1]" });
  const many = Array.from({ length: 1024 }, () => client.command("a"));
  for (const each of many) each.catch(() => {});
  await assert.rejects(client.command("a"), { code: "busy" });
  const stop = new AbortController();
  stop.abort(new Error("enough"));
  await assert.rejects(client.command("a", {}, { signal: stop.signal }), { message: "enough" });
  await server.connection();
  await client.close();
  await assert.rejects(many[0] as Promise<unknown>, { code: "ended", applied: false });
});

test("a client that has ended refuses commands, until it connects again", async () => {
  const { server, client } = begin();
  (await server.connection()).welcome();
  await client.ready;
  await client.close();
  await assert.rejects(client.command("a"), { code: "ended", applied: false });
  client.reconnect();
  const command = client.command("a");
  const connection = await server.connection();
  connection.welcome();
  connection.ack((await connection.next()).id ?? 0);
  await command;
  await client.close();
});

test("what waited for the session is sent no faster than a server takes it, and what comes later follows it", async (t) => {
  const { server, client } = begin();
  const early = Array.from({ length: 150 }, (_, i) => client.command("early", { i }));
  const connection = await server.connection();
  t.mock.timers.enable({ apis: ["setTimeout"] });
  connection.welcome();
  const late = client.command("late");
  assert.equal(connection.received.length, 100);
  t.mock.timers.tick(1000);
  assert.deepEqual([connection.received.length, connection.received.at(-1)?.type], [151, "late"]);
  for (const { id = 0 } of connection.received) connection.ack(id);
  await Promise.all([...early, late]);
  await client.close();
});

test("a client that leaves while it resumes opens nothing more", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { server, client } = begin();
  const first = await server.connection();
  first.welcome({ resume_token: "r", resume_window: 10 });
  await client.ready;
  first.lose();
  await settled();
  assert.equal(client.state.status, "resuming");
  await client.close();
  t.mock.timers.tick(10_000);
  await settled();
  assert.equal(server.opened, 1);
});

test("a signal takes back what was not sent, and stops the wait for what was", async () => {
  const { server, client } = begin();
  const [early, late] = [new AbortController(), new AbortController()];
  const unsent = client.command("unsent", {}, { signal: early.signal });
  early.abort();
  await assert.rejects(unsent, { name: "AbortError" });
  const connection = await server.connection();
  connection.welcome();
  const sent = client.command("sent", {}, { signal: late.signal });
  assert.equal((await connection.next()).type, "sent");
  late.abort();
  await assert.rejects(sent, { name: "AbortError" });
  connection.ack(1); // nobody waits for it
  await client.close();
});

test("a setting has at most one value under way, and the newest follows", async () => {
  const { server, client } = begin();
  const brightness = client.setting("brightness");
  assert.equal(brightness.value, undefined);
  const connection = await server.connection();
  connection.welcome({ state: { brightness: 1 } });
  assert.equal(brightness.value, 1);
  const seen: unknown[] = [];
  brightness.subscribe(() => seen.push([brightness.value, brightness.pending]));
  const sets = Array.from({ length: 1000 }, (_, i) => brightness.set(i));
  const first = await connection.next();
  assert.deepEqual([first.type, first.data], ["set_brightness", { brightness: 0 }]);
  assert.equal(connection.received.length, 0);
  connection.ack(1);
  const last = await connection.next();
  assert.deepEqual(last.data, { brightness: 999 });
  connection.ack(2);
  await Promise.all(sets);
  assert.deepEqual([brightness.value, brightness.pending], [999, false]);
  connection.say("reactor.state", { brightness: 0.5 }); // another client, or the model
  assert.deepEqual(seen.at(-1), [0.5, false]);
  const refused = brightness.set(7);
  await connection.next();
  connection.error(3, "invalid_command", "too much - at $.brightness");
  await assert.rejects(refused, { code: "invalid_command" });
  assert.deepEqual([brightness.value, brightness.error?.path], [0.5, "$.brightness"]);
  await client.close();
});

test("messages come in order to each listener and loop, and both can leave", async () => {
  const { server, client } = begin();
  const connection = await server.connection();
  const heard: unknown[] = [];
  const off = client.on("message", ({ type, data }) => heard.push([type, data]));
  const loop = client.messages();
  connection.welcome();
  connection.say("progress", { done: 1 });
  off();
  connection.say("progress", { done: 2 });
  assert.deepEqual(heard, [["progress", { done: 1 }]]);
  assert.deepEqual((await loop.next()).value, { type: "progress", data: { done: 1 }, n: 2 });
  assert.deepEqual((await loop.next()).value, { type: "progress", data: { done: 2 }, n: 3 });
  const waiting = loop.next();
  await client.close();
  assert.equal((await waiting).done, true);
});

test("what waits for a slow loop is bounded in bytes, and the oldest goes first", async () => {
  const { server, client } = begin({ video: ["jpeg"] });
  const [messages, packets] = [client.messages(), client.packets()];
  const connection = await server.connection();
  connection.welcome();
  const mebibyte = "x".repeat(1 << 20);
  for (let n = 0; n < 66; n++) connection.say("log", { n, mebibyte });
  for (let seq = 0; seq < 10; seq++) connection.frame({ seq, payload: new Uint8Array(8 << 20) });
  assert.equal((await messages.next()).value.data.n, 3); // 63 and their names and braces are just below 64 MiB
  assert.equal((await packets.next()).value.seq, 2);
  connection.say("log", { n: 66, mebibyte: mebibyte.repeat(65) });
  assert.equal((await messages.next()).value.data.n, 66); // one alone may be larger
  await client.close();
});

test("a lost link is told at once and resumed: no command is lost or sent twice", async (t) => {
  t.mock.method(Math, "random", () => 0);
  const { server, client, states } = begin();
  const first = await server.connection();
  first.welcome({ resume_token: "r", resume_window: 10 });
  await client.ready;
  const answered = client.command("a");
  await first.next();
  first.lose();
  await Promise.resolve();
  assert.equal(client.state.status, "resuming");
  const later = client.command("b");
  const second = await server.connection();
  assert.deepEqual([second.url.searchParams.get("resume"), second.url.searchParams.get("after")], ["r", "1"]);
  second.welcome({ resume_token: "r", resume_window: 10, resumed: true, received: 1, missed: 0 });
  second.ack(1, "late");
  assert.equal((await second.next()).type, "b");
  second.ack(2);
  assert.equal((await answered).reply, "late");
  await later;
  assert.equal(client.state.status, "live");
  assert.deepEqual(states, ["connecting", "live", "resuming", "live"]);
  assert.equal(client.statistics().comebacks, 1);
  await client.close();
});

test("what is taken while the client comes back is asked for when it is back", async (t) => {
  t.mock.method(Math, "random", () => 0);
  const { server, client } = begin({ video: ["jpeg"] });
  const first = await server.connection();
  first.welcome({ resume_token: "r", resume_window: 10 });
  await client.ready;
  first.lose();
  const second = await server.connection();
  assert.equal(second.url.searchParams.get("paused"), "1");
  const loop = client.packets();
  await import("../src/client/iterators.ts"); // the client imports it, too
  await new Promise(setImmediate);
  second.welcome({ resume_token: "r", resume_window: 10, resumed: true, received: 0, missed: 0 });
  assert.deepEqual((await second.next()).data, { video: ["jpeg"] });
  await loop.return?.();
  await client.close();
});

test("a session that is over ends the client, unless it wants a new one", async (t) => {
  const { server, client } = begin();
  (await server.connection()).welcome();
  await client.ready;
  const pending = client.command("a");
  await Promise.resolve(client.session);
  const connection = server;
  assert.equal(connection.opened, 1);
  await client.close();
  await assert.rejects(pending, { code: "ended" });

  t.mock.timers.enable({ apis: ["setTimeout"] });
  const again = begin({ newSession: "after-loss" });
  const one = await again.server.connection();
  one.welcome();
  await again.client.ready;
  one.bye("expired", { message: "time is up" });
  await settled();
  const { state } = again.client;
  assert.equal(state.status, "waiting");
  assert.ok(state.status === "waiting" && state.error instanceof SessionEnded && state.error.reason === "expired");
  again.client.reconnect(); // now
  const two = await again.server.connection();
  two.welcome({ session_id: "two" });
  assert.equal(again.client.session?.id, "two");
  two.bye("taken_over");
  const end = await again.client.ended;
  assert.ok(end instanceof SessionEnded);
  assert.equal(end.reason, "taken_over");
});

for (const [status, code, retryable] of [
  [401, "token_wanted", false],
  [403, "refused", false],
  [404, "wrong_model", false],
  [429, "busy", true],
  [503, "busy", true],
] as const) {
  test(`a refusal with ${status} is ${code}`, async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    const { server, client } = begin();
    (await server.connection()).refuse(status, "because", 4, "its_code");
    await settled();
    const { state } = client;
    const error = state.status === "waiting" ? state.error : state.status === "ended" ? state.end : null;
    assert.ok(error instanceof ConnectionRefused);
    assert.deepEqual([error.code, error.status, error.message, error.retryable, error.retryAfter], [code, status, "because", retryable, 4]);
    assert.equal(error.refusal, "its_code");
    assert.equal(state.status, retryable ? "waiting" : "ended");
    if (!retryable) await assert.rejects(client.ready, { code });
    await client.close();
  });
}

test("a session that ended while its client was away has the server's reason", async (t) => {
  t.mock.method(Math, "random", () => 0);
  t.mock.method(globalThis, "fetch", async () => new Response("{}"));
  const away = async (reason: string, message?: string) => {
    const { server, client, states } = begin({ newSession: "after-loss" });
    t.after(() => client.close());
    const first = await server.connection();
    first.welcome({ resume_token: "r", resume_window: 10 });
    await client.ready;
    first.lose();
    (await server.connection()).bye(reason, message === undefined ? {} : { message });
    await settled();
    return { server, client, states };
  };
  for (const [reason, message] of [
    ["revoked", "the token is not valid any more"],
    ["done", undefined],
  ] as const) {
    const { client, states } = await away(reason, message);
    const end = await client.ended;
    assert.ok(end instanceof SessionEnded);
    assert.deepEqual([end.reason, end.detail], [reason, message ?? ""]);
    assert.deepEqual(states.slice(2), ["resuming", "ended"]);
  }
  const { server, states, client } = await away("model_restarting", "the model is loaded again");
  assert.deepEqual(client.state, { status: "restarting", reason: "the model is loaded again", progress: null });
  (await server.connection()).welcome();
  assert.deepEqual(states.slice(2), ["resuming", "restarting", "connecting", "live"]);
  for (const reason of ["client_left", "lost"]) {
    const { state } = (await away(reason)).client;
    assert.deepEqual([state.status, state.status === "waiting" && (state.error as SessionEnded).reason], ["waiting", "lost"]);
  }
});

test("a welcome that is none of this protocol ends the client, which says so", async (t) => {
  const message = "The server's reactor.welcome is none of protocol version 1.";
  for (const welcome of [{ protocol: 2 }, { tracks: undefined }, { tracks: [null] }, { resumed: true, received: "all" }]) {
    const { server, client, states } = begin();
    t.after(() => client.close());
    const connection = await server.connection();
    connection.welcome(welcome as object);
    const end = await client.ended;
    assert.deepEqual([end?.code, end?.message, end?.retryable], ["refused", message, false]);
    assert.deepEqual([connection.closed, states], [4000, ["connecting", "ended"]]);
  }
  t.mock.method(Math, "random", () => 0);
  for (const received of [2, -1, 0.5, Number.NaN]) {
    const { server, client } = begin();
    t.after(() => client.close());
    const first = await server.connection();
    first.welcome({ resume_token: "r", resume_window: 10 });
    const command = client.command("a"); // the only one
    first.lose();
    const second = await server.connection();
    second.welcome({ resumed: true, received, missed: 0 });
    await assert.rejects(command, { code: "ended", applied: "unknown" });
    const end = await client.ended;
    assert.ok(end instanceof SessionEnded);
    assert.deepEqual([end.reason, end.detail], ["protocol_error", message]);
    assert.equal(second.closed, 4000);
  }
});

test("a message without data breaks nothing", async () => {
  const { server, client } = begin();
  const connection = await server.connection();
  connection.welcome();
  for (const type of [
    "reactor.state",
    "reactor.track",
    "reactor.transport",
    "reactor.ending",
    "reactor.late",
    "reactor.ack",
    "reactor.error",
  ])
    connection.say(type, null as unknown as object, 7);
  const command = client.command("a");
  connection.ack((await connection.next()).id ?? 0);
  await command;
  await client.close();
});

test("a server that opens the socket and says nothing is tried again after ten seconds, also behind a gate", async (t) => {
  let now = 0;
  t.mock.timers.enable({ apis: ["setTimeout", "setInterval"] });
  t.mock.method(performance, "now", () => now);
  t.mock.method(Math, "random", () => 0);
  const pass = (ms: number): void => {
    for (const end = now + ms; now < end; ) {
      now += 250;
      t.mock.timers.tick(250);
    }
  };
  const { server, client, states } = begin();
  t.after(() => client.close());
  const silent = await server.connection();
  now = 1000;
  pass(60_000); // while it connects, the browser knows when to give up
  assert.deepEqual(states, ["connecting"]);
  silent.open();
  pass(9000);
  assert.equal(silent.closed, null);
  pass(4000);
  assert.deepEqual([silent.closed, client.state.status], [4000, "connecting"]);
  await settled();
  assert.deepEqual(states, ["connecting", "waiting"]);
  pass(1000);
  const gate = await server.connection();
  gate.say("reactor.admitted", { url: "ws://replica.test/ws", ticket: "t", session_id: "s", claim_within: 10 });
  const replica = await server.connection();
  replica.open();
  pass(13_000);
  assert.equal(replica.closed, 4000);
  await settled();
  assert.deepEqual(states, ["connecting", "waiting", "connecting", "waiting"]);
  pass(2000);
  const last = await server.connection();
  last.welcome();
  pass(60_000); // a server without beats may be silent
  assert.equal(client.state.status, "live");
});

test("a server that cannot be reached is tried again, and says so", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { server, client } = begin();
  (await server.connection()).lose();
  await settled();
  assert.ok(
    client.state.status === "waiting" && client.state.error instanceof ConnectionRefused && client.state.error.code === "unreachable",
  );
  t.mock.timers.tick(1000);
  const connection = await server.connection();
  assert.deepEqual(client.state, { status: "connecting", attempt: 1 });
  connection.welcome();
  await client.ready;
  await client.close();
});

/** A client on a page of another origin than its server's, which answers HTTP. */
function beginElsewhere(t: TestContext): ReturnType<typeof begin> {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  Object.assign(globalThis, { location: new URL("http://app.test/") });
  t.after(() => Reflect.deleteProperty(globalThis, "location"));
  return begin({ memory: null, fetch: async () => new Response(), newSession: "after-loss" });
}

test("a socket that fails twice at a server that answers is refused because of the page's origin", async (t) => {
  const { server, client, states } = beginElsewhere(t);
  (await server.connection()).lose();
  await settled();
  assert.ok(client.state.status === "waiting" && "error" in client.state && client.state.error.code === "origin");
  t.mock.timers.tick(1000);
  (await server.connection()).lose();
  const end = await client.ended;
  assert.ok(end instanceof ConnectionRefused && end.code === "origin");
  assert.deepEqual(states, ["connecting", "waiting", "connecting", "ended"]);
});

test("a socket that fails once, or after the server has let the page in, is tried again", async (t) => {
  const { server, client } = beginElsewhere(t);
  (await server.connection()).lose();
  await settled();
  t.mock.timers.tick(1000);
  const connection = await server.connection();
  connection.welcome();
  await client.ready;
  connection.lose();
  await settled();
  for (const attempt of [1, 2, 3]) {
    t.mock.timers.tick(10_000);
    (await server.connection()).lose();
    await settled();
    assert.ok(client.state.status === "waiting" && "error" in client.state && client.state.error.code === "unreachable", `${attempt}`);
  }
  await client.close();
});

test("a token that is a function is asked for each connection, and once more after a 401", async () => {
  const asked: string[] = [];
  const { server, client } = begin({ token: async (why) => `${asked.push(why)}` });
  const first = await server.connection();
  assert.equal(first.url.searchParams.get("token"), "1");
  first.refuse(401);
  const second = await server.connection();
  assert.equal(second.url.searchParams.get("token"), "2");
  second.refuse(401);
  const end = await client.ended;
  assert.ok(end instanceof ConnectionRefused && end.code === "token_wanted");
  assert.deepEqual(asked, ["first", "refused"]);
});

test("a model that is loaded again gets its clients back when it is ready", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const loading = '{"reason": "loading weights", "progress": {"fraction": 0.5, "text": "layer 3"}}';
  const answers = [loading, loading].map((text) => new Response(text, { status: 503 })).concat(new Response("{}"));
  const { server, client } = begin({ fetch: async () => answers.shift() as Response });
  const first = await server.connection();
  first.welcome();
  await client.ready;
  first.bye("model_restarting", { message: "The file changed." });
  await settled();
  assert.deepEqual(client.state, { status: "restarting", reason: "The file changed.", progress: null });
  t.mock.timers.tick(250);
  await settled();
  const progress = { fraction: 0.5, text: "layer 3" };
  const { state } = client;
  assert.deepEqual(state, { status: "restarting", reason: "loading weights", progress });
  t.mock.timers.tick(1000);
  await settled();
  assert.deepEqual([client.state === state], [true]); // the same answer is no news
  t.mock.timers.tick(1000);
  (await server.connection()).welcome();
  assert.equal(client.state.status, "live");
  await client.close();
});

test("a page that is loaded anew finds its session", async () => {
  let kept: string | null = null;
  const memory = {
    load: () => kept,
    save: (token: string | null) => {
      kept = token;
    },
  };
  const { server, client } = begin({ memory });
  (await server.connection()).welcome({ resume_token: "r" });
  await client.ready;
  assert.deepEqual(JSON.parse(kept ?? ""), { resume: "r", after: 1, url: "ws://model.test/ws" });
  const anew = begin({ memory }); // the first page is gone
  const connection = await anew.server.connection();
  assert.deepEqual([connection.url.searchParams.get("resume"), connection.url.searchParams.get("after")], ["r", "1"]);
  connection.welcome({ resume_token: "r", resumed: true, received: 0 });
  assert.equal(anew.client.state.status, "live");
  await anew.client.close();
  assert.equal(kept, null);
  await client.close();
});

test("pictures are asked for when somebody takes them, and each packet says what made it", async (t) => {
  const { server, client } = begin({ video: ["jpeg"] }, { tracks: [{ name: "main_video" }, { name: "depth" }] });
  const connection = await server.connection();
  assert.deepEqual([connection.url.searchParams.get("video"), connection.url.searchParams.get("paused")], ["jpeg", "1"]);
  connection.welcome();
  const packets: Packet[] = [];
  const loop = client.packets("main_video");
  assert.deepEqual((await connection.next()).data, { video: ["jpeg"], tracks: { depth: ["none"] } });
  connection.frame({ seq: 0, ptsUs: 40_000, command: 3, step: 9, meta: { a: 1 }, payload: new Uint8Array([1, 2]) });
  connection.frame({ track: 1, seq: 0, payload: new Uint8Array([9]) });
  connection.frame({ seq: 1, payload: new Uint8Array([3]) });
  for (let i = 0; i < 2; i++) packets.push((await loop.next()).value as Packet);
  assert.deepEqual(packets[0], {
    seq: 0,
    ptsUs: 40_000,
    command: 3,
    step: 9,
    meta: { a: 1 },
    track: "main_video",
    codec: "jpeg",
    keyframe: true,
    payload: new Uint8Array([1, 2]),
  });
  assert.equal(packets[1]?.seq, 1);
  assert.equal(client.statistics().tracks.main_video?.received, 2);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  await loop.return?.();
  t.mock.timers.tick(999);
  assert.equal(connection.received.length, 0);
  t.mock.timers.tick(1);
  assert.deepEqual((await connection.next()).data, { video: ["none"] });
  await client.close();
});

test("loops over packets and frames end with the client, and one that begins afterwards has nothing", async () => {
  const { server, client } = begin();
  const loops = [client.packets(), client.frames()];
  const steps = loops.map((loop) => loop.next());
  const connection = await server.connection();
  connection.welcome();
  connection.bye("done");
  assert.equal((await client.ended)?.message, "The session ended: done.");
  for (const step of [...steps, client.packets().next(), client.frames().next()])
    assert.deepEqual(await step, { value: undefined, done: true });
});

test("a loop goes on in a later session, and one that has ended with the client stays ended after a reconnect", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { server, client } = begin({ newSession: "after-loss", video: ["jpeg"] });
  const [packets, messages] = [client.packets(), client.messages()];
  const both = async (connection: ScriptedConnection): Promise<unknown[]> => {
    connection.welcome();
    connection.frame({ payload: new Uint8Array([1]) });
    connection.say("progress", {});
    return [(await packets.next()).done, (await messages.next()).done];
  };
  const first = await server.connection();
  assert.deepEqual(await both(first), [false, false]);
  first.bye("expired");
  await settled();
  client.reconnect(); // instead of waiting
  const second = await server.connection();
  assert.equal(second.url.searchParams.get("paused"), null);
  assert.deepEqual(await both(second), [false, false]);
  second.bye("done");
  await client.ended;
  client.reconnect();
  const third = await server.connection();
  assert.deepEqual([await both(third), third.url.searchParams.get("paused")], [[true, true], "1"]);
  const fresh = client.packets();
  assert.deepEqual((await third.next()).data, { video: ["jpeg"] });
  third.frame({ seq: 1, payload: new Uint8Array([2]) });
  assert.equal((await fresh.next()).value.seq, 1);
  await client.close();
});

test("a command takes the name of its one argument from the schema, and a server that tells no values is believed", async () => {
  const text = { name: "set_prompt", schema: { properties: { text: { type: "string" } } } };
  const { server, client } = begin({}, { commands: [text] });
  const prompt = client.setting("prompt");
  const connection = await server.connection();
  connection.welcome({ state: undefined as never });
  const set = prompt.set("a fox");
  assert.deepEqual((await connection.next()).data, { text: "a fox" });
  connection.ack(1);
  await set;
  assert.equal(prompt.value, "a fox");
  await client.close();
  assert.equal(prompt.value, "a fox");
});

test("who hears that a session is live finds its values, and what is said then comes first", async () => {
  const { server, client } = begin();
  const level = client.setting("level");
  const seen: unknown[] = [];
  client.on("state", ({ status }) => {
    if (status !== "live") return;
    seen.push(level.value);
    void client.command("hello");
  });
  const connection = await server.connection();
  connection.welcome({ state: { level: 3 } });
  assert.deepEqual([seen, (await connection.next()).type], [[3], "hello"]);
  connection.ack(1);
  await client.close();
});

test("between two sessions a setting keeps the value that its controls show, until the next session says its own", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { server, client } = begin({ newSession: "after-loss" });
  const told = client.setting("brightness");
  const untold = client.setting("contrast"); // of a server that tells no values
  const seen: unknown[] = [];
  told.subscribe(() => seen.push(told.value));
  const first = await server.connection();
  first.welcome({ state: { brightness: 0.25 } });
  const set = untold.set(0.5);
  first.ack((await first.next()).id ?? 0);
  await set;
  first.bye("model_error");
  await settled();
  assert.deepEqual([client.state.status, told.value, untold.value], ["waiting", 0.25, 0.5]);
  let atLive: unknown[] = [];
  client.on("state", ({ status }) => {
    if (status === "live") atLive = [told.value, untold.value];
  });
  t.mock.timers.tick(10_000);
  const second = await server.connection();
  second.welcome({ state: { brightness: 1 } });
  assert.deepEqual([told.value, untold.value], [1, undefined]);
  assert.deepEqual(atLive, [1, undefined], "whoever hears `live` finds the values of this session");
  assert.ok(!seen.includes(undefined), "a slider never jumps to nothing");
  await client.close();
  assert.equal(told.value, 1);
});

test("a value that waits when the session ends is not for the next one", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { server, client } = begin({ newSession: "after-loss" });
  const first = await server.connection();
  first.welcome({ state: { level: 1 } });
  const level = client.setting("level");
  const [sent, waits] = [level.set(2), level.set(3)];
  first.bye("expired");
  await assert.rejects(sent, { code: "ended" });
  await assert.rejects(waits, { code: "ended" });
  await settled();
  client.reconnect();
  const second = await server.connection();
  second.welcome({ state: { level: 1 } });
  const next = level.set(4);
  assert.deepEqual((await second.next()).data, { level: 4 });
  second.ack(1);
  await next;
  await client.close();
});

test("an end says what the server said, and a try that ends before its session says why", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { server, client } = begin({ newSession: "after-loss" });
  const errorOf = ({ state } = client): unknown => (state.status === "waiting" ? state.error : null);
  const first = await server.connection();
  first.welcome();
  first.bye("model_error", { message: "It divided." });
  await settled();
  const ended = errorOf();
  assert.ok(ended instanceof SessionEnded);
  assert.deepEqual([ended.reason, ended.message, ended.detail], ["model_error", "It divided.", "It divided."]);
  client.reconnect();
  (await server.connection()).bye("no_room");
  await settled();
  const full = errorOf();
  assert.ok(full instanceof ConnectionRefused);
  assert.deepEqual([full.code, full.reason, full.retryable], ["busy", "no_room", true]);
  client.reconnect();
  const lost = await server.connection();
  lost.say("reactor.queued", { position: 1, total: 1 });
  lost.lose();
  await settled();
  const gone = errorOf();
  assert.ok(gone instanceof ConnectionRefused);
  assert.deepEqual([gone.code, gone.message], ["busy", "The connection was lost before the session began."]);
  await client.close();
});

test("where there is no other token the refusal of the first one stands", async () => {
  const { server, client } = begin({ token: (why) => (why === "first" ? "mine" : null) });
  (await server.connection()).refuse(401, "unknown token");
  const end = await client.ended;
  assert.ok(end instanceof ConnectionRefused);
  assert.deepEqual([end.code, end.message, server.opened], ["token_wanted", "unknown token", 1]);
});

test("a session says whether it takes files, and every figure is there before it is measured", async (t) => {
  const { server, client } = begin({ video: ["jpeg"] });
  t.after(() => client.close());
  const connection = await server.connection();
  const before = client.statistics();
  connection.welcome({ upload_token: "u" });
  assert.equal(client.session?.takesFiles, true);
  const loop = client.packets();
  await connection.next(); // asks for pictures
  const { silence, ...figures } = client.statistics();
  assert.deepEqual({ ...figures, silence: null }, before);
  assert.ok((silence ?? -1) >= 0, "since the welcome");
  assert.deepEqual([before.commandToPicture, before.stepsDown, before.comebacks], [null, 0, 0]);
  assert.deepEqual(before.sound, { buffer: null, target: null, underruns: 0, lost: 0 });
  await loop.return?.();
});

test("types that another model has are a diagnostic, once", async () => {
  const told: string[] = [];
  const { server, client } = begin({ model: { name: "painter", schemaHash: "0000000000000000" } });
  client.on("diagnostic", ({ code }) => told.push(code));
  (await server.connection()).welcome({ schema_hash: "1111111111111111" });
  assert.deepEqual(told, ["schema_changed"]);
  await client.close();
});

test("an abort of the signal leaves the session", async () => {
  const stop = new AbortController();
  const { server, client } = begin({ signal: stop.signal });
  const connection = await server.connection();
  connection.welcome();
  stop.abort();
  assert.equal(await client.ended, null);
  assert.equal(connection.closed, 1000);
  const state: ClientState = client.state;
  assert.equal(state.status, "ended");
});

/** All that follows without time. */
async function settled(): Promise<void> {
  for (let i = 0; i < 20; i++) await Promise.resolve();
}

test("a client that is closed before it connects opens no socket, and may connect later", async () => {
  const { server, client, states } = begin();
  await client.close();
  assert.equal(server.opened, 0);
  assert.equal(client.state.status, "ended");
  client.reconnect();
  (await server.connection()).welcome();
  await client.ready;
  await client.close();
  assert.deepEqual([server.opened, states], [1, ["ended", "connecting", "live", "ended"]]);
});

test("a refused setting whose promise nobody takes is no unhandled rejection", async () => {
  const { server, client } = begin();
  const connection = await server.connection();
  connection.welcome();
  const brightness = client.setting("brightness");
  void brightness.set(7);
  const { id = 0 } = await connection.next();
  const refused = new Promise<void>((resolve) => brightness.subscribe(() => brightness.error && resolve()));
  connection.error(id, "invalid_command", "Expected float <= 2.0 - at $.brightness");
  await refused;
  connection.say("reactor.state", { other: 1 });
  assert.notEqual(brightness.error, null);
  connection.say("reactor.state", { brightness: 0.5 }); // somebody else has set it
  assert.equal(brightness.error, null);
  await client.close();
});

test("a client pauses, steps and restarts the model that allows it, and hears what another one does", async (t) => {
  t.mock.method(Math, "random", () => 0);
  const { server, client } = begin({}, { transport: ["pause", "step", "restart"] });
  const { transport } = client;
  assert.deepEqual([transport.allowed, transport.paused], [[], false]);
  const heard: boolean[] = [];
  client.on("transport", ({ paused }) => heard.push(paused));
  const connection = await server.connection();
  connection.welcome({ resume_token: "r", resume_window: 10 });
  await client.ready;
  assert.deepEqual(transport.allowed, ["pause", "step", "restart"]);
  const calls = [
    transport.pause(),
    transport.step(),
    transport.step(3),
    transport.restart(),
    transport.restart({ state: "fresh" }),
    transport.resume(),
  ];
  const sent = await Promise.all(calls.map(() => connection.next()));
  assert.deepEqual(
    sent.map(({ type, data, id }) => [type, data, id]),
    [
      ["reactor.pause", { paused: true }, 1],
      ["reactor.step", { steps: 1 }, 2],
      ["reactor.step", { steps: 3 }, 3],
      ["reactor.restart", { state: "kept" }, 4],
      ["reactor.restart", { state: "fresh" }, 5],
      ["reactor.pause", { paused: false }, 6],
    ],
  );
  connection.say("reactor.transport", { paused: true });
  assert.equal(transport.paused, true);
  connection.error(2, "not_paused", "reactor.step: the session is not paused");
  for (const id of [1, 3, 4, 5, 6]) connection.ack(id);
  await assert.rejects(calls[1] as Promise<void>, { code: "not_paused", command: "reactor.step" });
  await Promise.all(calls.filter((_, index) => index !== 1));
  connection.lose();
  const again = await server.connection();
  again.welcome({ resume_token: "r", resume_window: 10, resumed: true, received: 6, missed: 0, paused: false });
  assert.deepEqual([transport.paused, heard], [false, [true, false]]); // somebody has gone on meanwhile
  await client.close();
  assert.deepEqual([transport.allowed, transport.paused], [[], false]);
});

test("a token in the address is the client's, in the query or behind the #, and is nowhere else", async () => {
  const opened = async (url: string, options: ConnectOptions = {}): Promise<string> => {
    const server = scriptedServer();
    const client = connect(url, { WebSocket: server.WebSocket, ...options });
    const { href, searchParams } = (await server.connection()).url;
    await client.close();
    return `${href.split("?")[0]} ${searchParams.get("token")}`;
  };
  assert.equal(await opened("wss://model.test/ws?token=a%263"), "wss://model.test/ws a&3");
  assert.equal(await opened("http://model.test/?role=viewer#token=a%263"), "ws://model.test/ws a&3");
  assert.equal(await opened("http://model.test/?token=a", { token: "b" }), "ws://model.test/ws b");
  assert.equal(await opened("http://model.test/"), "ws://model.test/ws null");
});

test("the WebSocket is beside the server's page or below its folder, unless the address is the WebSocket's own", async () => {
  const opened = async (url: string): Promise<string> => {
    const server = scriptedServer();
    const client = connect(url, { WebSocket: server.WebSocket });
    const { origin, pathname } = (await server.connection()).url;
    await client.close();
    return origin + pathname;
  };
  for (const [url, socket] of [
    ["https://model.test", "wss://model.test/ws"],
    ["https://model.test/demo/", "wss://model.test/demo/ws"],
    ["https://model.test/demo/index.html", "wss://model.test/demo/ws"],
    ["https://model.test/demo/ws", "wss://model.test/demo/ws"],
    ["ws://model.test", "ws://model.test/ws"],
    ["ws://model.test/", "ws://model.test/ws"],
    ["wss://model.test/demo/?a=b#c", "wss://model.test/demo/ws"],
    ["wss://model.test/demo/socket", "wss://model.test/demo/socket"],
  ] as const)
    assert.equal(await opened(url), socket, url);
  assert.throws(() => connect("file:///page/"), TypeError);
});

test("sound that was on at the end is on again in the next session, unless it was stopped", async (t) => {
  class AudioContext extends EventTarget {
    audioWorklet = { addModule: () => new Promise(() => {}) }; // the sound goes on starting
    async close(): Promise<void> {}
  }
  Object.assign(globalThis, { AudioContext });
  t.after(() => Reflect.deleteProperty(globalThis, "AudioContext"));
  const { server, client } = begin({}, { tracks: [{ name: "main_audio", kind: "audio", codec: "opus" }] });
  const again = async (): Promise<string> => {
    client.reconnect();
    (await server.connection()).welcome();
    return client.sound.state;
  };
  (await server.connection()).welcome();
  void client.sound.start();
  await client.close();
  assert.equal(client.sound.state, "off");
  assert.equal(await again(), "starting");
  await client.sound.stop();
  client.reconnect(); // there is nothing to try
  assert.equal(client.sound.state, "off");
  await client.close();
  assert.equal(await again(), "off");
  void client.sound.start();
  await client.close();
  await client.sound.stop();
  assert.equal(await again(), "off");
  await client.close();
});
