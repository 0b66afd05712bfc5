/** The link that lets other people watch this session without control. */
import { STRINGS } from "./strings.ts";

const SHOWN_FOR = 4000;
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/**
 * The page's address for a viewer: that of the session's server, with this page's query, the role, and the token behind the
 * `#`, which a browser never sends.
 */
export function viewerAddress(address: string, token: string, serverPage: string | URL = address): string {
  const url = new URL(serverPage);
  url.search = new URL(address).search;
  url.searchParams.set("role", "viewer");
  url.searchParams.delete("token");
  url.hash = new URLSearchParams({ token }).toString();
  return url.href;
}

/** The message for the user after copying a link to this address. */
export function describeCopied(address: string): string {
  const only = LOOPBACK.test(new URL(address).hostname) ? ` ${STRINGS.share.hereOnly}` : "";
  return `${STRINGS.share.copied}${only}`;
}

/** The Share button, its status text, and a field with the link for browsers that do not let the page copy. */
export class ShareLink {
  #button: HTMLElement;
  #status: HTMLElement;
  #field: HTMLInputElement;
  #token: string | null = null;
  #serverPage: URL | null = null;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(button: HTMLElement, status: HTMLElement, field: HTMLInputElement) {
    this.#button = button;
    this.#status = status;
    this.#field = field;
    button.addEventListener("click", () => this.#copy());
    field.addEventListener("keydown", ({ key }) => key === "Escape" && this.#hide());
    field.addEventListener("blur", () => this.#hide());
  }

  /** `token` is the session's share token, or null while there is nothing to share; `serverPage` the page of the session's server. */
  show(token: string | null, serverPage: URL | null = null): void {
    [this.#token, this.#serverPage] = [token, serverPage];
    this.#button.hidden = token === null;
    if (token === null) this.#hide();
  }

  async #copy(): Promise<void> {
    if (this.#token === null || this.#serverPage === null) return; // the button is hidden
    const address = viewerAddress(location.href, this.#token, this.#serverPage);
    this.#hide();
    try {
      await navigator.clipboard.writeText(address);
    } catch {
      // The browser refused, or the page is plain http and has no clipboard. The user copies the link.
      this.#status.textContent = STRINGS.share.copyYourself;
      this.#field.value = address;
      this.#field.hidden = false;
      this.#field.select();
      return;
    }
    this.#status.textContent = describeCopied(address);
    this.#timer = setTimeout(() => this.#hide(), SHOWN_FOR);
  }

  #hide(): void {
    clearTimeout(this.#timer);
    this.#status.textContent = "";
    this.#field.hidden = true;
  }
}
