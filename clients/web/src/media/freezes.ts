/**
 * Counts freezes of the picture by the rule of the W3C's webrtc-stats: the time between two drawn pictures is at least three
 * times the average of the last 30, and at least 150 ms above it. Pure; milliseconds.
 *
 * A pause of the model is not a freeze. In a pause no frame is missing between the two pictures (`seq` goes on by
 * one), and their presentation times are as far apart as the pictures. The counter therefore subtracts the difference of the
 * presentation times beyond the average. A gap in `seq` means that the connection or the page dropped frames, and the whole
 * time counts.
 */
import type { Packet } from "../wire/packet.ts";

const WINDOW = 30;
const FACTOR = 3;
const ABOVE = 150;

export class Freezes {
  #gaps: number[] = [];
  #last: { seq: number; pts: number; now: number } | null = null;
  #count = 0;
  #frozen = 0;

  /** {count, frozen}: the number of freezes, and their total length in ms. */
  get figures(): { count: number; frozen: number } {
    return { count: this.#count, frozen: this.#frozen };
  }

  /** The session is paused, or no pictures were asked for: the time until the next one does not count. */
  rest(): void {
    this.#last = null;
  }

  /** A picture of the track was drawn at `now`. */
  shown({ seq, ptsUs }: Pick<Packet, "seq" | "ptsUs">, now: number): void {
    const last = this.#last;
    this.#last = { seq, pts: ptsUs / 1000, now };
    if (last === null) return;
    const average = this.#gaps.length ? this.#gaps.reduce((sum, gap) => sum + gap, 0) / this.#gaps.length : null;
    let gap = now - last.now;
    if (seq === last.seq + 1 && average !== null) gap -= Math.min(gap, Math.max(0, this.#last.pts - last.pts - average));
    if (average !== null && gap >= Math.max(FACTOR * average, average + ABOVE)) {
      this.#count += 1;
      this.#frozen += gap;
    }
    this.#gaps.push(gap);
    if (this.#gaps.length > WINDOW) this.#gaps.shift();
  }
}
