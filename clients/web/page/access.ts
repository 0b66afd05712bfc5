/**
 * The token that this page sends as its credential, and that of a fork. The credential comes from the page's address, from this tab's storage, or from the
 * user. The page removes both from the address at once, so that they stay out of the address bar, history and screenshots. A
 * browser never sends the part behind the `#`.
 */

import type { OpenStorage } from "./storage.ts";
import { SafeStorage } from "./storage.ts";

/** Splits an address into {address, token, fork}: the address without its tokens, its credential or null, and the token of a fork. */
export function splitAddress(address: string): { address: string; token: string | null; fork: string | undefined } {
  const url = new URL(address);
  const hidden = new URLSearchParams(url.hash.slice(1));
  const token = hidden.get("token") || url.searchParams.get("token") || null;
  const fork = hidden.get("fork") || undefined;
  if (fork || hidden.has("token")) {
    hidden.delete("token");
    hidden.delete("fork");
    url.hash = hidden.toString();
  }
  url.searchParams.delete("token");
  return { address: url.href, token, fork };
}

/** The token of one tab. Each address that the tab shows has its own. */
export class AccessToken {
  #key: string;
  #storage: SafeStorage;
  token: string | null;
  /** The token of a fork, at which the session is to begin; after a reload it is not known any more. */
  readonly fork: string | undefined;

  constructor({
    location,
    history,
    storage,
  }: {
    readonly location: Pick<Location, "href">;
    readonly history: Pick<History, "state" | "replaceState">;
    readonly storage: OpenStorage;
  }) {
    const { address, token, fork } = splitAddress(location.href);
    this.fork = fork;
    const { pathname, search } = new URL(address);
    this.#key = `reactor-token ${pathname}${search}`;
    this.#storage = new SafeStorage(storage); // without storage the page asks again after a reload
    this.token = token ?? this.#storage.get(this.#key);
    if (token ?? fork) history.replaceState(history.state, "", address);
    if (token !== null) this.set(token);
  }

  /** Uses `token` from now on, also after a reload; null discards it. */
  set(token: string | null): void {
    this.token = token;
    this.#storage.set(this.#key, token);
  }
}
