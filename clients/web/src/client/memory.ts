/** Saves a session, so that a reloaded page finds it. */
import type { Memory } from "./types.ts";

/** The tab's own memory (`sessionStorage`); a text for each `key`, by default one for each address that the tab shows. */
export function tabMemory(key: string = pageKey()): Memory {
  return {
    load() {
      try {
        return globalThis.sessionStorage?.getItem(key) ?? null;
      } catch {
        return null; // some browsers throw on each access, even on access to the storage object
      }
    },
    save(token) {
      try {
        if (token === null) globalThis.sessionStorage?.removeItem(key);
        else globalThis.sessionStorage?.setItem(key, token);
      } catch {
        // a reloaded page begins a new session
      }
    },
  };
}

/** The keys of the sessions that this page's clients have now. */
const used = new Set<string>();

/**
 * Where a client of the server at `url` keeps its session by default; null outside of a page. A page may have clients of several
 * servers, and several of one: each takes a key of its own when it begins, and clients that begin in the same order after a reload
 * find their sessions.
 */
export function defaultMemory(url: string, role: string | undefined): Memory | null {
  if (globalThis.document === undefined) return null;
  const wanted = `${pageKey()} ${url} ${role ?? ""}`;
  let key: string | null = null;
  const own = (): Memory => {
    if (key === null) {
      key = wanted;
      for (let i = 2; used.has(key); i++) key = `${wanted} ${i}`;
      used.add(key);
    }
    return tabMemory(key);
  };
  return {
    load: () => own().load(),
    save(token) {
      if (token !== null) own().save(token);
      else if (key !== null) {
        tabMemory(key).save(null); // the session is over; another client may have the key
        used.delete(key);
        key = null;
      }
    },
  };
}

function pageKey(): string {
  return `reactor-session ${globalThis.location?.pathname ?? ""}${globalThis.location?.search ?? ""}`;
}
