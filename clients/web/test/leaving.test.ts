/** A client waits for nobody when it is closed, and what it calls of the application can neither hold it up nor break it. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { ConnectOptions } from "../src/index.ts";
import { connect } from "../src/index.ts";
import { scriptedServer } from "../src/testing.ts";

const NEVER = new Promise<never>(() => {});

function begin(options: ConnectOptions = {}, model: Parameters<typeof scriptedServer>[0] = {}) {
  const server = scriptedServer(model);
  return { server, client: connect("http://model.test/", { WebSocket: server.WebSocket, ...options }) };
}

async function settled(): Promise<void> {
  for (let i = 0; i < 30; i++) await Promise.resolve();
}

/** What a promise has come to, without a wait. */
async function now(promise: Promise<unknown>): Promise<unknown> {
  return Promise.race([promise.catch((error: Error) => error.name), settled().then(() => settled().then(() => "waits"))]);
}

test("close() does not wait for a token function that never answers, and the client may connect again", async () => {
  const tokens: (string | Promise<string>)[] = [NEVER, "t"];
  const { server, client } = begin({ token: () => tokens.shift() ?? null });
  await settled();
  assert.equal(await now(client.close()), undefined);
  assert.deepEqual([client.state, server.opened], [{ status: "ended", end: null }, 0]);
  client.reconnect();
  const connection = await server.connection();
  assert.equal(connection.url.searchParams.get("token"), "t");
  connection.welcome();
  assert.equal(client.state.status, "live");
  await client.close();
});

test("a token that comes after close() opens no socket", async () => {
  let give = (_token: string): void => {};
  const { server, client } = begin({ token: () => new Promise((resolve) => (give = resolve)) });
  await settled();
  await client.close();
  give("late");
  await settled();
  assert.equal(server.opened, 0);
});

test("close() does not wait for the answer of /health while the model is loaded again", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let given: AbortSignal | null | undefined;
  const { server, client } = begin({
    fetch: async (_url, options) => {
      given = options?.signal;
      return NEVER;
    },
  });
  const connection = await server.connection();
  connection.welcome();
  connection.bye("model_restarting", { message: "" });
  await settled();
  t.mock.timers.tick(250);
  await settled();
  assert.equal(given?.aborted, false);
  assert.equal(await now(client.close()), undefined);
  assert.equal(given?.aborted, true);
});

test("a server that takes the question for /health and never answers is asked again", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const patience: AbortController[] = [];
  t.mock.method(AbortSignal, "timeout", (milliseconds: number) => {
    assert.equal(milliseconds, 10_000);
    patience.push(new AbortController());
    return patience.at(-1)?.signal;
  });
  const { server, client } = begin({
    fetch: async (_url, options) => {
      if (patience.length === 2) return new Response("{}");
      return new Promise((_, reject) => options?.signal?.addEventListener("abort", () => reject(new TypeError("it took too long"))));
    },
  });
  const connection = await server.connection();
  connection.welcome();
  connection.bye("model_restarting", { message: "" });
  await settled();
  t.mock.timers.tick(250);
  await settled();
  patience[0]?.abort();
  await settled();
  assert.equal(client.state.status, "restarting");
  t.mock.timers.tick(1000);
  (await server.connection()).welcome();
  assert.deepEqual([client.state.status, patience.length], ["live", 2]);
  await client.close();
});

test("of an answer of /health no more is read than a server may say", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let [given, cancelled] = [0, false];
  const endless = new ReadableStream<Uint8Array>({
    pull(body) {
      body.enqueue(new Uint8Array(4096).fill(32));
      given += 4096;
      if (given === 1 << 20) body.close();
    },
    cancel() {
      cancelled = true;
    },
  });
  const answers = [new Response(endless, { status: 503 }), new Response("{}")];
  const { server, client } = begin({ fetch: async () => answers.shift() as Response });
  const connection = await server.connection();
  connection.welcome();
  connection.bye("model_restarting", { message: "" });
  await settled();
  t.mock.timers.tick(250);
  for (let i = 0; i < 20; i++) await settled();
  assert.deepEqual([client.state.status, given < 80_000, cancelled], ["restarting", true, true]);
  t.mock.timers.tick(1000);
  (await server.connection()).welcome();
  assert.equal(client.state.status, "live");
  await client.close();
});

test("while the model is loaded again /health is asked once a second, or when the server says", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const asked: number[] = [];
  let time = 0;
  let after: string | null = null;
  const { server, client } = begin({
    fetch: async () => {
      asked.push(time);
      if (asked.length === 2) throw new TypeError("it does not listen");
      return new Response("{}", { status: 503, headers: after === null ? {} : { "retry-after": after } });
    },
  });
  const connection = await server.connection();
  connection.welcome();
  connection.bye("model_restarting", { message: "" });
  await settled();
  const run = async (until: number): Promise<void> => {
    for (; time < until; time += 250) {
      t.mock.timers.tick(250);
      await settled();
    }
  };
  await run(3500);
  after = "3";
  await run(10_000);
  after = "3600"; // a person waits: not longer than 10 s
  await run(25_000);
  assert.deepEqual(asked, [0, 1000, 2000, 3000, 4000, 7000, 10_000, 20_000]);
  await client.close();
});

test("a link is given up in time although the token function never answers", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let passed = 0;
  t.mock.method(performance, "now", () => passed);
  t.mock.method(AbortSignal, "timeout", (ms: number) => {
    const late = new AbortController();
    setTimeout(() => late.abort(), ms);
    return late.signal;
  });
  let calls = 0;
  const { server, client } = begin({ token: () => (calls++ === 0 ? "t" : NEVER) });
  const connection = await server.connection();
  connection.welcome({ resume_token: "r", resume_window: 10 });
  await client.ready;
  connection.lose();
  await settled();
  for (; passed < 11_000; passed += 100) {
    t.mock.timers.tick(100);
    await settled();
  }
  assert.deepEqual([client.state.status, server.opened], ["ended", 1]);
});

test("reconnect() tries at once to resume, also when the last wait of the window runs", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  t.mock.method(Math, "random", () => 1);
  const { server, client } = begin();
  const connection = await server.connection();
  connection.welcome({ resume_token: "r", resume_window: 0.05 }); // shorter than the first wait
  await client.ready;
  connection.lose();
  await settled();
  client.reconnect();
  const again = await server.connection();
  again.welcome({ resume_token: "r", resumed: true, received: 0, missed: 0 });
  await settled();
  assert.equal(client.state.status, "live");
  await client.close();
});

test("the signal of an upload, or of a device, counts while there is no session yet", async () => {
  const { client } = begin();
  const stop = new AbortController();
  const { signal } = stop;
  const calls = [client.upload(new Blob([]), { signal }), client.publish("camera", "camera", { signal })];
  stop.abort();
  assert.deepEqual(await Promise.all(calls.map(now)), ["AbortError", "AbortError"]);
  await client.close();
});

test("a command that waited leaves nothing behind on a signal that goes on", async (t) => {
  const { signal } = new AbortController();
  const removed = t.mock.method(signal, "removeEventListener");
  const added = t.mock.method(signal, "addEventListener");
  const { server, client } = begin();
  const command = client.command("a", {}, { signal });
  const connection = await server.connection();
  connection.welcome();
  connection.ack((await connection.next()).id ?? 0);
  await command;
  await settled();
  assert.equal(added.mock.callCount(), removed.mock.callCount());
  await client.close();
});

/** What a page has of cameras: the user is asked until `allow` is called. */
function camera(t: TestContext): { allow(): void; readonly on: boolean } {
  let on = false;
  let allow = (): void => {};
  const stream = { getTracks: () => [{ stop: () => (on = false), addEventListener() {} }] };
  const ask = new Promise((resolve) => {
    allow = () => {
      on = true;
      resolve(stream);
    };
  });
  const navigator = Object.getOwnPropertyDescriptor(globalThis, "navigator") as PropertyDescriptor;
  const value = { mediaDevices: { getUserMedia: () => ask } };
  Object.defineProperty(globalThis, "navigator", { value, configurable: true });
  Object.assign(globalThis, {
    OffscreenCanvas: class {
      getContext() {}
    },
  });
  t.after(() => {
    Object.defineProperty(globalThis, "navigator", navigator);
    Reflect.deleteProperty(globalThis, "OffscreenCanvas");
  });
  return {
    allow,
    get on() {
      return on;
    },
  };
}

test("a camera that the user allows after the client has ended is switched off again", async (t) => {
  const device = camera(t);
  const { server, client } = begin({}, { tracks: [{ name: "camera", direction: "in" }] });
  (await server.connection()).welcome();
  const preview = { async play() {}, requestVideoFrameCallback() {} } as unknown as HTMLVideoElement;
  const published = client.publish("camera", "camera", { preview });
  published.catch(() => {});
  await new Promise((resolve) => setTimeout(resolve, 50)); // its modules are loaded
  await client.close();
  device.allow();
  await assert.rejects(published, { name: "AbortError" });
  assert.equal(device.on, false);
});

test("a listener of a setting that throws holds up neither the setting nor the other listeners", async (t) => {
  const uncaught: unknown[] = [];
  const real = queueMicrotask;
  const guarded = (call: () => void): void => {
    try {
      call();
    } catch (error) {
      uncaught.push((error as Error).message);
    }
  };
  t.mock.method(globalThis, "queueMicrotask", (call: () => void) => real(() => guarded(call)));
  const { server, client } = begin();
  const connection = await server.connection();
  connection.welcome({ state: { brightness: 1 } });
  const brightness = client.setting("brightness");
  const heard: unknown[] = [];
  const off = brightness.subscribe(() => {
    off();
    throw new Error("the application's");
  });
  brightness.subscribe(() => heard.push(brightness.pending));
  const set = brightness.set(2);
  connection.ack((await connection.next()).id ?? 0);
  await set;
  await settled();
  assert.deepEqual([heard.at(-1), brightness.pending, uncaught], [false, false, ["the application's"]]);
  await client.close();
});

test("a command with a value that JSON does not have is refused alone, in a session and before it", async () => {
  const { server, client } = begin();
  const round: { [name: string]: unknown } = {};
  round.deeper = [round];
  const early = [client.command("early", { x: 1n }), client.command("follows")];
  const cyclic = client.command("early", round);
  const connection = await server.connection();
  connection.welcome();
  await assert.rejects(early[0] as Promise<unknown>, TypeError);
  await assert.rejects(cyclic, TypeError);
  await assert.rejects(client.command("late", { x: 1n }), TypeError);
  await assert.rejects(client.command("late", round), TypeError);
  void client.command("last").catch(() => {});
  early[1]?.catch(() => {});
  const sent = [await connection.next(), await connection.next()];
  assert.deepEqual(
    sent.map(({ type, id }) => [type, id]),
    [
      ["follows", 1],
      ["last", 2],
    ],
  );
  await client.close();
});
