// The audio jitter buffer, sample by sample, and the audio clock made from its reports.
import assert from "node:assert/strict";
import { test } from "node:test";
import { deferred } from "../src/client/deferred.ts";
import { Statistics } from "../src/figures/statistics.ts";
import type { ClockReport } from "../src/sound/audio-clock.ts";
import { AudioClock } from "../src/sound/audio-clock.ts";
import { AudioJitterBuffer, TARGET } from "../src/sound/audio-jitter-buffer.ts";
import { AudioPlayer } from "../src/sound/audio-player.ts";

const RATE = 48_000;
const QUANTUM = 128;
const BLOCK = 0.02;

function near(value: number | null, expected: number, by: number): void {
  assert.ok(value !== null && Math.abs(value - expected) <= by, `${value} is not ${expected} ± ${by}`);
}

interface RunOptions {
  rate?: number;
  trackRate?: number;
  wave?: (time: number) => number;
  drift?: number;
}

/** A jitter buffer in simulated time: the output requests 128 samples at a time, blocks arrive when the test says. */
class Run {
  rate: number;
  trackRate: number;
  wave: (time: number) => number;
  drift: number;
  time = 0;
  buffer: AudioJitterBuffer;
  heard: number[] = [];
  arrivals: { at: number; pts: number }[] = [];

  constructor({ rate = RATE, trackRate = RATE, wave = () => 0.5, drift = 0 }: RunOptions = {}) {
    this.rate = rate;
    this.trackRate = trackRate;
    this.wave = wave;
    this.drift = drift;
    this.buffer = new AudioJitterBuffer(rate);
  }

  /** Sends blocks from `first` on, one each BLOCK by the server's clock, each with a network delay of `delay(i)` seconds. */
  blocks(first: number, count: number, delay: (i: number) => number = () => 0): this {
    for (let i = first; i < first + count; i++) this.arrivals.push({ at: (i * BLOCK) / (1 + this.drift) + delay(i), pts: i * BLOCK });
    return this;
  }

  until(end: number): this {
    const length = Math.round(BLOCK * this.trackRate);
    this.arrivals.sort((a, b) => a.at - b.at);
    while (this.time < end) {
      for (let next = this.arrivals[0]; next && next.at <= this.time; next = this.arrivals[0]) {
        const { pts } = next;
        this.arrivals.shift();
        const first = Math.round(pts * this.trackRate);
        this.buffer.push(
          0,
          pts,
          Float32Array.from({ length }, (_, i) => this.wave((first + i) / this.trackRate)),
          this.trackRate,
        );
      }
      const output = new Float32Array(QUANTUM);
      this.buffer.pull(output);
      this.heard.push(...output);
      this.time += QUANTUM / this.rate;
    }
    return this;
  }

  /** The samples played between `from` and `to`, seconds of the output's time. */
  slice(from: number, to: number): number[] {
    return this.heard.slice(Math.round(from * this.rate), Math.round(to * this.rate));
  }

  get slack(): number {
    return this.time - this.position;
  }

  get position(): number {
    const { position } = this.buffer.state;
    assert.ok(position !== null);
    return position;
  }
}

const sine =
  (frequency: number) =>
  (time: number): number =>
    0.5 * Math.sin(2 * Math.PI * frequency * time);

test("each block waits for the target, then sound is gapless and exact", () => {
  const run = new Run({ wave: sine(50) }).blocks(0, 100).until(1.5);
  assert.ok(run.slice(0, TARGET - 0.001).every((sample) => sample === 0));
  const { underruns, seeks, target } = run.buffer.state;
  assert.deepEqual([underruns, seeks, target], [0, 1, TARGET]);
  near(run.slack, TARGET, 0.003);
  const shift = run.slack;
  run.slice(1.4, 1.5).forEach((sample, i) => near(sample, sine(50)(1.4 - shift + i / RATE), 0.005));
});

test("another sample rate of the track is resampled at its true pitch", () => {
  const run = new Run({ rate: 48_000, trackRate: 16_000, wave: sine(440) }).blocks(0, 100).until(1.5);
  const heard = run.slice(0.4, 1.4);
  const crossings = heard.filter((sample, i) => (heard[i - 1] ?? 0) < 0 && sample >= 0).length;
  near(crossings, 440, 1);
  near(Math.max(...heard), 0.5, 0.01);
});

test("a late block is an underrun: the delay grows once, and blocks with the same lateness are then in time", () => {
  const late = (i: number): number => (i === 100 || i === 150 ? TARGET + 0.03 : 0);
  const run = new Run().blocks(0, 250, late).until(5);
  assert.equal(run.buffer.state.underruns, 1);
  near(run.buffer.state.target, TARGET + 0.03 + 0.02, 0.004);
});

test("very late blocks do not make the delay grow without bound", () => {
  const run = new Run().blocks(0, 400, (i) => (i >= 100 && i < 150 ? 3 - i * BLOCK : 0)).until(8);
  assert.ok(run.buffer.state.target <= 0.2);
  assert.ok(run.slack < 0.3, `${run.slack}`);
  assert.ok(
    run.slice(4, 7.9).every((sample) => sample > 0.4),
    "it plays on without holes",
  );
});

test("the buffer follows a connection that stays slower, however much slower", () => {
  const run = new Run().blocks(0, 400, (i) => (i >= 100 ? 0.5 : 0)).until(7);
  assert.ok(run.slice(4, 7).every((sample) => sample > 0.4));
  near(run.slack, 0.5 + run.buffer.state.target, 0.05);
});

test("while nothing is late the delay shrinks again", () => {
  const run = new Run().blocks(0, 5000, (i) => (i === 100 ? 0.15 : 0)).until(60);
  assert.ok(run.buffer.state.target < 0.13, `${run.buffer.state.target}`);
  run.until(99);
  near(run.buffer.state.target, 0.08, 0.01);
  near(run.slack, run.buffer.state.target, 0.02);
  assert.equal(run.buffer.state.underruns, 1);
});

for (const drift of [-0.001, 0.001]) {
  test(`a server's clock that runs ${drift * 1000} ‰ off is followed`, () => {
    const run = new Run({ drift }).blocks(0, 3200).until(60);
    const waiting = run.time * (1 + drift) - run.position;
    near(waiting, run.buffer.state.target, 0.02);
    assert.deepEqual([run.buffer.state.underruns, run.buffer.state.seeks], [0, 1]);
  });
}

test("a gap in the model's sound is silence, not an underrun", () => {
  const run = new Run().blocks(0, 50).blocks(75, 50).until(2.4);
  assert.deepEqual([run.buffer.state.underruns, run.buffer.state.seeks], [0, 1]);
  assert.ok(run.slice(1 + TARGET + 0.02, 1.5 + TARGET - 0.001).every((sample) => Math.abs(sample) < 0.001));
  assert.ok(run.slice(1.5 + TARGET + 0.02, 2.4).every((sample) => sample > 0.49));
});

test("neither the ends of a silence nor a jump of the playhead clicks", () => {
  const run = new Run()
    .blocks(0, 50)
    .blocks(75, 100, (i) => (i === 120 ? 0.1 : 0))
    .until(3.4);
  assert.equal(run.buffer.state.underruns, 1);
  const steps = run.heard.slice(1).map((sample, i) => Math.abs(sample - (run.heard[i] ?? NaN)));
  assert.ok(steps.every((step) => step < 0.02));
});

test("after a long silence the buffer restarts", () => {
  const run = new Run().blocks(0, 50).blocks(300, 50).until(6.9);
  assert.equal(run.buffer.state.seeks, 2);
  near(run.slack, TARGET, 0.003);
});

test("two tracks are heard together, each at its own rate", () => {
  const buffer = new AudioJitterBuffer(RATE);
  buffer.push(0, 1, new Float32Array(4800).fill(0.25), 48_000);
  buffer.push(3, 1, new Float32Array(1600).fill(0.5), 16_000);
  const output = new Float32Array(9000);
  buffer.pull(output);
  near(output[Math.round((TARGET + 0.05) * RATE)] ?? null, 0.75, 1e-6);
});

test("a block without samples is silence, wherever rounding puts the playhead at it", () => {
  const output = new Float32Array(9600);
  for (let n = 0; n < 100; n++) {
    const buffer = new AudioJitterBuffer(RATE);
    buffer.push(0, 1 + n * 0.0123, new Float32Array(), RATE);
    buffer.pull(output);
    assert.ok(output.every((sample) => sample === 0));
  }
});

test("memory is bounded by the sound that waits", () => {
  const run = new Run().blocks(0, 100_000);
  run.arrivals.length = 20_000;
  const before = process.memoryUsage().arrayBuffers;
  run.heard.push = () => 0;
  run.until(390);
  assert.ok(process.memoryUsage().arrayBuffers - before < 20e6);
});

const report = (time: number, position: number, more: { speed?: number } = {}): ClockReport => ({
  time,
  position,
  speed: 1,
  end: position + 1,
  ...more,
});

test("the audio clock uses the report that was valid when the sound was played", () => {
  const clock = new AudioClock();
  assert.equal(clock.positionAt(1), null);
  clock.addReport({ time: 0, position: null, speed: 1, end: -Infinity });
  clock.addReport(report(1, 10));
  clock.addReport(report(2, 10.5, { speed: 1.001 }));
  assert.equal(clock.positionAt(0.5), null);
  assert.equal(clock.positionAt(1.25), 10.25);
  near(clock.positionAt(2.5), 11.0005, 1e-9);
  near(clock.buffered(2.5), 0.4995, 1e-9);
  assert.equal(clock.buffered(9), 0);
  near(clock.positionAt(4), 12.502, 1e-9);
  assert.equal(clock.positionAt(5.5), null, "long after the last sound nothing is heard");
  clock.clear();
  assert.equal(clock.positionAt(2.5), null);
});

test("the offset is the median over the last pictures that were drawn with sound", () => {
  const figures = new Statistics();
  const shown = (pts: number, heard: number | null): void => figures.shown({ ptsUs: pts * 1000 }, 0, heard);
  shown(100, 90);
  assert.equal(figures.snapshot(0).offset, -10);
  shown(130, 150);
  shown(160, 165);
  assert.equal(figures.snapshot(0).offset, 5);
  shown(190, null);
  assert.equal(figures.snapshot(0).offset, null);
});

test("a player that is closed while its output opens says nothing and opens nothing", async (t) => {
  let loading = deferred<void>();
  const made: string[] = [];
  class Context extends EventTarget {
    audioWorklet = { addModule: () => loading.promise };
    close = async (): Promise<void> => void made.push("closed");
  }
  class GainNode {
    constructor() {
      made.push("node");
    }
  }
  Object.assign(globalThis, { AudioContext: Context, GainNode });
  t.after(() => ["AudioContext", "GainNode"].forEach((name) => Reflect.deleteProperty(globalThis, name)));
  const said: string[] = [];
  for (const end of [() => loading.resolve(), () => loading.reject(new Error("the context is closed"))]) {
    loading = deferred<void>();
    const player = new AudioPlayer({ changed: () => {}, failed: (message) => said.push(message) });
    const starting = player.setEnabled(true);
    await player.close();
    end();
    await starting;
    assert.equal(player.state, "off");
  }
  assert.deepEqual([made, said], [["closed", "closed"], []]);
});
