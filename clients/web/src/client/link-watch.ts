/** Notices that a link carries nothing any more although its socket still looks open: behind a proxy, or without a network. */
import type { Session } from "../wire/protocol.ts";

/**
 * Drops the link of `session` when nothing was heard for two heartbeats (seconds), or for one while the browser is offline, until
 * `signal` aborts. A page sees no pings, but it hears a server that sends beats at each heartbeat; the first one follows the welcome.
 */
export function watchLink(session: Session, heartbeat: number, signal: AbortSignal): void {
  let silent = false; // at the look before: one look may come before what has arrived during a pause of the page
  const timer = setInterval(() => {
    const before = silent;
    const patience = (globalThis.navigator?.onLine === false ? 1000 : 2000) * heartbeat;
    silent = session.linked && session.beats && performance.now() - session.heardAt > patience;
    if (silent && before) session.drop();
  }, 250 * heartbeat);
  signal.addEventListener("abort", () => clearInterval(timer));
}
