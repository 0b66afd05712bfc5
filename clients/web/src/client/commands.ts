/** Commands on their way: they wait for a session, in order, and each is sent once. */
import { CommandError } from "../wire/errors.ts";
import type { Applied as Answer, Session } from "../wire/protocol.ts";
import type { Applied, CommandOptions } from "./types.ts";

const MAX_WAITING = 1024;
/** Commands sent at once, and then in each second: half of the server's default limit. */
const RATE = 100;

export type Arguments = { readonly [argument: string]: unknown };

interface Waiting {
  readonly name: string;
  readonly args: Arguments;
  readonly resolve: (answer: Promise<Answer>) => void;
  readonly reject: (error: Error) => void;
}

/** What looks at each command that is answered. */
export interface CommandListener {
  refused(id: number): void;
}

export class Commands {
  #waiting = new Set<Waiting>();
  #timer: ReturnType<typeof setTimeout> | undefined;
  #session: Session | null = null;
  /** Why there is no more session; null while there may be one. */
  #ended: string | null = null;
  #listener: CommandListener;

  constructor(listener: CommandListener) {
    this.#listener = listener;
  }

  /** A session has begun: what waits is sent to it. A session that resumes keeps its commands itself. */
  begin(session: Session): void {
    this.#session = session;
    this.#sendWaiting(session);
  }

  /** Sends what waits, in order, no faster than a server takes it. */
  #sendWaiting(session: Session): void {
    let left = RATE;
    for (const waiting of this.#waiting) {
      if (left-- === 0) {
        this.#timer = setTimeout(() => this.#sendWaiting(session), 1000);
        return;
      }
      this.#waiting.delete(waiting);
      waiting.resolve(session.command(waiting.name, waiting.args));
    }
  }

  /** There is no session; commands wait for the next one. */
  pause(): void {
    this.#session = null;
    clearTimeout(this.#timer);
  }

  /** There will be no session, unless `restart` is called; `why` is empty if the application has left. */
  end(why: string): void {
    this.pause();
    this.#ended = why;
    for (const { name, reject } of this.#waiting) reject(unsent(name, why));
    this.#waiting.clear();
  }

  /** The client connects again: commands wait for its session. */
  restart(): void {
    this.#ended = null;
  }

  async send(name: string, args: Arguments, { signal }: CommandOptions): Promise<Applied<unknown>> {
    signal?.throwIfAborted();
    const fault = notFinite(args, "$");
    if (fault !== null) throw new CommandError("invalid_command", `NaN and infinities are not JSON - at ${fault}`, name);
    const aborted = new AbortController();
    try {
      const answer = this.#session === null || this.#waiting.size > 0 ? this.#wait(name, args, signal) : this.#session.command(name, args);
      const { id, step, reply } = await (signal ? Promise.race([answer, rejectionOf(signal, aborted.signal)]) : answer);
      return { id, step, reply: reply ?? null };
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      if (error.id > 0) this.#listener.refused(error.id);
      if (error.code !== "closed") throw error;
      throw new CommandError("ended", "the session ended before the answer came", name, error.id, error.applied);
    } finally {
      aborted.abort();
    }
  }

  #wait(name: string, args: Arguments, signal: AbortSignal | undefined): Promise<Answer> {
    if (this.#ended !== null) return Promise.reject(unsent(name, this.#ended));
    if (this.#waiting.size >= MAX_WAITING)
      return Promise.reject(new CommandError("busy", `${MAX_WAITING} commands wait for a session`, name));
    return new Promise<Answer>((resolve, reject) => {
      const waiting: Waiting = { name, args, resolve, reject };
      this.#waiting.add(waiting);
      signal?.addEventListener("abort", () => this.#waiting.delete(waiting), { once: true });
    });
  }
}

const unsent = (name: string, why: string): CommandError =>
  new CommandError("ended", `The client ended before the command was sent. ${why}`.trimEnd(), name);

/** Rejects with the reason of `signal` when it aborts; forgotten when `done` aborts. */
function rejectionOf(signal: AbortSignal, done: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true, signal: done });
  });
}

/** The path of the first number in `value` that JSON has no form for, or null. */
function notFinite(value: unknown, path: string): string | null {
  if (typeof value === "number") return Number.isFinite(value) ? null : path;
  if (typeof value !== "object" || value === null) return null;
  for (const [key, item] of Object.entries(value)) {
    const found = notFinite(item, Array.isArray(value) ? `${path}[${key}]` : `${path}.${key}`);
    if (found !== null) return found;
  }
  return null;
}
