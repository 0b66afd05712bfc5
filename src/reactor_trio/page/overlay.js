/** What lies over the picture while there is none: what is awaited, and for how long or until when. */
import { SecondsTimer } from "./seconds-timer.js";

const LONG = 10;

/**
 * What a session without a picture waits for: `seconds` since it began; `viewing` somebody else's; `unstarted` the words for its
 * inputs that are not started; whether it has `commands`.
 */
export function describeWait(seconds, { viewing = false, unstarted = [], commands = false } = {}) {
  if (viewing) return "The session that you watch has shown no picture yet.";
  const still = seconds < LONG ? "" : "still ";
  if (unstarted.length) return `The model is ${still}warming up, or waits for the ${unstarted.join(" and the ")}, not started yet.`;
  if (seconds < LONG) return "The model is warming up.";
  return `The model is still warming up${commands ? ", or waits for a command" : ""}.`;
}

export class Overlay {
  #element;
  #text;
  #note;
  #seconds = new SecondsTimer();
  #subject = null;
  #since = 0;

  /** Elements: all of it, in it the text, and what is said below. */
  constructor(element, text, note) {
    this.#element = element;
    this.#text = text;
    this.#note = note;
  }

  /**
   * `note` is a text or a function of the seconds since `subject` became what is awaited. `wait` are the milliseconds to the next
   * try, which are counted down; with null nothing is awaited; else the seconds are counted up.
   */
  show(subject, text, { note = "", wait } = {}) {
    const now = performance.now();
    if (subject !== this.#subject) [this.#subject, this.#since] = [subject, now];
    this.#seconds.stop();
    this.#element.hidden = false;
    this.#text.textContent = text;
    this.#note.textContent = "";
    if (wait === undefined) {
      this.#seconds.countUp(this.#since, (passed) => {
        const words = typeof note === "function" ? note(passed) : note;
        this.#note.textContent = passed > 0 ? `${words} ${describeSeconds(passed)}` : words;
      });
    } else if (wait !== null) {
      this.#seconds.countDown(now + wait, (left) => { this.#text.textContent = `${text} Trying again in ${left} s.`; });
    }
  }

  hide() {
    this.#seconds.stop();
    this.#subject = null;
    this.#element.hidden = true;
  }
}

/** "7 s", "1 min 5 s". */
function describeSeconds(seconds) {
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
