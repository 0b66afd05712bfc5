/** Commands on their way: they wait for a session, in order, and each is sent once. */
import { CommandError } from "../wire/errors.ts";
import type { Applied as Answer, Session } from "../wire/protocol.ts";
import { unlessAborted } from "./abort.ts";
import { type Deferred, deferred } from "./deferred.ts";
import type { Applied, CommandOptions } from "./types.ts";

const MAX_WAITING = 1024;

export type Arguments = { readonly [argument: string]: unknown };

interface Waiting extends Deferred<Answer | Promise<Answer>> {
  readonly name: string;
  readonly args: Arguments;
}

/** What looks at each command that is answered. */
export interface CommandListener {
  refused(id: number): void;
}

export class Commands {
  #waiting = new Set<Waiting>();
  #session: Session | null = null;
  /** Why there is no more session; null while there may be one. */
  #ended: string | null = null;
  #listener: CommandListener;

  constructor(listener: CommandListener) {
    this.#listener = listener;
  }

  /** A session has begun, which gets what waits, in order. It sends no faster than a server takes it, and keeps its commands while it resumes. */
  begin(session: Session): void {
    this.#session = session;
    for (const { name, args, resolve } of this.#waiting) resolve(session.command(name, args));
    this.#waiting.clear();
  }

  /** There is no session; commands wait for the next one. */
  pause(): void {
    this.#session = null;
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
    try {
      const waiting = this.#session === null ? this.#wait(name, args) : null;
      const answer = waiting?.promise ?? (this.#session as Session).command(name, args);
      const { id, step, reply } = await unlessAborted(answer, signal, () => waiting && this.#waiting.delete(waiting));
      return { id, step, reply: reply ?? null };
    } catch (error) {
      if (!(error instanceof CommandError)) throw error;
      if (error.id > 0) this.#listener.refused(error.id);
      if (error.code !== "closed") throw error;
      throw new CommandError("ended", "the session ended before the answer came", name, error.id, error.applied);
    }
  }

  /** Lets a command wait for a session. Throws what refuses it. */
  #wait(name: string, args: Arguments): Waiting {
    if (this.#ended !== null) throw unsent(name, this.#ended);
    if (this.#waiting.size >= MAX_WAITING) throw new CommandError("busy", `${MAX_WAITING} commands wait for a session`, name);
    const waiting = { name, args, ...deferred<Answer | Promise<Answer>>() };
    this.#waiting.add(waiting);
    return waiting;
  }
}

const unsent = (name: string, why: string): CommandError =>
  new CommandError("ended", `The client ended before the command was sent. ${why}`.trimEnd(), name);

/** The path of the first number in `value` that JSON has no form for, or null. A value within itself is left to `JSON.stringify`. */
function notFinite(value: unknown, path: string, around: readonly unknown[] = []): string | null {
  if (typeof value === "number") return Number.isFinite(value) ? null : path;
  if (typeof value !== "object" || value === null || around.includes(value)) return null;
  for (const [key, item] of Object.entries(value)) {
    const found = notFinite(item, Array.isArray(value) ? `${path}[${key}]` : `${path}.${key}`, [...around, value]);
    if (found !== null) return found;
  }
  return null;
}
