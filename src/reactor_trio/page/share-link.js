/** A link with which others watch this session and cannot touch it. */

const SHOWN_FOR = 4000;
const LOOPBACK = /^(localhost|127(\.\d+){3}|\[::1\])$/;

/**
 * The address of the page for a viewer: that of the server where the session is, with what this page was asked for, the role,
 * and the token where no server is sent it.
 */
export function viewerAddress(address, token, serverPage = address) {
  const url = new URL(serverPage);
  url.search = new URL(address).search;
  url.searchParams.set("role", "viewer");
  url.searchParams.delete("token");
  url.hash = new URLSearchParams({ token }).toString();
  return url.href;
}

/** What the user should know of a link to this address. */
export function describeCopied(address) {
  const only = LOOPBACK.test(new URL(address).hostname) ? " It works on this computer only." : "";
  return `Link copied: who has it can watch.${only}`;
}

/** The button, what it says, and the field for the link where the browser does not let a page copy. */
export class ShareLink {
  #button;
  #status;
  #field;
  #token = null;
  #serverPage = null;
  #timer = null;

  constructor(button, status, field) {
    this.#button = button;
    this.#status = status;
    this.#field = field;
    button.addEventListener("click", () => this.#copy());
    field.addEventListener("keydown", ({ key }) => key === "Escape" && this.#hide());
    field.addEventListener("blur", () => this.#hide());
  }

  /** A session's token for viewers, null while there is nothing to share; and the address of the page of its server. */
  show(token, serverPage = null) {
    [this.#token, this.#serverPage] = [token, serverPage];
    this.#button.hidden = token === null;
    if (token === null) this.#hide();
  }

  async #copy() {
    const address = viewerAddress(location.href, this.#token, this.#serverPage);
    this.#hide();
    try {
      await navigator.clipboard.writeText(address);
    } catch {
      // Not allowed, or a page of plain http, which has no clipboard: the user copies.
      this.#status.textContent = "Copy this link: who has it can watch.";
      this.#field.value = address;
      this.#field.hidden = false;
      this.#field.select();
      return;
    }
    this.#status.textContent = describeCopied(address);
    this.#timer = setTimeout(() => this.#hide(), SHOWN_FOR);
  }

  #hide() {
    clearTimeout(this.#timer);
    this.#status.textContent = "";
    this.#field.hidden = true;
  }
}
