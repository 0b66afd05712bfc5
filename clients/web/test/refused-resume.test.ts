// A link that comes back, and a page that is loaded again, while the server refuses or the link breaks: what ends the session, and what does not.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Client, ConnectOptions, Memory } from "../src/index.ts";
import { connect, SessionEnded } from "../src/index.ts";
import { type ScriptedConnection, scriptedServer } from "../src/testing.ts";

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const WELCOME = { resume_token: "r", resume_window: 30 };
const RESUMED = { ...WELCOME, resumed: true, received: 0, missed: 0 };

/** Lets so many milliseconds pass on the mocked clock, as far as promises go. */
async function pass(t: TestContext, milliseconds: number): Promise<void> {
  t.mock.timers.tick(milliseconds);
  await settled();
}

/** A client whose link has just been lost, and whose first try to resume has connected. */
async function resuming(t: TestContext) {
  t.mock.method(Math, "random", () => 0.5);
  const server = scriptedServer();
  const client = connect("http://model.test/", { WebSocket: server.WebSocket });
  const first = await server.connection();
  first.welcome(WELCOME);
  await client.ready;
  t.mock.timers.enable({ apis: ["setTimeout"] });
  first.lose();
  await settled();
  await pass(t, 50);
  return { server, client, second: await server.connection() };
}

const endOf = (client: Client): SessionEnded => {
  assert.ok(client.state.status === "ended" && client.state.end instanceof SessionEnded);
  return client.state.end;
};

test("a link that comes back reads refusals: one for now is tried again when the server says", async (t) => {
  const { server, client, second } = await resuming(t);
  assert.equal(second.url.searchParams.get("refusals"), "bye");
  second.refuse(429, "this address asks too often", 3, "address_handshakes");
  await settled();
  await pass(t, 2900);
  assert.deepEqual([client.state.status, server.opened], ["resuming", 2]);
  await pass(t, 100);
  const third = await server.connection();
  assert.equal(third.url.searchParams.get("resume"), "r");
  third.welcome(RESUMED);
  await settled();
  assert.equal(client.state.status, "live");
  await client.close();
});

test("a refusal that will not pass ends the session at once, with the server's words", async (t) => {
  const { client, second } = await resuming(t);
  second.refuse(401, "no session can be resumed with this token", null, "token_wrong");
  await settled();
  const { reason, message } = endOf(client);
  assert.equal(reason, "lost");
  assert.match(message, /no session can be resumed with this token/);
});

test("a goodbye instead of the session says why that is over", async (t) => {
  const { client, second } = await resuming(t);
  second.bye("expired", { message: "its time is up" });
  await settled();
  const { reason, message } = endOf(client);
  assert.deepEqual([reason, message], ["expired", "its time is up"]);
});

test("a session that the server does not know any more is over, whatever it begins instead", async (t) => {
  const { client, second } = await resuming(t);
  second.bye("client_left");
  await settled();
  const { reason, message } = endOf(client);
  assert.deepEqual([reason, message], ["lost", "The link was lost, and when it was back the session was over."]);
});

const SAVED = JSON.stringify({ resume: "r", after: 4, url: "ws://model.test/ws" });
const AT_REPLICA = JSON.stringify({ resume: "r", after: 4, url: "ws://replica.test/ws" });

/** A page that was loaded again, whose client has connected with what was saved. */
async function reloaded(saved: string, options: ConnectOptions = {}) {
  let kept: string | null = saved;
  const memory: Memory = {
    load: () => kept,
    save: (text) => {
      kept = text;
    },
  };
  const server = scriptedServer();
  const client = connect("http://model.test/", { WebSocket: server.WebSocket, memory, ...options });
  const connection = await server.connection();
  assert.equal(connection.url.searchParams.get("resume"), "r");
  return { server, client, connection, kept: () => kept };
}

const BREAKS: { readonly [how: string]: (connection: ScriptedConnection) => void } = {
  "the link breaks before the welcome": (connection) => {
    connection.say("reactor.beat");
    connection.lose();
  },
  "the server refuses for now": (connection) => connection.refuse(429, "wait", null, "address_handshakes"),
};

for (const [how, breaks] of Object.entries(BREAKS)) {
  for (const saved of [SAVED, AT_REPLICA]) {
    const { host } = new URL(JSON.parse(saved).url);
    test(`a page that was loaded again tries for its session again, at ${host}: ${how}`, async (t) => {
      const { server, client, connection, kept } = await reloaded(saved);
      t.mock.timers.enable({ apis: ["setTimeout"] });
      breaks(connection);
      await settled();
      assert.deepEqual([client.state.status, kept()], ["waiting", saved]);
      await pass(t, 10_000);
      const second = await server.connection();
      assert.deepEqual([second.url.host, second.url.searchParams.get("resume")], [host, "r"]);
      second.welcome(RESUMED);
      assert.equal(client.state.status, "live");
      await client.close();
      assert.equal(kept(), null);
    });
  }
}

test("a server that cannot be reached while a page is loaded again may still have its session", async (t) => {
  const { server, client, connection, kept } = await reloaded(SAVED, { fetch: () => Promise.reject(new TypeError("failed")) });
  t.mock.timers.enable({ apis: ["setTimeout"] });
  connection.lose();
  await settled();
  assert.deepEqual([client.state.status, kept()], ["waiting", SAVED]);
  await pass(t, 10_000);
  const second = await server.connection();
  assert.equal(second.url.searchParams.get("resume"), "r");
  second.say("reactor.queued", { position: 1, total: 1 });
  assert.equal(kept(), null, "a place in the queue is that of another session");
  await client.close();
});

test("a saved session that cannot be had for a minute makes way for a new one", async (t) => {
  let now = 0;
  t.mock.method(performance, "now", () => now);
  const { server, client, connection, kept } = await reloaded(AT_REPLICA);
  t.mock.timers.enable({ apis: ["setTimeout"] });
  now = 60_001;
  connection.refuse(503, "the model did not load", null, "failed");
  await settled();
  assert.equal(kept(), null);
  const second = await server.connection();
  assert.deepEqual([second.url.host, second.url.searchParams.get("resume")], ["model.test", null]);
  await client.close();
});
