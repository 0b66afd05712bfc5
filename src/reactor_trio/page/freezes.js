/**
 * Freezes of the picture by the rule of the W3C's webrtc-stats: the time between two drawn pictures is at least three
 * times the average, and at least 150 ms above it; the average is that of the last 30. Pure; milliseconds.
 *
 * A pause of the model is no freeze. It is told by the frames around it: none is missing between them (`seq` goes on by
 * one) and their presentation times lie as far apart as the pictures did. Only what the presentation times do not explain
 * counts as time between pictures. A gap in `seq` is what the connection or the page left out, and explains nothing.
 */

const WINDOW = 30;
const FACTOR = 3;
const ABOVE = 150;

export class Freezes {
  #gaps = [];
  #last = null;
  #count = 0;
  #frozen = 0;

  /** {count, frozen}: how many, and how long together in ms. */
  get figures() {
    return { count: this.#count, frozen: this.#frozen };
  }

  /** A picture of the track was drawn at `now`. */
  shown({ seq, ptsUs }, now) {
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
