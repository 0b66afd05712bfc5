/**
 * The jitter buffer for sound: a timeline of presentation time with the received blocks, and a playhead that
 * moves along it as the output requests samples. Pure: runs in the audio thread (`audio-player-worklet.ts`) and under Node.
 *
 * The server sends each block when it is due. The *slack* of a block is the time that it waits here before it is played: the
 * buffer's delay, less the block's delay in the network. The buffer keeps the mean slack at a target by
 * playing up to 0.5 % faster or slower, which also follows the server's clock. A block that arrives too late to be played
 * whole is an underrun: the playhead moves back and the target grows. While the least slack has room to spare, the
 * target shrinks. Where the model made no sound there is silence, which is not an underrun.
 *
 * Times are in seconds, presentation time as the packets give it.
 */

export const TARGET = 0.06;
const SHORTEST = 0.03;
const LONGEST = 0.2;
const GROWTH = 0.02; // in addition to the lateness of the block
const SPARE = 0.025; // the least slack that remains after shrinking
const SHRINK_EVERY = 10;
const SHRINK_BY = 0.01;
const MEMORY = 1; // time constant of the mean slack
const PULL_IN = 8; // time constant of the speed control: an error of the mean slack disappears in about this time
const FASTEST = 0.005;
const TOO_LONG = 0.1; // mean slack above the target at which the buffer skips instead of playing faster
const FAR_TOO_LONG = 0.25; // the same for the slack of one block: a burst after a stall
const IDLE = 2; // silence after which the next block restarts the buffer
const FADE = 0.003;

/** `position` is null before the first block. */
export interface JitterBufferState {
  readonly position: number | null;
  readonly speed: number;
  readonly end: number;
  readonly target: number;
  readonly underruns: number;
  readonly seeks: number;
}

/** A block of a track; `joined` if it follows the block before directly. */
interface Block {
  readonly pts: number;
  readonly samples: Float32Array;
  readonly rate: number;
  readonly joined: boolean;
}

export class AudioJitterBuffer {
  #step: number;
  #blocksOfTrack = new Map<number, Block[]>();
  #position: number | null = null;
  #speed = 1;
  #target: number = TARGET;
  #meanSlack: number = TARGET;
  #leastSlack = Infinity;
  #stable = 0;
  #end = -Infinity;
  #underruns = 0;
  #seeks = 0;
  #fadeIn = 0;
  #last = 0;
  #fadeOut = 0;
  #fadeStep: number;
  #decay: number;

  /** `sampleRate` is the output's, in Hz; tracks may have other rates. */
  constructor(sampleRate: number) {
    this.#step = 1 / sampleRate;
    this.#fadeStep = this.#step / FADE;
    this.#decay = Math.exp(-4 * this.#fadeStep);
  }

  /**
   * The current state: `position` of the playhead (null before the first block), its `speed`, the `end` of the last block,
   * the `target` slack, the number of `underruns`, and `seeks`, the number of jumps of the playhead.
   */
  get state(): JitterBufferState {
    return {
      position: this.#position,
      speed: this.#speed,
      end: this.#end,
      target: this.#target,
      underruns: this.#underruns,
      seeks: this.#seeks,
    };
  }

  /** Adds a block of a track: `samples` (-1 to 1) at `rate` Hz, to be played from `pts` on. */
  push(track: number, pts: number, samples: Float32Array, rate: number): void {
    if (this.#position === null || this.#position > this.#end + IDLE) this.#start(pts);
    else this.#measure(this.#position, pts, samples.length / rate);
    const blocks = this.#blocksOfTrack.get(track) ?? [];
    this.#blocksOfTrack.set(track, blocks);
    const before = blocks.at(-1);
    const expected = before && ended(before);
    // Times on the wire are rounded; a block that begins within two samples of the previous end follows it directly.
    const joined = before !== undefined && expected !== undefined && before.rate === rate && Math.abs(pts - expected) <= 2 / rate;
    const start = joined ? expected : pts;
    blocks.push({ pts: start, samples, rate, joined });
    this.#end = Math.max(this.#end, start + samples.length / rate);
  }

  /** Fills `output` with the next samples and moves the playhead. */
  pull(output: Float32Array): void {
    for (let i = 0; i < output.length; i++) {
      const value = this.#position === null ? null : this.#sample(this.#position);
      if (value === null) {
        if (this.#fadeIn > 0) this.#startFade();
        this.#last = this.#fadeOut;
      } else {
        this.#fadeIn = Math.min(1, this.#fadeIn + this.#fadeStep);
        this.#last = value * this.#fadeIn + this.#fadeOut;
      }
      this.#fadeOut *= this.#decay;
      output[i] = Math.max(-1, Math.min(1, this.#last));
      if (this.#position !== null) this.#position += this.#step * this.#speed;
    }
    if (Math.abs(this.#fadeOut) < 1e-6) this.#fadeOut = 0;
    this.#discardPlayed();
  }

  #start(pts: number): void {
    this.#seek(pts - this.#target);
    this.#meanSlack = this.#target;
    this.#speed = 1;
    this.#leastSlack = Infinity;
    this.#stable = 0;
  }

  #measure(position: number, pts: number, duration: number): void {
    const slack = pts - position;
    if (slack < 0) {
      this.#underrun(position, pts, -slack);
      return;
    }
    this.#meanSlack += (slack - this.#meanSlack) * Math.min(1, duration / MEMORY);
    if (slack > this.#target + FAR_TOO_LONG || this.#meanSlack > this.#target + TOO_LONG) {
      this.#start(pts);
      return;
    }
    this.#leastSlack = Math.min(this.#leastSlack, slack);
    this.#stable += duration;
    if (this.#stable >= SHRINK_EVERY) {
      const spare = Math.min(this.#leastSlack - SPARE, SHRINK_BY, this.#target - SHORTEST);
      if (spare > 0) this.#target -= spare;
      this.#stable = 0;
      this.#leastSlack = Infinity;
    }
    this.#speed = 1 + Math.max(-FASTEST, Math.min(FASTEST, (this.#meanSlack - this.#target) / PULL_IN));
  }

  #underrun(position: number, pts: number, lateness: number): void {
    this.#underruns += 1;
    const wanted = lateness + GROWTH;
    const shift = Math.min(wanted, LONGEST - this.#target);
    this.#target += shift;
    if (shift < wanted) {
      this.#start(pts); // too late for the longest delay
      return;
    }
    this.#meanSlack += shift;
    this.#stable = 0;
    this.#leastSlack = Infinity;
    this.#seek(position - shift);
  }

  #seek(position: number): void {
    this.#position = position;
    this.#seeks += 1;
    this.#startFade();
  }

  /** Starts a short cross-fade at a discontinuity, so that there is no click: the last sample fades out, the next ones fade in. */
  #startFade(): void {
    this.#fadeOut = this.#last;
    this.#fadeIn = 0;
  }

  #sample(position: number): number | null {
    let sum: number | null = null;
    for (const blocks of this.#blocksOfTrack.values()) {
      for (let k = blocks.length - 1; k >= 0; k--) {
        const { pts, samples, rate } = blocks[k] as Block; // `k` counts down from the last
        const place = (position - pts) * rate;
        // Rounding may put the playhead just before the first block, or between two joined blocks.
        if (place < -1e-6) continue;
        if (place < samples.length) sum = (sum ?? 0) + interpolate(blocks, k, Math.max(0, place));
        break;
      }
    }
    return sum;
  }

  /** Discards played blocks, except the one before the current block: interpolation needs its last sample. */
  #discardPlayed(): void {
    const position = this.#position;
    if (position === null) return;
    const played = (block: Block | undefined): boolean => block !== undefined && ended(block) < position;
    for (const blocks of this.#blocksOfTrack.values()) while (played(blocks[0]) && played(blocks[1])) blocks.shift();
  }
}

const ended = ({ pts, samples, rate }: Block): number => pts + samples.length / rate;

/** Interpolates at `place` of block `k` with a cubic through the four nearest samples (Catmull-Rom); exact on a sample. */
function interpolate(blocks: readonly Block[], k: number, place: number): number {
  const i = Math.floor(place);
  const t = place - i;
  const b = at(blocks, k, i) ?? 0; // a block may be empty
  if (t < 1e-6) return b;
  const a = at(blocks, k, i - 1) ?? b;
  const c = at(blocks, k, i + 1) ?? b;
  const d = at(blocks, k, i + 2) ?? c;
  return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

/** Sample `i` of block `k`: before its first and after its last that of the block joined to it, or undefined. */
function at(blocks: readonly Block[], k: number, i: number): number | undefined {
  const block = blocks[k];
  if (block === undefined) return undefined;
  if (i < 0) return block.joined ? blocks[k - 1]?.samples.at(i) : undefined;
  if (i < block.samples.length) return block.samples[i];
  const after = blocks[k + 1];
  return after?.joined ? after.samples[i - block.samples.length] : undefined;
}
