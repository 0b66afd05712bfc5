/** Calls a function with whole seconds as they pass. */
export class SecondsTimer {
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** Calls with the seconds since `since`, a time of the page's clock in ms, until `stop`. */
  countUp(since: number, call: (seconds: number) => void): void {
    this.stop();
    const passed = performance.now() - since;
    call(Math.floor(passed / 1000));
    this.#timer = setTimeout(() => this.countUp(since, call), 1000 - (passed % 1000));
  }

  /** Calls with the seconds left until `end`; the last call is with 0. */
  countDown(end: number, call: (seconds: number) => void): void {
    this.stop();
    const left = Math.max(0, end - performance.now());
    call(Math.ceil(left / 1000));
    if (left > 0) this.#timer = setTimeout(() => this.countDown(end, call), left % 1000 || 1000);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
