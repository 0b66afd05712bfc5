/** The button that turns the model's sound on and off, and the slider of its loudness. */
import type { Sound } from "../src/index.ts";
import { byId } from "./dom.ts";

export class SoundButton {
  #sound: Sound;
  #toggle = byId("sound-toggle");

  constructor(sound: Sound) {
    this.#sound = sound;
    sound.subscribe(() => this.#changed());
    this.#toggle.addEventListener("click", () => void (this.#state === "off" ? sound.start() : sound.stop()));
    const volume = byId("sound-volume", HTMLInputElement);
    volume.addEventListener("input", () => {
      sound.volume = volume.valueAsNumber;
    });
  }

  /** Shows or hides all that concerns sound. */
  show(hasSound: boolean): void {
    for (const node of [byId("sound"), ...document.querySelectorAll<HTMLElement>(".sounding")]) node.hidden = !hasSound;
  }

  get #state(): "off" | "starting" | "on" {
    const { state } = this.#sound;
    if (state === "none") return "off";
    return state === "blocked" ? "starting" : state;
  }

  #changed(): void {
    byId("sound").dataset.sound = this.#state;
    this.#toggle.setAttribute("aria-pressed", String(this.#state !== "off"));
  }
}
