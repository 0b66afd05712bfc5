/**
 * What this page shows the server so that it is let in: from its own address, which it is taken out of at once, kept for
 * this tab, or typed in. Behind the `#` it never leaves the browser; the address bar, history and screenshots keep neither.
 */
import { SafeStorage } from "./storage.js";

/** The address without its token, and the token, or null. */
export function splitAddress(address) {
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

/** The token of one tab, for each address that it shows. */
export class AccessToken {
  #key;
  #storage;

  constructor({ location, history, storage }) {
    const { address, token } = splitAddress(location.href);
    const { pathname, search } = new URL(address);
    this.#key = `reactor-token ${pathname}${search}`;
    this.#storage = new SafeStorage(storage); // without one the page asks again when it is loaded anew
    this.token = token ?? this.#storage.get(this.#key);
    if (token === null) return;
    history.replaceState(history.state, "", address);
    this.set(token);
  }

  /** Use `token` from now on, also after the page is loaded anew; null forgets it. */
  set(token) {
    this.token = token;
    this.#storage.set(this.#key, token);
  }
}
