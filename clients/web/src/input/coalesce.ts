/**
 * Sends values and edges. At most one value is in flight and only the newest one waits, so a dragged slider
 * sends as fast as the model answers, and its last position always arrives. An edge, such as the press of a key, is never
 * left out: it is sent at once, after the waiting value if there is one, however many messages have no answer yet.
 */
export class Coalescer<Value> {
  #send: (value: Value) => Promise<unknown>;
  #values = 0;
  #immediate = 0;
  #waiting: { readonly value: Value } | null = null;

  /** `send(value)` returns a promise that settles with the answer. It must not reject. */
  constructor(send: (value: Value) => Promise<unknown>) {
    this.#send = send;
  }

  /** Whether any message has no answer yet. */
  get busy(): boolean {
    return this.#values + this.#immediate > 0;
  }

  /** Whether a newer value than the one in flight waits to be sent. */
  get waiting(): boolean {
    return this.#waiting !== null;
  }

  /** Sends the value now if no other is in flight, else after its answer, unless a newer value replaces it. */
  push(value: Value): void {
    if (this.#values > 0) this.#waiting = { value };
    else void this.#sendValue(value);
  }

  /** Sends an edge now, whatever is in flight. */
  async sendNow(value: Value): Promise<void> {
    this.#sendWaiting();
    this.#immediate += 1;
    await this.#send(value);
    this.#immediate -= 1;
  }

  /** Discards the waiting value. */
  discardWaiting(): void {
    this.#waiting = null;
  }

  async #sendValue(value: Value): Promise<void> {
    this.#values += 1;
    await this.#send(value);
    this.#values -= 1;
    if (this.#values === 0) this.#sendWaiting();
  }

  #sendWaiting(): void {
    const waiting = this.#waiting;
    this.#waiting = null;
    if (waiting) void this.#sendValue(waiting.value);
  }
}

/** Distances by axis. */
export interface Movement {
  [axis: string]: number;
}

/** The range of the distances in one message, by axis. */
export interface MovementLimits {
  readonly [axis: string]: readonly [least: number, most: number];
}

/**
 * Sends movement, at most one message in flight. It sums up the movement that arrives meanwhile and sends it after the answer, so
 * no movement is lost. Each message stays within `limits` ({axis: [least, most]}); the rest follows in the next one.
 */
export class MovementSum {
  #send: (piece: Movement) => Promise<unknown>;
  #axes: { readonly name: string; readonly least: number; readonly most: number; total: number }[];
  #busy = false;

  /** `send({axis: distance})` returns a promise that settles with the answer. It must not reject. */
  constructor(send: (piece: Movement) => Promise<unknown>, limits: MovementLimits) {
    this.#send = send;
    this.#axes = Object.entries(limits).map(([name, [least, most]]) => ({ name, least, most, total: 0 }));
  }

  /** An axis that `distances` leaves out has not moved. */
  add(distances: Readonly<Movement>): void {
    for (const axis of this.#axes) axis.total += distances[axis.name] ?? 0;
    if (!this.#busy) void this.#run();
  }

  async #run(): Promise<void> {
    this.#busy = true;
    for (let piece = this.#take(); Object.values(piece).some((distance) => distance !== 0); piece = this.#take()) await this.#send(piece);
    this.#busy = false;
  }

  #take(): Movement {
    const piece: Movement = {};
    for (const axis of this.#axes) {
      const part = Math.min(axis.most, Math.max(axis.least, axis.total));
      piece[axis.name] = part;
      axis.total -= part;
    }
    return piece;
  }
}
