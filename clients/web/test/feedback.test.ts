/** When a client tells the server how far it is: with each frame, or as rarely as the server allows. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { Outputs, type Taker } from "../src/client/outputs.ts";
import type { TrackDescription } from "../src/wire/messages.ts";
import type { Packet, Session } from "../src/wire/protocol.ts";

const TRACK = { index: 0, name: "main_video", kind: "video", direction: "out", codec: "jpeg" } as TrackDescription;
const FRAME = 40; // milliseconds
const CADENCE = 250_000; // microseconds
const NOBODY = { received() {}, asked() {}, steppedDown() {} };

type Told = [ms: number, seq: number, heldUs: number];

/** Outputs of a session in virtual time, with takers that are done with a frame `held` milliseconds after it came. */
function begin(t: TestContext, takers: number = 1, held: number = 0) {
  let now = 0;
  t.mock.timers.enable({ apis: ["setTimeout"] });
  t.mock.method(performance, "now", () => now);
  const told: Told[] = [];
  const session = {
    tracks: [TRACK],
    track: () => TRACK,
    linked: true,
    requestVideo() {},
    feedback: (_: number, seq: number, heldUs: number) => told.push([now, seq, heldUs]),
  } as unknown as Session;
  const outputs = new Outputs(["jpeg"], ["jpeg"], NOBODY);
  const all: Taker[] = [];
  const dealers: ((seq: number, heldUs: number) => void)[] = [];
  for (let i = 0; i < takers; i++) {
    const taker: Partial<Taker> = { wanted: undefined, begin: (_, dealt) => void dealers.push(dealt), take() {}, end() {} };
    outputs.add(taker as Taker);
    all.push(taker as Taker);
  }
  outputs.beginSession(session);
  const pass = (ms: number): void => {
    for (const end = now + ms; now < end; ) {
      now += 1;
      t.mock.timers.tick(1);
    }
  };
  let seq = 0;
  /** Frames, one in each 40 ms, for the takers that are named. */
  const frames = (count: number, whose: readonly number[] = dealers.map((_, i) => i)): void => {
    for (const end = seq + count; seq < end; seq++) {
      outputs.accept({ track: 0, seq, payload: new Uint8Array(1) } as Packet);
      pass(held);
      for (const i of whose) dealers[i]?.(seq, held * 1000);
      pass(FRAME - held);
    }
  };
  return { outputs, told, frames, pass, takers: all, dealers };
}

test("each frame is acknowledged as long as the server allows nothing else", (t) => {
  const { told, frames } = begin(t, 1, 5);
  frames(3);
  assert.deepEqual(told, [
    [5, 0, 5000],
    [45, 1, 5000],
    [85, 2, 5000],
  ]);
});

test("with a cadence the first frame after it is acknowledged at once, with its own time", (t) => {
  const { outputs, told, frames } = begin(t, 1, 5);
  frames(1);
  outputs.setCadence(0, CADENCE);
  frames(15);
  assert.deepEqual(told, [
    [5, 0, 5000],
    [285, 7, 5000], // 45, ... 245 come earlier than 255
    [565, 14, 5000],
  ]);
});

test("the last frame before a pause is acknowledged after half the cadence more, with the time it was held", (t) => {
  const { outputs, told, frames, pass } = begin(t);
  frames(1);
  outputs.setCadence(0, CADENCE);
  frames(3);
  pass(1000);
  assert.deepEqual(told, [
    [0, 0, 0],
    [375, 3, 255_000], // it came at 120
  ]);
  frames(2); // the time is over: the first is acknowledged at once
  assert.deepEqual(told.slice(2), [[1160, 4, 0]]);
  pass(1000);
  assert.deepEqual(told.slice(3), [[1535, 5, 335_000]]);
});

test("when the server takes the cadence back, what is open is acknowledged at once, and then each frame", (t) => {
  const { outputs, told, frames, pass } = begin(t);
  frames(1);
  outputs.setCadence(0, CADENCE);
  frames(2);
  outputs.setCadence(0, 0);
  assert.deepEqual(told, [
    [0, 0, 0],
    [120, 2, 40_000],
  ]);
  frames(2);
  pass(1000);
  assert.deepEqual(told.slice(2), [
    [120, 3, 0],
    [160, 4, 0],
  ]);
});

test("a cadence ends with the link", (t) => {
  const { outputs, told, frames } = begin(t);
  outputs.setCadence(0, CADENCE);
  frames(2);
  outputs.resumed();
  frames(1);
  assert.deepEqual(told, [
    [0, 0, 0],
    [80, 1, 40_000],
    [80, 2, 0],
  ]);
});

test("of several takers the slowest counts, and one that hangs holds nobody up", (t) => {
  const { outputs, told, frames, pass } = begin(t, 2);
  frames(1);
  outputs.setCadence(0, CADENCE);
  frames(2);
  pass(280); // now 400
  assert.deepEqual(told.splice(0), [
    [0, 0, 0],
    [375, 2, 295_000],
  ]);
  frames(2, [0]); // 3 and 4: the other one is not done with them
  pass(1000);
  assert.deepEqual(told, [
    [650, 3, 250_000],
    [690, 4, 250_000],
  ]);
});

test("a taker that has left, and answers for what was in its decoder, holds nobody up", (t) => {
  const { outputs, told, frames, takers, dealers } = begin(t, 2);
  frames(1);
  outputs.remove(takers[1] as Taker);
  dealers[1]?.(0, 0);
  frames(2, [0]);
  assert.deepEqual(told, [
    [0, 0, 0],
    [40, 1, 0],
    [80, 2, 0],
  ]);
});

test("nothing is told after the end of a session", (t) => {
  const { outputs, told, frames, pass } = begin(t);
  frames(1);
  outputs.setCadence(0, CADENCE);
  frames(2);
  outputs.endSession();
  pass(1000);
  assert.deepEqual(told, [[0, 0, 0]]);
});
