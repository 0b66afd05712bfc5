/**
 * Live figures about received and drawn frames of one track. Pure: every method takes the time in milliseconds.
 *
 * Rate and jitter cover the last 120 drawn frames. A pause of more than three seconds restarts them, so that an idle model does
 * not count as an uneven one. Drops are gaps in `seq` (lost on the way) and frames that a newer one replaced while the page was
 * decoding (skipped here). Offset is how much later than its sound a picture was drawn, over the last 30 pictures drawn while
 * sound was playing.
 */
import type { Packet } from "../wire/packet.ts";
import { median } from "./recent-times.ts";

const WINDOW = 120;
const PAUSE = 3000;
const OFFSETS = 30;

/** Times are in ms, null without a measurement. */
export interface StatisticsSnapshot {
  readonly fps: number | null;
  readonly jitter: number | null;
  readonly gaps: number;
  readonly skipped: number;
  readonly offset: number | null;
}

export class Statistics {
  #shown: number[] = [];
  #newest: number | null = null;
  #gaps = 0;
  #skipped = 0;
  #offsets: number[] = [];

  /** A frame has arrived. */
  received({ seq }: Pick<Packet, "seq">): void {
    if (this.#newest !== null && seq > this.#newest + 1) this.#gaps += seq - this.#newest - 1;
    this.#newest = seq;
  }

  /** The frames from here to the next one were not asked for. */
  rest(): void {
    this.#newest = null;
    this.#shown = [];
  }

  /** A frame was replaced by a newer one before it was decoded. */
  skipped(): void {
    this.#skipped += 1;
  }

  /** A frame was drawn; `audioTime` is the presentation time (ms) of the sound heard then, null without sound. */
  shown({ ptsUs }: Pick<Packet, "ptsUs">, now: number, audioTime: number | null = null): void {
    if (audioTime === null) this.#offsets = [];
    else this.#offsets.push(audioTime - ptsUs / 1000);
    if (this.#offsets.length > OFFSETS) this.#offsets.shift();
    if (now - (this.#shown.at(-1) ?? now) > PAUSE) this.#shown = [];
    this.#shown.push(now);
    if (this.#shown.length > WINDOW) this.#shown.shift();
  }

  snapshot(now: number): StatisticsSnapshot {
    const times = now - (this.#shown.at(-1) ?? -Infinity) > PAUSE ? [] : this.#shown;
    const intervals = times.slice(1).map((time, i) => time - (times[i] as number)); // times[i] is the one before
    const recent = times.filter((time) => now - time <= PAUSE);
    const span = (recent.at(-1) ?? 0) - (recent[0] ?? 0);
    return {
      fps: span > 0 ? ((recent.length - 1) * 1000) / span : null,
      jitter: intervals.length > 1 ? deviation(intervals) : null,
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
