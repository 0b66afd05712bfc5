/**
 * Computes when to draw each picture, so that pictures that arrive unevenly are shown evenly: at the presentation time, plus the
 * least recent delay (the offset), plus a playout delay (the "lead" of the user interface) that covers most of the jitter. Pure;
 * milliseconds.
 *
 * The offset is the least delay of the last 5 s. The playout delay is the 95th percentile of the lateness in the last 2 s, from
 * 0 to 60 ms. It grows at once and shrinks by 4 ms a second, so that one quiet second does not bring the jitter back.
 * A picture never waits longer than the playout delay.
 */

const WINDOW = 5000;
const RECENT = 2000;
const MOST = 512; // more than 5 s of pictures at 100 a second
const PERCENTILE = 0.95;
const LONGEST = 60;
const SHRINK = 4 / 1000;
const ANEW = 500; // if the delay changes by more, the presentation times have a new origin, and old delays are invalid

export class PlayoutDelay {
  #arrivals: { ready: number; delay: number }[] = [];
  #delay = 0;
  #offset: number | null = null;

  /** The current playout delay: milliseconds that pictures wait at most. */
  get current(): number {
    return this.#delay;
  }

  /** The picture of presentation time `pts` could have been drawn at `ready`. */
  add(pts: number, ready: number): void {
    const delay = ready - pts;
    const before = this.#arrivals.at(-1);
    if (before && Math.abs(delay - before.delay) > ANEW) this.#arrivals = [];
    this.#arrivals.push({ ready, delay });
    while (this.#arrivals.length > MOST || (this.#arrivals[0]?.ready ?? ready) < ready - WINDOW) this.#arrivals.shift();
    this.#offset = Math.min(...this.#arrivals.map((each) => each.delay));
    const recent = this.#arrivals.filter((each) => each.ready > ready - RECENT).map((each) => each.delay);
    const most = recent.sort((a, b) => a - b)[Math.ceil(PERCENTILE * recent.length) - 1] ?? delay;
    const wanted = Math.min(LONGEST, most - this.#offset);
    const shrunk = before ? this.#delay - SHRINK * Math.max(0, ready - before.ready) : 0;
    this.#delay = Math.max(wanted, shrunk, 0);
  }

  /** When to draw the picture of presentation time `pts`; a time in the past means at once. */
  due(pts: number): number {
    return this.#offset === null ? -Infinity : pts + this.#offset + this.#delay;
  }
}
