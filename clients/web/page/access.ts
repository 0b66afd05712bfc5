/**
 * The token that this page sends as its credential. It comes from the page's address, from this tab's storage, or from the
 * user. The page removes it from the address at once, so that it stays out of the address bar, history and screenshots. A
 * browser never sends the part behind the `#`.
 */

import type { OpenStorage } from "./storage.ts";
import { SafeStorage } from "./storage.ts";

/** Splits an address into {address, token}: the address without its token, and the token or null. */
export function splitAddress(address: string): { address: string; token: string | null } {
  const url = new URL(address);
  const hidden = new URLSearchParams(url.hash.slice(1));
  const token = hidden.get("token") || url.searchParams.get("token") || null;
  if (hidden.has("token")) {
    hidden.delete("token");
    url.hash = hidden.toString();
  }
  url.searchParams.delete("token");
  return { address: url.href, token };
}

/** The token of one tab. Each address that the tab shows has its own. */
export class AccessToken {
  #key: string;
  #storage: SafeStorage;
  token: string | null;

  constructor({
    location,
    history,
    storage,
  }: {
    readonly location: Pick<Location, "href">;
    readonly history: Pick<History, "state" | "replaceState">;
    readonly storage: OpenStorage;
  }) {
    const { address, token } = splitAddress(location.href);
    const { pathname, search } = new URL(address);
    this.#key = `reactor-token ${pathname}${search}`;
    this.#storage = new SafeStorage(storage); // without storage the page asks again after a reload
    this.token = token ?? this.#storage.get(this.#key);
    if (token === null) return;
    history.replaceState(history.state, "", address);
    this.set(token);
  }

  /** Uses `token` from now on, also after a reload; null discards it. */
  set(token: string | null): void {
    this.token = token;
    this.#storage.set(this.#key, token);
  }
}
