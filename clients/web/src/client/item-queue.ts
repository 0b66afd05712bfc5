import { deferred } from "./deferred.ts";

/** How much may wait for a loop, as `size` counts it: 64 MiB. */
const MOST: number = 64 << 20;

export interface ItemQueueOptions<T> {
  /** How many items may wait. */
  readonly limit: number;
  readonly signal?: AbortSignal | undefined;
  /** Bytes of an item. */
  readonly size?: ((item: T) => number) | undefined;
  /** Gets each item that the loop does not get. */
  readonly dropped?: (item: T) => void;
}

/**
 * Items for one `for await` loop. It waits for items; while nobody takes them, up to `limit` and 64 MiB wait, or one of any size, and the
 * oldest is dropped.
 * Leaving the loop, `end`, and the abort of `signal` all end it.
 */
export class ItemQueue<T> implements AsyncIterableIterator<T> {
  #items: T[] = [];
  #takers: ((result: IteratorResult<T>) => void)[] = [];
  readonly limit: number;
  /** Called when the loop has taken an item that waited. */
  taken: (() => void) | undefined;
  #dropped: (item: T) => void;
  #sizeOf: (item: T) => number;
  #sizes: number[] = [];
  #size = 0;
  #ended = deferred<void>();
  #signal: AbortSignal | undefined;
  #over = false;
  readonly #abort = (): void => this.end();

  constructor({ limit, signal, size = () => 0, dropped = () => {} }: ItemQueueOptions<T>) {
    this.limit = limit;
    this.#sizeOf = size;
    this.#dropped = dropped;
    this.#signal = signal;
    if (signal?.aborted) this.end();
    else signal?.addEventListener("abort", this.#abort);
  }

  /** Fulfilled when no more items come. */
  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  /** How many items wait. */
  get waiting(): number {
    return this.#items.length;
  }

  put(item: T): void {
    if (this.#over) {
      this.#dropped(item);
      return;
    }
    const taker = this.#takers.shift();
    if (taker !== undefined) {
      taker({ value: item, done: false });
      return;
    }
    this.#items.push(item);
    const size = this.#sizeOf(item);
    this.#sizes.push(size);
    this.#size += size;
    while (this.waiting > this.limit || (this.#size > MOST && this.waiting > 1)) this.drop();
  }

  /** Drops the oldest item that waits. */
  drop(): void {
    this.#dropped(this.#shift() as T);
  }

  #shift(): T | undefined {
    this.#size -= this.#sizes.shift() ?? 0;
    return this.#items.shift();
  }

  /** No more items come. Those that wait can still be taken. */
  end(): void {
    if (this.#over) return;
    this.#over = true;
    this.#signal?.removeEventListener("abort", this.#abort);
    for (const taker of this.#takers.splice(0)) taker({ value: undefined, done: true });
    this.#ended.resolve();
  }

  next(): Promise<IteratorResult<T>> {
    const item = this.#shift();
    if (item !== undefined) {
      this.taken?.();
      return Promise.resolve({ value: item, done: false });
    }
    if (this.#over) return Promise.resolve({ value: undefined, done: true });
    return new Promise((resolve) => this.#takers.push(resolve));
  }

  /** The loop was left: what waits is dropped. */
  return(): Promise<IteratorResult<T>> {
    this.end();
    while (this.waiting > 0) this.drop();
    return Promise.resolve({ value: undefined, done: true });
  }

  [Symbol.asyncIterator](): this {
    return this;
  }
}
