/**
 * Sound between its arrival and the loudspeaker: a line of presentation time with the blocks on it, and a playhead that
 * moves along it as the output asks for samples. Pure: runs in the audio thread (`sound-worklet.js`) and under Node.
 *
 * The server sends each block when it is due, so how long a block waits here before it is heard, its *slack*, is the
 * delay that this buffer adds, less what the network held the block up. The buffer keeps the mean slack at a target by
 * playing up to 0.5 % faster or slower, which also follows the server's clock. A block that comes too late to be heard
 * whole is an underrun: the playhead is set back and the target grows. While the least slack has room to spare, the
 * target shrinks. Where the model made no sound there is silence, which is no underrun.
 *
 * Times are in seconds, presentation time as the packets give it.
 */

export const TARGET = 0.06;
const SHORTEST = 0.03;
const LONGEST = 0.2;
const GROWTH = 0.02; // beyond what a late block would have needed
const SPARE = 0.025; // least slack that shrinking leaves
const SHRINK_EVERY = 10;
const SHRINK_BY = 0.01;
const MEMORY = 1; // of the mean slack
const PULL_IN = 8; // an error of the mean slack is gone after about this long
const FASTEST = 0.005;
const TOO_LONG = 0.1; // mean slack above the target that is skipped instead of played faster
const FAR_TOO_LONG = 0.25; // the same of one block's: a burst after a stall
const IDLE = 2; // silence after which the next block starts anew
const FADE = 0.003;

export class Playout {
  #step;
  #lanes = new Map();
  #position = null;
  #speed = 1;
  #target = TARGET;
  #mean = TARGET;
  #least = Infinity;
  #stable = 0;
  #end = -Infinity;
  #underruns = 0;
  #leaps = 0;
  #level = 0;
  #last = 0;
  #rest = 0;
  #fade;
  #decay;

  /** `sampleRate` is the output's, in Hz; tracks may have others. */
  constructor(sampleRate) {
    this.#step = 1 / sampleRate;
    this.#fade = this.#step / FADE;
    this.#decay = Math.exp(-4 * this.#fade);
  }

  /**
   * How it stands: `position` of the playhead (null before the first block), its `speed`, the `end` of what has come,
   * the `target`, `underruns`, and `leaps`, which counts how often the playhead was put elsewhere.
   */
  get state() {
    return {
      position: this.#position, speed: this.#speed, end: this.#end, target: this.#target,
      underruns: this.#underruns, leaps: this.#leaps,
    };
  }

  /** A block of a track has come: `samples` (-1 to 1) at `rate` Hz, to be heard from `pts` on. */
  push(track, pts, samples, rate) {
    if (this.#position === null || this.#position > this.#end + IDLE) this.#start(pts);
    else this.#weigh(pts, samples.length / rate);
    const blocks = this.#lanes.get(track) ?? [];
    this.#lanes.set(track, blocks);
    const before = blocks.at(-1);
    const expected = before && before.pts + before.samples.length / before.rate;
    // Times on the wire are rounded; what follows within two samples follows at once.
    const joined = before !== undefined && before.rate === rate && Math.abs(pts - expected) <= 2 / rate;
    const start = joined ? expected : pts;
    blocks.push({ pts: start, samples, rate, joined });
    this.#end = Math.max(this.#end, start + samples.length / rate);
  }

  /** Fills `output` with what is to be heard next and moves on. */
  pull(output) {
    for (let i = 0; i < output.length; i++) {
      const value = this.#position === null ? null : this.#sample(this.#position);
      if (value === null) {
        if (this.#level > 0) this.#cut();
        this.#last = this.#rest;
      } else {
        this.#level = Math.min(1, this.#level + this.#fade);
        this.#last = value * this.#level + this.#rest;
      }
      this.#rest *= this.#decay;
      output[i] = Math.max(-1, Math.min(1, this.#last));
      if (this.#position !== null) this.#position += this.#step * this.#speed;
    }
    if (Math.abs(this.#rest) < 1e-6) this.#rest = 0;
    this.#forget();
  }

  #start(pts) {
    this.#leap(pts - this.#target);
    this.#mean = this.#target;
    this.#speed = 1;
    this.#least = Infinity;
    this.#stable = 0;
  }

  #weigh(pts, duration) {
    const slack = pts - this.#position;
    if (slack < 0) {
      this.#late(pts, -slack);
      return;
    }
    this.#mean += (slack - this.#mean) * Math.min(1, duration / MEMORY);
    if (slack > this.#target + FAR_TOO_LONG || this.#mean > this.#target + TOO_LONG) {
      this.#start(pts);
      return;
    }
    this.#least = Math.min(this.#least, slack);
    this.#stable += duration;
    if (this.#stable >= SHRINK_EVERY) {
      const spare = Math.min(this.#least - SPARE, SHRINK_BY, this.#target - SHORTEST);
      if (spare > 0) this.#target -= spare;
      this.#stable = 0;
      this.#least = Infinity;
    }
    this.#speed = 1 + Math.max(-FASTEST, Math.min(FASTEST, (this.#mean - this.#target) / PULL_IN));
  }

  #late(pts, lateness) {
    this.#underruns += 1;
    const wanted = lateness + GROWTH;
    const shift = Math.min(wanted, LONGEST - this.#target);
    this.#target += shift;
    if (shift < wanted) {
      this.#start(pts); // later than the longest delay can make good
      return;
    }
    this.#mean += shift;
    this.#stable = 0;
    this.#least = Infinity;
    this.#leap(this.#position - shift);
  }

  #leap(position) {
    this.#position = position;
    this.#leaps += 1;
    this.#cut();
  }

  /** The line is not continued: what was heard dies away, what comes next fades in, and there is no click. */
  #cut() {
    this.#rest = this.#last;
    this.#level = 0;
  }

  #sample(position) {
    let sum = null;
    for (const blocks of this.#lanes.values()) {
      for (let k = blocks.length - 1; k >= 0; k--) {
        const { pts, samples, rate } = blocks[k];
        const place = (position - pts) * rate;
        // Rounding may put the playhead just before the first block, or between two that are joined.
        if (place < -1e-6) continue;
        if (place < samples.length) sum = (sum ?? 0) + interpolate(blocks, k, Math.max(0, place));
        break;
      }
    }
    return sum;
  }

  /** The block before the one that is heard is kept: interpolation looks one sample back. */
  #forget() {
    for (const blocks of this.#lanes.values()) {
      while (blocks.length > 1 && ended(blocks[0]) < this.#position && ended(blocks[1]) < this.#position) blocks.shift();
    }
  }
}

const ended = ({ pts, samples, rate }) => pts + samples.length / rate;

/** A cubic through the four samples around `place` of block `k` (Catmull-Rom); exact on a sample. */
function interpolate(blocks, k, place) {
  const i = Math.floor(place);
  const t = place - i;
  const samples = blocks[k].samples;
  const b = samples[i];
  if (t < 1e-6) return b;
  const a = i > 0 ? samples[i - 1] : (blocks[k].joined ? blocks[k - 1]?.samples.at(-1) : undefined) ?? b;
  const c = at(blocks, k, i + 1) ?? b;
  const d = at(blocks, k, i + 2) ?? c;
  return b + 0.5 * t * (c - a + t * (2 * a - 5 * b + 4 * c - d + t * (3 * (b - c) + d - a)));
}

function at(blocks, k, i) {
  const { samples } = blocks[k];
  if (i < samples.length) return samples[i];
  return blocks[k + 1]?.joined ? blocks[k + 1].samples[i - samples.length] : undefined;
}
