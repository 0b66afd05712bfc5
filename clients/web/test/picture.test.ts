import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { Picture, type PictureListener, startWorker } from "../src/media/picture.ts";
import type { TrackDescription } from "../src/wire/messages.ts";

/** A worker that answers nothing. */
const worker = Object.assign(new EventTarget(), { postMessage() {} });

test("clients that begin at once share one worker", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  Object.assign(globalThis, { HTMLCanvasElement: { prototype: { transferControlToOffscreen() {} } } });
  let made = 0;
  const blocked = (): Worker => {
    throw new Error("a content policy");
  };
  const open = (): Worker => {
    made++;
    setImmediate(() => worker.dispatchEvent(new Event("message")));
    return worker as unknown as Worker;
  };
  const started = [blocked, open, open].map((source) => startWorker(() => {}, source));
  assert.deepEqual(await Promise.all(started), [false, true, true]);
  assert.equal(made, 1);
  assert.equal(await startWorker(() => {}), true);
});

test("a snapshot that the worker owes when it fails is refused", async () => {
  const canvas = { transferControlToOffscreen: () => ({}) } as HTMLCanvasElement;
  const picture = new Picture(canvas, {} as TrackDescription, {} as PictureListener);
  const refused = assert.rejects(picture.snapshot(), /it ran out of memory/);
  worker.dispatchEvent(Object.assign(new Event("error"), { message: "it ran out of memory" }));
  await refused;
});
