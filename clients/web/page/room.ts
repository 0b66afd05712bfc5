/** The room that the layout keeps for the picture and the pads. What it was at the last visit, it is from the first paint of this one. */
import type { SafeStorage } from "./storage.ts";

const KEY = "room";

export class Room {
  #preferences: SafeStorage;
  #model: string;
  #ratio = 0;
  /** Whether the room has the shape of this model's pictures. */
  #fits: boolean;

  constructor(preferences: SafeStorage) {
    this.#preferences = preferences;
    const [ratio = "", pads, ...model] = preferences.get(KEY)?.split(" ") ?? [];
    this.#model = model.join(" ");
    this.#fits = ratio !== "";
    show("--room", ratio);
    if (pads) document.body.dataset.pads = pads;
  }

  /** A session of `model` begins, whose pictures have the shape `ratio`: width by height, or undefined if that is not known. */
  begin(model: string, ratio: number | undefined): void {
    if (model !== this.#model) {
      this.#model = model;
      this.#fits = false;
      show("--room", "");
    }
    if (!ratio) return;
    this.#fits = true;
    this.take(ratio);
  }

  /** A picture of the shape `ratio` is shown. The first one of a model that is new here moves nothing: it lies in the room that is there. */
  take(ratio: number): void {
    if (ratio === this.#ratio) return;
    this.#ratio = ratio;
    const text = ratio.toFixed(4);
    show("--ratio", text);
    if (this.#fits) show("--room", text);
    this.#fits = true;
    this.#preferences.set(KEY, [text, document.body.dataset.pads ?? "", this.#model].join(" "));
  }
}

const show = (name: string, value: string): void => document.documentElement.style.setProperty(name, value);
