/** A client's session in its application's memory, which may throw, or hold anything. */
import type { Session } from "../wire/protocol.ts";
import type { Memory } from "./types.ts";

/** What a client needs to take a session up again. */
export interface SavedSession {
  readonly resume: string;
  readonly after: number;
  readonly url: string;
}

/**
 * The session that `memory` has, or null; also null for an entry that is not a client's, and for a session of another beginning than the
 * fork or the saved world `wanted`. Throws what `memory` throws.
 */
export function loadSession(memory: Memory, wanted?: string): SavedSession | null {
  const text = memory.load();
  try {
    const { resume, after, url, begin } = JSON.parse(text ?? "{}");
    const whole = typeof resume === "string" && Number.isSafeInteger(after) && typeof url === "string";
    return whole && (!wanted || wanted === begin) ? { resume, after, url } : null;
  } catch {
    return null;
  }
}

export class SavedSessions {
  #memory: Memory | null;
  #begin: string | undefined;
  #failed: (why: string) => void;
  #hasFailed = false;

  /** `begin`: the fork or the saved world at which the client was told to begin. `failed` is told once why the memory cannot be used. */
  constructor(memory: Memory | null, begin: string | undefined, failed: (why: string) => void) {
    this.#memory = memory;
    this.#begin = begin;
    this.#failed = failed;
  }

  load(): SavedSession | null {
    return this.#use((memory) => loadSession(memory, this.#begin));
  }

  /** Saves the session, so that a reloaded page finds it. */
  save(session: Session | null): void {
    const resume = session?.welcome?.resume_token;
    if (session && resume)
      this.#use((memory) => memory.save(JSON.stringify({ resume, after: session.newest, url: session.url, begin: this.#begin })));
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
