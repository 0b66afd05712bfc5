/** What a session says of the failure before it: for a while, or until the user has taken or left the settings that he had before. Loaded with what the first picture does not need. */
import { element } from "./dom.ts";
import type { Values } from "./settings.ts";
import { FAILURE, fillIn } from "./strings.ts";
import type { Toasts } from "./toasts.ts";

const SHOWN_FOR = 8000;

export class FailureNotice {
  #toasts: Toasts;
  #toast: HTMLElement | null = null;
  #words: string | null = null;
  #values: Values = {};

  constructor(toasts: Toasts) {
    this.#toasts = toasts;
  }

  /** The session is over, with these settings that differ from their defaults. */
  over(values: Values): void {
    this.#toast?.remove();
    if (this.#words === null || Object.keys(values).length > 0) this.#values = values;
  }

  /** It is over because of a failure, which the stage tells; with a reason the model is loaded again. */
  failed(reason: string | null): void {
    this.#words = reason === null ? FAILURE.again : fillIn(FAILURE.restarted, { reason });
  }

  /** It is over because the link was lost, of which the next one says nothing. */
  lost(): void {
    this.#words = "";
  }

  /** A session has begun, in which `give` sets values; null: this client may set none. */
  begun(give: ((values: Values) => void) | null): void {
    const [words, values] = [this.#words, this.#values];
    this.#words = null;
    if (words === null) return;
    const hasOld = give !== null && Object.keys(values).length > 0;
    if (!words && !hasOld) return;
    const old = element("button", { type: "button", id: "old-settings", hidden: !hasOld }, FAILURE.settings);
    const { dismiss } = FAILURE;
    const close = element("button", { type: "button", id: "dismiss", class: "icon", title: dismiss, "aria-label": dismiss }, "✕");
    const toast = this.#toasts.hold(words, old, close);
    this.#toast = toast;
    old.addEventListener("click", () => give?.(values));
    toast.addEventListener("click", () => toast.remove());
    if (!hasOld) setTimeout(() => toast.remove(), SHOWN_FOR);
  }
}
