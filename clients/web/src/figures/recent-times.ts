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

export function median(values: readonly number[]): number | null {
  if (values.length === 0) return null;
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
