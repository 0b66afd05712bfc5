/**
 * The package in Node, against the server of tests/node/test_package_in_node.py, whose address is the first argument. Lines go to
 * its output: "cut" asks for the link to be cut, "resuming" for it to be mended; the last one is "done".
 */
import assert from "node:assert/strict";
import { type ClientState, CommandError, connect, UploadRefused } from "reactor-trio";

const say = (line: string): void => void process.stdout.write(`${line}\n`);

process.on("unhandledRejection", (error) => {
  say(`nobody waits for a promise that was rejected: ${error}`);
  process.exit(1);
});

/** Resolves with the next state that is `status`. */
function until(status: ClientState["status"]): Promise<ClientState> {
  return new Promise((resolve) => {
    const stop = client.on("state", (state) => {
      if (state.status !== status) return;
      stop();
      resolve(state);
    });
  });
}

const client = connect(process.argv[2] as string, { video: ["jpeg"], model: "mixer" });
const packets = client.packets(); // so pictures are asked for from the beginning
const messages: unknown[] = [];
client.on("message", ({ type, data, n }) => messages.push([type, data.total, n]));
assert.deepEqual((await client.ready).tracks.map(({ name }) => name).sort(), ["camera", "main_video", "microphone"]);

// Commands, settings, and what is refused.
assert.deepEqual((await client.command("add", { number: 2 })).reply, { total: 2 });
await assert.rejects(client.command("add", { number: "2" }), (error) => error instanceof CommandError && error.path === "$.number");
const level = client.setting("level");
assert.equal(level.value, 0);
await level.set(7);
assert.equal(level.value, 7);

// A file.
const file = await client.upload(new Uint8Array([1, 2, 3]), { name: "three.bin" });
assert.deepEqual((await client.command("measure", { file })).reply, { name: "three.bin", bytes: 3 });
const large = client.upload(new Blob([new Uint8Array(5000)]));
await assert.rejects(large, (error) => error instanceof UploadRefused && error.status === 413);

// 100 pictures, each a JPEG file.
let pictures = 0;
let shape: Uint8Array<ArrayBuffer> | null = null;
for await (const { payload, codec, keyframe, track } of packets) {
  assert.deepEqual([codec, keyframe, track], ["jpeg", true, "main_video"]);
  assert.deepEqual([...payload.subarray(0, 3), ...payload.subarray(-2)], [0xff, 0xd8, 0xff, 0xff, 0xd9]);
  shape = payload;
  if (++pictures === 100) break;
}
const { main_video: received } = client.statistics().tracks;
assert.equal(received?.codec, "jpeg");
assert.ok((received?.received ?? 0) >= 100);

// The model stands still, takes a command, makes two steps, and begins anew.
const { transport } = client;
const told: boolean[] = [];
client.on("transport", ({ paused }) => told.push(paused));
assert.deepEqual([transport.allowed, transport.paused], [["pause", "step", "restart"], false]);
await assert.rejects(transport.step(), (error) => error instanceof CommandError && error.code === "not_paused");
await transport.pause();
assert.equal(transport.paused, true);
await transport.step(); // shows what was queued, too
const shown: number[] = [];
const { step: next } = await client.command("measure", { file });
const still = client.packets();
await transport.step(2);
for await (const { step } of still) {
  shown.push(step);
  if (step === next + 1) break;
}
assert.deepEqual(shown.slice(-2), [next, next + 1]);
await level.set(9);
await transport.restart({ state: "fresh" });
await transport.resume();
await transport.restart();
assert.deepEqual([transport.paused, told], [false, [true, false]]);
while (level.value !== 0) await new Promise((resolve) => setTimeout(resolve, 10));
await level.set(7);

// What the model is sent: a picture, and sound.
const heard = new Promise((resolve) => client.on("message", ({ type, data }) => type === "got" && data.samples && resolve(data)));
const captured = 1_790_000_000_000_000;
assert.equal(await client.push("camera", shape as Uint8Array<ArrayBuffer>, { captureTimeUs: captured + 0.3 }), true);
assert.equal(await client.push("microphone", new Int16Array(960).fill(5), { captureTimeUs: captured + 7 }), true);
assert.deepEqual(await heard, { width: 16, height: 8, samples: 960, first: 5, captured: [captured, captured + 7] });
await assert.rejects(client.push("speaker", new Int16Array(1)), /the model has no input "speaker"; it has "camera", "microphone"/);

// The link is cut: the same session goes on, and each command is applied once.
const cut = until("resuming");
say("cut");
await cut;
const back = until("live");
const during = [1, 1, 1].map((number) => client.command("add", { number }));
say("resuming");
await back;
assert.deepEqual(
  (await Promise.all(during)).map(({ reply }) => reply),
  [{ total: 3 }, { total: 4 }, { total: 5 }],
);
assert.equal(client.statistics().comebacks, 1);
assert.equal(level.value, 7);
assert.deepEqual(
  messages.filter((message) => (message as unknown[])[0] === "added").map((message) => (message as unknown[])[1]),
  [2, 3, 4, 5],
);
for await (const { codec } of client.packets()) {
  assert.equal(codec, "jpeg");
  break;
}

// The end.
await client.close();
assert.equal(await client.ended, null);
await assert.rejects(client.command("add", { number: 1 }), { code: "ended" });
say("done");
