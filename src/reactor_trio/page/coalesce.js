/**
 * Values, of which at most one is under way and only the newest waits, and edges, which are never left out. A dragged slider
 * sends as fast as the model applies, and its last position always arrives. Each tap of a key is an edge: it is sent at once,
 * however many before it have no answer yet, and after the value that waited when it came.
 */
export class Coalescer {
  #send;
  #values = 0;
  #immediate = 0;
  #waiting = null;

  /** `send(value)` returns a promise that settles with the answer. It must not reject. */
  constructor(send) {
    this.#send = send;
  }

  /** Whether anything is without an answer. */
  get busy() {
    return this.#values + this.#immediate > 0;
  }

  /** Whether a newer value than the one under way waits to be sent. */
  get waiting() {
    return this.#waiting !== null;
  }

  /** Sends the value now, or when the one under way is answered unless a newer one comes until then. */
  push(value) {
    if (this.#values > 0) this.#waiting = { value };
    else this.#sendValue(value);
  }

  /** Sends `value` now, whatever is under way. */
  async sendNow(value) {
    this.#sendWaiting();
    this.#immediate += 1;
    await this.#send(value);
    this.#immediate -= 1;
  }

  /** What waits is not to be sent any more. */
  discardWaiting() {
    this.#waiting = null;
  }

  async #sendValue(value) {
    this.#values += 1;
    await this.#send(value);
    this.#values -= 1;
    if (this.#values === 0) this.#sendWaiting();
  }

  #sendWaiting() {
    const waiting = this.#waiting;
    this.#waiting = null;
    if (waiting) this.#sendValue(waiting.value);
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
export class MovementSum {
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
