/** How pictures go on after a decoder failed, the same for what draws them and for what hands them out. */

/** Decoded pictures that may wait: a video decoder has a small pool of pictures, and stalls when all are in use. */
export const MOST_READY = 4;
const KEYFRAME_FLOOR = 800;
const ERROR_MEMORY = 10_000;

export class Recovery {
  #now: () => number;
  #ask: () => void;
  #lastError = -Infinity;
  #askedAt = -Infinity;
  #timer: ReturnType<typeof setTimeout> | null = null;

  /** `ask` requests a keyframe of the server. */
  constructor(now: () => number, ask: () => void) {
    this.#now = now;
    this.#ask = ask;
  }

  /**
   * A decoder failed; returns whether it is the cause. The stream may be the cause of a first error, and a keyframe then helps; the decoder is
   * the cause of a second one.
   */
  failed(): boolean {
    const now = this.#now();
    const again = now - this.#lastError < ERROR_MEMORY;
    this.#lastError = again ? -Infinity : now;
    return again;
  }

  /** Requests a keyframe now, or when `KEYFRAME_FLOOR` has passed since the last request, unless `rest` is called before. */
  requestKeyframe(): void {
    if (this.#timer !== null) return;
    const now = this.#now();
    const wait = this.#askedAt + KEYFRAME_FLOOR - now;
    if (wait <= 0) {
      this.#askedAt = now;
      this.#ask();
      return;
    }
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.requestKeyframe();
    }, wait);
  }

  /** No keyframe is needed: it has come, or nothing decodes any more. */
  rest(): void {
    clearTimeout(this.#timer ?? undefined);
    this.#timer = null;
  }
}
