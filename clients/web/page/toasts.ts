/** Short messages on the picture, where the user sees them in full screen too. */
import { element } from "./dom.ts";
import { STRINGS } from "./strings.ts";

const SHOWN_FOR = 10_000;
const MOST = 3;

export class Toasts {
  #container: HTMLElement;

  constructor(place: HTMLElement) {
    this.#container = place;
  }

  /** Shows an error for a while, or until the user clicks it; the newest is the last. With `kind` "info" it is no error. */
  show(text: string, kind: "error" | "info" = "error"): void {
    const toast = element("p", { class: `toast ${kind}`, title: STRINGS.hide }, text);
    toast.addEventListener("click", () => toast.remove());
    setTimeout(() => toast.remove(), SHOWN_FOR);
    this.#container.append(toast);
    const passing = this.#container.querySelectorAll("p");
    if (passing.length > MOST) passing[0]?.remove();
  }

  /** Shows something above the messages until it is removed. */
  hold(...content: readonly (Node | string)[]): HTMLElement {
    const toast = element("div", { class: "toast info" }, ...content);
    this.#container.prepend(toast);
    return toast;
  }
}
