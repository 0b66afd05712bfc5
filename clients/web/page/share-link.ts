/** The link that lets other people watch this session without control. Loaded when somebody wants it. */
import { byId } from "./dom.ts";
import { SHARE } from "./strings.ts";

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
  const only = LOOPBACK.test(new URL(address).hostname) ? ` ${SHARE.hereOnly}` : "";
  return `${SHARE.copied}${only}`;
}

const status = (): HTMLElement => byId("share-status");
let field: HTMLInputElement | null = null;
let timer: ReturnType<typeof setTimeout> | undefined;

/** Copies the link with this token to the page of the session's server, or shows it where the browser does not let the page copy. */
export async function share(token: string, serverPage: URL): Promise<void> {
  const address = viewerAddress(location.href, token, serverPage);
  field ??= shownField();
  hide();
  try {
    await navigator.clipboard.writeText(address);
  } catch {
    // The browser refused, or the page is plain http and has no clipboard. The user copies the link.
    status().textContent = SHARE.copyYourself;
    field.value = address;
    field.hidden = false;
    field.select();
    return;
  }
  status().textContent = describeCopied(address);
  timer = setTimeout(hide, SHOWN_FOR);
}

function shownField(): HTMLInputElement {
  const found = byId("share-link", HTMLInputElement);
  found.addEventListener("keydown", ({ key }) => key === "Escape" && hide());
  found.addEventListener("blur", hide);
  return found;
}

function hide(): void {
  clearTimeout(timer);
  status().textContent = "";
  if (field) field.hidden = true;
}
