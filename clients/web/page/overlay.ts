/** The overlay on the picture while there is none: what the page waits for, and the seconds passed or left. */
import { SecondsTimer } from "./seconds-timer.ts";

const LONG = 10;

/** What a session without a picture may wait for: see `describeWait`. */
export interface WaitSubject {
  readonly viewing?: boolean;
  readonly unstarted?: readonly string[];
  readonly commands?: boolean;
}

/** How the overlay shows a wait: see `Overlay.show`. */
export interface OverlayOptions {
  readonly note?: string | ((seconds: number) => string);
  readonly wait?: number | null | undefined;
}

/**
 * Describes what a session without a picture waits for. `seconds` is its age; `viewing`: another client controls it; `unstarted`:
 * the names of input devices that are not started; `commands`: the model has commands.
 */
export function describeWait(seconds: number, { viewing = false, unstarted = [], commands = false }: WaitSubject = {}): string {
  if (viewing) return "The session that you watch has shown no picture yet.";
  const still = seconds < LONG ? "" : "still ";
  if (unstarted.length) return `The model is ${still}warming up, or waits for the ${unstarted.join(" and the ")}, not started yet.`;
  if (seconds < LONG) return "The model is warming up.";
  return `The model is still warming up${commands ? ", or waits for a command" : ""}.`;
}

export class Overlay {
  #element: HTMLElement;
  #text: HTMLElement;
  #note: HTMLElement;
  #seconds = new SecondsTimer();
  #subject: string | null = null;
  #since = 0;

  /** Elements: the overlay, and in it the text and the note below. */
  constructor(element: HTMLElement, text: HTMLElement, note: HTMLElement) {
    this.#element = element;
    this.#text = text;
    this.#note = note;
  }

  /**
   * Shows the wait for `subject`. `note` is a text, or a function of the seconds since `subject` was first shown. With a number,
   * `wait` is the milliseconds to the next try, and the seconds count down; with null there is no next try; otherwise the
   * seconds count up.
   */
  show(subject: string, text: string, { note = "", wait }: OverlayOptions = {}): void {
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
      this.#seconds.countDown(now + wait, (left) => {
        this.#text.textContent = `${text} Trying again in ${left} s.`;
      });
    }
  }

  hide(): void {
    this.#seconds.stop();
    this.#subject = null;
    this.#element.hidden = true;
  }
}

/** "7 s", "1 min 5 s". */
function describeSeconds(seconds: number): string {
  return seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
}
