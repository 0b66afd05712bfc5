/** The banner over the picture that says when and why the server is going to end the session. */
import { SecondsTimer } from "./seconds-timer.js";

const WORDS = {
  idle: "Nothing was done for a while. The session ends in",
  expired: "The session's time is nearly up. It ends in",
  draining: "The server is shutting down. The session ends in",
};

export class EndingBanner {
  #banner;
  #words;
  #left;
  #seconds = new SecondsTimer();

  /** `banner` contains two elements: one for the text, which screen readers read once, and one for the seconds. */
  constructor(banner) {
    this.#banner = banner;
    [this.#words, this.#left] = banner.children;
  }

  /** Shows the newest `reactor.ending`, or hides the banner if its `seconds` are null. */
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
