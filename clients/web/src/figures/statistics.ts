/**
 * Live figures about received frames, drawn frames and sent commands. Pure: every method takes the time in milliseconds.
 *
 * Rate and jitter cover the last 120 drawn frames of one track. A pause of more than three seconds
 * restarts them, so that an idle model does not count as an uneven one. Latency is the time from sending a command to drawing
 * the first frame made with it. Drops are gaps in `seq` (lost on the way) and frames that a newer one replaced
 * while the page was decoding (skipped here). Offset is how much later than its sound a picture was drawn, over the last
 * 30 pictures drawn while sound was playing.
 */
import type { Packet } from "../wire/packet.ts";
import { remember } from "./latency.ts";

const WINDOW = 120;
const PAUSE = 3000;
const OFFSETS = 30;

/** Times are in ms, null without a measurement. */
export interface StatisticsSnapshot {
  readonly fps: number | null;
  readonly jitter: number | null;
  /** That of the last command, and the median. */
  readonly latency: number | null;
  readonly latencyP50: number | null;
  readonly gaps: number;
  readonly skipped: number;
  readonly offset: number | null;
}

export class Statistics {
  #shown: number[] = [];
  #sent = new Map<number, number>();
  #latencies: number[] = [];
  #newest = new Map<number, number>();
  #gaps = 0;
  #skipped = 0;
  #offsets: number[] = [];
  /** The current playout delay in ms; null if it is off. */
  playoutDelay: number | null = null;

  /** A frame has arrived. */
  received({ track, seq }: Pick<Packet, "track" | "seq">): void {
    const before = this.#newest.get(track);
    if (before !== undefined && seq > before + 1) this.#gaps += seq - before - 1;
    this.#newest.set(track, seq);
  }

  /** A frame was replaced by a newer one before it was decoded. */
  skipped(): void {
    this.#skipped += 1;
  }

  /** A frame of the main track was drawn; `audioTime` is the presentation time (ms) of the sound heard then, null without sound. */
  shown({ command, ptsUs }: Pick<Packet, "command" | "ptsUs">, now: number, audioTime: number | null = null): void {
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

  sent(id: number, now: number): void {
    remember(this.#sent, id, now);
  }

  /** A command was refused: no frame will be made with it. One that was never sent has no `id`. */
  refused(id: number | undefined): void {
    if (id !== undefined) this.#sent.delete(id);
  }

  snapshot(now: number): StatisticsSnapshot {
    const times = now - (this.#shown.at(-1) ?? -Infinity) > PAUSE ? [] : this.#shown;
    const intervals = times.slice(1).map((time, i) => time - times[i]);
    const recent = times.filter((time) => now - time <= PAUSE);
    const span = recent[recent.length - 1] - recent[0];
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

function deviation(values: readonly number[]): number {
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  return Math.sqrt(values.reduce((sum, value) => sum + (value - mean) ** 2, 0) / values.length);
}

export function median(values: readonly number[]): number | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
