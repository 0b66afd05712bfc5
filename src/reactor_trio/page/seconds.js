/** Tells whole seconds as they pass. */
export class Seconds {
  #timer = null;

  /** How many have passed since `since`, a time of the page's clock in ms, until `stop`. */
  up(since, tell) {
    this.stop();
    const passed = performance.now() - since;
    tell(Math.floor(passed / 1000));
    this.#timer = setTimeout(() => this.up(since, tell), 1000 - (passed % 1000));
  }

  /** How many are left until `end`; the last one told is 0. */
  down(end, tell) {
    this.stop();
    const left = Math.max(0, end - performance.now());
    tell(Math.ceil(left / 1000));
    if (left > 0) this.#timer = setTimeout(() => this.down(end, tell), left % 1000 || 1000);
  }

  stop() {
    clearTimeout(this.#timer);
  }
}
