/** A client's session in its application's memory, which may throw, or hold anything. */
import type { Session } from "../wire/protocol.ts";
import type { Memory } from "./types.ts";

/** What a client needs to take a session up again. */
export interface SavedSession {
  readonly resume: string;
  readonly after: number;
  readonly url: string;
}

/** The session that `memory` has, or null; also null for an entry that is not a client's. Throws what `memory` throws. */
export function loadSession(memory: Memory): SavedSession | null {
  const text = memory.load();
  try {
    const { resume, after, url } = JSON.parse(text ?? "{}");
    const whole = typeof resume === "string" && Number.isSafeInteger(after) && typeof url === "string";
    return whole ? { resume, after, url } : null;
  } catch {
    return null;
  }
}

export class SavedSessions {
  #memory: Memory | null;
  #failed: (why: string) => void;
  #hasFailed = false;

  /** `failed` is told once why the memory cannot be used. */
  constructor(memory: Memory | null, failed: (why: string) => void) {
    this.#memory = memory;
    this.#failed = failed;
  }

  load(): SavedSession | null {
    return this.#use(loadSession);
  }

  /** Saves the session, so that a reloaded page finds it. */
  save(session: Session | null): void {
    const resume = session?.welcome?.resume_token;
    if (session && resume) this.#use((memory) => memory.save(JSON.stringify({ resume, after: session.newest, url: session.url })));
  }

  forget(): void {
    this.#use((memory) => memory.save(null));
  }

  /** What the memory gives; null without one, and of one that throws. */
  #use<T>(use: (memory: Memory) => T): T | null {
    if (this.#memory === null) return null;
    try {
      return use(this.#memory);
    } catch (error) {
      if (!this.#hasFailed) this.#failed(`The option "memory" failed: ${error}`);
      this.#hasFailed = true;
      return null;
    }
  }
}
