/** Notices that a link carries nothing any more although its socket still looks open: behind a proxy, or without a network. */
import type { Session } from "../wire/protocol.ts";

/** Stands for the heartbeat, in seconds, of a server that has not said its own: it says at once that the client waits, or has a session. */
const FIRST_HEARTBEAT = 5;

/**
 * Drops the link of `session` when nothing was heard for two heartbeats, or for one while the browser is offline, until `signal`
 * aborts. A page sees no pings, but it hears a server that sends beats at each heartbeat: in the queue if the server says its
 * heartbeat there; in the session the first beat follows the welcome. An open socket is heard of, too.
 */
export function watchLink(session: Session, signal: AbortSignal): void {
  let timer: ReturnType<typeof setInterval> | undefined;
  const watch = (heartbeat: number | undefined, beats: () => boolean): void => {
    clearInterval(timer);
    if (heartbeat === undefined) return;
    let silent = false; // at the look before: one look may come before what has arrived during a pause of the page
    timer = setInterval(() => {
      const before = silent;
      const patience = (globalThis.navigator?.onLine === false ? 1000 : 2000) * heartbeat;
      silent = session.linked && beats() && performance.now() - session.heardAt > patience;
      if (silent && before) session.drop();
    }, 250 * heartbeat);
  };
  const watchFirst = (): void => watch(FIRST_HEARTBEAT, () => session.heardAt > 0);
  watchFirst();
  session.addEventListener("admitted", watchFirst, { signal });
  session.addEventListener("queued", ({ detail }) => watch(detail.heartbeat, () => true), { signal });
  session.addEventListener("welcome", ({ detail }) => watch(detail.heartbeat, () => session.beats), { signal });
  signal.addEventListener("abort", () => clearInterval(timer));
}
