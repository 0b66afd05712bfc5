/**
 * The client's capture clock: microseconds since the first packet of any of its tracks, so that times of different tracks
 * are comparable. The times of one track grow strictly, whatever the devices report.
 */
export class CaptureClock {
  #origin: number | null = null;
  #last = new Map<number, number>();

  /** `pts_us` of a frame that was captured at `at`, in milliseconds of the page's clock. */
  pts(track: number, at: number): number {
    this.#origin ??= at;
    const pts = Math.max(Math.round((at - this.#origin) * 1000), (this.#last.get(track) ?? -1) + 1);
    this.#last.set(track, pts);
    return pts;
  }

  /** The inverse of `pts`: milliseconds of the page's clock; null before the first packet. */
  at(ptsUs: number): number | null {
    return this.#origin === null ? null : this.#origin + ptsUs / 1000;
  }
}
