// Controls that each session binds again, and that are loaded when they are wanted.
import assert from "node:assert/strict";
import { test } from "node:test";
import { followControls } from "../src/client/follow-controls.ts";
import { connect } from "../src/index.ts";
import { scriptedServer } from "../src/testing.ts";

test("controls that cannot be loaded are an error of the client, and the next state tries again", async () => {
  const server = scriptedServer();
  const client = connect("http://model.test/", { WebSocket: server.WebSocket });
  const told: string[] = [];
  client.on("error", ({ code, message }) => told.push(`${code}: ${message}`));
  const connection = await server.connection();
  connection.welcome({ resume_token: "again" });
  await client.ready;
  const done: string[] = [];
  const loads = [
    () => Promise.reject(new Error("404")),
    () => Promise.resolve({ bindCommands: () => ({ release: () => done.push("release"), close: () => done.push("close") }) }),
  ];
  const off = followControls(client, {} as HTMLCanvasElement, "all", () => loads.shift()?.() as ReturnType<(typeof loads)[1]>);
  await new Promise(setImmediate);
  assert.deepEqual(told, ["controls: 404"]);
  connection.lose();
  await new Promise(setImmediate);
  assert.deepEqual([told.length, loads.length], [1, 0]);
  off();
  assert.deepEqual(done, ["release", "close"]);
  await client.close();
});
