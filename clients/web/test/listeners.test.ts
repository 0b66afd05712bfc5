/** A listener of `state` may close the client, or connect again; and what else the application gives a client may throw. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { type Client, ConnectionRefused, type ConnectOptions, connect, SessionEnded } from "../src/index.ts";
import { type ScriptedConnection, scriptedServer } from "../src/testing.ts";

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const RESUMABLE = { resume_token: "r", resume_window: 10 };

function begin(t: TestContext, options: ConnectOptions = {}) {
  t.mock.method(Math, "random", () => 0);
  const server = scriptedServer();
  const client = connect("http://model.test/", { WebSocket: server.WebSocket, ...options });
  t.after(() => client.close());
  const states: string[] = [];
  client.on("state", ({ status }) => states.push(status));
  return { server, client, states };
}

/** Calls `act` once, in the listener that hears the state. */
function when(client: Client, status: string, act: () => void): void {
  const off = client.on("state", (state) => {
    if (state.status !== status) return;
    off();
    act();
  });
}

async function answered(client: Client, connection: ScriptedConnection): Promise<void> {
  const command = client.command("a");
  connection.ack((await connection.next()).id ?? 0);
  await command;
}

test("a client connects again in the listener that hears its end, and is as new", async (t) => {
  const stop = new AbortController();
  const { server, client, states } = begin(t, { signal: stop.signal });
  const [ready, ended] = [client.ready, client.ended];
  when(client, "ended", () => client.reconnect());
  (await server.connection()).bye("refused", { status: 404, code: "wrong_model" });
  const connection = await server.connection();
  await assert.rejects(ready, { code: "wrong_model" });
  assert.ok((await ended) instanceof ConnectionRefused);
  const early = client.command("early");
  const loop = client.messages();
  connection.welcome({ session_id: "two" });
  assert.equal((await client.ready).id, "two");
  assert.equal((await connection.next()).type, "early");
  connection.ack(1);
  await early;
  connection.say("hello");
  assert.equal((await loop.next()).value?.type, "hello");
  stop.abort(); // the signal still closes it
  assert.equal(await client.ended, null);
  assert.equal(connection.closed, 1000);
  assert.deepEqual(states, ["connecting", "ended", "connecting", "live", "ended"]);
});

test("close() of a client that connects again in a listener waits for the end that it has caused", async (t) => {
  const { server, client } = begin(t);
  (await server.connection()).welcome();
  when(client, "ended", () => client.reconnect());
  await client.close();
  const connection = await server.connection();
  connection.welcome();
  await answered(client, connection);
  // The same for one that was closed before it had begun.
  const unused = connect("http://model.test/", { WebSocket: server.WebSocket });
  t.after(() => unused.close());
  when(unused, "ended", () => unused.reconnect());
  await unused.close();
  (await server.connection()).welcome();
  assert.equal(unused.state.status, "live");
});

test("reconnect() in the listener that hears that the client waits tries at once", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { server, client, states } = begin(t);
  for (const status of ["waiting", "restarting"]) when(client, status, () => client.reconnect());
  (await server.connection()).refuse(503);
  const connection = await server.connection();
  connection.welcome();
  t.mock.method(globalThis, "fetch", async () => new Response("{}"));
  connection.bye("model_restarting");
  await server.connection();
  assert.deepEqual(states, ["connecting", "waiting", "connecting", "live", "restarting", "connecting"]);
});

test("a client that is closed in the listener that hears its session has none", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { server, client, states } = begin(t);
  const unsent = Array.from({ length: 101 }, () => client.command("a"));
  const heard: string[] = [];
  for (const event of ["resumed", "track", "transport"] as const) client.on(event, () => heard.push(event));
  when(client, "live", () => void client.close());
  const connection = await server.connection();
  connection.welcome();
  const codes = await Promise.all(unsent.map((command) => command.catch(({ code, applied }) => `${code} ${applied}`)));
  assert.deepEqual(new Set(codes), new Set(["ended false"]));
  await client.ended;
  assert.deepEqual([client.session, client.statistics().silence, connection.received], [null, null, []]);
  assert.deepEqual(states, ["connecting", "live", "ended"]);

  client.reconnect();
  const first = await server.connection();
  first.welcome(RESUMABLE);
  first.lose();
  await settled();
  const waiting = client.command("b");
  client.on("resumed", () => void client.close());
  t.mock.timers.tick(1);
  const second = await server.connection();
  const timers = t.mock.method(globalThis, "setTimeout");
  second.welcome({ ...RESUMABLE, resumed: true, received: 0, missed: 0, paused: true });
  await assert.rejects(waiting, { code: "ended", applied: false });
  await client.ended;
  await settled();
  assert.equal(timers.mock.callCount(), 0); // nothing goes on
  assert.deepEqual(heard, ["resumed"]); // nothing follows the end
});

test("a memory that throws is told once, and the client goes on without it", async (t) => {
  const broken = (): never => {
    throw new Error("no space is left");
  };
  for (const [memory, times] of [
    [{ load: () => null, save: broken }, 1],
    [{ load: broken, save() {} }, 1],
  ] as const) {
    const { server, client } = begin(t, { memory });
    const errors: string[] = [];
    client.on("error", ({ code, message }) => errors.push(`${code}: ${message}`));
    const first = await server.connection();
    first.welcome(RESUMABLE);
    assert.equal((await client.ready).id, "s");
    first.lose();
    const second = await server.connection();
    second.welcome({ ...RESUMABLE, resumed: true, received: 0, missed: 0 });
    await settled();
    assert.equal(client.state.status, "live");
    second.bye("done");
    assert.ok((await client.ended) instanceof SessionEnded);
    await client.close();
    client.reconnect();
    (await server.connection()).welcome();
    await client.close();
    assert.deepEqual(errors, Array(times).fill('memory: The option "memory" failed: Error: no space is left'));
  }
});

test("a fault of the client's own parts ends it, with the fault as its cause", async (t) => {
  const fault = new Error("no sockets here");
  const Broken = class {
    constructor() {
      throw fault;
    }
  } as unknown as typeof WebSocket;
  const { client } = begin(t, { WebSocket: Broken });
  const end = await client.ended;
  assert.deepEqual([end?.code, end?.cause], ["refused", fault]);
});

test("between two sessions an upload waits for the next one, as commands do, and so does ready", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const asked: string[] = [];
  const fetch = async (url: string | URL | Request): Promise<Response> => {
    asked.push(String(url));
    return new Response('{"upload_id": "u"}', { status: 201 });
  };
  const { server, client } = begin(t, { newSession: "after-loss", fetch });
  const first = await server.connection();
  first.welcome({ session_id: "one", upload_token: "1" });
  assert.equal((await client.ready).id, "one");
  first.lose();
  await settled();
  assert.equal(client.state.status, "waiting");
  const told: number[] = [];
  const sent = client.upload(new Blob(["x"]), { onProgress: (part) => told.push(part) });
  const ready = client.ready;
  const published = assert.rejects(client.publish("camera", "camera"), /it has none/); // of the model of the next session
  t.mock.timers.tick(1000);
  (await server.connection()).welcome({ session_id: "two", upload_token: "2" });
  assert.deepEqual([(await sent).upload_id, (await ready).id, told], ["u", "two", [1]]);
  assert.match(asked.join(), /token=2$/);
  await published;
  await client.close();
  await assert.rejects(client.upload(new Blob([])), { code: "closed" });
});
