import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { connect } from "../src/index.ts";
import { Picture, type PictureListener, startWorker } from "../src/media/picture.ts";
import { scriptedServer } from "../src/testing.ts";
import type { TrackDescription } from "../src/wire/messages.ts";

/** A worker that answers nothing. */
const worker = Object.assign(new EventTarget(), { postMessage() {} });

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

setFlagsFromString("--expose-gc");
const collectGarbage: () => void = runInNewContext("gc");

/** Does something with a canvas that no application holds afterwards, and returns whether it is still held then. */
async function isHeld(use: (canvas: HTMLCanvasElement) => Promise<void>): Promise<boolean> {
  const make = async (): Promise<WeakRef<HTMLCanvasElement>> => {
    const canvas = { getContext: () => ({}) } as unknown as HTMLCanvasElement;
    await use(canvas);
    return new WeakRef(canvas);
  };
  const canvas = await make();
  await settled();
  collectGarbage();
  return canvas.deref() !== undefined;
}

test("a canvas that is drawn on the page is collected when its picture is closed", async () => {
  const use = async (canvas: HTMLCanvasElement): Promise<void> => {
    const picture = new Picture(canvas, {} as TrackDescription, {} as PictureListener);
    await assert.rejects(picture.snapshot()); // its module is loaded
    picture.close();
  };
  assert.equal(await isHeld(use), false);
});

test("a client keeps no view that was released", async () => {
  const client = connect("http://model.test/", { WebSocket: scriptedServer().WebSocket });
  const use = async (canvas: HTMLCanvasElement): Promise<void> => {
    const view = client.attach(canvas);
    await assert.rejects(view.snapshot()); // its module is loaded
    view.release();
  };
  assert.equal(await isHeld(use), false);
  await client.close();
});

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
