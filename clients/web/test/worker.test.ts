/** The decoder worker's messages, without a worker. */
import assert from "node:assert/strict";
import { test } from "node:test";

test("a call that fails is an error of the worker, which its page hears", async (t) => {
  const said: unknown[] = [];
  const worker = { postMessage: (message: unknown) => said.push(message), onmessage: (_: { data: object }): unknown => null };
  Object.defineProperty(globalThis, "self", { value: worker, configurable: true });
  t.after(() => Reflect.deleteProperty(globalThis, "self"));
  await import("../src/worker/decoder-worker.ts");
  assert.deepEqual(said, ["ready"]);
  // Only an error that is thrown comes to the page as the worker's event `error`; a rejected promise stays in the worker.
  assert.throws(() => worker.onmessage({ data: { id: 7, call: "end", args: [] } }), /no renderer 7/);
});
