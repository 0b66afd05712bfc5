/**
 * At most one value under way. Of the values that come meanwhile only the newest is kept, and it is sent once the one
 * under way is answered: a dragged slider sends as fast as the model applies, and its last position always arrives.
 */
export class Latest {
  #send;
  #busy = false;
  #waiting = null;

  /** `send(value)` returns a promise that settles with the answer. It must not reject. */
  constructor(send) {
    this.#send = send;
  }

  get busy() {
    return this.#busy;
  }

  /** Whether a newer value than the one under way waits to be sent. */
  get waiting() {
    return this.#waiting !== null;
  }

  push(value) {
    if (this.#busy) this.#waiting = { value };
    else this.#run(value);
  }

  async #run(value) {
    this.#busy = true;
    for (let next = { value }; next; ) {
      await this.#send(next.value);
      next = this.#waiting;
      this.#waiting = null;
    }
    this.#busy = false;
  }
}

/**
 * At most one call in `interval` milliseconds and key, each with the newest value: the first at once, the last never
 * lost. Keys share the interval's timer.
 */
export class Throttle {
  #call;
  #interval;
  #timer = null;
  #newest = new Map();

  constructor(call, interval) {
    this.#call = call;
    this.#interval = interval;
  }

  push(key, value) {
    this.#newest.set(key, value);
    if (this.#timer === null) this.#flush();
  }

  close() {
    clearTimeout(this.#timer);
    this.#newest.clear();
  }

  #flush() {
    this.#timer = null;
    if (this.#newest.size === 0) return;
    const newest = [...this.#newest];
    this.#newest.clear();
    this.#timer = setTimeout(() => this.#flush(), this.#interval);
    for (const [key, value] of newest) this.#call(key, value);
  }
}

/**
 * Movement, at most one piece under way. What comes meanwhile is added up and follows once that is answered, so nothing of
 * it is lost. Pieces stay within `limits` ({axis: [least, most]}); what is beyond them follows in the next.
 */
export class Movement {
  #send;
  #limits;
  #total;
  #busy = false;

  /** `send({axis: distance})` returns a promise that settles with the answer. It must not reject. */
  constructor(send, limits) {
    this.#send = send;
    this.#limits = limits;
    this.#total = Object.fromEntries(Object.keys(limits).map((axis) => [axis, 0]));
  }

  add(distances) {
    for (const axis of Object.keys(this.#total)) this.#total[axis] += distances[axis];
    if (!this.#busy) this.#run();
  }

  async #run() {
    this.#busy = true;
    for (let piece = this.#take(); Object.values(piece).some((distance) => distance !== 0); piece = this.#take()) await this.#send(piece);
    this.#busy = false;
  }

  #take() {
    const piece = {};
    for (const [axis, [least, most]] of Object.entries(this.#limits)) {
      piece[axis] = Math.min(most, Math.max(least, this.#total[axis]));
      this.#total[axis] -= piece[axis];
    }
    return piece;
  }
}
