import { SecondsTimer } from "./seconds-timer.js";

/** The banner over the picture that says when, and why, the server will end the session. */

const WORDS = {
  idle: "Nothing was done for a while. The session ends in",
  expired: "The session's time is nearly up. It ends in",
  draining: "The server is going down. The session ends in",
};

export class EndingBanner {
  #banner;
  #words;
  #left;
  #seconds = new SecondsTimer();

  /** `banner` holds two elements: for the words, which are read aloud once, and for the seconds, which count down. */
  constructor(banner) {
    this.#banner = banner;
    [this.#words, this.#left] = banner.children;
  }

  /** What the server said last; `seconds` is null when no end is in sight any more. */
  show({ reason, seconds }) {
    this.hide();
    if (seconds === null) return;
    this.#words.textContent = WORDS[reason] ?? "The session ends in";
    this.#banner.hidden = false;
    this.#seconds.countDown(performance.now() + 1000 * seconds, (left) => { this.#left.textContent = `${left} s`; });
  }

  hide() {
    this.#seconds.stop();
    this.#banner.hidden = true;
    this.#words.textContent = "";
  }
}
