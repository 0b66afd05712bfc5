/** The banner over the picture that says when and why the server is going to end the session. Loaded after the first picture. */
import type { AnyModel, ClientEvents } from "../src/index.ts";
import { within } from "./dom.ts";
import { SecondsTimer } from "./seconds-timer.ts";
import { ENDING, fillIn } from "./strings.ts";

const WORDS: { readonly [reason: string]: string | undefined } = ENDING.ending;

export class EndingBanner {
  #banner: HTMLElement;
  #words: Element;
  #left: Element;
  #seconds = new SecondsTimer();

  /** `banner` contains two elements: one for the text, which screen readers read once, and one for the seconds. */
  constructor(banner: HTMLElement) {
    this.#banner = banner;
    this.#words = within(banner, "span");
    this.#left = within(banner, "span + span");
  }

  /** Shows the newest announcement, or hides the banner if it was taken back. */
  show(announced: ClientEvents<AnyModel>["ending"]): void {
    this.hide();
    if (announced === null) return;
    this.#words.textContent = WORDS[announced.reason] ?? ENDING.ending.other;
    this.#banner.hidden = false;
    this.#seconds.countDown(announced.at, (left) => {
      this.#left.textContent = fillIn(ENDING.seconds, { n: left });
    });
  }

  hide(): void {
    this.#seconds.stop();
    this.#banner.hidden = true;
    this.#words.textContent = "";
  }
}
