/** Short messages on the picture, where the user sees them in full screen too. */
import { element } from "./dom.ts";
import { STRINGS } from "./strings.ts";

const SHOWN_FOR = 10_000;

export class Toasts {
  #container: HTMLElement;
  #passing: HTMLElement | undefined;

  constructor(place: HTMLElement) {
    this.#container = place;
    document.addEventListener("fullscreenchange", () => this.#passing?.remove()); // it was of another view
  }

  /** Shows an error for a while, or until the user clicks it or there is a newer one. With `kind` "info" it is no error. */
  show(text: string, kind: "error" | "info" = "error"): void {
    this.#passing?.remove();
    const toast = element("p", { class: `toast ${kind}`, title: STRINGS.hide }, text);
    toast.addEventListener("click", () => toast.remove());
    setTimeout(() => toast.remove(), SHOWN_FOR);
    this.#container.append(toast);
    this.#passing = toast;
  }

  /** Shows something above the messages until it is removed. */
  hold(...content: readonly (Node | string)[]): HTMLElement {
    const toast = element("div", { class: "toast info" }, ...content);
    this.#container.prepend(toast);
    return toast;
  }
}
