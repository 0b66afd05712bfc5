/** What hands do first, on the picture until they have done something: the author's words, or made of what the model declares. */
import type { Controls } from "../src/controls.ts";
import type { ModelIntroduction } from "../src/index.ts";
import { byId, element } from "./dom.ts";

/** What a user has in hand. */
export type Hand = "keyboard" | "touch" | "gamepad";

export class Hint {
  #place = byId("hint");
  #about: ModelIntroduction | undefined;
  #controls: Controls | null = null;
  #done = false;
  #coarse = matchMedia("(pointer: coarse)");

  constructor() {
    const look = (): void => void this.#show();
    this.#coarse.addEventListener("change", look);
    addEventListener("gamepadconnected", look);
    addEventListener("gamepaddisconnected", look);
  }

  /** Shows the hint of a model; `controls` are null while they are not known, and for those who only watch. */
  begin(about: ModelIntroduction | undefined, controls: Controls | null): void {
    this.#about = about;
    this.#controls = controls;
    void this.#show();
  }

  /** The user knows what to do. */
  done(): void {
    if (this.#done) return;
    this.#done = true;
    void this.#show();
  }

  async #show(): Promise<void> {
    const [about, controls] = [this.#about, this.#controls];
    let text: HTMLElement | string | null | undefined = null;
    if (!this.#done && controls !== null) {
      const hand = this.#hand;
      text = hintFor(hand, about, controls);
      text ??= (await import("./made-hint.ts").catch(() => null))?.showHint(hand, controls) ?? about?.hint;
      if (this.#done || controls !== this.#controls || hand !== this.#hand) return; // the newer look shows it
    }
    this.#place.replaceChildren(element("bdi", {}, text ?? "")); // its place is by the page's direction
    this.#place.hidden = !text;
  }

  get #hand(): Hand {
    const pad = this.#controls?.pad;
    if ((pad?.buttons.length || pad?.axes) && navigator.getGamepads?.().some((each) => each !== null)) return "gamepad";
    return this.#coarse.matches ? "touch" : "keyboard";
  }
}

/** The author's words for this hand; null if there are none. The plain `hint` is for fingers, too, where the model has no keys. */
export function hintFor(
  hand: Hand,
  about: Pick<ModelIntroduction, "hint" | "hints"> | undefined,
  { keys, look }: Pick<Controls, "keys" | "look">,
): string | null {
  const isPlain = hand === "keyboard" || (hand === "touch" && !keys.length && !look);
  return about?.hints?.[hand] ?? (isPlain ? about?.hint : null) ?? null;
}
