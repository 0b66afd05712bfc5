import assert from "node:assert/strict";
import { mock, test } from "node:test";
import { startWorker } from "../src/media/picture.ts";

test("clients that begin at once share one worker", async () => {
  mock.timers.enable({ apis: ["setTimeout"] });
  Object.assign(globalThis, { HTMLCanvasElement: { prototype: { transferControlToOffscreen() {} } } });
  let made = 0;
  const blocked = (): Worker => {
    throw new Error("a content policy");
  };
  const open = (): Worker => {
    made++;
    const worker = new EventTarget();
    setImmediate(() => worker.dispatchEvent(new Event("message")));
    return worker as Worker;
  };
  const started = [blocked, open, open].map((source) => startWorker(() => {}, source));
  assert.deepEqual(await Promise.all(started), [false, true, true]);
  assert.equal(made, 1);
  assert.equal(await startWorker(() => {}), true);
});
