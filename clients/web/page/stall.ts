/** The status of a live session while its pictures stay out, or while code of the model takes long. */
import type { AnyModel, Client, ClientEvents } from "../src/index.ts";
import { byId, element, within } from "./dom.ts";
import { describeSeconds } from "./overlay.ts";
import { fillIn, STRINGS } from "./strings.ts";

const LOOK = 500;
const SILENCE = 3000;
/** So many pictures within this time are a stream; fewer may be answers to what the user does. */
const STREAM = { pictures: 5, within: 5000 };

type Late = ClientEvents<AnyModel>["late"];

/**
 * What the session waits for, in words before the seconds since then; null: for nothing that is worth a word. `times` has the last
 * pictures. Where something else was heard of the server since (`silence` in ms), the link is good and the model has nothing to show.
 */
export function stallOf(
  times: readonly number[],
  silence: () => number | null,
  late: Late,
  now: number,
): { words: string; since: number } | null {
  if (late !== null) return { words: STRINGS.stall.busy, since: late.since };
  const since = times.at(-1) ?? now;
  const streams = times.length >= STREAM.pictures && since - (times.at(-STREAM.pictures) ?? 0) <= STREAM.within;
  return streams && now - since >= SILENCE && (silence() ?? 0) >= SILENCE ? { words: STRINGS.stall.pictures, since } : null;
}

export class Stall {
  #client: Client;
  #restore: () => void;
  #times: number[] = [];
  #late: Late = null;
  #words = "";
  /** Screen readers read the words once, and no seconds. */
  #seconds = element("span", { "aria-hidden": "true" });
  /** What of the model's code runs, among the figures: its name is for the author. */
  #code = element("p");

  /** `restore` shows the status without a stall again. */
  constructor(client: Client, restore: () => void) {
    this.#client = client;
    this.#restore = restore;
    within(byId("stats"), ".card").append(this.#code);
    setInterval(() => this.#look(), LOOK);
    client.on("late", (late) => {
      this.#late = late;
      this.#look();
    });
    client.on("state", ({ status }) => {
      if (status !== "live") this.#late = null;
      this.#times = [];
    });
  }

  /** Whether code of the model takes long. */
  get busy(): boolean {
    return this.#late !== null;
  }

  /** A picture was drawn. */
  pictureShown(): void {
    this.#times.push(performance.now());
    if (this.#times.length > STREAM.pictures) this.#times.shift();
    if (this.#seconds.isConnected) this.#look();
  }

  #look(): void {
    if (this.#client.state.status !== "live") return; // the status says something else
    if (document.hidden || this.#client.transport.paused) this.#times = [];
    const now = performance.now();
    const late = this.#late;
    this.#code.textContent = late && `${fillIn(STRINGS.stall.code, late)} ${passed(now, late.since)}`;
    // Before the first picture the stage says what the page waits for.
    const stall =
      document.body.dataset.picture !== "shown" ? null : stallOf(this.#times, () => this.#client.statistics().silence, this.#late, now);
    if (stall === null) {
      if (this.#seconds.isConnected) this.#restore();
      return;
    }
    if (!this.#seconds.isConnected || stall.words !== this.#words) byId("status").replaceChildren(stall.words, " ", this.#seconds);
    this.#words = stall.words;
    this.#seconds.textContent = passed(now, stall.since);
  }
}

const passed = (now: number, since: number): string => describeSeconds(Math.floor((now - since) / 1000));
