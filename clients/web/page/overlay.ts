/** The overlay on the picture while there is none: what the page waits for, and the seconds passed or left. */

import { element } from "./dom.ts";
import { SecondsTimer } from "./seconds-timer.ts";
import { type ArtName, StateArt } from "./state-art.ts";
import { fillIn, STRINGS } from "./strings.ts";

/** Seconds after which a wait is long. */
export const LONG = 10;

/** What an input is sent from. */
export type Device = "camera" | "microphone";

/** What a session without a picture may wait for: see `describeWait`. */
export interface WaitSubject {
  readonly viewing?: boolean;
  readonly unstarted?: readonly Device[];
  readonly commands?: boolean;
}

/** How the overlay shows a wait: see `Overlay.show`. */
export interface OverlayOptions {
  readonly art?: ArtName;
  /** How much of the drawing "loading" is done, from 0 to 1; null: unknown. */
  readonly fraction?: number | null;
  readonly note?: string;
  /** What only some people want to know, behind "Details". */
  readonly details?: string;
  readonly wait?: number | null | undefined;
  /** Whether the page waits for the user now, who need not be told how long. */
  readonly forUser?: () => boolean;
}

/**
 * Describes what a session without a picture waits for. `seconds` is its age; `viewing`: another client controls it; `unstarted`:
 * the input devices that are not started; `commands`: the model has commands.
 */
export function describeWait(seconds: number, { viewing = false, unstarted = [], commands = false }: WaitSubject = {}): string {
  const { wait } = STRINGS;
  if (viewing) return wait.viewing;
  const [device] = unstarted;
  if (device) return unstarted.length > 1 ? wait.both : wait[device];
  return commands && seconds >= LONG ? wait.command : wait.model;
}

export class Overlay {
  #element: HTMLElement;
  #text: HTMLElement;
  #note: HTMLElement;
  #details = element("p");
  #fold = element("details", { id: "overlay-details" }, element("summary", {}, STRINGS.details), this.#details);
  #art: StateArt;
  #seconds = new SecondsTimer();
  #subject: string | null = null;
  #since = 0;

  /** Elements: the overlay, and in it the place of the drawing, the text and the note below. */
  constructor(element: HTMLElement, art: HTMLElement, text: HTMLElement, note: HTMLElement) {
    this.#art = new StateArt(art);
    this.#element = element;
    this.#text = text;
    this.#note = note;
    note.after(this.#fold);
  }

  /**
   * Shows the wait for `subject`. `text` is one sentence, or a function of the seconds since `subject` was first shown. With a number,
   * `wait` is the milliseconds to the next try, and the seconds count down; with null there is no next try; otherwise a long wait,
   * and each in the queue, says how long it is, without the time that the page waited for the user.
   */
  show(
    subject: string,
    text: string | ((seconds: number) => string),
    { note = "", details = "", wait, art = "connecting", fraction = null, forUser = () => false }: OverlayOptions = {},
  ): void {
    const now = performance.now();
    if (subject !== this.#subject) [this.#subject, this.#since] = [subject, now];
    this.#seconds.stop();
    this.#element.hidden = false;
    this.#art.show(art, fraction);
    if (typeof text === "string") this.#text.textContent = text;
    this.#note.textContent = "";
    this.#fold.hidden = details === "";
    this.#details.textContent = details;
    if (wait === undefined) {
      let users = 0; // seconds that the user took
      this.#seconds.countUp(this.#since, (all) => {
        if (forUser()) users = all;
        const passed = all - users;
        const words = typeof text === "string" ? text : text(passed);
        if (words !== this.#text.textContent) this.#text.textContent = words; // screen readers read what is new
        this.#note.textContent = [
          note,
          passed < (art === "queue" ? 1 : LONG) ? "" : fillIn(STRINGS.soFar, { time: describeSeconds(passed) }),
        ]
          .filter(Boolean)
          .join(" ");
      });
    } else if (wait !== null) {
      this.#seconds.countDown(now + wait, (left) => {
        this.#note.textContent = `${note} ${fillIn(STRINGS.again, { n: left })}`.trim();
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
export function describeSeconds(seconds: number): string {
  if (seconds < 60) return fillIn(STRINGS.seconds, { n: seconds });
  return fillIn(STRINGS.minutesSeconds, { m: Math.floor(seconds / 60), n: seconds % 60 });
}
