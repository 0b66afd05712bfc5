import type { CaptureClock } from "../input/capture-clock.ts";
import type { Packet } from "../wire/packet.ts";
import { median } from "./statistics.ts";

const WINDOW = 120;

/**
 * Measures the time from capturing an input frame to showing the first picture made with it. `input_pts_us` in an output
 * frame's meta names the newest input frame that its step had read. A frame that names the same input again is not a new
 * measurement.
 */
export class CaptureLatency {
  #clock: CaptureClock;
  #newest = -1;
  #values: number[] = [];

  constructor(clock: CaptureClock) {
    this.#clock = clock;
  }

  /** A frame of the main track was drawn, `now` in milliseconds. */
  shown({ meta }: { readonly meta: Packet["meta"] | null }, now: number): void {
    const pts = meta?.input_pts_us;
    if (typeof pts !== "number" || !Number.isSafeInteger(pts) || pts <= this.#newest) return;
    const at = this.#clock.at(pts);
    if (at === null) return;
    this.#newest = pts;
    this.#values.push(now - at);
    if (this.#values.length > WINDOW) this.#values.shift();
  }

  /** {last, p50} in milliseconds over the last 120; null before the first measurement. */
  snapshot(): { last: number | null; p50: number | null } {
    return { last: this.#values.at(-1) ?? null, p50: median(this.#values) };
  }
}
