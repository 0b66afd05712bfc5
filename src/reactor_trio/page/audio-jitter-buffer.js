/**
 * Sound between its arrival and the loudspeaker: a line of presentation time with the blocks on it, and a playhead that
 * moves along it as the output asks for samples. Pure: runs in the audio thread (`audio-player-worklet.js`) and under Node.
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

export class AudioJitterBuffer {
  #step;
  #blocksOfTrack = new Map();
  #position = null;
  #speed = 1;
  #target = TARGET;
  #meanSlack = TARGET;
  #leastSlack = Infinity;
  #stable = 0;
  #end = -Infinity;
  #underruns = 0;
  #seeks = 0;
  #fadeIn = 0;
  #last = 0;
  #fadeOut = 0;
  #fadeStep;
  #decay;

  /** `sampleRate` is the output's, in Hz; tracks may have others. */
  constructor(sampleRate) {
    this.#step = 1 / sampleRate;
    this.#fadeStep = this.#step / FADE;
    this.#decay = Math.exp(-4 * this.#fadeStep);
  }

  /**
   * How it stands: `position` of the playhead (null before the first block), its `speed`, the `end` of what has come,
   * the `target`, `underruns`, and `seeks`, which counts how often the playhead was put elsewhere.
   */
  get state() {
    return {
      position: this.#position, speed: this.#speed, end: this.#end, target: this.#target,
      underruns: this.#underruns, seeks: this.#seeks,
    };
  }

  /** A block of a track has come: `samples` (-1 to 1) at `rate` Hz, to be heard from `pts` on. */
  push(track, pts, samples, rate) {
    if (this.#position === null || this.#position > this.#end + IDLE) this.#start(pts);
    else this.#measure(pts, samples.length / rate);
    const blocks = this.#blocksOfTrack.get(track) ?? [];
    this.#blocksOfTrack.set(track, blocks);
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

  #start(pts) {
    this.#seek(pts - this.#target);
    this.#meanSlack = this.#target;
    this.#speed = 1;
    this.#leastSlack = Infinity;
    this.#stable = 0;
  }

  #measure(pts, duration) {
    const slack = pts - this.#position;
    if (slack < 0) {
      this.#underrun(pts, -slack);
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

  #underrun(pts, lateness) {
    this.#underruns += 1;
    const wanted = lateness + GROWTH;
    const shift = Math.min(wanted, LONGEST - this.#target);
    this.#target += shift;
    if (shift < wanted) {
      this.#start(pts); // later than the longest delay can make good
      return;
    }
    this.#meanSlack += shift;
    this.#stable = 0;
    this.#leastSlack = Infinity;
    this.#seek(this.#position - shift);
  }

  #seek(position) {
    this.#position = position;
    this.#seeks += 1;
    this.#startFade();
  }

  /** The line is not continued: what was heard dies away, what comes next fades in, and there is no click. */
  #startFade() {
    this.#fadeOut = this.#last;
    this.#fadeIn = 0;
  }

  #sample(position) {
    let sum = null;
    for (const blocks of this.#blocksOfTrack.values()) {
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
  #discardPlayed() {
    for (const blocks of this.#blocksOfTrack.values()) {
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
