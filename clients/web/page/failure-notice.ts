/** Why the last session failed: on the page until the user dismisses it, with that session's settings for the one after it. */
import { element } from "./dom.ts";
import type { Values } from "./settings.ts";
import { STRINGS } from "./strings.ts";
import type { Toasts } from "./toasts.ts";

export class FailureNotice {
  #toasts: Toasts;
  #toast: HTMLElement | null = null;
  #why = element("span");
  #old = element("button", { type: "button", id: "old-settings" }, STRINGS.failure.settings);
  #dismiss = element("button", { type: "button", id: "dismiss" }, STRINGS.failure.dismiss);
  #values: Values = {};
  #give: (values: Values) => void = () => {};

  constructor(toasts: Toasts) {
    this.#toasts = toasts;
    this.#dismiss.addEventListener("click", () => this.#remove());
    this.#old.addEventListener("click", () => {
      this.#give(this.#values);
      this.#remove();
    });
  }

  /** The session is over, with these settings that differ from their defaults. */
  over(values: Values): void {
    this.#old.hidden = true;
    if (this.#toast === null || Object.keys(values).length > 0) this.#values = values;
  }

  /** It is over because of a failure; the stage says so until `next`. */
  failed(why: string): void {
    this.#why.textContent = why;
  }

  /** The stage shows something else now; `give` takes settings for a session that has begun, null without one. */
  next(give: ((values: Values) => void) | null): void {
    this.#old.hidden = give === null || Object.keys(this.#values).length === 0;
    if (give !== null) this.#give = give;
    if (this.#why.textContent) this.#toast ??= this.#toasts.hold(this.#why, this.#old, this.#dismiss);
  }

  #remove(): void {
    this.#toast?.remove();
    this.#toast = null;
    this.#why.textContent = "";
  }
}
