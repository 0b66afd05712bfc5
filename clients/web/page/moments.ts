/** The moments that a session may go back to. */
import type { Moment } from "../src/index.ts";

/** The oldest first, and the index of the one that is the world now. */
export interface Moments {
  readonly all: readonly Moment[];
  readonly now: number;
}

/** The index of the newest moment of at most this age; of the oldest, if all are older. */
export const newestAt = (all: readonly Moment[], age: number): number =>
  Math.max(
    0,
    all.findLastIndex((each) => each.age <= age),
  );
