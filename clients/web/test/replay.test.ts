import assert from "node:assert/strict";
import { test } from "node:test";
import { replay } from "../src/client/iterators.ts";
import { Replay } from "../src/client/replay.ts";
import type { DecodedImage, Decoder, DecoderListener } from "../src/media/decoders.ts";
import type { TrackDescription } from "../src/wire/messages.ts";
import type { Packet } from "../src/wire/protocol.ts";

const MIB = 1 << 20;
const TRACK = { name: "main_video", codec: "h264" } as TrackDescription;

/** One packet in each tenth of a second. */
const packet = (seq: number, key: boolean, bytes: number = 8): Packet =>
  ({
    track: 0,
    seq,
    ptsUs: seq * 100_000,
    flags: key ? 1 : 0,
    command: null,
    step: seq,
    meta: {},
    payload: new Uint8Array(bytes),
  }) as Packet;

const QUIET = { software: false, askKeyframe() {} };

function keep(seconds: number, packets: Iterable<Packet>): { kept: Replay; seqs: number[]; asked: number } {
  const kept = new Replay(seconds);
  let asked = 0;
  for (const each of packets) kept.keep(each, TRACK, { software: false, askKeyframe: () => asked++ });
  return { kept, seqs: kept.packets.map(({ seq }) => seq), asked };
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);
const pictures = (to: number, isKey: (seq: number) => boolean, bytes?: number): Packet[] =>
  range(0, to).map((seq) => packet(seq, isKey(seq), bytes));

test("of pictures that need no other, the kept seconds are kept", () => {
  const { seqs, asked } = keep(
    2,
    pictures(100, () => true),
  );
  assert.deepEqual([seqs, asked], [range(79, 100), 0]);
});

test("what the kept seconds need to be decoded is kept too", () => {
  const { seqs } = keep(
    2,
    pictures(100, (seq) => seq % 30 === 0),
  );
  assert.deepEqual(seqs, range(60, 100));
});

test("packets before the first keyframe are not kept", () => {
  assert.deepEqual(keep(2, [packet(0, false), packet(1, false)]).seqs, []);
  assert.deepEqual(keep(2, [packet(0, false), packet(1, true), packet(2, false)]).seqs, [1, 2]);
});

test("a keyframe is asked for once when too much has come without one, and the one before is kept until it comes", () => {
  const before = keep(
    2,
    pictures(24, (seq) => seq === 0, MIB),
  );
  assert.deepEqual([before.seqs, before.asked], [range(0, 24), 1]);
  const after = keep(
    2,
    pictures(50, (seq) => seq % 25 === 0, MIB),
  );
  assert.deepEqual([after.seqs, after.asked], [range(25, 50), 2]);
});

test("never more than 32 MiB are kept, even if no keyframe comes", () => {
  assert.deepEqual(
    keep(
      60,
      pictures(33, (seq) => seq === 0, MIB),
    ).seqs,
    [],
  );
  assert.deepEqual(
    keep(
      60,
      pictures(100, () => true, MIB),
    ).seqs,
    range(68, 100),
  );
});

test("another size or codec goes on at its keyframe, another session begins again", async () => {
  const { kept } = keep(9, [packet(5, true), packet(6, false)]);
  const seqs = (): number[] => kept.packets.map(({ seq }) => seq);
  const other = { ...TRACK, codec: "vp8" } as TrackDescription;
  kept.keep(packet(7, false), other, QUIET);
  assert.deepEqual(seqs(), [5, 6]); // the keyframe of 7 is not there
  kept.keep(packet(8, true), other, QUIET);
  kept.keep(packet(9, false), other, QUIET);
  assert.deepEqual(seqs(), [5, 6, 8, 9]);
  kept.keep(packet(0, true), other, QUIET);
  assert.deepEqual(seqs(), [0]);
});

test("the bytes of a kept packet are its own, because a worker may empty the message's", () => {
  const shown = packet(0, true);
  const { kept } = keep(2, [shown]);
  shown.payload.fill(9);
  assert.deepEqual([...(kept.packets[0] as Packet).payload], Array(8).fill(0));
});

class FakeImageData {}
Object.assign(globalThis, { ImageData: FakeImageData });

/** A decoder whose pictures come when the test asks for them. */
class FakeDecoder {
  readonly closed: number[] = [];
  readonly fed: number[] = [];
  waiting: Parameters<DecoderListener<never>["decoded"]>[0][] = [];
  listener!: Parameters<Parameters<typeof replay>[3]>[0];
  isClosed = false;

  readonly open: Parameters<typeof replay>[3] = (listener) => {
    this.listener = listener;
    const fake = this;
    return {
      get hasRoom() {
        return fake.waiting.length < 3;
      },
      get isEmpty() {
        return fake.waiting.length === 0;
      },
      hasOutput: false,
      feed(entry) {
        fake.fed.push(entry.seq);
        fake.waiting.push(entry as never);
      },
      close() {
        fake.isClosed = true;
        return [];
      },
    } satisfies Decoder<{ seq: number }> as never;
  };

  give(): void {
    const entry = this.waiting.shift() as unknown as { seq: number };
    this.listener.decoded(entry as never, { close: () => this.closed.push(entry.seq) } as unknown as DecodedImage);
  }
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("a replay decodes from the keyframe, gives the pictures of the kept seconds, and decodes no faster than they are taken", async () => {
  const fake = new FakeDecoder();
  const frames = replay(
    TRACK,
    pictures(8, (seq) => seq === 0),
    200_000,
    fake.open,
  );
  const first = frames.next();
  await settle();
  assert.deepEqual(fake.fed, [0, 1, 2]);
  fake.give();
  fake.give();
  fake.give();
  assert.equal((await first).value?.seq, 2);
  assert.deepEqual(fake.closed, [0, 1]);
  await settle();
  const before = fake.fed.length;
  await settle();
  assert.equal(fake.fed.length, before);
  const seen: number[] = [];
  const rest = (async () => {
    for await (const { seq, image } of frames) {
      seen.push(seq);
      image.close();
    }
  })();
  for (let i = 0; i < 5; i++) {
    await settle();
    fake.give();
  }
  await rest;
  assert.deepEqual(seen, [3, 4, 5, 6, 7]);
  assert.equal(fake.isClosed, true);
});

test("leaving a replay closes its decoder and the pictures that nobody took", async () => {
  const fake = new FakeDecoder();
  const frames = replay(
    TRACK,
    pictures(3, (seq) => seq === 0),
    0,
    fake.open,
  );
  const first = frames.next();
  await settle();
  fake.give();
  fake.give();
  await first;
  await frames.return(undefined);
  assert.deepEqual([fake.isClosed, fake.closed], [true, [1]]);
});

test("a decoder that fails ends the replay with its reason, and one that gives no picture for a packet does not", async () => {
  const fails = new FakeDecoder();
  const failing = replay(
    TRACK,
    pictures(3, (seq) => seq === 0),
    0,
    fails.open,
  ).next();
  await settle();
  fails.listener.failed("out of memory");
  await assert.rejects(failing, /out of memory/);
  const loses = new FakeDecoder();
  const losing = replay(
    TRACK,
    pictures(2, () => true),
    0,
    loses.open,
  );
  const first = losing.next();
  await settle();
  loses.listener.lost(loses.waiting.shift() as never, "no picture");
  loses.give();
  assert.equal((await first).value?.seq, 1);
  assert.equal((await losing.next()).done, true);
  assert.equal((await new Replay(2).frames().next()).done, true);
});
