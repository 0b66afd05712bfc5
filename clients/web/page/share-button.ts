/** The button that gives a link for viewers; what makes the link is loaded when the pointer comes near. */
import { byId } from "./dom.ts";

export class ShareButton {
  #button: HTMLElement;
  #shared: readonly [token: string, serverPage: URL] | null = null;

  /** `say` tells the user that the link is copied; `failed` gets an error. */
  constructor(button: HTMLElement, say: (words: string) => void, failed: (message: string) => void) {
    this.#button = button;
    const load = (): Promise<typeof import("./share-link.ts")> => import("./share-link.ts");
    const near = (): unknown =>
      load().then(
        ({ warn }) => this.#shared && warn(button, this.#shared[1]),
        () => {},
      ); // the click tells
    button.addEventListener("pointerenter", near);
    button.addEventListener("focus", near);
    button.addEventListener("click", () =>
      load()
        .then(({ share }) => this.#shared && share(...this.#shared, say))
        .catch((error) => failed(error.message)),
    );
  }

  /** `token` is the session's share token, or null while there is nothing to share; `serverPage` the page of the session's server. */
  show(token: string | null, serverPage: URL | null = null): void {
    this.#shared = token === null || serverPage === null ? null : [token, serverPage];
    this.#button.hidden = this.#shared === null;
    if (this.#shared !== null) return;
    byId("share-status").textContent = "";
    byId("share-link").hidden = true;
  }
}
