/**
 * Live figures about received frames, drawn frames and sent commands. Pure: every method takes the time in milliseconds.
 *
 * Rate and jitter cover the last 120 drawn frames of one track. A pause of more than three seconds
 * restarts them, so that an idle model does not count as an uneven one. Latency is the time from sending a command to drawing
 * the first frame made with it. Drops are gaps in `seq` (lost on the way) and frames that a newer one replaced
 * while the page was decoding (skipped here). Offset is how much later than its sound a picture was drawn, over the last
 * 30 pictures drawn while sound was playing.
 */

const WINDOW = 120;
const PAUSE = 3000;
const OFFSETS = 30;

export class Statistics {
  #shown = [];
  #sent = new Map();
  #latencies = [];
  #newest = new Map();
  #gaps = 0;
  #skipped = 0;
  #offsets = [];
  /** The current playout delay in ms; null if it is off. */
  playoutDelay = null;

  /** A frame has arrived. */
  received({ track, seq }) {
    const before = this.#newest.get(track);
    if (before !== undefined && seq > before + 1) this.#gaps += seq - before - 1;
    this.#newest.set(track, seq);
  }

  /** A frame was replaced by a newer one before it was decoded. */
  skipped() {
    this.#skipped += 1;
  }

  /** A frame of the main track was drawn; `audioTime` is the presentation time (ms) of the sound heard then, null without sound. */
  shown({ command, ptsUs }, now, audioTime = null) {
    if (audioTime === null) this.#offsets = [];
    else this.#offsets.push(audioTime - ptsUs / 1000);
    if (this.#offsets.length > OFFSETS) this.#offsets.shift();
    if (now - (this.#shown.at(-1) ?? now) > PAUSE) this.#shown = [];
    this.#shown.push(now);
    if (this.#shown.length > WINDOW) this.#shown.shift();
    if (command === null) return;
    for (const [id, at] of this.#sent) {
      if (id > command) break; // ids grow, and a Map keeps their order
      this.#sent.delete(id);
      this.#latencies.push(now - at);
      if (this.#latencies.length > WINDOW) this.#latencies.shift();
    }
  }

  sent(id, now) {
    this.#sent.set(id, now);
  }

  /** A command was refused: no frame will be made with it. */
  refused(id) {
    this.#sent.delete(id);
  }

  /** {fps, jitter, latency, latencyP50, gaps, skipped, offset}; times in ms, null without a measurement. */
  snapshot(now) {
    const times = now - (this.#shown.at(-1) ?? -Infinity) > PAUSE ? [] : this.#shown;
    const intervals = times.slice(1).map((time, i) => time - times[i]);
    const recent = times.filter((time) => now - time <= PAUSE);
    const span = recent.at(-1) - recent[0];
    return {
      fps: span > 0 ? ((recent.length - 1) * 1000) / span : null,
      jitter: intervals.length > 1 ? deviation(intervals) : null,
      latency: this.#latencies.at(-1) ?? null,
      latencyP50: median(this.#latencies),
      gaps: this.#gaps,
      skipped: this.#skipped,
      offset: median(this.#offsets),
    };
  }
}

function deviation(values) {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
}

export function median(values) {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
