/** Resumes a session after a lost link, for as long as the server keeps it, and saves the session across a reload of the page. */

import { SafeStorage } from "./storage.js";

const FIRST_WAIT = 100;
const LONGEST_WAIT = 2000;
const FIRST_PATIENCE = 2000;
const LONGEST_PATIENCE = 10_000;
const WINDOW = 60; // seconds, if the server keeps sessions without a time limit

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/**
 * Tries to resume the session. Resolves with "resumed", "gone" if the server no longer has the session, or "late" if the
 * time is over. `open()` opens a WebSocket to the session. The waits grow and are random, so that the pages of a restarted
 * server do not all connect at once.
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

/** The session in the tab's storage, for a reload of the page. Each address that a tab shows has its own entry. */
export class SavedSession {
  #key;
  #storage;

  constructor({ location, storage }) {
    this.#key = `reactor-session ${location.pathname}${location.search}`;
    this.#storage = new SafeStorage(storage); // without storage the page begins a new session after a reload
  }

  /** {resume, after, url} of the saved session, or null. */
  load() {
    try {
      const { resume, after, url } = JSON.parse(this.#storage.get(this.#key) ?? "{}");
      const whole = typeof resume === "string" && Number.isSafeInteger(after) && typeof url === "string";
      return whole ? { resume, after, url } : null;
    } catch {
      return null; // not an entry of this class
    }
  }

  /** Saves this session; null removes the entry. */
  save(session) {
    const resume = session?.welcome?.resume_token;
    this.#storage.set(this.#key, resume ? JSON.stringify({ resume, after: session.newest, url: session.url }) : null);
  }
}
