/** The banner over the picture that says when, and why, the server will end the session. */

const WORDS = {
  idle: "Nothing was done for a while. The session ends in",
  expired: "The session's time is nearly up. It ends in",
  draining: "The server is going down. The session ends in",
};

export class Ending {
  #banner;
  #words;
  #seconds;
  #timer = null;

  /** `banner` holds two elements: for the words, which are read aloud once, and for the seconds, which count down. */
  constructor(banner) {
    this.#banner = banner;
    [this.#words, this.#seconds] = banner.children;
  }

  /** What the server said last; `seconds` is null when no end is in sight any more. */
  show({ reason, seconds }) {
    this.hide();
    if (seconds === null) return;
    this.#words.textContent = WORDS[reason] ?? "The session ends in";
    this.#banner.hidden = false;
    this.#count(performance.now() + 1000 * seconds);
  }

  hide() {
    clearTimeout(this.#timer);
    this.#banner.hidden = true;
    this.#words.textContent = "";
  }

  #count(end) {
    const left = Math.max(0, end - performance.now());
    this.#seconds.textContent = `${Math.ceil(left / 1000)} s`;
    if (left > 0) this.#timer = setTimeout(() => this.#count(end), left % 1000 || 1000);
  }
}
