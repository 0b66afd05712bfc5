/** Coming back to a session whose link was lost, for as long as the server keeps it; and remembering it while the page is loaded anew. */

import { SafeStorage } from "./storage.js";

const FIRST_WAIT = 100;
const LONGEST_WAIT = 2000;
const FIRST_PATIENCE = 2000;
const LONGEST_PATIENCE = 10_000;
const WINDOW = 60; // seconds, if the server does not say how long it waits

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Tries until the session goes on, or never will: "resumed", "gone" if the server has it no more, "late" if the time is over.
 * `open()` makes a WebSocket to it. The waits grow and are by chance, so that the pages of a server that was away do not all
 * come at once.
 */
export async function comeBack(session, open, { random = Math.random, sleep = pause, now = () => performance.now() } = {}) {
  const end = now() + 1000 * (session.welcome.resume_window ?? WINDOW);
  for (let tries = 0; ; tries++) {
    const wait = Math.min(FIRST_WAIT * 2 ** tries, LONGEST_WAIT) * random();
    const left = end - now();
    if (wait >= left) {
      await sleep(left);
      return "late";
    }
    await sleep(wait);
    const answer = await session.resume(open(), Math.min(FIRST_PATIENCE * 2 ** tries, LONGEST_PATIENCE, end - now()));
    if (answer !== "failed") return answer;
  }
}

/** What a page needs to find its session again after it was loaded anew; each address that a tab shows has its own. */
export class SavedSession {
  #key;
  #storage;

  constructor({ location, storage }) {
    this.#key = `reactor-session ${location.pathname}${location.search}`;
    this.#storage = new SafeStorage(storage); // without one the page begins a session of its own when it is loaded anew
  }

  /** {resume, after, url} of the session that was kept, or null. */
  load() {
    try {
      const { resume, after, url } = JSON.parse(this.#storage.get(this.#key) ?? "{}");
      const whole = typeof resume === "string" && Number.isSafeInteger(after) && typeof url === "string";
      return whole ? { resume, after, url } : null;
    } catch {
      return null; // not what was kept
    }
  }

  /** Keep this session, or with null none. */
  save(session) {
    const resume = session?.welcome?.resume_token;
    this.#storage.set(this.#key, resume ? JSON.stringify({ resume, after: session.newest, url: session.url }) : null);
  }
}
