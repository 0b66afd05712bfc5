// A client that components hold: it outlives a remount, and leaves a macrotask after the last one.
import assert from "node:assert/strict";
import { test } from "node:test";
import { HeldClient } from "../src/client/held-client.ts";
import type { ConnectOptions } from "../src/index.ts";
import { scriptedServer } from "../src/testing.ts";

function held(key: string, options: ConnectOptions = {}, active = true) {
  const server = scriptedServer();
  return { server, held: new HeldClient(key, "http://model.test/", { WebSocket: server.WebSocket, ...options }, active) };
}

const macrotask = (): Promise<void> => new Promise((resolve) => setTimeout(resolve));

test("it connects when somebody holds it, with the token of then", async () => {
  const { server, held: client } = held("a", { token: "old" });
  await macrotask();
  assert.equal(server.opened, 0);
  client.token = "new";
  const release = client.hold();
  const connection = await server.connection();
  assert.equal(connection.url.searchParams.get("token"), "new");
  connection.welcome();
  release();
  const again = client.hold(); // as StrictMode does
  await macrotask();
  assert.equal(connection.closed, null);
  again();
  assert.equal(HeldClient.leaving("a"), client);
  await macrotask();
  assert.equal(connection.closed, 1000);
  assert.equal(HeldClient.leaving("a"), undefined);
  assert.equal(server.opened, 1);
});

test("its first session alone begins at a fork, also when it is held once more later", async () => {
  const { server, held: client } = held("f", { fork: "f1" });
  const asked = async (): Promise<string | null> => {
    const release = client.hold();
    const connection = await server.connection();
    connection.welcome();
    release();
    await macrotask();
    assert.equal(connection.closed, 1000);
    return connection.url.searchParams.get("fork");
  };
  assert.equal(await asked(), "f1");
  assert.equal(await asked(), null);
});

test("the last of two holders decides", async () => {
  const { server, held: client } = held("b");
  const [one, two] = [client.hold(), client.hold()];
  const connection = await server.connection();
  connection.welcome();
  one();
  await macrotask();
  assert.equal(connection.closed, null);
  two();
  await macrotask();
  assert.equal(connection.closed, 1000);
});

test("who holds it while it closes gets another session when it has closed", async () => {
  const { server, held: client } = held("c");
  const release = client.hold();
  const connection = await server.connection();
  connection.welcome();
  const close = client.client.close.bind(client.client);
  let again = release;
  client.client.close = () => {
    const closed = close();
    queueMicrotask(() => {
      assert.equal(client.client.state.status, "live");
      again = client.hold();
    });
    return closed;
  };
  release();
  const second = await server.connection();
  second.welcome();
  assert.equal(client.client.state.status, "live");
  client.client.close = close;
  again();
  assert.equal(await client.client.ended, null);
});

test("one that is not active has ended until somebody holds it", async () => {
  const { server, held: client } = held("d", {}, false);
  assert.equal(client.client.state.status, "ended");
  const release = client.hold();
  (await server.connection()).welcome();
  assert.equal(client.client.state.status, "live");
  release();
  await client.client.ended;
});
