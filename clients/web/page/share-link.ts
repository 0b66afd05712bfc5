/** The link that lets other people watch this session without control. Loaded when somebody wants it. */
import { byId, element } from "./dom.ts";
import { isLoopback } from "./loopback.ts";
import { SHARE } from "./strings.ts";

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
  const only = isLoopback(address) ? ` ${SHARE.hereOnly}` : "";
  return `${SHARE.copied}${only}`;
}

const status = (): HTMLElement => byId("share-status");
let field: HTMLInputElement | null = null;

/** Copies the link with this token to the page of the session's server, or shows it where the browser does not let the page copy. */
export async function share(token: string, serverPage: URL, say: (words: string) => void): Promise<void> {
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
  say(describeCopied(address));
}

/** Says before the press, too, that a link to this computer is for this computer. */
export function warn(button: HTMLElement, serverPage: URL): void {
  if (isLoopback(serverPage) && !button.title.includes(SHARE.hereOnly)) button.title += `. ${SHARE.hereOnly}`;
}

/** The page's address for somebody who wants to play: without the role and the token of a viewer. */
export function playerAddress(address: string): string {
  const url = new URL(address);
  url.searchParams.delete("role");
  url.searchParams.delete("token");
  url.hash = "";
  return url.href.replace(/#$/, "");
}

/** Offers a viewer to wait for a turn. */
export function offerTurn(note: HTMLElement): void {
  if (note.querySelector("a")) return;
  const link = element("a", { href: playerAddress(location.href) }, SHARE.turn);
  note.append(" ", link);
}

/** Offers whoever has a link that is over, to a session or to a world, to play; below the words `after`, and gone with them. */
export function offerPlay(after: HTMLElement): void {
  const watched = new URL(location.href).searchParams.has("role");
  const play = element("button", { type: "button", id: "play", class: "primary" }, watched ? SHARE.play : SHARE.begin);
  play.addEventListener("click", () => location.assign(playerAddress(location.href)));
  after.after(play);
}

function shownField(): HTMLInputElement {
  const found = byId("share-link", HTMLInputElement);
  found.addEventListener("keydown", ({ key }) => key === "Escape" && hide());
  found.addEventListener("blur", hide);
  return found;
}

function hide(): void {
  status().textContent = "";
  if (field) field.hidden = true;
}
