/** How well the pictures of a session come, and why not better. */

/** Jitter in parts of the time from one picture to the next: above the first they come unevenly, above the second badly. */
const UNEVEN = 0.4;
const BAD = 1;
/** Less jitter than this is not seen, however many pictures a second there are. In ms. */
const FELT = 12;
/** So many looks at the beginning of a session say nothing: its first pictures come as they can. */
const SETTLING = 12;
/** A freeze or a lost picture counts for so many looks. */
const REMEMBERED = 20;

const TROUBLES = ["missing", "freezes"] as const;

type Trouble = (typeof TROUBLES)[number];

/** `why` is the reason of a grade that is not good. */
export interface Graded {
  readonly grade: "none" | "paused" | "good" | "fair" | "poor";
  readonly why: Trouble | "uneven" | null;
}

/** A grade stays for so many looks at least: 3 s. */
const HELD = 12;

export class Quality {
  #held: Graded = { grade: "none", why: null };
  #until = 0;
  #counts: { readonly [Kind in Trouble]: number } = { missing: 0, freezes: 0 };
  #looks = 0;
  /** What was seen last, and how many looks ago. */
  #seen: { readonly why: Trouble; readonly at: number } | null = null;

  /** The user has paused the model: what was seen before says nothing of the pictures after it, which begin as those of a session do. */
  pause(): Graded {
    this.#looks = 0;
    this.#until = 0;
    this.#seen = null;
    return { grade: "paused", why: null };
  }

  /** One more look at the figures: pictures a second and jitter in ms, null without pictures, and how many troubles there were so far. */
  look(fps: number | null | undefined, jitter: number | null | undefined, counts: { readonly [Kind in Trouble]: number }): Graded {
    const settled = ++this.#looks > SETTLING;
    const why = TROUBLES.find((kind) => counts[kind] > this.#counts[kind]);
    this.#counts = counts;
    if (why && settled) this.#seen = { why, at: this.#looks };
    if (fps === null || fps === undefined) {
      this.#held = { grade: "none", why: null };
      return this.#held;
    }
    const now = this.#grade(fps, jitter, settled);
    if (now.grade === this.#held.grade && now.why === this.#held.why) return this.#held;
    if (this.#looks < this.#until && this.#held.grade !== "none") return this.#held;
    this.#until = this.#looks + HELD;
    this.#held = now;
    return now;
  }

  #grade(fps: number, jitter: number | null | undefined, settled: boolean): Graded {
    if (this.#seen && this.#looks - this.#seen.at < REMEMBERED) return { grade: "poor", why: this.#seen.why };
    const uneven = ((jitter ?? 0) * fps) / 1000;
    if (!settled || (jitter ?? 0) < FELT || uneven <= UNEVEN) return { grade: "good", why: null };
    return { grade: uneven > BAD ? "poor" : "fair", why: "uneven" };
  }
}
