// What a session survives: a part of the browser that throws, rejects, gives nothing, or is taken back.
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { ItemQueue } from "../src/client/item-queue.ts";
import { FrameTaker, replay } from "../src/client/iterators.ts";
import { connect, type Frame } from "../src/index.ts";
import { StreamEncoder } from "../src/input/stream-encoder.ts";
import { openDecoder } from "../src/media/decoders.ts";
import { Player, type PlayerListener } from "../src/media/player.ts";
import { TrackDecoder } from "../src/media/track-decoder.ts";
import { AudioPlayer } from "../src/sound/audio-player.ts";
import { OpusDecoder } from "../src/sound/opus-decoder.ts";
import type { SoundMessage } from "../src/sound/worklet-messages.ts";
import { scriptedServer } from "../src/testing.ts";
import type { TrackDescription } from "../src/wire/messages.ts";
import type { Packet, Session } from "../src/wire/protocol.ts";

const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

/** Puts these on the global object until the test ends. */
function define(t: TestContext, fakes: { [name: string]: unknown }): void {
  Object.assign(globalThis, fakes);
  t.after(() => Object.keys(fakes).forEach((name) => Reflect.deleteProperty(globalThis, name)));
}

const track = (codec: string, more: Partial<TrackDescription> = {}): TrackDescription =>
  ({
    index: 0,
    name: "main",
    kind: "video",
    direction: "out",
    codec,
    width: 1,
    height: 1,
    sample_rate: 48_000,
    ...more,
  }) as TrackDescription;

const packet = (seq: number, flags = 0, more: Partial<Packet> = {}): Packet =>
  ({ track: 0, seq, ptsUs: seq * 20_000, flags, command: null, step: seq, meta: {}, payload: new Uint8Array(3), ...more }) as Packet;

const reclaimed = (): Error => Object.assign(new Error("Codec reclaimed due to inactivity."), { name: "QuotaExceededError" });

// ---- the socket --------------------------------------------------------------------------------------------------------

test("a WebSocket that cannot be made while a session resumes is a try that failed", async (t) => {
  t.mock.method(Math, "random", () => 0);
  const server = scriptedServer();
  let broken = 0;
  function Socket(url: string, protocols: string[]): WebSocket {
    if (broken-- > 0) throw new Error("no more sockets");
    return new server.WebSocket(url, protocols);
  }
  const client = connect("http://model.test/", { WebSocket: Socket as unknown as typeof server.WebSocket });
  const first = await server.connection();
  first.welcome({ resume_token: "r", resume_window: 10 });
  await client.ready;
  broken = 2;
  first.lose();
  const second = await server.connection();
  second.welcome({ resume_token: "r", resume_window: 10, resumed: true, received: 0, missed: 0 });
  await settled();
  assert.equal(client.state.status, "live");
  await client.close();
});

// ---- pictures ----------------------------------------------------------------------------------------------------------

class FakeImageData {
  data: { buffer: ArrayBuffer };
  constructor(width: number, height: number) {
    this.data = { buffer: new ArrayBuffer(4 * width * height) };
  }
}

/** A page whose `createImageBitmap` rejects the first picture. */
function bitmaps(t: TestContext): void {
  let first = true;
  const createImageBitmap = async (): Promise<unknown> => {
    if (!first) return { close() {} };
    first = false;
    throw new Error("no memory");
  };
  define(t, { ImageData: FakeImageData, createImageBitmap, requestAnimationFrame: setImmediate });
}

test("a raw picture that does not become a bitmap is left out, and the server hears that the client is done with it", async (t) => {
  bitmaps(t);
  const queue = new ItemQueue<Frame>({ limit: 9 });
  const done: number[] = [];
  const skipped = t.mock.fn();
  const taker = new FrameTaker(undefined, queue, TrackDecoder, { software: false, stepDown() {} }, skipped);
  taker.begin(track("raw"), (seq) => done.push(seq), {} as Session);
  for (const seq of [0, 1]) {
    taker.take(packet(seq, 1));
    await settled();
    await settled();
  }
  assert.equal((await queue.next()).value?.seq, 1);
  assert.deepEqual([done, skipped.mock.callCount()], [[0, 1], 1]);
  taker.end();
});

test("raw pictures are decoded in a hidden page, which gets no animation frames", async (t) => {
  define(t, { ImageData: FakeImageData, createImageBitmap: async () => ({ close() {} }), requestAnimationFrame() {} });
  const queue = new ItemQueue<Frame>({ limit: 9 });
  const taker = new FrameTaker(undefined, queue, TrackDecoder, { software: false, stepDown() {} }, () => {});
  taker.begin(track("raw"), () => {}, {} as Session);
  taker.take(packet(0, 1));
  assert.equal((await queue.next()).value?.seq, 0);
  taker.end();
});

test("a replay goes on after a picture that does not become a bitmap", async (t) => {
  bitmaps(t);
  const seqs: number[] = [];
  for await (const { seq } of replay(track("raw"), [packet(0, 1), packet(1, 1)], 0, (listener) =>
    openDecoder(track("raw"), false, listener),
  ))
    seqs.push(seq);
  assert.deepEqual(seqs, [1]);
});

interface DecoderInit {
  output(image: unknown): void;
  error(error: Error): void;
}

/**
 * WebCodecs' decoder of pictures, and `all` has what was opened. It gives each picture at once, while fewer than `pool` are open; `open()` says
 * how many are.
 */
function videoDecoders(t: TestContext, pool = Number.POSITIVE_INFINITY) {
  const all: { fed: string[]; state: string; init: DecoderInit }[] = [];
  const held: (() => void)[] = [];
  let open = 0;
  const give = (): void => {
    while (open < pool && held.length > 0) {
      open++;
      held.shift()?.();
    }
  };
  const close = (): void => {
    open--;
    give();
  };
  class VideoDecoder {
    fed: string[] = [];
    state = "configured";
    init: DecoderInit;
    constructor(init: DecoderInit) {
      this.init = init;
      all.push(this);
    }
    configure(): void {}
    decode({ type, timestamp }: { type: string; timestamp: number }): void {
      this.fed.push(type);
      held.push(() => this.init.output({ timestamp, displayWidth: 1, displayHeight: 1, close }));
      give();
    }
    close(): void {
      this.state = "closed";
    }
  }
  class EncodedVideoChunk {
    constructor(init: object) {
      Object.assign(this, init);
    }
  }
  define(t, { VideoDecoder, EncodedVideoChunk, ImageData: FakeImageData });
  return Object.assign(all, { open: () => open });
}

test("a decoder that the browser takes back is opened again with the next packet: neither software nor another codec", (t) => {
  const decoders = videoDecoders(t);
  const told: string[] = [];
  const tell =
    (name: string) =>
    (...[what]: unknown[]): void =>
      void told.push(`${name} ${what ?? ""}`.trim());
  const [shown, failed, keyframe, trouble] = ["shown", "failed", "keyframe", "trouble"].map(tell);
  const listener = { shown, skipped() {}, failed, dealt() {}, keyframe, trouble } as PlayerListener;
  let now = 0;
  const player = new Player({ draw() {} }, track("vp8"), listener, { now: () => now, lead: false });
  const show = (seq: number, flags = 0): void => player.show(packet(seq, flags), now, { at: now, audioTime: null });
  show(0, 1);
  for (let i = 1; i <= 6; i += 2) {
    now += 1000; // several in the ten seconds in which a second failure is the decoder's own
    decoders.at(-1)?.init.error(reclaimed());
    assert.equal(told.includes("keyframe"), i > 1, "nothing is asked for while nothing comes");
    show(i);
    show(i + 1, 1);
  }
  assert.deepEqual(
    decoders.map(({ fed }) => fed),
    [["key"], ["key"], ["key"], ["key"]],
  );
  assert.deepEqual(told, ["shown 0", "keyframe", "shown 2", "keyframe", "shown 4", "keyframe", "shown 6"]);
  player.close();
});

test("frames() and its server go on when the browser has taken the decoder back", async (t) => {
  const decoders = videoDecoders(t);
  const queue = new ItemQueue<Frame>({ limit: 9 });
  const told: unknown[] = [];
  const session = { keyframe: () => told.push("keyframe") } as unknown as Session;
  const taker = new FrameTaker(
    undefined,
    queue,
    TrackDecoder,
    { software: false, stepDown: (...trouble) => void told.push(trouble) },
    () => {},
  );
  taker.begin(track("vp8"), () => {}, session);
  taker.take(packet(0, 1));
  decoders[0]?.init.error(reclaimed());
  taker.take(packet(1));
  taker.take(packet(2, 1));
  assert.deepEqual([(await queue.next()).value?.seq, (await queue.next()).value?.seq], [0, 2]);
  assert.deepEqual([told, decoders.length], [["keyframe"], 2]);
  taker.end();
});

/** A loop over the frames of a VP8 track; `told` has the keyframes that were asked for, and the troubles, `done` what the server is told. */
function frameLoop(t: TestContext, limit: number, pool?: number) {
  const decoders = videoDecoders(t, pool);
  const [told, dropped, done]: [unknown[], number[], number[]] = [[], [], []];
  const queue = new ItemQueue<Frame>({
    limit,
    dropped: ({ seq, image }) => {
      dropped.push(seq);
      image.close();
    },
  });
  const session = { keyframe: () => told.push("keyframe") } as unknown as Session;
  const stepDown = (...trouble: unknown[]): void => void told.push(trouble);
  const skipped = t.mock.fn();
  const taker = new FrameTaker(undefined, queue, TrackDecoder, { software: false, stepDown }, skipped);
  taker.begin(track("vp8"), (seq) => done.push(seq), session);
  t.after(() => taker.end());
  const send = async (from: number, to: number): Promise<void> => {
    for (let seq = from; seq < to; seq++) {
      taker.take(packet(seq, seq === 0 ? 1 : 0));
      await settled();
    }
  };
  const next = async (): Promise<number> => {
    const { value } = await queue.next();
    value.image.close();
    await settled();
    return value.seq;
  };
  return { decoders, told, dropped, done, skipped, taker, send, next };
}

const count = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i);

test("a slow loop over frames holds few pictures of the decoder, so that it does not look like one that has stalled", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { decoders, told, dropped, done, send, next } = frameLoop(t, 64, 8);
  await send(0, 64);
  t.mock.timers.tick(5000);
  assert.deepEqual([told, dropped, decoders.open()], [[], [], 4]);
  assert.deepEqual(done, count(0, 64)); // a loop does not slow the server down
  await send(64, 70);
  assert.deepEqual(dropped, count(0, 6));
  const taken: number[] = [];
  while (taken.length < 64) taken.push(await next());
  assert.deepEqual(taken, count(6, 70));
  assert.deepEqual([done, decoders.length, decoders.open()], [count(0, 70), 1, 0]);
});

test("a loop over the newest frames gets the newest, and the decoder goes on", async (t) => {
  const { dropped, send, next } = frameLoop(t, 1, 8);
  await send(0, 20);
  assert.deepEqual([await next(), dropped], [19, count(0, 19)]);
});

/** A page that decodes a JPEG when `next` is called; `waiting` are those that it decodes. */
function stills(t: TestContext) {
  const waiting: ((image: unknown) => void)[] = [];
  define(t, { ImageData: FakeImageData, createImageBitmap: () => new Promise((resolve) => waiting.push(resolve)) });
  const next = async (): Promise<void> => {
    waiting.shift()?.({ width: 1, height: 1, close() {} });
    await settled();
  };
  return { waiting, next };
}

test("a loop over pictures that are decoded more slowly than they come has a bound for those that wait", async (t) => {
  for (const [limit, kept] of [
    [1, [0, 99]],
    [4, [0, 96, 97, 98, 99]],
  ] as const) {
    const { waiting, next } = stills(t);
    const queue = new ItemQueue<Frame>({ limit });
    const [taken, done]: [number[], number[]] = [[], []];
    const skipped = t.mock.fn();
    const taker = new FrameTaker(undefined, queue, TrackDecoder, { software: false, stepDown() {} }, skipped);
    taker.begin(track("jpeg"), (seq) => done.push(seq), {} as Session);
    for (const seq of count(0, 100)) taker.take(packet(seq, 1));
    while (waiting.length > 0) {
      await next();
      taken.push((await queue.next()).value.seq);
    }
    assert.deepEqual([taken, done.at(-1), skipped.mock.callCount()], [kept, 99, 100 - kept.length]);
    taker.end();
  }
});

test("a decoder that is slower than the track goes on at the next keyframe, and asks for one if none has come", async (t) => {
  for (const [limit, bound] of [
    [1, 32],
    [64, 64],
  ] as const) {
    const { decoders, told, done, skipped, taker, send } = frameLoop(t, limit, 0); // a decoder that gives nothing, and so takes eight
    await send(0, 8 + bound);
    assert.deepEqual([told, done, skipped.mock.callCount()], [[], [], 0]);
    await send(8 + bound, 10 + bound); // the second one needs those that were dropped with the first one
    assert.deepEqual([told, done.at(-1), skipped.mock.callCount()], [["keyframe"], 9 + bound, bound + 2]);
    for (const seq of [100, 101]) taker.take(packet(seq, 1));
    assert.deepEqual([decoders[0]?.fed.length, skipped.mock.callCount()], [8, bound + (limit === 1 ? 3 : 2)]);
    taker.end();
  }
});

test("the picture that is in a closed decoder is dropped, so that the view goes on answering the server", async (t) => {
  const { waiting, next } = stills(t);
  const told: string[] = [];
  const listener = {
    shown: (seq: number) => told.push(`shown ${seq}`),
    skipped: (seq: number) => told.push(`skipped ${seq}`),
    dealt: (seq: number) => told.push(`dealt ${seq}`),
    keyframe() {},
  } as unknown as PlayerListener;
  const player = new Player({ draw() {} }, track("jpeg"), listener, { now: () => 0, lead: false });
  const show = (seq: number): void => player.show(packet(seq, 1), 0, { at: 0, audioTime: null });
  show(0);
  player.preferSoftware(); // another track's decoder has failed
  assert.deepEqual(told.splice(0), ["skipped 0", "dealt 0"]);
  show(1);
  await next(); // the picture of the closed decoder
  assert.deepEqual([told, waiting.length], [[], 1]);
  await next();
  assert.deepEqual(told, ["dealt 1", "shown 1"]);
  player.close();
});

test("frames() of a track that changes do not wait for a decoder that keeps its last pictures, and blame nobody for it", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const { decoders, told, done, taker, send } = frameLoop(t, 64, 0);
  await send(0, 3);
  taker.describe(track("vp8", { width: 2 }));
  taker.take(packet(3, 1));
  t.mock.timers.tick(99);
  assert.deepEqual([decoders.length, done], [1, []]);
  t.mock.timers.tick(1);
  assert.deepEqual([decoders.length, decoders[1]?.fed, done], [2, ["key"], [0, 1, 2]]);
  t.mock.timers.tick(900);
  assert.deepEqual(told, []);
});

test("frames() asks for a keyframe after a decoder's first error, no more than one in 800 ms, and steps down after the second", async (t) => {
  let now = 0;
  t.mock.timers.enable({ apis: ["setTimeout"] });
  t.mock.method(performance, "now", () => now);
  const { decoders, told, taker, send } = frameLoop(t, 1);
  await send(0, 2);
  decoders[0]?.init.error(new Error("bad"));
  await send(2, 9);
  assert.deepEqual(told, ["keyframe"]);
  now += 800;
  t.mock.timers.tick(800);
  assert.deepEqual(told, ["keyframe", "keyframe"]);
  taker.take(packet(9, 1));
  now += 9000;
  t.mock.timers.tick(9000);
  assert.equal(told.length, 2);
  decoders[1]?.init.error(new Error("worse"));
  assert.deepEqual(told.slice(2), [["vp8", false, "worse"]]);
});

test("an encoder that the browser takes back is opened again with the next picture, in the same codec", () => {
  const encoders: { encoded: number; error: (error: Error) => void }[] = [];
  class Encoder {
    encoded = 0;
    state = "configured";
    encodeQueueSize = 0;
    error: (error: Error) => void;
    constructor({ error }: { error: (error: Error) => void }) {
      this.error = (problem) => {
        this.state = "closed";
        error(problem);
      };
      encoders.push(this);
    }
    configure(): void {}
    encode(): void {
      this.encoded += 1;
    }
    close(): void {
      this.state = "closed";
    }
  }
  class Picture {
    close(): void {}
  }
  const failures: unknown[] = [];
  const config = { codec: "vp8", width: 2, height: 2 };
  const encoder = new StreamEncoder(
    { codec: "vp8", config },
    () => {},
    () => failures.push(1),
    Encoder as unknown as typeof VideoEncoder,
  );
  const encode = (at: number): void => encoder.encode({} as OffscreenCanvas, at, at, false, Picture as unknown as typeof VideoFrame);
  for (let at = 0; at < 3; at++) encode(at);
  encoders[0]?.error(reclaimed());
  assert.equal(encoder.busy(0), false, "what it had will not come");
  encode(4);
  assert.deepEqual(
    encoders.map(({ encoded }) => encoded),
    [3, 1],
  );
  assert.deepEqual(failures, []);
  encoders[1]?.error(new Error("broken"));
  assert.deepEqual(failures, [1]);
});

// ---- sound -------------------------------------------------------------------------------------------------------------

interface AudioInit {
  output(data: object): void;
  error(error: Error): void;
}

/** WebCodecs' decoder of sound: a packet of one byte gives nothing, one of two bytes breaks the decoder. */
function audioDecoders(t: TestContext): { state: string; init: AudioInit }[] {
  const all: { state: string; init: AudioInit }[] = [];
  class AudioDecoder {
    state = "configured";
    init: AudioInit;
    constructor(init: AudioInit) {
      this.init = init;
      all.push(this);
    }
    configure(): void {}
    decode({ data, timestamp }: { data: Uint8Array; timestamp: number }): void {
      if (data.length === 2) {
        this.state = "closed";
        this.init.error(new Error("Decoding error."));
      } else if (data.length > 2) this.init.output({ timestamp, numberOfFrames: 960, sampleRate: 48_000, copyTo() {}, close() {} });
    }
    close(): void {
      this.state = "closed";
    }
  }
  class EncodedAudioChunk {
    constructor(init: object) {
      Object.assign(this, init);
    }
  }
  define(t, { AudioDecoder, EncodedAudioChunk });
  return all;
}

test("an Opus packet that gives no sound does not move the sound after it", (t) => {
  audioDecoders(t);
  const times: number[] = [];
  const decoder = new OpusDecoder(track("opus"), (pts) => times.push(pts), assert.fail);
  for (const [seq, size] of [3, 1, 3, 3].entries())
    decoder.decode({ ptsUs: seq * 20_000, meta: { sizes: [size] }, payload: new Uint8Array(size) });
  assert.deepEqual(times, [0, 0.04, 0.06]);
});

/** A player that is on, with a track of this codec; `played` has the times of what it gives to the audio thread. */
async function playing(t: TestContext, codec: string) {
  const played: number[] = [];
  const said: string[] = [];
  class AudioContext extends EventTarget {
    state = "running";
    currentTime = 0;
    destination = {};
    audioWorklet = { addModule: async () => {} };
    async resume(): Promise<void> {}
    async close(): Promise<void> {}
  }
  class GainNode {
    connect(): void {}
  }
  class AudioWorkletNode extends EventTarget {
    port = { postMessage: (message: SoundMessage) => message !== "reset" && played.push(message.pts) };
    connect(): void {}
  }
  define(t, { AudioContext, GainNode, AudioWorkletNode });
  const player = new AudioPlayer({ changed: () => {}, failed: (message) => said.push(message) });
  player.beginSession([track(codec, { kind: "audio" })]);
  await player.setEnabled(true);
  const hear = (seq: number, size: number): boolean =>
    player.accept(packet(seq, 1, { payload: new Uint8Array(size), meta: codec === "opus" ? { sizes: [size] } : {} }));
  t.after(() => player.close());
  return { played, said, hear, lost: () => player.statistics.lost };
}

test("a block of sound that cannot be read is told once, and the sound goes on", async (t) => {
  const { played, said, hear, lost } = await playing(t, "pcm_s16le");
  for (const [seq, size] of [4, 3, 5, 4, 3, 4].entries()) hear(seq, size);
  assert.deepEqual(played, [0, 0.06, 0.1]);
  assert.deepEqual([said, lost()], [["main, block 1: 3 bytes of pcm_s16le are not 16-bit samples"], 3]);
});

test("an audio decoder that failed, or that the browser took back, is opened again with the next block", async (t) => {
  const decoders = audioDecoders(t);
  const { played, said, hear, lost } = await playing(t, "opus");
  for (const [seq, size] of [3, 2, 2, 3].entries()) hear(seq, size);
  decoders.at(-1)?.init.error(reclaimed());
  hear(4, 3);
  assert.deepEqual(played, [0, 0.06, 0.08]);
  assert.deepEqual([said, lost()], [["main: Decoding error."], 2]);
});
