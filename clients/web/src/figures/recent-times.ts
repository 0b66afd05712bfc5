/** The last value, and the median, in ms. */
export interface Recent {
  readonly last: number;
  readonly p50: number;
}

const WINDOW = 120;

/** The last 120 times of one kind, in ms. */
export class RecentTimes {
  #times: number[] = [];

  add(time: number): void {
    this.#times.push(time);
    if (this.#times.length > WINDOW) this.#times.shift();
  }

  /** Null before the first one. */
  snapshot(): Recent | null {
    const [last, p50] = [this.#times.at(-1), median(this.#times)];
    return last === undefined || p50 === null ? null : { last, p50 };
  }
}

/** Null without a value. */
export function median(values: readonly number[]): number | null {
  const sorted = [...values].sort((a, b) => a - b);
  // The two in the middle, which of an odd number are the same.
  const [below, above] = [sorted[(sorted.length - 1) >> 1], sorted[sorted.length >> 1]];
  return below === undefined || above === undefined ? null : (below + above) / 2;
}
