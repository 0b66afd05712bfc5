// The player's pure parts: the playout delay with recorded jitter, freezes, and the fallback between codecs.
import assert from "node:assert/strict";
import { test } from "node:test";
import { parseCodecs } from "../page/requested-codecs.ts";
import { decodableAudio, decodableVideo } from "../src/media/codecs.ts";
import { DecoderFallback } from "../src/media/decoder-fallback.ts";
import { Freezes } from "../src/media/freezes.ts";
import { Player, type PlayerListener } from "../src/media/player.ts";
import { PlayoutDelay } from "../src/media/playout-delay.ts";
import type { TrackDescription } from "../src/wire/messages.ts";

const near = (value: number, expected: number, by: number): void =>
  assert.ok(Math.abs(value - expected) <= by, `${value} is not ${expected} ± ${by}`);

/** When a picture was drawn. */
interface Drawn {
  pts: number;
  ready: number;
  at: number;
  lead: number;
}

/** Plays 30 pictures a second from `pts` on, with the network `delays` in turn; returns when each is drawn, and the delay then. */
function play(delay: PlayoutDelay, delays: number[], count: number, pts = 0): Drawn[] {
  const drawn: Drawn[] = [];
  for (let i = 0; i < count; i++) {
    const time = pts + (i * 1000) / 30;
    const ready = time + (delays[i % delays.length] ?? NaN);
    delay.add(time, ready);
    drawn.push({ pts: time, ready, at: Math.max(ready, delay.due(time)), lead: delay.current });
  }
  return drawn;
}

const spread = (drawn: Drawn[]): number => {
  const gaps = drawn.slice(1).map(({ at }, i) => at - (drawn[i]?.at ?? NaN));
  return Math.max(...gaps) - Math.min(...gaps);
};

// Delays in ms, as measured: a quiet cable, and a wireless network with another user.
const CABLE = [12.1, 12.4, 12.2, 12.1, 12.6, 12.3, 12.2, 12.9, 12.1, 12.3];
const WIRELESS = [14, 16, 13, 31, 22, 15, 14, 19, 38, 24, 17, 13, 15, 27, 20, 14, 16, 33, 18, 15];

test("pictures that arrive evenly do not wait", () => {
  const drawn = play(new PlayoutDelay(), CABLE, 300);
  assert.ok(drawn.every(({ lead }) => lead <= 1));
  assert.ok(drawn.every(({ at, ready }) => at - ready <= 1));
});

test("the playout delay makes most uneven pictures even", () => {
  const delay = new PlayoutDelay();
  play(delay, WIRELESS, 300);
  const drawn = play(delay, WIRELESS, 100, 10_000);
  near(delay.current, 33 - 13, 0.01); // the 19th of 20, above the least
  const late = drawn.filter(({ pts, at }) => at - pts > 13 + delay.current + 0.01);
  assert.equal(late.length, 5); // those of 38 ms
  const rest = drawn.filter((each) => !late.includes(each));
  for (const { pts, at } of rest) near(at - pts, 33, 0.01);
  assert.ok(spread(play(new PlayoutDelay(), [0], 5)) < 0.01 && spread(drawn) < 12);
});

test("the playout delay grows at once and shrinks slowly", () => {
  const delay = new PlayoutDelay();
  play(delay, [10], 60);
  assert.equal(delay.current, 0);
  play(delay, [10, 50], 8, 2000); // four of 60 are more than 5 %
  near(delay.current, 40, 0.01);
  play(delay, [10], 150, 2300);
  near(delay.current, 40 - 4 * 3.2, 0.5); // 5 s later, of which it was within the 2 s for 1.8
  play(delay, [10], 240, 7300);
  assert.equal(delay.current, 0);
});

test("the playout delay is 60 ms at most, and no picture waits longer", () => {
  const delay = new PlayoutDelay();
  for (const { at, ready } of play(delay, [10, 200, 80, 10], 300)) assert.ok(at - ready <= 60.01);
  assert.equal(delay.current, 60);
});

test("the offset follows a connection that became slower or faster", () => {
  const delay = new PlayoutDelay();
  play(delay, [10], 60);
  play(delay, [40], 200, 2000);
  assert.equal(delay.due(10_000), 10_040 + delay.current);
  assert.ok(delay.current < 25);
  play(delay, [10], 1, 9000);
  near(delay.due(10_000) - delay.current, 10_010, 0.01);
});

test("presentation times with a new origin restart the delay", () => {
  const delay = new PlayoutDelay();
  play(delay, WIRELESS, 100);
  delay.add(10_000, 4000); // the presentation times leapt
  assert.equal(delay.due(10_000), 4000 + delay.current);
  assert.equal(new PlayoutDelay().due(5), -Infinity);
});

/** Pictures drawn at these times; `seq` and presentation time follow unless said otherwise. */
function draw(pictures: { at: number; seq?: number; pts?: number }[]): Freezes["figures"] {
  const freezes = new Freezes();
  for (const [i, { at, seq, pts = at }] of pictures.entries()) freezes.shown({ seq: seq ?? i, ptsUs: pts * 1000 }, at);
  return freezes.figures;
}
const regular = (count: number) => Array.from({ length: count }, (_, i) => ({ at: i * 40, seq: i }));

test("a freeze is three times the average and 150 ms more than it", () => {
  const then = (gap: number) => draw([...regular(31), { at: 1200 + gap, seq: 31, pts: 1240 }]);
  assert.deepEqual(then(189), { count: 0, frozen: 0 });
  assert.deepEqual(then(190), { count: 1, frozen: 190 });
  const slow = Array.from({ length: 10 }, (_, i) => ({ at: i * 200, seq: i }));
  assert.equal(draw([...slow, { at: 1800 + 599, seq: 10, pts: 2000 }]).count, 0);
  assert.equal(draw([...slow, { at: 1800 + 600, seq: 10, pts: 2000 }]).count, 1);
});

test("a pause of the model is not a freeze, but dropped frames are", () => {
  assert.deepEqual(draw([...regular(31), { at: 4200, seq: 31 }]), { count: 0, frozen: 0 });
  assert.deepEqual(draw([...regular(31), { at: 4200, seq: 99 }]), { count: 1, frozen: 3000 });
  // A pause of 1 s, after which the next picture was 500 ms late.
  const both = draw([...regular(31), { at: 1200 + 1540, seq: 31, pts: 1200 + 1040 }]);
  assert.deepEqual(both, { count: 1, frozen: 540 });
  // The average is over the times between pictures, without the model's pauses.
  assert.equal(draw([...regular(31), { at: 9000, seq: 31 }, { at: 9300, seq: 32, pts: 9040 }]).count, 1);
});

test("a picture that is shown in a pause of the session begins no freeze", () => {
  const freezes = new Freezes();
  for (const { at, seq } of regular(31)) freezes.shown({ seq, ptsUs: at * 1000 }, at);
  freezes.rest();
  freezes.shown({ seq: 99, ptsUs: 9_000_000 }, 9000);
  assert.deepEqual(freezes.figures, { count: 0, frozen: 0 });
});

test("a first gap has nothing to be compared with", () => {
  assert.deepEqual(
    draw([
      { at: 0, seq: 0 },
      { at: 5000, seq: 1, pts: 40 },
    ]),
    { count: 0, frozen: 0 },
  );
});

const only = (...known: string[]) => ({
  isConfigSupported: async ({ codec }: { codec: string }) => ({ supported: known.includes(codec) }),
});

test("the page requests the codecs that it can decode, best first", async () => {
  assert.deepEqual(await decodableVideo({}), ["jpeg"]);
  assert.deepEqual(await decodableVideo({ VideoDecoder: only("av01.0.04M.08", "vp8") }), ["vp8", "av1", "jpeg"]);
  assert.deepEqual(
    await decodableVideo({
      VideoDecoder: {
        isConfigSupported: async () => {
          throw new TypeError();
        },
      },
    }),
    ["jpeg"],
  );
  assert.deepEqual(await decodableAudio({}), ["pcm_s16le"]);
  assert.deepEqual(await decodableAudio({ AudioDecoder: only("opus") }), ["opus", "pcm_s16le"]);
  assert.deepEqual(parseCodecs("h264,mpeg2,lossless,none"), ["h264", "lossless", "none"]);
  assert.deepEqual(parseCodecs(null), []);
});

test("the fallback goes to software, VP8 and JPEG", () => {
  const fallback = new DecoderFallback(["h264", "vp8", "vp9", "jpeg"]);
  assert.deepEqual(fallback.next("h264", false), { software: true });
  assert.deepEqual(fallback.next("h264", true), { video: ["vp8", "jpeg"] });
  assert.equal(fallback.next("h264", true), null); // another track's
  assert.deepEqual(fallback.next("vp8", true), { video: ["jpeg"] });
  assert.equal(fallback.next("jpeg", true), null);
  assert.equal(fallback.count, 3);
});

test("the fallback leaves out codecs that the browser does not have", () => {
  assert.deepEqual(new DecoderFallback(["jpeg"]).next("h264", false), { video: ["jpeg"] });
  const fallback = new DecoderFallback(["vp9", "jpeg"]);
  assert.deepEqual(fallback.next("vp9", false), { software: true });
  assert.deepEqual(fallback.next("vp9", false), { software: true }); // another track's, which is to be told too
  assert.equal(fallback.count, 1);
  assert.deepEqual(fallback.next("vp9", true), { video: ["jpeg"] });
});

test("a frame that the worker's clock dropped before it came to the page was held for no time", () => {
  const told: [name: string, ...rest: unknown[]][] = [];
  const tell =
    (name: string) =>
    (...rest: unknown[]): void =>
      void told.push([name, ...rest]);
  const [shown, skipped, failed, dealt, keyframe, trouble] = ["shown", "skipped", "failed", "dealt", "keyframe", "trouble"].map(tell);
  const listener = { shown, skipped, failed, dealt, keyframe, trouble } as PlayerListener;
  const track = { index: 0, name: "main_video", kind: "video", direction: "out", codec: "none" } as unknown as TrackDescription;
  const player = new Player({ draw() {} }, track, listener, { now: () => 999.9 });
  player.show({ seq: 7, ptsUs: 0, flags: 1, command: null, payload: new Uint8Array(1) }, 1000, { at: 1000, audioTime: null });
  player.close();
  assert.deepEqual(
    told.filter(([name]) => name === "dealt"),
    [["dealt", 7, 0]],
  );
});
