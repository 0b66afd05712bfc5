/** Notices that a link carries nothing any more although its socket still looks open: behind a proxy, or without a network. */
import type { Session } from "../wire/protocol.ts";

/**
 * Drops the link of `session` when nothing was heard for two heartbeats, or for one while the browser is offline, until `signal`
 * aborts. A page sees no pings, but it hears a server that sends beats at each heartbeat: in the queue if the server says its
 * heartbeat there; in the session the first beat follows the welcome.
 */
export function watchLink(session: Session, signal: AbortSignal): void {
  let timer: ReturnType<typeof setInterval> | undefined;
  const watch = ({ type, detail: { heartbeat } }: CustomEvent<{ readonly heartbeat?: number }>): void => {
    clearInterval(timer);
    if (heartbeat === undefined) return;
    let silent = false; // at the look before: one look may come before what has arrived during a pause of the page
    timer = setInterval(() => {
      const before = silent;
      const patience = (globalThis.navigator?.onLine === false ? 1000 : 2000) * heartbeat;
      const beats = session.beats || type === "queued";
      silent = session.linked && beats && performance.now() - session.heardAt > patience;
      if (silent && before) session.drop();
    }, 250 * heartbeat);
  };
  session.addEventListener("queued", watch, { signal });
  session.addEventListener("welcome", watch, { signal });
  signal.addEventListener("abort", () => clearInterval(timer));
}
