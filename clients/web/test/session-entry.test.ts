// `reactor-trio/session`: a client without tracks, and a consumer's bundle of it in one file.
import assert from "node:assert/strict";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { connect } from "../src/session.ts";
import { scriptedServer } from "../src/testing.ts";

test("a session client asks for no track, and has commands, settings, messages and figures of its link", async () => {
  const server = scriptedServer({ tracks: [] });
  const client = connect("http://model.test/", { WebSocket: server.WebSocket, model: "painter", token: "t" });
  const command = client.command("reset");
  const messages = client.messages();
  const connection = await server.connection();
  const { searchParams: asked } = connection.url;
  assert.deepEqual(
    ["video", "audio", "model", "token", "paused"].map((name) => asked.get(name)),
    ["none", "none", "painter", "t", null],
  );
  connection.welcome({ state: { brightness: 1 } });
  connection.ack((await connection.next()).id ?? 0, "done", 3);
  assert.deepEqual(await command, { id: 1, step: 3, reply: "done" });
  const brightness = client.setting("brightness");
  assert.equal(brightness.value, 1);
  const set = brightness.set(0.5);
  const { type, data, id = 0 } = await connection.next();
  assert.deepEqual([type, data], ["set_brightness", { brightness: 0.5 }]);
  connection.ack(id);
  await set;
  connection.say("progress", { done: 1 });
  assert.deepEqual((await messages.next()).value?.data, { done: 1 });
  await assert.rejects(client.upload(new Uint8Array(1)), { code: "upload", message: /takes no files/ });
  const { comebacks, secondsLost, silence } = client.statistics();
  assert.deepEqual([comebacks, secondsLost, typeof silence], [0, 0, "number"]);
  await client.close();
  assert.equal(client.state.status, "ended");
});

const CONSUMER = `
  import { connect } from "./session.ts";
  export async function play(WebSocket) {
    const client = connect("http://model.test/", { WebSocket });
    const { reply } = await client.command("reset");
    await client.close();
    return reply;
  }`;

test("a consumer's bundle that is not split has nothing that decodes, records or plays, and works", async () => {
  const { outputFiles, metafile } = await build({
    stdin: { contents: CONSUMER, resolveDir: fileURLToPath(new URL("../src", import.meta.url)), loader: "ts" },
    bundle: true,
    format: "esm",
    target: "es2022",
    tsconfigRaw: {},
    minify: true,
    metafile: true,
    write: false,
    outdir: "out",
  });
  assert.equal(outputFiles.length, 1);
  const folders = Object.keys(metafile.inputs).map((path) => /src\/(\w+)\//.exec(path)?.[1]);
  assert.deepEqual([...new Set(folders.filter((folder) => folder !== undefined))].sort(), ["client", "session", "wire"]);
  const { play } = await import(`data:text/javascript;base64,${Buffer.from(outputFiles[0]?.contents ?? []).toString("base64")}`);
  const server = scriptedServer();
  const reply = play(server.WebSocket);
  const connection = await server.connection();
  connection.welcome();
  connection.ack((await connection.next()).id ?? 0, "done");
  assert.equal(await reply, "done");
});
