/** The room that the layout keeps for the picture and the pads. What it was at the last visit, it is from the first paint of this one. */
import type { SafeStorage } from "./storage.ts";

const KEY = "room";

export class Room {
  #preferences: SafeStorage;
  #model: string;
  #ratio = 0;

  constructor(preferences: SafeStorage) {
    this.#preferences = preferences;
    const [ratio = "", pads, ...model] = preferences.get(KEY)?.split(" ") ?? [];
    this.#model = model.join(" ");
    if (ratio) show(ratio);
    if (pads) document.body.dataset.pads = pads;
  }

  /** A session of `model` begins, whose pictures have the shape `ratio`: width by height, or undefined if that is not known. */
  begin(model: string, ratio: number | undefined): void {
    if (model !== this.#model) {
      if (this.#model) show(""); // another model's
      this.#model = model;
      this.#ratio = 0;
    }
    if (ratio) this.take(ratio);
  }

  /** A picture of the shape `ratio` is shown, or will be. */
  take(ratio: number): void {
    if (ratio === this.#ratio) return;
    this.#ratio = ratio;
    const text = ratio.toFixed(4);
    show(text);
    this.#preferences.set(KEY, [text, document.body.dataset.pads ?? "", this.#model].join(" "));
  }
}

const show = (ratio: string): void => document.documentElement.style.setProperty("--ratio", ratio);
