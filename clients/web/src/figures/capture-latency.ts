import type { CaptureClock } from "../input/capture-clock.ts";
import type { Packet } from "../wire/packet.ts";
import { type Recent, RecentTimes } from "./recent-times.ts";

/**
 * Measures the time from capturing an input frame to showing the first picture made with it. `input_pts_us` in an output
 * frame's meta names the newest input frame that its step had read. A frame that names the same input again is not a new
 * measurement.
 */
export class CaptureLatency {
  #clock: CaptureClock;
  #newest = -1;
  #times = new RecentTimes();

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
    this.#times.add(now - at);
  }

  /** Null before the first measurement. */
  snapshot(): Recent | null {
    return this.#times.snapshot();
  }
}
