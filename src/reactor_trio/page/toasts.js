/** Troubles that the user is to see at once, on the picture, where they are seen in full screen too. */
import { element } from "./dom.js";

const SHOWN_FOR = 10_000;
const MOST = 3;

export class Toasts {
  #place;

  constructor(place) {
    this.#place = place;
  }

  /** Shows a text for a while, or until it is clicked; the newest is the last. */
  show(text) {
    const toast = element("p", { class: "toast", title: "Click to hide" }, text);
    toast.addEventListener("click", () => toast.remove());
    setTimeout(() => toast.remove(), SHOWN_FOR);
    this.#place.append(toast);
    if (this.#place.children.length > MOST) this.#place.firstChild.remove();
  }
}
